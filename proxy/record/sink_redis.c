/*
 * The queue and the connection.
 *
 * The queue is one list of formatted commands. Those that are on their way are its front part, up to
 * `unsent`; `awaited` is the one that the next reply is about, since Redis answers in order. A confirmed
 * one leaves the list; one that was refused stays, and when all replies are in (or the connection is gone)
 * everything left is unsent again.
 *
 *     OFF -- timer --> CONNECTING -> GREETING (AUTH, SELECT) -> READY
 *      ^___________________|_______________|_____________________|      any trouble: drop, back off
 */
#include "proxy/record/sink_redis.h"

#include <assert.h>
#include <event2/event.h>
#include <hiredis/async.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/log.h"
#include "proxy/record/redis_guard.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS  5000
#define FLIGHT_BYTES     (1u << 20)

struct item {
    TAILQ_ENTRY(item) link;
    uint64_t time_ms;
    uint64_t weight; /* 0 for a gap record, else 1 */
    size_t n;
    char command[];
};

/* redis_enter() is the one writer. */
enum redis_state { REDIS_OFF, REDIS_CONNECTING, REDIS_GREETING, REDIS_READY, REDIS_STATES };

struct sink_redis {
    struct event_base *base;
    struct redis_url url;
    size_t addr_next; /* of url.addrs, taken in turn */
    enum redis_state state;
    redisAsyncContext *ac; /* NULL when OFF */
    struct event *timer;   /* OFF: back-off; else: the time limit of what is awaited */
    unsigned backoff_ms;
    unsigned greetings; /* replies to AUTH and SELECT still to come */
    const char *wrong;  /* redis_guard.h's word */
    bool refused;       /* an error reply came: drop the connection when all replies are in */
    bool said;          /* trouble was said and is not over */

    TAILQ_HEAD(, item) queue;
    struct item *unsent, *awaited;
    size_t queued, bytes;        /* of the whole queue */
    size_t flight, flight_bytes; /* of what is on its way */

    uint64_t gap_count, gap_from, gap_to;       /* open: newcomers are dropped */
    uint64_t ended_count, ended_from, ended_to; /* for sink_redis_take_gap */
    void (*empty)(void *arg);
    void *empty_arg;
    struct sink_redis_stats stats;
};

static void pump(struct sink_redis *s);
static void on_timer(evutil_socket_t fd, short what, void *arg);

static void set_timer(struct sink_redis *s, unsigned ms) {
    struct timeval t = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    event_add(s->timer, &t);
}

/* --- the connection ----------------------------------------------------------------------------------- */

static const char *const redis_state_names[] = {"off", "connecting", "greeting", "ready"};
_Static_assert(sizeof redis_state_names / sizeof *redis_state_names == REDIS_STATES, "a name for each state");

static void redis_enter(struct sink_redis *s, enum redis_state state) {
    static const uint8_t legal[REDIS_STATES] = {
        [REDIS_OFF] = 1 << REDIS_OFF | 1 << REDIS_CONNECTING, /* a connection that could not be begun */
        [REDIS_CONNECTING] = 1 << REDIS_GREETING | 1 << REDIS_OFF,
        [REDIS_GREETING] = 1 << REDIS_READY | 1 << REDIS_OFF,
        [REDIS_READY] = 1 << REDIS_OFF,
    };
    assert(legal[s->state] & 1 << state);
    log_debug("redis: %s -> %s", redis_state_names[s->state], redis_state_names[state]);
    s->state = state;
}

static void trouble(struct sink_redis *s, const char *what, const char *detail) {
    s->stats.errors++;
    if (!s->said)
        log_warn("redis: %s%s%.200s; decisions wait in memory, it is tried again", what, detail ? ": " : "",
                 detail ? detail : "");
    s->said = true;
}

/* Everything that is not confirmed is to be sent again, later. `s->ac` is gone or about to go. */
static void disconnected(struct sink_redis *s) {
    s->ac = NULL;
    redis_enter(s, REDIS_OFF);
    s->unsent = TAILQ_FIRST(&s->queue);
    s->awaited = NULL;
    s->flight = s->flight_bytes = 0;
    s->greetings = 0;
    s->refused = false;
    set_timer(s, s->backoff_ms);
    s->backoff_ms = s->backoff_ms * 2 > BACKOFF_LAST_MS ? BACKOFF_LAST_MS : s->backoff_ms * 2;
}

static void drop_connection(struct sink_redis *s) {
    redisAsyncContext *ac = s->ac;
    if (ac) {
        ac->data = NULL; /* its callbacks, which run with no reply, are to leave us alone */
        redisAsyncFree(ac);
    }
    disconnected(s);
}

static void on_disconnect(const redisAsyncContext *ac, int status) {
    struct sink_redis *s = ac->data;
    (void)status;
    if (!s)
        return;
    trouble(s, "the connection is gone", s->wrong ? s->wrong : ac->err ? ac->errstr : NULL);
    disconnected(s);
}

static void greeted(struct sink_redis *s) {
    redis_enter(s, REDIS_READY);
    event_del(s->timer);
    pump(s);
}

/* The reply to AUTH or SELECT. */
static void on_greeting(redisAsyncContext *ac, void *raw, void *unused) {
    struct sink_redis *s = ac->data;
    redisReply *reply = raw;
    (void)unused;
    if (!s || !reply)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        trouble(s, "it refuses us", reply->str);
        drop_connection(s);
    } else if (--s->greetings == 0) {
        greeted(s);
    }
}

static void greet(struct sink_redis *s) {
    redisAsyncContext *ac = s->ac;
    redis_enter(s, REDIS_GREETING);
    int r = REDIS_OK;
    if (s->url.password.n) {
        s->greetings++;
        if (s->url.user.n)
            r = redisAsyncCommand(ac, on_greeting, NULL, "AUTH %b %b", s->url.user.bytes, s->url.user.n,
                                  s->url.password.bytes, s->url.password.n);
        else
            r = redisAsyncCommand(ac, on_greeting, NULL, "AUTH %b", s->url.password.bytes, s->url.password.n);
    }
    if (r == REDIS_OK && s->url.db) {
        s->greetings++;
        r = redisAsyncCommand(ac, on_greeting, NULL, "SELECT %u", s->url.db);
    }
    if (r != REDIS_OK)
        drop_connection(s);
    else if (s->greetings == 0)
        greeted(s);
}

static void on_connect(const redisAsyncContext *ac, int status) {
    struct sink_redis *s = ac->data;
    if (!s)
        return;
    if (status == REDIS_OK) {
        s->stats.connects++;
        greet(s);
        return;
    }
    /* hiredis frees the context when this returns */
    trouble(s, "no connection", ac->errstr);
    ((redisAsyncContext *)(uintptr_t)ac)->data = NULL;
    disconnected(s);
}

static void on_bad_reply(redisAsyncContext *ac, const char *why) {
    struct sink_redis *s = ac->data;
    trouble(s, why, NULL);
    drop_connection(s);
}

static redisAsyncContext *open_context(struct sink_redis *s) {
    if (s->url.path[0])
        return redisAsyncConnectUnix(s->url.path);
    /* an address alone: nothing is looked up, no file is read */
    char text[ADDR_TEXT_MAX];
    const struct addr *a = &s->url.addrs[s->addr_next++ % s->url.naddrs];
    return redisAsyncConnect(addr_text(a, false, text), s->url.port);
}

static void connect_now(struct sink_redis *s) {
    redisAsyncContext *ac = open_context(s);
    if (!ac || ac->err || redis_guard_attach(ac, s->base, on_bad_reply, &s->wrong)) {
        trouble(s, "no connection", ac && ac->err ? ac->errstr : NULL);
        if (ac)
            redisAsyncFree(ac);
        disconnected(s);
        return;
    }
    ac->data = s;
    s->ac = ac;
    redis_enter(s, REDIS_CONNECTING);
    set_timer(s, SINK_REDIS_COMMAND_MS);
    redisAsyncSetDisconnectCallback(ac, on_disconnect);
    redisAsyncSetConnectCallback(ac, on_connect);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    struct sink_redis *s = arg;
    (void)fd;
    (void)what;
    if (s->state == REDIS_OFF) {
        connect_now(s);
        return;
    }
    trouble(s, s->state == REDIS_CONNECTING ? "no connection in time" : "no answer in time", NULL);
    drop_connection(s);
}

/* --- the queue ---------------------------------------------------------------------------------------- */

static void item_remove(struct sink_redis *s, struct item *item) {
    TAILQ_REMOVE(&s->queue, item, link);
    s->queued--;
    s->bytes -= item->n;
    free(item);
}

static bool room_for(const struct sink_redis *s, size_t n) {
    /* with a gap open, an eighth must be free, so that it does not close and open with every confirmation */
    size_t share = s->gap_count ? 8 : 0;
    size_t records = SINK_REDIS_RECORDS - (share ? SINK_REDIS_RECORDS / share : 0);
    size_t bytes = SINK_REDIS_BYTES - (share ? SINK_REDIS_BYTES / share : 0);
    return s->queued < records && s->bytes + n <= bytes;
}

static void put_bulk(struct buf *out, struct slice s) {
    buf_printf(out, "$%zu\r\n", s.n);
    buf_put(out, s);
    buf_put(out, SLICE("\r\n"));
}

static int format_command(const struct sink_redis *s, const struct record *r, struct buf *out) {
    struct record_fields fields;
    struct buf text;
    buf_init(&text, RECORD_JSON_MAX);
    int err = record_fields(r, &text, &fields);
    if (err)
        goto out;
    bool trim = s->url.maxlen != 0;
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, s->url.maxlen);
    buf_printf(out, "*%zu\r\n", (trim ? 6u : 3u) + 2 * fields.n);
    put_bulk(out, SLICE("XADD"));
    put_bulk(out, SLICE(SINK_REDIS_STREAM));
    if (trim) {
        put_bulk(out, SLICE("MAXLEN"));
        put_bulk(out, SLICE("~"));
        put_bulk(out, slice_str(number));
    }
    put_bulk(out, SLICE("*"));
    struct slice values = buf_slice(&text);
    for (size_t i = 0; i < fields.n; i++) {
        put_bulk(out, slice_str(fields.f[i].name));
        put_bulk(out, slice_sub(values, fields.f[i].at, fields.f[i].len));
    }
    err = out->failed ? ERR_LIMIT : 0;
out:
    buf_release(&text);
    return err;
}

static bool enqueue(struct sink_redis *s, const struct record *r) {
    struct buf command;
    struct item *item = NULL;
    buf_init(&command, RECORD_JSON_MAX + 4096);
    if (format_command(s, r, &command) == 0 && room_for(s, buf_len(&command)))
        item = malloc(sizeof *item + buf_len(&command));
    if (item) {
        struct slice bytes = buf_slice(&command);
        *item = (struct item){.time_ms = r->time_ms, .weight = r->event != RECORD_GAP, .n = bytes.n};
        memcpy(item->command, bytes.p, bytes.n);
        TAILQ_INSERT_TAIL(&s->queue, item, link);
        s->queued++;
        s->bytes += item->n;
        if (!s->unsent)
            s->unsent = item;
    }
    buf_release(&command);
    return item != NULL;
}

static void merge(uint64_t *count, uint64_t *from, uint64_t *to, uint64_t more, uint64_t first,
                  uint64_t last) {
    if (*count == 0)
        *from = first;
    *to = last;
    *count += more;
}

/* Ends the gap if there is room again: its record is queued where the missing ones would stand. */
static void close_gap(struct sink_redis *s) {
    if (s->gap_count == 0)
        return;
    struct record gap = {.event = RECORD_GAP,
                         .id = ulid_new(),
                         .time_ms = clock_wall_ms(),
                         .count = s->gap_count,
                         .from_ms = s->gap_from,
                         .to_ms = s->gap_to,
                         .sink = SLICE("redis")};
    if (!enqueue(s, &gap))
        return;
    log_warn("redis: %" PRIu64 " decisions did not fit into the queue and are missing from the stream",
             s->gap_count);
    merge(&s->ended_count, &s->ended_from, &s->ended_to, s->gap_count, s->gap_from, s->gap_to);
    s->gap_count = 0;
}

bool sink_redis_write(struct sink_redis *s, const struct record *r) {
    close_gap(s);
    if (s->gap_count == 0 && enqueue(s, r)) {
        pump(s);
        return true;
    }
    if (s->gap_count == 0)
        log_warn("redis: the queue is full; decisions are being lost for the stream, and counted");
    merge(&s->gap_count, &s->gap_from, &s->gap_to, 1, r->time_ms, r->time_ms);
    s->stats.dropped++;
    return false;
}

/* --- sending ------------------------------------------------------------------------------------------ */

static void confirmed(struct sink_redis *s, struct item *item) {
    s->stats.delivered += item->weight;
    item_remove(s, item);
    s->backoff_ms = BACKOFF_FIRST_MS;
    if (s->said && !s->refused) {
        log_warn("redis: decisions are delivered again");
        s->said = false;
    }
}

static void on_reply(redisAsyncContext *ac, void *raw, void *unused) {
    struct sink_redis *s = ac->data;
    redisReply *reply = raw;
    (void)unused;
    if (!s || !reply || !s->awaited)
        return;
    struct item *item = s->awaited;
    s->awaited = TAILQ_NEXT(item, link);
    s->flight--;
    s->flight_bytes -= item->n;
    if (reply->type == REDIS_REPLY_ERROR) {
        trouble(s, "it answers with an error", reply->str);
        s->refused = true;
    } else {
        confirmed(s, item);
    }
    if (s->flight == 0 && s->refused) {
        drop_connection(s);
        return;
    }
    if (s->flight)
        set_timer(s, SINK_REDIS_COMMAND_MS);
    else
        event_del(s->timer);
    close_gap(s);
    pump(s);
    if (s->queued == 0 && s->empty)
        s->empty(s->empty_arg);
}

static void pump(struct sink_redis *s) {
    bool idle = s->flight == 0;
    if (s->state != REDIS_READY || s->refused)
        return;
    while (s->unsent && s->flight < SINK_REDIS_FLIGHT &&
           (s->flight == 0 || s->flight_bytes + s->unsent->n <= FLIGHT_BYTES)) {
        struct item *item = s->unsent;
        if (redisAsyncFormattedCommand(s->ac, on_reply, NULL, item->command, item->n) != REDIS_OK) {
            drop_connection(s);
            return;
        }
        if (!s->awaited)
            s->awaited = item;
        s->unsent = TAILQ_NEXT(item, link);
        s->flight++;
        s->flight_bytes += item->n;
    }
    if (idle && s->flight)
        set_timer(s, SINK_REDIS_COMMAND_MS);
}

/* --- life --------------------------------------------------------------------------------------------- */

struct sink_redis *sink_redis_new(struct event_base *base, struct redis_url *url) {
    struct sink_redis *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->timer = evtimer_new(base, on_timer, s);
    if (!s->timer) {
        free(s);
        return NULL;
    }
    s->base = base;
    s->url = *url;
    *url = (struct redis_url){0};
    s->backoff_ms = BACKOFF_FIRST_MS;
    TAILQ_INIT(&s->queue);
    set_timer(s, 0);
    return s;
}

void sink_redis_free(struct sink_redis *s) {
    if (!s)
        return;
    if (s->ac) {
        s->ac->data = NULL;
        redisAsyncFree(s->ac);
    }
    event_free(s->timer);
    for (struct item *item; (item = TAILQ_FIRST(&s->queue));)
        item_remove(s, item);
    redis_url_release(&s->url);
    free(s);
}

bool sink_redis_take_gap(struct sink_redis *s, bool force, struct record *gap) {
    uint64_t count = s->ended_count, from = s->ended_from, to = s->ended_to;
    if (force) {
        struct item *item;
        TAILQ_FOREACH(item, &s->queue, link)
        if (item->weight)
            merge(&count, &from, &to, 1, item->time_ms, item->time_ms);
        if (s->gap_count)
            merge(&count, &from, &to, s->gap_count, s->gap_from, s->gap_to);
        s->gap_count = 0;
    }
    s->ended_count = 0;
    if (count == 0)
        return false;
    *gap = (struct record){.event = RECORD_GAP,
                           .id = ulid_new(),
                           .time_ms = clock_wall_ms(),
                           .count = count,
                           .from_ms = from,
                           .to_ms = to,
                           .sink = SLICE("redis")};
    return true;
}

bool sink_redis_empty(const struct sink_redis *s) {
    return s->queued == 0;
}

void sink_redis_on_empty(struct sink_redis *s, void (*empty)(void *arg), void *arg) {
    s->empty = empty;
    s->empty_arg = arg;
}

void sink_redis_stats(const struct sink_redis *s, struct sink_redis_stats *out) {
    *out = s->stats;
    out->queued = s->queued;
}
