/*
 * Memory that processes share: a memfd of a size that nobody can change, mapped in each of them. It begins as zeros, and goes
 * with the last process that holds it.
 *
 * What lies in it is the other side's to write at any time: read with care, and use atomics.
 */
#ifndef BASE_SHARED_H
#define BASE_SHARED_H

#include <stddef.h>

#include "base/err.h"

struct shared {
    void *p;
    size_t size;
    int fd; /* to hand to other processes */
};

/*
 * Makes such memory of `bytes` bytes (fd < 0), or maps what another process made, of that very size (`fd` is taken in
 * every case), and a place for it: a struct of `size` bytes that begins with a `struct shared`, zeroed but for that.
 * *out is the struct's first member; the caller frees it behind shared_release. `name` shows in /proc alone, `what` begins
 * the message. 0; ERR_IO or ERR_NOMEM; ERR_PEER: the descriptor is none of ours.
 */
int shared_hold(int fd, const char *name, const char *what, size_t bytes, size_t size, struct shared **out,
                struct errmsg *msg);

void shared_release(struct shared *s);

#endif
