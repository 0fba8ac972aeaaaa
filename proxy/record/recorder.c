#include "proxy/record/recorder.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "proxy/record/ring.h"

/* Sandboxes are told apart by their names, as far as so many numbers can; the number stands above a message's length. */
#define SHARES      256
#define LENGTH_BITS 24
#define LENGTH_MASK ((1u << LENGTH_BITS) - 1)

static_assert(MSG_MAX <= LENGTH_MASK && SHARES <= 1u << (32 - LENGTH_BITS), "both have room");

struct recorder {
    int fd; /* -1 once the scribe is gone: another one comes for what is in the ring */
    struct ring *ring;
    struct event *readable;
    struct event *retry;                  /* pending while something is queued */
    struct buf queue;                     /* u32 share and length (ours, native) and message, over and over */
    uint32_t queued[SHARES];              /* bytes in it */
    uint64_t lost;                        /* ever */
    uint64_t gap_count, gap_from, gap_to; /* of the gap that is open */
    uint32_t gap_share;                   /* of whoever lost the last one in it */
    void (*gone)(void *arg);
    void *arg;
};

static uint8_t message[MSG_MAX]; /* the last one: one loop, one record at a time */

static void recorder_ended(struct recorder *c) {
    if (c->fd < 0)
        return;
    event_free(c->readable);
    c->readable = NULL;
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

static uint32_t share_of(struct slice sandbox) {
    return (uint32_t)(hash_bytes(HASH_SEED, sandbox) % SHARES);
}

static void lose(struct recorder *c, uint32_t share, uint64_t time_ms) {
    if (c->lost == 0 && c->fd >= 0) /* that it is gone is told by the supervisor */
        log_warn("the scribe does not keep up: records are being lost, and counted");
    if (c->gap_count == 0)
        c->gap_from = time_ms;
    c->gap_to = time_ms;
    c->gap_share = share;
    c->gap_count++;
    c->lost++;
}

static void retry_soon(struct recorder *c) {
    static const struct timeval wait = {.tv_usec = RECORDER_RETRY_MS * 1000};
    if (!event_pending(c->retry, EV_TIMEOUT, NULL))
        event_add(c->retry, &wait);
}

static bool enqueue(struct recorder *c, const void *bytes, size_t n, uint32_t share) {
    uint32_t length = (uint32_t)n | share << LENGTH_BITS;
    char *room;
    if (c->queued[share] + n > RECORDER_BYTES - buf_len(&c->queue))
        return false;
    if (buf_reserve(&c->queue, sizeof length + n, &room)) {
        c->queue.failed = false;
        return false;
    }
    memcpy(room, &length, sizeof length);
    memcpy(room + sizeof length, bytes, n);
    buf_commit(&c->queue, sizeof length + n);
    c->queued[share] += (uint32_t)(sizeof length + n);
    retry_soon(c);
    return true;
}

static void wake(struct recorder *c) {
    uint8_t memory[16];
    struct msg_out m;
    if (c->fd < 0 || !ring_wants_wake(c->ring))
        return;
    msg_begin(&m, memory, sizeof memory, RECORD_WAKE);
    (void)msg_send(c->fd, &m); /* a socket that is full wakes him, too; its end shows in on_readable */
}

/* Puts a message into the ring or the queue. False: it is lost. */
static bool hand_over(struct recorder *c, const struct msg_out *m, uint32_t share) {
    if (m->err)
        return false;
    if (buf_len(&c->queue) || ring_put(c->ring, slice_make(m->p, m->n)))
        return enqueue(c, m->p, m->n, share);
    wake(c);
    return true;
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
    if (!hand_over(c, &m, c->gap_share))
        return false;
    c->gap_count = 0;
    return true;
}

/* The queue, as far as there is room. */
static void send_queue(struct recorder *c) {
    while (buf_len(&c->queue)) {
        struct slice q = buf_slice(&c->queue);
        uint32_t length;
        memcpy(&length, q.p, sizeof length);
        uint32_t share = length >> LENGTH_BITS;
        length &= LENGTH_MASK;
        if (ring_put(c->ring, slice_sub(q, sizeof length, length)))
            break;
        buf_consume(&c->queue, sizeof length + length);
        c->queued[share] -= (uint32_t)sizeof length + length;
    }
    wake(c);
}

static void on_retry(evutil_socket_t fd, short what, void *arg) {
    struct recorder *c = arg;
    (void)fd;
    (void)what;
    send_queue(c);
    if (buf_len(&c->queue) == 0)
        buf_trim(&c->queue);
    if (buf_len(&c->queue) || (c->gap_count && !gap_report(c)))
        retry_soon(c);
}

struct slice recorder_send(struct recorder *c, const struct record *r) {
    struct msg_out m;
    record_encode(r, &m, message, sizeof message);
    uint32_t share = share_of(r->sandbox);
    /* while a gap is open and can't be reported, nothing of the same sandbox may pass it: order is kept */
    bool behind = c->gap_count && c->gap_share == share;
    if ((behind && !gap_report(c)) || !hand_over(c, &m, share))
        lose(c, share, r->time_ms);
    return m.err ? SLICE_NONE : slice_make(message, m.n);
}

struct recorder *recorder_new(struct event_base *base, int fd, int ring, void (*gone)(void *arg), void *arg) {
    struct recorder *c = calloc(1, sizeof *c);
    struct ring *memory = NULL;
    if (ring_attach(ring, &memory, NULL) || !c) {
        ring_free(memory);
        free(c);
        close(fd);
        return NULL;
    }
    c->fd = fd;
    c->ring = memory;
    c->gone = gone;
    c->arg = arg;
    buf_init(&c->queue, RECORDER_BYTES);
    c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
    c->retry = event_new(base, -1, 0, on_retry, c);
    if (!c->readable || !c->retry || event_add(c->readable, NULL) < 0) {
        recorder_free(c);
        return NULL;
    }
    return c;
}

void recorder_free(struct recorder *c) {
    if (!c)
        return;
    send_queue(c);
    if (c->readable)
        event_free(c->readable);
    if (c->retry)
        event_free(c->retry);
    if (c->fd >= 0)
        close(c->fd);
    ring_free(c->ring);
    buf_release(&c->queue);
    free(c);
}

bool recorder_empty(const struct recorder *c) {
    return buf_len(&c->queue) == 0 && c->gap_count == 0;
}

uint64_t recorder_lost(const struct recorder *c) {
    return c->lost;
}
