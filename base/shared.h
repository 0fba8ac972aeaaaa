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
    int fd; /* to hand to other processes; -1 where another process made it */
};

#define SHARED_NEW (-2) /* instead of a descriptor; -1 is none */

/*
 * Makes such memory of `bytes` bytes (SHARED_NEW), or maps what another process made, of that very size (`fd` is taken in
 * every case), and a place for it: a struct of `size` bytes that begins with a `struct shared`, zeroed but for that.
 * *out is the struct's first member, the caller's for shared_free. `name` shows in /proc alone, `what` begins the message.
 * 0; ERR_IO or ERR_NOMEM; ERR_PEER: the descriptor is none of ours.
 *
 * Whoever uses it shows four functions to others: X_new, X_attach (what another process made), X_fd (of what this one made; borrowed, to
 * hand to other processes) and X_free, which accepts NULL.
 */
int shared_hold(int fd, const char *name, const char *what, size_t bytes, size_t size, struct shared **out,
                struct errmsg *msg);

/* Accepts NULL. Gives back this process's part, and the struct that begins with it. */
void shared_free(struct shared *s);

#endif
