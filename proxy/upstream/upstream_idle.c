/*
 * Connections of HTTP/1.1 that have carried a request and wait for the next one.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "proxy/upstream/upstream_parts.h"

static const struct io_events no_events;

static void idle_remove(struct link *l) {
    TAILQ_REMOVE(&l->site->idle, l, entry);
    l->site->nidle--;
    l->pool->idle--;
}

void idle_drop(struct link *l) {
    idle_remove(l);
    l->pool->open--;
    io_free(l->link.io);
    free(l);
}

/* Something comes on an idle connection. TLS may have a ticket to hand over; anything else ends it. */
static void on_idle_readable(struct io *io) {
    size_t got;
    if (io_read(io, io_scratch(), IO_SCRATCH, &got) != ERR_AGAIN)
        idle_drop(io->arg);
}

static void on_idle_failed(struct io *io, int err) {
    (void)err;
    idle_drop(io->arg);
}

static void on_idle_timeout(struct io *io) {
    idle_drop(io->arg);
}

static const struct io_events idle_events = {
    .readable = on_idle_readable, .failed = on_idle_failed, .timeout = on_idle_timeout};

void idle_add(struct link *l, unsigned ms) {
    struct site *site = l->site;
    struct upstream_pool *p = l->pool;
    if (site->nidle >= UPSTREAM_IDLE_PER_ORIGIN || (p->idle >= UPSTREAM_IDLE_PER_POOL && site->nidle))
        idle_drop(TAILQ_LAST(&site->idle, link_list));
    if (p->idle >= UPSTREAM_IDLE_PER_POOL) {
        p->open--;
        io_free(l->link.io);
        free(l);
        return;
    }
    TAILQ_INSERT_HEAD(&site->idle, l, entry);
    site->nidle++;
    p->idle++;
    l->link.reused = true;
    l->since = clock_coarse_ms();
    io_own(l->link.io, &idle_events, l);
    io_deadline(l->link.io, ms);
    /* a pause first, so that reading is armed whatever the last owner left */
    io_pause(l->link.io);
    io_resume(l->link.io);
}

/* For a request that can't be repeated. */
static bool idle_sure(const struct link *l, uint64_t now) {
    uint64_t idle = now - l->since;
    return idle <= UPSTREAM_ONCE_MS && (l->served > 1 || idle >= UPSTREAM_SETTLE_MS);
}

/* What can be repeated takes a connection that the loop, which watches them, has not seen end: a system call to look once more
 * would buy next to nothing. */
struct link *idle_take(struct site *site, bool once) {
    uint64_t now = once ? clock_coarse_ms() : 0;
    for (struct link *l = TAILQ_FIRST(&site->idle), *next; l; l = next) {
        next = TAILQ_NEXT(l, entry);
        if (once && !idle_sure(l, now))
            continue;
        if ((once || !io_at_rest(l->link.io)) && !io_idle_ok(l->link.io)) {
            idle_drop(l);
            continue;
        }
        idle_remove(l);
        io_own(l->link.io, &no_events, NULL);
        io_deadline(l->link.io, 0);
        return l;
    }
    return NULL;
}
