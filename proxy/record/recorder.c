#include "proxy/record/recorder.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

struct recorder {
    int fd; /* -1 once the scribe is gone */
    struct event *readable, *writable;
    struct event *turn; /* what is kept goes: when the loop's turn ends, or a little later */
    bool later;         /* `turn` is added, for the latter */
    struct buf queue;   /* u32 length (ours, native) and message, over and over */
    bool waiting;       /* `writable` is added */
    uint64_t lost;      /* ever */
    uint64_t gap_count, gap_from, gap_to; /* of the gap that is open */
    void (*gone)(void *arg);
    void *arg;
    struct msg_out kept; /* a RECORD_BATCH of `nkept` records, in `batch` */
    size_t nkept;
    uint64_t kept_from, kept_to;
    uint8_t message[MSG_MAX], batch[MSG_MAX];
};

static void recorder_ended(struct recorder *c) {
    if (c->fd < 0)
        return;
    event_free(c->readable);
    event_free(c->writable);
    event_del(c->turn);
    c->readable = c->writable = NULL;
    close(c->fd);
    c->fd = -1;
}

/* The scribe never writes: what is readable is its end. */
static void on_readable(evutil_socket_t fd, short what, void *arg) {
    struct recorder *c = arg;
    char byte;
    (void)what;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    void (*gone)(void *) = c->gone;
    void *gone_arg = c->arg;
    recorder_ended(c);
    if (gone)
        gone(gone_arg);
}

static void lose(struct recorder *c, uint64_t count, uint64_t from_ms, uint64_t to_ms) {
    if (c->lost == 0)
        log_warn("the scribe does not keep up: records are being lost, and counted");
    if (c->gap_count == 0)
        c->gap_from = from_ms;
    c->gap_to = to_ms;
    c->gap_count += count;
    c->lost += count;
}

static void wait_writable(struct recorder *c) {
    if (!c->waiting && c->fd >= 0 && event_add(c->writable, NULL) == 0)
        c->waiting = true;
}

static bool enqueue(struct recorder *c, const void *bytes, size_t n) {
    uint32_t length = (uint32_t)n;
    char *room;
    if (buf_reserve(&c->queue, sizeof length + n, &room)) {
        c->queue.failed = false;
        return false;
    }
    memcpy(room, &length, sizeof length);
    memcpy(room + sizeof length, bytes, n);
    buf_commit(&c->queue, sizeof length + n);
    wait_writable(c);
    return true;
}

/* Sends a message at once or queues it. False: it is lost. */
static bool hand_over(struct recorder *c, const struct msg_out *m) {
    if (c->fd < 0 || m->err)
        return false;
    if (buf_len(&c->queue) == 0) {
        int r = msg_send(c->fd, m);
        if (r == 0)
            return true;
        if (r != ERR_AGAIN)
            return false; /* its end shows in on_readable */
    }
    return enqueue(c, m->p, m->n);
}

static bool gap_report(struct recorder *c) {
    struct record gap = {.event = RECORD_GAP,
                         .time_ms = clock_wall_ms(),
                         .id = ulid_new(),
                         .count = c->gap_count,
                         .from_ms = c->gap_from,
                         .to_ms = c->gap_to,
                         .sink = SLICE("channel")};
    uint8_t memory[512];
    struct msg_out m;
    record_encode(&gap, &m, memory, sizeof memory);
    if (!hand_over(c, &m))
        return false;
    c->gap_count = 0;
    return true;
}

static void on_writable(evutil_socket_t fd, short what, void *arg) {
    struct recorder *c = arg;
    (void)what;
    while (buf_len(&c->queue)) {
        struct slice q = buf_slice(&c->queue);
        uint32_t length;
        memcpy(&length, q.p, sizeof length);
        struct msg_out m = {.p = (uint8_t *)(uintptr_t)(q.p + sizeof length), .n = length, .cap = length};
        int r = msg_send((int)fd, &m);
        if (r == ERR_AGAIN)
            return;
        if (r)
            break; /* its end shows in on_readable */
        buf_consume(&c->queue, sizeof length + length);
    }
    event_del(c->writable);
    c->waiting = false;
    if (buf_len(&c->queue) == 0) {
        buf_trim(&c->queue);
        if (c->gap_count)
            gap_report(c);
    }
}

/* What is kept goes. */
void recorder_flush(struct recorder *c) {
    size_t n = c->nkept;
    if (n == 0)
        return;
    c->nkept = 0; /* `turn` may find nothing then */
    if (!hand_over(c, &c->kept))
        lose(c, n, c->kept_from, c->kept_to);
}

static void on_turn(evutil_socket_t fd, short what, void *arg) {
    struct recorder *c = arg;
    (void)fd;
    (void)what;
    c->later = false;
    recorder_flush(c);
}

/* An outcome may wait for the verdict that comes next: who asks one thing after another wakes the scribe once for each
 * then, not twice. */
static void flush_later(struct recorder *c) {
    static const struct timeval wait = {.tv_usec = RECORDER_WAIT_MS * 1000};
    if (!c->later && event_add(c->turn, &wait) == 0)
        c->later = true;
    if (!c->later)
        event_active(c->turn, EV_TIMEOUT, 0);
}

/* Puts a message beside those that are kept. */
static void keep(struct recorder *c, const struct record *r, const struct msg_out *m) {
    /* length and bytes; what does not fit any more waits for the next batch */
    if (c->nkept && m->n + sizeof(uint32_t) > c->kept.cap - c->kept.n)
        recorder_flush(c);
    if (c->nkept == 0) {
        msg_begin(&c->kept, c->batch, sizeof c->batch, RECORD_BATCH);
        c->kept_from = r->time_ms;
    }
    if (r->event == RECORD_OUTCOME)
        flush_later(c);
    else
        event_active(c->turn, EV_TIMEOUT, 0);
    msg_put_slice(&c->kept, slice_make(m->p, m->n));
    c->kept_to = r->time_ms;
    c->nkept++;
}

static void hand_in(struct recorder *c, const struct record *r, const struct msg_out *m) {
    /* while a gap is open and can't be reported, nothing may pass it: order is kept */
    if (c->gap_count && !gap_report(c)) {
        lose(c, 1, r->time_ms, r->time_ms);
        return;
    }
    bool small = m->err == 0 && m->n < MSG_MAX / 2;
    bool waits = r->event == RECORD_OUTCOME || (r->event == RECORD_VERDICT && !r->denied);
    if (small && c->fd >= 0 && (waits || c->nkept)) {
        keep(c, r, m);
        if (!waits)
            recorder_flush(c);
        return;
    }
    recorder_flush(c);
    if (c->gap_count || !hand_over(c, m))
        lose(c, 1, r->time_ms, r->time_ms);
}

struct slice recorder_send(struct recorder *c, const struct record *r) {
    struct msg_out m;
    record_encode(r, &m, c->message, sizeof c->message);
    hand_in(c, r, &m);
    return m.err ? SLICE_NONE : slice_make(c->message, m.n);
}

struct recorder *recorder_new(struct event_base *base, int fd, void (*gone)(void *arg), void *arg) {
    struct recorder *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return NULL;
    }
    c->fd = fd;
    c->gone = gone;
    c->arg = arg;
    buf_init(&c->queue, RECORDER_BYTES);
    c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
    c->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
    c->turn = event_new(base, -1, 0, on_turn, c);
    if (!c->readable || !c->writable || !c->turn || event_add(c->readable, NULL) < 0) {
        recorder_free(c);
        return NULL;
    }
    return c;
}

void recorder_free(struct recorder *c) {
    if (!c)
        return;
    /* outcomes of what was broken off by the very end */
    if (c->fd >= 0)
        recorder_flush(c);
    if (c->readable)
        event_free(c->readable);
    if (c->writable)
        event_free(c->writable);
    if (c->turn)
        event_free(c->turn);
    if (c->fd >= 0)
        close(c->fd);
    buf_release(&c->queue);
    free(c);
}

bool recorder_empty(const struct recorder *c) {
    return buf_len(&c->queue) == 0 && c->nkept == 0 && c->gap_count == 0;
}

uint64_t recorder_lost(const struct recorder *c) {
    return c->lost;
}
