/*
 * Making a connection.
 *
 *     directly:        look up the origin -> check its addresses -> race -> (TLS) -> made
 *                                                                +-> another's connection to one of them serves it, too
 *     behind a proxy:  look up the origin -> check all of them -> look up the proxy -> race -> CONNECT -> (TLS) -> made
 *
 * The race is RFC 8305's: addresses in turn, each UPSTREAM_STAGGER_MS after the one before or as soon as
 * that has failed; the first to connect ends all others.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "ca/upstream.h"
#include "proxy/upstream/upstream_parts.h"

#define CONNECT_HEAD_MAX 8192
#define DNS_ABSENT_MS    60000

static void race_next(struct upstream_attempt *a);
static void on_stagger(evutil_socket_t fd, short what, void *arg);

/* --- which addresses ---------------------------------------------------------------------------------- */

/* Whether the address is in the network, and of the same kind as the network's own. */
static bool net_takes(const struct verdict_net *net, const struct addr *addr, enum addr_kind kind) {
    bool v6 = addr->sa.sa_family == AF_INET6;
    struct addr base = *addr;
    const uint8_t *bytes = v6 ? addr->in6.sin6_addr.s6_addr : (const uint8_t *)&addr->in.sin_addr;
    if (v6 != net->v6)
        return false;
    for (size_t i = 0; i < net->bits; i++)
        if ((bytes[i / 8] ^ net->address[i / 8]) >> (7 - i % 8) & 1)
            return false;
    if (v6)
        memcpy(&base.in6.sin6_addr, net->address, 16);
    else
        memcpy(&base.in.sin_addr, net->address, 4);
    return addr_kind(&base) == kind;
}

static bool permitted(const struct upstream_attempt *a, bool pinned, const struct addr *addr) {
    enum addr_kind kind = addr_kind(addr);
    if (pinned || kind == ADDR_PUBLIC)
        return true;
    bool literal = a->site->origin.host.kind != URL_HOST_NAME;
    if (kind == ADDR_PRIVATE && ((literal && a->options.private_address) || a->options.private_name))
        return true;
    for (size_t i = 0; i < a->options.nnets; i++)
        if (net_takes(&a->options.nets[i], addr, kind))
            return true;
    return false;
}

static void fail_address(struct upstream_attempt *a, const struct addr *addr) {
    char text[ADDR_TEXT_MAX];
    attempt_fail(a, UPSTREAM_ADDRESS, addr,
                 "%s leads to %s, a %s address: refused unless a rule's `to` or --resolve names it",
                 a->site->origin.host.text, addr_text(addr, false, text), addr_kind_text(addr_kind(addr)));
}

static void fail_name(struct upstream_attempt *a, int err, const char *name) {
    switch (err) {
    case ERR_NOTFOUND:
        attempt_fail(a, UPSTREAM_NAME_UNKNOWN, NULL,
                     "no address is known for %s; see how it is spelt, and DNS, or name one by --resolve",
                     name);
        break;
    case ERR_TIMEOUT:
        attempt_fail(a, UPSTREAM_NAME_FAILED, NULL,
                     "the name servers did not answer for %s in time; see this host's DNS (/etc/resolv.conf)",
                     name);
        break;
    case ERR_LIMIT: attempt_fail(a, UPSTREAM_LIMIT, NULL, "too many names are being looked up"); break;
    case ERR_NOMEM: attempt_fail(a, UPSTREAM_INTERNAL, NULL, "out of memory"); break;
    default:
        attempt_fail(a, UPSTREAM_NAME_FAILED, NULL,
                     "the name servers have no answer for %s; see this host's DNS (/etc/resolv.conf)", name);
    }
}

/* The addresses of where we connect to are known. */
static void race_start(struct upstream_attempt *a, const struct resolve_answer *answer, bool check) {
    a->naddrs = a->next = 0;
    for (size_t i = 0; i < answer->n; i++)
        if (!check || permitted(a, answer->pinned, &answer->addrs[i]))
            a->addrs[a->naddrs++] = answer->addrs[i];
    if (a->naddrs == 0)
        fail_address(a, &answer->addrs[0]);
    else if (a->proxy || !attempt_join(a))
        race_next(a);
}

static void on_origin(void *arg, const struct resolve_answer *answer) {
    struct upstream_attempt *a = arg;
    a->query = NULL;
    if (answer->err)
        fail_name(a, answer->err, a->site->origin.host.text);
    else
        race_start(a, answer, true);
}

static void look_up(struct upstream_attempt *a, const struct url_host *host, uint16_t port,
                    resolve_done *done) {
    a->query = resolve_start(a->pool->upstream->config.resolver, host, port, done, a);
    if (!a->query)
        attempt_fail(a, UPSTREAM_INTERNAL, NULL, "out of memory");
}

/* --- behind a proxy ----------------------------------------------------------------------------------- */

static void on_proxy(void *arg, const struct resolve_answer *answer) {
    struct upstream_attempt *a = arg;
    a->query = NULL;
    if (answer->err)
        attempt_fail(a, UPSTREAM_PROXY, NULL, "no address is known for the proxy %s", a->proxy->host.text);
    else
        race_start(a, answer, false); /* the operator named it: it may be anywhere */
}

/* The proxy looks the name up again, and may come to another of its addresses: so none may be refused. */
static void on_origin_behind(void *arg, const struct resolve_answer *answer) {
    struct upstream_attempt *a = arg;
    struct upstream *u = a->pool->upstream;
    char text[ADDR_TEXT_MAX];
    a->query = NULL;
    for (size_t i = 0; i < answer->n; i++)
        if (!permitted(a, answer->pinned, &answer->addrs[i])) {
            fail_address(a, &answer->addrs[i]);
            return;
        }
    if (answer->pinned && answer->n)
        snprintf(a->connect_to, sizeof a->connect_to, "%s", addr_text(&answer->addrs[0], true, text));
    if (answer->served)
        u->dns_works = true;
    else if ((answer->err == ERR_TIMEOUT || answer->err == ERR_IO) && !u->dns_works)
        u->dns_absent_until = clock_monotonic_ms() + DNS_ABSENT_MS;
    look_up(a, &a->proxy->host, a->proxy->port, on_proxy);
}

void dial_start(struct upstream_attempt *a) {
    struct upstream *u = a->pool->upstream;
    const struct upstream_origin *o = &a->site->origin;
    a->dialled = true;
    event_assign(&a->stagger, u->config.base, -1, 0, on_stagger, a);
    a->proxy = u->config.proxies ? proxyenv_for(u->config.proxies, o->scheme, &o->host) : NULL;
    if (!a->proxy) {
        look_up(a, &o->host, o->port, on_origin);
        return;
    }
    struct resolve_answer known;
    bool absent = !u->dns_works && clock_monotonic_ms() < u->dns_absent_until;
    snprintf(a->connect_to, sizeof a->connect_to, "%s:%u", o->host.text, o->port);
    if (absent && !resolve_local(u->config.resolver, &o->host, o->port, &known))
        look_up(a, &a->proxy->host, a->proxy->port, on_proxy);
    else
        look_up(a, &o->host, o->port, on_origin_behind);
}

/* --- TLS ---------------------------------------------------------------------------------------------- */

static void on_shaken(struct io *io, int err) {
    struct upstream_attempt *a = io->arg;
    const char *host = a->site->origin.host.text;
    if (err == 0) {
        a->io = NULL;
        attempt_made(a, io);
        return;
    }
    const char *why = ca_upstream_reason(io->ssl);
    if (!why && a->borrowed) { /* it is no other name's server, or does not like to be taken for it */
        a->site->own_tickets = true;
        dial_release(a);
        dial_start(a);
        return;
    }
    if (why)
        attempt_fail(a, UPSTREAM_CERTIFICATE, &a->peer, "the certificate of %s is not accepted: %s; %s", host,
                     why, ca_upstream_advice(io->ssl));
    else if (err == ERR_CRYPTO)
        attempt_fail(a, UPSTREAM_TLS, &a->peer, "TLS with %s failed: %s", host, io_error_text(io));
    else
        attempt_fail(a, UPSTREAM_TLS, &a->peer, "%s ended the connection during the TLS handshake", host);
}

static const struct io_events shaking_events = {.ready = on_shaken};

/* There is a way for bytes to the origin. */
static void on_way(struct upstream_attempt *a) {
    struct io *io = a->io;
    io_deadline(io, 0);
    if (a->site->origin.scheme == URL_HTTP || a->options.unread) {
        a->io = NULL;
        attempt_made(a, io);
        return;
    }
    if (attempt_tls(a, io)) {
        attempt_fail(a, UPSTREAM_INTERNAL, &a->peer, "TLS with %s can't be set up",
                     a->site->origin.host.text);
        return;
    }
    io_own(io, &shaking_events, a);
    io_handshake(io);
}

/* --- CONNECT ------------------------------------------------------------------------------------------ */

static void fail_proxy(struct upstream_attempt *a, const char *what) {
    attempt_fail(a, UPSTREAM_PROXY, &a->peer, "the proxy %s %s", a->proxy->host.text, what);
}

/* "HTTP/1.x NNN": the status, or 0. */
static unsigned connect_status(struct slice head) {
    uint64_t status;
    bool ok = head.n >= 13 && slice_starts(head, SLICE("HTTP/1.")) && ascii_digit(head.p[7]) &&
              head.p[8] == ' ' && slice_u64(slice_sub(head, 9, 3), 999, &status) &&
              (head.p[12] == ' ' || head.p[12] == '\r');
    return ok ? (unsigned)status : 0;
}

static void connect_answered(struct upstream_attempt *a, size_t head_length) {
    unsigned status = connect_status(buf_slice(&a->head));
    char what[80];
    if (status >= 200 && status < 300) {
        buf_consume(&a->head, head_length);
        if (io_unread(a->io, buf_slice(&a->head))) {
            attempt_fail(a, UPSTREAM_INTERNAL, &a->peer, "out of memory");
            return;
        }
        buf_release(&a->head);
        on_way(a);
        return;
    }
    if (status == 407)
        fail_proxy(a, "wants a user name and a password, or others than it got (407)");
    else if (status) {
        snprintf(what, sizeof what, "refused the connection with status %u", status);
        fail_proxy(a, what);
    } else
        fail_proxy(a, "does not answer as a proxy does");
}

static void on_connect_readable(struct io *io) {
    struct upstream_attempt *a = io->arg;
    char *room;
    size_t got;
    if (attempt_decided(a))
        return;
    if (buf_reserve(&a->head, 1024, &room)) {
        fail_proxy(a, "answers with an over-long head");
        return;
    }
    int r = io_read(io, room, 1024, &got);
    if (r == ERR_AGAIN)
        return;
    if (r) {
        fail_proxy(a, "closed the connection");
        return;
    }
    buf_commit(&a->head, got);
    struct slice head = buf_slice(&a->head);
    const char *end = memmem(head.p, head.n, "\r\n\r\n", 4);
    if (end)
        connect_answered(a, (size_t)(end - head.p) + 4);
}

static void on_connect_failed(struct io *io, int err) {
    (void)err;
    fail_proxy(io->arg, "closed the connection");
}

static const struct io_events connect_events = {.readable = on_connect_readable, .failed = on_connect_failed};

static void connect_request(struct upstream_attempt *a) {
    struct buf *q = io_queue(a->io);
    struct slice secret = secret_slice(&a->proxy->authorization);
    char *room;
    io_own(a->io, &connect_events, a);
    io_deadline(a->io, 0);
    buf_init(&a->head, CONNECT_HEAD_MAX);
    io_sensitive(a->io);
    if (buf_reserve(q, secret.n + 2 * sizeof a->connect_to + 128, &room) == 0) {
        buf_printf(q, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", a->connect_to, a->connect_to);
        if (secret.n) {
            buf_puts(q, "Proxy-Authorization: ");
            buf_put(q, secret);
            buf_puts(q, "\r\n");
        }
        buf_puts(q, "\r\n");
    }
    if (q->failed || io_flush(a->io))
        fail_proxy(a, "closed the connection");
}

/* --- the race ----------------------------------------------------------------------------------------- */

static void race_end(struct upstream_attempt *a) {
    event_del(&a->stagger);
    for (size_t i = 0; i < a->next && a->running; i++) {
        if (!a->tries[i].io)
            continue;
        io_free(a->tries[i].io);
        a->tries[i].io = NULL;
        a->running--;
    }
}

/* One address is out. With the last of them the attempt has failed, for that one's reason. */
static void try_failed(struct try *t, int error) {
    struct upstream_attempt *a = t->attempt;
    char text[ADDR_TEXT_MAX];
    if (t->io) {
        io_free(t->io);
        t->io = NULL;
        a->running--;
    }
    if (a->next < a->naddrs) {
        race_next(a);
        return;
    }
    if (a->running || attempt_decided(a))
        return;
    const char *host = a->proxy ? a->proxy->host.text : a->site->origin.host.text;
    enum upstream_reason reason = a->proxy                             ? UPSTREAM_PROXY
                                  : error == ETIMEDOUT                 ? UPSTREAM_TIMEOUT
                                  : error == EMFILE || error == ENFILE ? UPSTREAM_INTERNAL
                                                                       : UPSTREAM_UNREACHABLE;
    attempt_fail(a, reason, &t->addr, "no connection to %s%s (%s): %s", a->proxy ? "the proxy " : "", host,
                 addr_text(&t->addr, true, text), strerror(error));
}

static void on_try_ready(struct io *io, int err) {
    struct try *t = io->arg;
    struct upstream_attempt *a = t->attempt;
    if (err) {
        try_failed(t, err == ERR_TIMEOUT ? ETIMEDOUT : io->sys_errno ? io->sys_errno : ECONNRESET);
        return;
    }
    t->io = NULL;
    a->running--;
    a->io = io;
    a->peer = t->addr;
    race_end(a);
    if (a->proxy)
        connect_request(a);
    else
        on_way(a);
}

static void on_try_timeout(struct io *io) {
    try_failed(io->arg, ETIMEDOUT);
}

static const struct io_events try_events = {.ready = on_try_ready, .timeout = on_try_timeout};

/* 0 or an errno. */
static int try_start(struct upstream_attempt *a, struct try *t) {
    int fd = socket(t->addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return errno;
    if (connect(fd, &t->addr.sa, t->addr.len) < 0 && errno != EINPROGRESS) {
        int saved = errno;
        close(fd);
        return saved;
    }
    t->io = io_open(a->pool->upstream->config.base, fd, true, &try_events, t);
    if (!t->io)
        return ENOMEM;
    io_share_begin(&t->io->share, a->pool->memory);
    a->running++;
    io_keepalive(fd);
    if (a->pool->open > IO_CROWD)
        io_crowded(fd);
    io_deadline(t->io, UPSTREAM_ADDRESS_MS);
    return 0;
}

static void race_next(struct upstream_attempt *a) {
    const struct timeval wait = {.tv_usec = UPSTREAM_STAGGER_MS * 1000};
    struct try *t = NULL;
    int error = 0;
    while (a->next < a->naddrs) {
        t = &a->tries[a->next];
        *t = (struct try){.attempt = a, .addr = a->addrs[a->next]};
        a->next++;
        error = try_start(a, t);
        if (error == 0)
            break;
    }
    if (error)
        try_failed(t, error);
    else if (a->next < a->naddrs)
        event_add(&a->stagger, &wait);
}

static void on_stagger(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    race_next(arg);
}

/* --- life --------------------------------------------------------------------------------------------- */

void dial_release(struct upstream_attempt *a) {
    if (!a->dialled)
        return;
    resolve_cancel(a->query);
    a->query = NULL;
    race_end(a);
    io_free(a->io);
    a->io = NULL;
    buf_release(&a->head);
}
