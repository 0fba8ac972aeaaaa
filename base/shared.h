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

/* `name` shows in /proc alone. 0, or ERR_IO, when *out owns nothing. */
int shared_new(const char *name, size_t size, struct shared *out, struct errmsg *msg);

/* What another process made, of that very size. `fd` is taken in every case. ERR_PEER: it is none. */
int shared_attach(int fd, size_t size, struct shared *out, struct errmsg *msg);

void shared_release(struct shared *s);

#endif
