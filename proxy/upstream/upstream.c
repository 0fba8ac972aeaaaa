#include "proxy/upstream/upstream.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "proxy/io/http2_io.h"
#include "proxy/upstream/upstream_parts.h"

#define SELF_NAME "exeat.internal"

static const struct io_events no_events;

/* --- attempts ----------------------------------------------------------------------------------------- */

static const char *const attempt_state_names[] = {"begun", "waiting", "dialling", "asking", "made", "failed"};
_Static_assert(sizeof attempt_state_names / sizeof *attempt_state_names == ATTEMPT_STATES,
               "a name for each state");

static void attempt_enter(struct upstream_attempt *a, enum attempt_state state) {
    static const uint8_t legal[ATTEMPT_STATES] = {
        [ATTEMPT_BEGUN] =
            1 << ATTEMPT_WAITING | 1 << ATTEMPT_DIALLING | 1 << ATTEMPT_MADE | 1 << ATTEMPT_FAILED,
        [ATTEMPT_WAITING] = 1 << ATTEMPT_DIALLING | 1 << ATTEMPT_MADE | 1 << ATTEMPT_FAILED,
        [ATTEMPT_DIALLING] = 1 << ATTEMPT_ASKING | 1 << ATTEMPT_MADE | 1 << ATTEMPT_FAILED,
        [ATTEMPT_ASKING] = 1 << ATTEMPT_DIALLING | 1 << ATTEMPT_MADE | 1 << ATTEMPT_FAILED,
    };
    assert(legal[a->state] & 1 << state);
    log_debug("attempt %p: %s -> %s", (void *)a, attempt_state_names[a->state], attempt_state_names[state]);
    a->state = state;
}

void attempt_fail(struct upstream_attempt *a, enum upstream_reason reason, const struct addr *peer,
                  const char *format, ...) {
    va_list args;
    if (attempt_decided(a))
        return;
    attempt_enter(a, ATTEMPT_FAILED);
    va_start(args, format);
    vsnprintf(a->text, sizeof a->text, format, args);
    va_end(args);
    a->failure.reason = reason;
    if (peer)
        a->failure.peer = *peer;
    event_active(&a->timer, EV_TIMEOUT, 0);
}

static void attempt_dial(struct upstream_attempt *a) {
    attempt_enter(a, ATTEMPT_DIALLING);
    a->offers = a->options.http2;
    a->site->dialling += a->offers;
    dial_start(a);
}

/* What it is to be given: `l`, in no list. */
static void attempt_give(struct upstream_attempt *a, struct link *l) {
    attempt_enter(a, ATTEMPT_MADE);
    a->made = l;
    event_active(&a->timer, EV_TIMEOUT, 0);
}

/* A stream on one of the site's connections, if there is one. */
static struct link *http2_take(struct upstream_pool *p, struct site *site, struct up2 *up) {
    struct link *l = up ? calloc(1, sizeof *l) : NULL;
    if (l && up2_attach(up, site, &l->link)) {
        free(l);
        return NULL;
    }
    if (l) {
        l->pool = p;
        l->site = site;
    }
    return l;
}

/* An attempt of the site's has ended: those that waited for it share what it made, or go their own way. */
static void site_wake(struct upstream_pool *p, struct site *site) {
    struct upstream_attempt *a;
    TAILQ_FOREACH(a, &p->attempts, entry) {
        if (a->site != site || a->state != ATTEMPT_WAITING)
            continue;
        struct link *l = http2_take(p, site, up2_find(site, false, a->options.once));
        if (l) {
            attempt_give(a, l);
        } else {
            attempt_dial(a);
        }
    }
}

/* It makes no connection any more that others could use. */
static void attempt_no_offer(struct upstream_attempt *a) {
    if (!a->offers)
        return;
    a->offers = false;
    a->site->dialling--;
    site_wake(a->pool, a->site);
}

bool attempt_join(struct upstream_attempt *a) {
    const struct upstream_options *o = &a->options;
    if (!o->http2 || o->alone || o->websocket)
        return false;
    struct link *l =
        http2_take(a->pool, a->site, shared_join(a->pool, a->site, a->addrs, a->naddrs, o->once));
    if (l)
        attempt_give(a, l);
    return l != NULL;
}

/* The connection chose HTTP/2: it is the site's from now on. */
static void attempt_made_http2(struct upstream_attempt *a, struct io *io) {
    struct up2 *up = up2_new(a->pool, a->site, io, &a->peer, a->proxy != NULL);
    a->counted = up == NULL; /* it counts by itself now */
    a->site->speaks_http2 = true;
    if (up && a->options.websocket) {
        attempt_enter(a, ATTEMPT_ASKING);
        a->asks = up;
        up2_ask(up, a->pool->upstream->config.connect_ms);
        attempt_no_offer(a);
        return;
    }
    struct link *l =
        http2_take(a->pool, a->site, a->options.alone ? up : up2_find(a->site, false, a->options.once));
    if (l)
        attempt_give(a, l);
    else
        attempt_fail(a, UPSTREAM_INTERNAL, NULL, "out of memory");
}

void attempt_made(struct upstream_attempt *a, struct io *io) {
    bool decided = attempt_decided(a);
    if (!decided && http2_chosen(io)) {
        attempt_made_http2(a, io);
        return;
    }
    struct link *l = decided ? NULL : calloc(1, sizeof *l);
    if (!l) {
        io_free(io);
        attempt_fail(a, UPSTREAM_INTERNAL, NULL, "out of memory");
        return;
    }
    io_own(io, &no_events, NULL);
    io_deadline(io, 0);
    *l = (struct link){
        .link = {.io = io, .peer = a->peer, .proxied = a->proxy != NULL}, .pool = a->pool, .site = a->site};
    if (a->offers)
        a->site->speaks_http2 = false;
    attempt_give(a, l);
}

/* What was made of HTTP/2 for a WebSocket takes none: HTTP/1.1 alone is offered now. */
static void attempt_again(struct upstream_attempt *a) {
    dial_release(a);
    a->options.http2 = false;
    a->pool->open++;
    a->counted = true;
    attempt_dial(a);
}

void attempt_answered(struct upstream_pool *p, struct up2 *up) {
    struct upstream_attempt *a;
    TAILQ_FOREACH(a, &p->attempts, entry) {
        if (a->state != ATTEMPT_ASKING || a->asks != up)
            continue;
        struct link *l = up2_takes_websocket(up) ? http2_take(p, a->site, up) : NULL;
        a->asks = NULL;
        a->site->no_websocket = l == NULL;
        if (l)
            attempt_give(a, l);
        else
            attempt_again(a);
    }
}

/* Takes the attempt apart; what it made or how it failed has been taken out. Its use of the site passes to
 * the caller. */
static void attempt_free(struct upstream_attempt *a) {
    struct upstream_pool *p = a->pool;
    bool shared = a->made && a->made->link.http2;
    TAILQ_REMOVE(&p->attempts, a, entry);
    event_del(&a->timer);
    dial_release(a);
    if (a->counted && (shared || !a->made))
        p->open--;
    attempt_no_offer(a);
    free(a);
}

/* The caller's from now on. */
static struct upstream_link *link_hand_out(struct upstream_pool *p, struct link *l) {
    TAILQ_INSERT_TAIL(&p->out, l, entry);
    if (l->link.io) {
        io_pause(l->link.io);
        io_resume(l->link.io);
    }
    return &l->link;
}

static void on_decided(evutil_socket_t fd, short what, void *arg) {
    struct upstream_attempt *a = arg;
    struct upstream_pool *p = a->pool;
    struct upstream_callbacks callbacks = a->callbacks;
    void *callback_arg = a->arg;
    (void)fd;
    (void)what;
    if (!attempt_decided(a))
        attempt_fail(a, UPSTREAM_TIMEOUT, a->peer.len ? &a->peer : NULL,
                     "no connection to %s within %g seconds (--time-limit connect)",
                     a->site->origin.host.text, p->upstream->config.connect_ms / 1000.0);
    if (a->made) {
        struct link *l = a->made;
        attempt_free(a);
        callbacks.ready(callback_arg, link_hand_out(p, l));
        return;
    }
    char text[sizeof a->text];
    struct upstream_failure failure = a->failure;
    struct site *site = a->site;
    memcpy(text, a->text, sizeof text);
    failure.text = text;
    attempt_free(a);
    site_put(p, site);
    callbacks.failed(callback_arg, &failure);
}

void upstream_cancel(struct upstream_attempt *a) {
    if (!a)
        return;
    struct upstream_pool *p = a->pool;
    struct site *site = a->site;
    struct link *made = a->made;
    attempt_free(a);
    if (made && made->link.http2) {
        up2_detach(&made->link);
        free(made);
    } else if (made) {
        idle_add(made, UPSTREAM_IDLE_MS); /* nothing has been written to it */
    }
    site_put(p, site);
}

/* exeat's own name has no upstream: it would be asking itself. */
static bool is_self(const struct url_host *host) {
    struct slice name = url_host_slice(host);
    return slice_eq(name, SLICE(SELF_NAME)) || slice_ends(name, SLICE("." SELF_NAME));
}

/* Room for one more connection; an idle one of another origin makes it if it must. */
static bool pool_room(struct upstream_pool *p) {
    struct site *site;
    if (p->open < UPSTREAM_OPEN_PER_POOL)
        return true;
    TAILQ_FOREACH(site, &p->sites, age)
    if (site->nidle) {
        idle_drop(TAILQ_LAST(&site->idle, link_list));
        return true;
    }
    return false;
}

/* A connection that is there already, or NULL. */
static struct link *attempt_ready(struct upstream_attempt *a) {
    const struct upstream_options *o = &a->options;
    struct link *l =
        o->http2 && !o->alone ? http2_take(a->pool, a->site, up2_find(a->site, o->websocket, o->once)) : NULL;
    return l || o->fresh ? l : idle_take(a->site, o->once);
}

struct upstream_link *upstream_reuse(struct upstream_pool *p, const struct upstream_origin *origin,
                                     const struct upstream_options *options) {
    if (options->fresh)
        return NULL;
    struct site *site = site_get(p, origin, options);
    if (!site)
        return NULL;
    bool shares = options->http2 && !options->alone && up2_find(site, options->websocket, options->once);
    struct link *l = shares ? NULL : idle_take(site, options->once);
    if (l)
        return link_hand_out(p, l);
    site_put(p, site);
    return NULL;
}

struct upstream_attempt *upstream_acquire(struct upstream_pool *p, const struct upstream_origin *origin,
                                          const struct upstream_options *options,
                                          const struct upstream_callbacks *callbacks, void *arg) {
    unsigned ms = p->upstream->config.connect_ms;
    const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    struct site *site = site_get(p, origin, options);
    struct upstream_attempt *a = site ? malloc(sizeof *a) : NULL;
    if (!a) {
        if (site)
            site_put(p, site);
        return NULL;
    }
    memset(a, 0, offsetof(struct upstream_attempt, text)); /* the rest is filled before it is read */
    a->connect_to[0] = '\0';
    a->pool = p;
    a->site = site;
    a->options = *options;
    a->callbacks = *callbacks;
    a->arg = arg;
    if ((options->websocket && site->no_websocket) || site_by_http1(site))
        a->options.http2 = false;
    event_assign(&a->timer, p->upstream->config.base, -1, 0, on_decided, a);
    TAILQ_INSERT_TAIL(&p->attempts, a, entry);

    struct link *l = attempt_ready(a);
    if (l) {
        attempt_give(a, l);
        return a;
    }
    bool room = pool_room(p);
    p->open++;
    a->counted = true;
    if (is_self(&origin->host)) {
        attempt_fail(a, UPSTREAM_SELF, NULL, "%s is exeat itself", origin->host.text);
    } else if (!room) {
        attempt_fail(a, UPSTREAM_LIMIT, NULL, "this sandbox has %d connections open already",
                     UPSTREAM_OPEN_PER_POOL);
    } else {
        event_add(&a->timer, &limit);
        if (a->options.http2 && !options->alone && !options->websocket && site->speaks_http2 &&
            site->dialling)
            attempt_enter(a, ATTEMPT_WAITING);
        else
            attempt_dial(a);
    }
    return a;
}

/* --- giving back -------------------------------------------------------------------------------------- */

void upstream_release(struct upstream_link *link, bool reusable, unsigned keep_ms) {
    struct link *l = (struct link *)link;
    struct upstream_pool *p = l->pool;
    unsigned ms = UPSTREAM_IDLE_MS;
    if (p)
        TAILQ_REMOVE(&p->out, l, entry);
    if (link->http2) {
        struct site *of = l->site;
        up2_detach(link);
        free(l);
        if (p)
            site_put(p, of);
        return;
    }
    if (!p) {
        io_free(link->io);
        free(l);
        return;
    }
    if (keep_ms)
        ms = keep_ms > UPSTREAM_KEEP_MS ? UPSTREAM_KEEP_MS : keep_ms > 1000 ? keep_ms - 1000 : 0;
    struct site *site = l->site;
    l->served += reusable;
    /* what comes now, idle_take sees */
    if (reusable && ms && (io_at_rest(link->io) || (io_queued(link->io) == 0 && io_idle_ok(link->io)))) {
        idle_add(l, ms);
    } else {
        p->open--;
        io_free(link->io);
        free(l);
    }
    site_put(p, site);
}

bool upstream_wants_http1(const struct upstream_link *link) {
    const struct link *l = (const struct link *)link;
    return l->site && link->http2 && site_by_http1(l->site);
}

/* --- words -------------------------------------------------------------------------------------------- */

const char *upstream_reason_code(enum upstream_reason reason) {
    static const char *const codes[] = {
        "upstream-name-unknown", "upstream-name-failed", "upstream-address",  "upstream-self",
        "upstream-unreachable",  "upstream-timeout",     "upstream-tls",      "upstream-certificate",
        "upstream-proxy",        "upstream-limit",       "upstream-internal",
    };
    _Static_assert(sizeof codes / sizeof codes[0] == UPSTREAM_INTERNAL + 1, "a word for each reason");
    return (unsigned)reason <= UPSTREAM_INTERNAL ? codes[reason] : "upstream-internal";
}

bool upstream_reason_refusal(enum upstream_reason reason) {
    return reason == UPSTREAM_ADDRESS || reason == UPSTREAM_SELF;
}

/* --- life --------------------------------------------------------------------------------------------- */

struct upstream *upstream_new(const struct upstream_config *config) {
    struct upstream *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->config = *config;
    if (!u->config.connect_ms)
        u->config.connect_ms = UPSTREAM_CONNECT_MS;
    if (!u->config.silent_ms)
        u->config.silent_ms = UPSTREAM_SILENT_MS;
    return u;
}

void upstream_free(struct upstream *u) {
    if (u)
        SSL_CTX_free(u->tls);
    free(u);
}

struct upstream_pool *upstream_pool_new(struct upstream *u, struct io_memory *memory) {
    struct upstream_pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->upstream = u;
    p->memory = memory;
    TAILQ_INIT(&p->sites);
    TAILQ_INIT(&p->out);
    TAILQ_INIT(&p->attempts);
    return p;
}

void upstream_pool_free(struct upstream_pool *p) {
    if (!p)
        return;
    for (struct upstream_attempt *a; (a = TAILQ_FIRST(&p->attempts));)
        upstream_cancel(a);
    for (struct link *l; (l = TAILQ_FIRST(&p->out));) {
        TAILQ_REMOVE(&p->out, l, entry);
        if (l->link.io)
            tickets_forget(l->link.io->ssl);
        l->pool = NULL;
        l->site = NULL;
    }
    for (struct site *site; (site = TAILQ_FIRST(&p->sites));) {
        for (struct link *l; (l = TAILQ_FIRST(&site->idle));)
            idle_drop(l);
        for (struct up2 *up; (up = TAILQ_FIRST(&site->http2));)
            up2_retire(up);
        site_free(p, site);
    }
    free(p);
}

size_t upstream_pool_idle(const struct upstream_pool *p) {
    return p->idle;
}

size_t upstream_pool_open(const struct upstream_pool *p) {
    return p->open;
}
