/*
 * Theory of operation. A question that pins, hosts file, address syntax or the cache can answer gets its
 * answer copied and stands in `ready` until the event loop comes round. Any other hangs on the cache entry
 * of its name, which is FLYING as long as c-ares is asked; the first to want the name makes it so. When
 * the answer is there, all who hang on it move to `ready`. An entry that flies is never evicted; its own
 * time limit gives up on c-ares and answers, and what c-ares says later goes into the cache for the next
 * one.
 */
#include "proxy/upstream/resolve.h"

#include <event2/event.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/hash.h"
#include "proxy/upstream/dns_channel.h"
#include "proxy/upstream/hosts_file.h"

#define BUCKETS      1024
#define TTL_NOTFOUND 5
#define TTL_FAILED   1

TAILQ_HEAD(query_list, resolve_query);

struct entry {
    LIST_ENTRY(entry) bucket;
    TAILQ_ENTRY(entry) age; /* in `cache`, oldest first; only those that do not fly */
    struct resolver *resolver;
    char name[URL_HOST_MAX + 1];
    bool flying;
    uint64_t expires; /* monotonic ms */
    struct event *limit;
    struct query_list waiting;
    int err;
    size_t n;
    struct addr addrs[RESOLVE_ADDRS_MAX]; /* without port */
};

struct resolve_query {
    TAILQ_ENTRY(resolve_query) link;
    struct query_list *list; /* the one it is in */
    struct resolver *resolver;
    uint16_t port;
    resolve_done *done;
    void *arg;
    struct resolve_answer answer;
};

struct resolver {
    struct event_base *base;
    struct dns_channel *dns;
    struct hosts_file *hosts;
    struct resolve_pin *pins;
    size_t npins;
    struct event *deliver;
    struct query_list ready;
    LIST_HEAD(, entry) buckets[BUCKETS];
    TAILQ_HEAD(, entry) cache;
    size_t cached, flying;
};

/* --- answers ------------------------------------------------------------------------------------------ */

static void query_remove(struct resolve_query *q) {
    TAILQ_REMOVE(q->list, q, link);
    q->list = NULL;
}

static void query_ready(struct resolve_query *q) {
    struct resolver *r = q->resolver;
    TAILQ_INSERT_TAIL(&r->ready, q, link);
    q->list = &r->ready;
    event_active(r->deliver, EV_TIMEOUT, 0);
}

/* Gives each query that is ready now its answer; those that become so meanwhile come in the next turn. */
static void on_deliver(evutil_socket_t fd, short what, void *arg) {
    struct resolver *r = arg;
    struct resolve_query *last = TAILQ_LAST(&r->ready, query_list), *q;
    (void)fd;
    (void)what;
    /* `last` may be cancelled by another's callback, then the list simply runs dry */
    while ((q = TAILQ_FIRST(&r->ready))) {
        bool end = q == last;
        struct resolve_answer answer = q->answer;
        resolve_done *done = q->done;
        void *done_arg = q->arg;
        query_remove(q);
        free(q);
        done(done_arg, &answer);
        if (end)
            break;
    }
    if (!TAILQ_EMPTY(&r->ready))
        event_active(r->deliver, EV_TIMEOUT, 0);
}

/* `port` 0: the addresses have theirs. */
static void answer_addrs(struct resolve_answer *answer, const struct addr *addrs, size_t n, uint16_t port) {
    answer->n = 0;
    for (size_t i = 0; i < n && i < RESOLVE_ADDRS_MAX; i++) {
        answer->addrs[i] = addrs[i];
        if (port)
            addr_set_port(&answer->addrs[i], port);
        answer->n++;
    }
    answer->err = answer->n ? 0 : ERR_NOTFOUND;
}

static void answer_entry(struct resolve_query *q, const struct entry *e) {
    answer_addrs(&q->answer, e->addrs, e->n, q->port);
    if (e->err)
        q->answer.err = e->err;
    q->answer.served = q->answer.err == 0 || q->answer.err == ERR_NOTFOUND;
}

/* --- the cache ---------------------------------------------------------------------------------------- */

static unsigned bucket_of(struct slice name) {
    return (unsigned)(hash_bytes(HASH_SEED, name) % BUCKETS);
}

static void entry_free(struct entry *e) {
    struct resolver *r = e->resolver;
    LIST_REMOVE(e, bucket);
    if (e->flying) {
        r->flying--;
    } else {
        TAILQ_REMOVE(&r->cache, e, age);
        r->cached--;
    }
    if (e->limit)
        event_free(e->limit);
    free(e);
}

static struct entry *entry_find(struct resolver *r, struct slice name) {
    struct entry *e;
    LIST_FOREACH(e, &r->buckets[bucket_of(name)], bucket)
    if (slice_eq(slice_str(e->name), name))
        return e;
    return NULL;
}

/* What was FLYING has landed: everybody who waits gets the answer. */
static void entry_answer(struct entry *e) {
    for (struct resolve_query *q; (q = TAILQ_FIRST(&e->waiting));) {
        query_remove(q);
        answer_entry(q, e);
        query_ready(q);
    }
}

static unsigned entry_ttl(const struct entry *e, unsigned ttl) {
    if (e->err)
        return e->err == ERR_NOTFOUND ? TTL_NOTFOUND : TTL_FAILED;
    return ttl < RESOLVE_TTL_MIN ? RESOLVE_TTL_MIN : ttl > RESOLVE_TTL_MAX ? RESOLVE_TTL_MAX : ttl;
}

static void on_found(void *arg, const struct dns_found *found) {
    struct entry *e = arg;
    struct resolver *r = e->resolver;
    e->err = found->err;
    e->n = 0;
    /* IPv6 and IPv4 in turn, RFC 8305 section 4 */
    for (size_t i = 0; i < DNS_FOUND_MAX; i++) {
        if (i < found->n6 && e->n < RESOLVE_ADDRS_MAX)
            e->addrs[e->n++] = found->v6[i];
        if (i < found->n4 && e->n < RESOLVE_ADDRS_MAX)
            e->addrs[e->n++] = found->v4[i];
    }
    e->flying = false;
    r->flying--;
    e->expires = clock_monotonic_ms() + 1000ull * entry_ttl(e, found->ttl);
    event_del(e->limit);
    TAILQ_INSERT_TAIL(&r->cache, e, age);
    r->cached++;
    entry_answer(e);
    while (r->cached > RESOLVE_CACHE_MAX)
        entry_free(TAILQ_FIRST(&r->cache));
}

static void on_limit(evutil_socket_t fd, short what, void *arg) {
    struct entry *e = arg;
    (void)fd;
    (void)what;
    e->err = ERR_TIMEOUT;
    e->n = 0;
    entry_answer(e);
}

static struct entry *entry_fly(struct resolver *r, struct slice name) {
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->resolver = r;
    memcpy(e->name, name.p, name.n);
    TAILQ_INIT(&e->waiting);
    e->limit = evtimer_new(r->base, on_limit, e);
    if (!e->limit) {
        free(e);
        return NULL;
    }
    struct timeval t = {.tv_sec = RESOLVE_TIME_MS / 1000, .tv_usec = RESOLVE_TIME_MS % 1000 * 1000};
    event_add(e->limit, &t);
    LIST_INSERT_HEAD(&r->buckets[bucket_of(name)], e, bucket);
    e->flying = true;
    r->flying++;
    return e;
}

/* --- asking ------------------------------------------------------------------------------------------- */

static void fail(struct resolve_query *q, int err) {
    q->answer.err = err;
    query_ready(q);
}

/* From the cache, or by DNS. */
static void ask_dns(struct resolve_query *q, struct slice name) {
    struct resolver *r = q->resolver;
    struct entry *e = entry_find(r, name);
    if (e && !e->flying && e->expires <= clock_monotonic_ms()) {
        entry_free(e);
        e = NULL;
    }
    if (e && !e->flying) {
        answer_entry(q, e);
        query_ready(q);
        return;
    }
    if (e && !evtimer_pending(e->limit, NULL)) {
        fail(q, ERR_TIMEOUT); /* c-ares still tries, we have given up on it */
        return;
    }
    bool first = !e;
    if (first && r->flying >= RESOLVE_FLIGHT_MAX) {
        fail(q, ERR_LIMIT);
        return;
    }
    if (first && !(e = entry_fly(r, name))) {
        fail(q, ERR_NOMEM);
        return;
    }
    TAILQ_INSERT_TAIL(&e->waiting, q, link);
    q->list = &e->waiting;
    if (first && dns_channel_ask(r->dns, e->name, on_found, e)) {
        struct dns_found none = {.err = ERR_IO};
        on_found(e, &none);
    }
}

/* The pins of one origin; `host` NULL: of all hosts that have none. */
static struct resolve_pin *find_pin(struct resolver *r, const struct url_host *host, uint16_t port) {
    for (size_t i = 0; i < r->npins; i++) {
        struct resolve_pin *pin = &r->pins[i];
        if (pin->port == port && pin->n &&
            (host ? !pin->any && slice_eq(url_host_slice(&pin->host), url_host_slice(host)) : pin->any))
            return pin;
    }
    return NULL;
}

static bool pinned(struct resolver *r, const struct url_host *host, uint16_t port,
                   struct resolve_answer *answer) {
    const struct resolve_pin *pin = find_pin(r, host, port);
    if (!pin)
        pin = find_pin(r, NULL, port);
    if (!pin)
        return false;
    answer_addrs(answer, pin->to, pin->n, 0);
    answer->pinned = true;
    return true;
}

/* A label that a C library would take for a number. Canonical hosts have none; what else may come is not
 * looked up. */
static bool numeric_end(struct slice name) {
    size_t from = name.n;
    while (from > 0 && name.p[from - 1] != '.')
        from--;
    struct slice label = slice_from(name, from);
    if (label.n >= 2 && label.p[0] == '0' && ascii_lower(label.p[1]) == 'x')
        return true;
    for (size_t i = 0; i < label.n; i++)
        if (!ascii_digit(label.p[i]))
            return false;
    return true;
}

bool resolve_local(struct resolver *r, const struct url_host *host, uint16_t port,
                   struct resolve_answer *answer) {
    struct slice name = url_host_slice(host);
    struct addr found[RESOLVE_ADDRS_MAX];
    size_t n;
    *answer = (struct resolve_answer){0};
    if (pinned(r, host, port, answer))
        return true;
    if (host->kind != URL_HOST_NAME)
        n = addr_parse(name, port, &found[0]) ? 1 : 0;
    else if (numeric_end(name))
        n = 0;
    else if ((n = hosts_file_find(r->hosts, name, found, RESOLVE_ADDRS_MAX)) == 0)
        return false;
    answer_addrs(answer, found, n, port);
    return true;
}

struct resolve_query *resolve_start(struct resolver *r, const struct url_host *host, uint16_t port,
                                    resolve_done *done, void *arg) {
    struct resolve_query *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->resolver = r;
    q->port = port;
    q->done = done;
    q->arg = arg;
    if (resolve_local(r, host, port, &q->answer))
        query_ready(q);
    else
        ask_dns(q, url_host_slice(host));
    return q;
}

void resolve_cancel(struct resolve_query *q) {
    if (!q)
        return;
    query_remove(q);
    free(q);
}

/* --- life --------------------------------------------------------------------------------------------- */

/* Several --resolve for one origin add up, as long as there is room; one without addresses takes them back. */
static void add_pin(struct resolver *r, const struct resolve_pin *pin) {
    struct resolve_pin *p = find_pin(r, pin->any ? NULL : &pin->host, pin->port);
    if (!p) {
        r->pins[r->npins++] = *pin;
        return;
    }
    if (pin->n == 0)
        p->n = 0;
    for (size_t k = 0; k < pin->n && p->n < RESOLVE_ADDRS_MAX; k++)
        p->to[p->n++] = pin->to[k];
}

static int add_pins(struct resolver *r, const struct resolver_config *config, struct errmsg *msg) {
    r->pins = calloc(config->npins + 1, sizeof *r->pins);
    if (!r->pins)
        return errmsg_set(msg, ERR_NOMEM, "resolver: out of memory");
    for (size_t i = 0; i < config->npins; i++) {
        struct resolve_pin pin;
        int err = resolve_pin_parse(slice_str(config->pins[i]), &pin, msg);
        if (err)
            return err;
        add_pin(r, &pin);
    }
    return 0;
}

int resolver_new(struct event_base *base, const struct resolver_config *config, struct resolver **out,
                 struct errmsg *msg) {
    struct resolver *r = calloc(1, sizeof *r);
    if (!r)
        return errmsg_set(msg, ERR_NOMEM, "resolver: out of memory");
    r->base = base;
    TAILQ_INIT(&r->ready);
    TAILQ_INIT(&r->cache);
    int err = add_pins(r, config, msg);
    if (err == 0) {
        r->hosts = hosts_file_load(config->hosts ? config->hosts : "/etc/hosts");
        r->deliver = event_new(base, -1, 0, on_deliver, r);
        if (!r->hosts || !r->deliver)
            err = errmsg_set(msg, ERR_NOMEM, "resolver: out of memory");
    }
    if (err == 0)
        err = dns_channel_new(base, config->resolv_conf, config->servers, &r->dns, msg);
    if (err) {
        resolver_free(r);
        return err;
    }
    *out = r;
    return 0;
}

void resolver_free(struct resolver *r) {
    if (!r)
        return;
    dns_channel_free(r->dns);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry *e; (e = LIST_FIRST(&r->buckets[i]));) {
            for (struct resolve_query *q; (q = TAILQ_FIRST(&e->waiting));)
                resolve_cancel(q);
            entry_free(e);
        }
    for (struct resolve_query *q; (q = TAILQ_FIRST(&r->ready));)
        resolve_cancel(q);
    if (r->deliver)
        event_free(r->deliver);
    hosts_file_free(r->hosts);
    free(r->pins);
    free(r);
}
