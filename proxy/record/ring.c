#include "proxy/record/ring.h"

#include <stdatomic.h>

#include "base/shared.h"

/* Positions only rise; where a byte lies is its position modulo RING_BYTES. Each has a cache line of its own. */
struct ring_memory {
    _Alignas(64) _Atomic uint64_t head;   /* behind the last byte written; the writer's */
    _Alignas(64) _Atomic uint64_t tail;   /* before it the reader is through with all; the reader's */
    _Alignas(64) _Atomic uint32_t asleep; /* set by the reader, cleared by either */
    _Alignas(64) unsigned char bytes[RING_BYTES];
};

struct ring {
    struct shared memory; /* first */
    struct ring_memory *shared;
    uint64_t at;   /* this end's position */
    uint64_t told; /* the writer's: the tail at which the reader was told to come */
};

static int ring_hold(int fd, struct ring **out, struct errmsg *msg) {
    struct shared *memory;
    int r =
        shared_hold(fd, "exeat-records", "records", sizeof(struct ring_memory), sizeof **out, &memory, msg);
    if (r)
        return r;
    *out = (struct ring *)memory;
    (*out)->shared = memory->p;
    (*out)->at = atomic_load(&(*out)->shared->tail); /* of a reader that follows on another */
    (*out)->told = UINT64_MAX;
    return 0;
}

int ring_new(struct ring **out, struct errmsg *msg) {
    return ring_hold(SHARED_NEW, out, msg);
}

int ring_attach(int fd, struct ring **out, struct errmsg *msg) {
    return ring_hold(fd, out, msg);
}

int ring_fd(const struct ring *r) {
    return r->memory.fd;
}

void ring_free(struct ring *r) {
    shared_free((struct shared *)r);
}

/* ---- bytes, in one piece or two ---- */

static void copy_in(struct ring *r, uint64_t at, const void *bytes, size_t n) {
    unsigned char *ring = r->shared->bytes;
    size_t from = at % RING_BYTES, first = n < RING_BYTES - from ? n : RING_BYTES - from;
    memcpy(ring + from, bytes, first);
    memcpy(ring, (const unsigned char *)bytes + first, n - first);
}

static void copy_out(const struct ring *r, uint64_t at, void *bytes, size_t n) {
    const unsigned char *ring = r->shared->bytes;
    size_t from = at % RING_BYTES, first = n < RING_BYTES - from ? n : RING_BYTES - from;
    memcpy(bytes, ring + from, first);
    memcpy((unsigned char *)bytes + first, ring, n - first);
}

/* ---- the writer ---- */

static uint64_t ring_used(const struct ring *r) {
    return r->at - atomic_load_explicit(&r->shared->tail, memory_order_acquire);
}

int ring_put(struct ring *r, struct slice message) {
    uint32_t length = (uint32_t)message.n;
    uint64_t used = ring_used(r);
    if (used > RING_BYTES || message.n > MSG_MAX || sizeof length + message.n > RING_BYTES - used)
        return ERR_AGAIN;
    copy_in(r, r->at, &length, sizeof length);
    copy_in(r, r->at + sizeof length, message.p, message.n);
    r->at += sizeof length + message.n;
    atomic_store_explicit(&r->shared->head, r->at, memory_order_release);
    return 0;
}

bool ring_wants_wake(struct ring *r) {
    struct ring_memory *m = r->shared;
    /* either the reader, who looks once more after he has said that he sleeps, sees our bytes, or we see that he sleeps */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&m->asleep, memory_order_relaxed) && atomic_exchange(&m->asleep, 0))
        return true;
    uint64_t used = ring_used(r), tail = r->at - used;
    if (used <= RING_EARLY || r->told == tail)
        return false;
    r->told = tail;
    return true;
}

/* ---- the reader ---- */

int ring_take(struct ring *r, void *memory, size_t cap, struct slice *out) {
    struct ring_memory *m = r->shared;
    uint64_t have = atomic_load_explicit(&m->head, memory_order_acquire) - r->at;
    uint32_t length;
    if (have == 0)
        return ERR_AGAIN;
    if (have > RING_BYTES || have < sizeof length)
        return ERR_PEER;
    copy_out(r, r->at, &length, sizeof length);
    if (length > cap || length > have - sizeof length)
        return ERR_PEER;
    copy_out(r, r->at + sizeof length, memory, length);
    r->at += sizeof length + length;
    *out = slice_make(memory, length);
    return 0;
}

void ring_done(struct ring *r) {
    atomic_store_explicit(&r->shared->tail, r->at, memory_order_release);
}

bool ring_rest(struct ring *r) {
    struct ring_memory *m = r->shared;
    atomic_store(&m->asleep, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&m->head, memory_order_acquire) == r->at)
        return true;
    atomic_store(&m->asleep, 0);
    return false;
}
