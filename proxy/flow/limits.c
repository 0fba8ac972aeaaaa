#include "proxy/flow/limits.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/shared.h"

/*
 * Theory of operation. A bucket is one number: when it will be full again, if nothing more is taken. A request puts
 * that off by the time that it takes to fill in one. Where it would be further away than it takes to fill the whole
 * bucket, there is nothing left. (The generic cell rate algorithm of ITU-T I.371, which comes to the same as a bucket
 * of tokens.) One number is changed by one atomic exchange.
 */
struct limits {
    struct shared memory;      /* first */
    _Atomic uint64_t *full_at; /* by rule, and of errands at 0; in ns; 0: it is full */
    size_t n;
};

static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes");

#define NS_A_SECOND UINT64_C(1000000000)
#define NS_A_MS     UINT64_C(1000000)

static int limits_hold(int fd, size_t count, struct limits **out, struct errmsg *msg) {
    struct shared *memory;
    size_t size = (count + 1) * sizeof *(*out)->full_at;
    int r = shared_hold(fd, "exeat-limits", "limits", size, sizeof **out, &memory, msg);
    if (r)
        return r;
    *out = (struct limits *)memory;
    (*out)->full_at = memory->p;
    (*out)->n = count;
    return 0;
}

int limits_new(size_t count, struct limits **out, struct errmsg *msg) {
    return limits_hold(SHARED_NEW, count, out, msg);
}

int limits_attach(int fd, size_t count, struct limits **out, struct errmsg *msg) {
    return limits_hold(fd, count, out, msg);
}

int limits_fd(const struct limits *l) {
    return l->memory.fd;
}

void limits_free(struct limits *l) {
    shared_free((struct shared *)l);
}

static bool take(struct limits *l, unsigned id, uint32_t limit, uint32_t seconds, uint64_t now_ms,
                 unsigned *wait_s) {
    /* rounded up, so that never more than the limit comes through */
    uint64_t one = (seconds * NS_A_SECOND + limit - 1) / limit, full = one * limit, now = now_ms * NS_A_MS;
    uint64_t before = atomic_load(&l->full_at[id]), after;
    do {
        after = (before > now ? before : now) + one;
        if (after - now > full) {
            uint64_t wait = (after - now - full - 1) / NS_A_SECOND + 1;
            *wait_s = wait < seconds ? (unsigned)wait : seconds;
            return false;
        }
    } while (!atomic_compare_exchange_weak(&l->full_at[id], &before, after));
    return true;
}

bool limits_take(struct limits *l, unsigned id, uint32_t limit, uint32_t seconds, uint64_t now_ms,
                 unsigned *wait_s) {
    *wait_s = seconds;
    return l && id != 0 && id <= l->n && limit != 0 && take(l, id, limit, seconds, now_ms, wait_s);
}

bool limits_take_errand(struct limits *l, uint64_t now_ms) {
    unsigned wait_s;
    return !l || take(l, 0, LIMITS_ERRANDS, 60, now_ms, &wait_s);
}
