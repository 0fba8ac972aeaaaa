/*
 * How often rules may permit: a token bucket for each rule with a `limit`, of one sandbox. A bucket holds as many
 * requests as the limit names, and fills up evenly.
 *
 * The buckets lie in a memfd that the workers of the sandbox share, since its connections come to all of them: what
 * one has taken is gone for the others. No lock is taken. A worker that was taken over could give its own sandbox more
 * than the limit, or nothing.
 */
#ifndef PROXY_FLOW_LIMITS_H
#define PROXY_FLOW_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct limits;

/* For rules 1…count. 0, ERR_IO or ERR_NOMEM. */
int limits_new(size_t count, struct limits **out, struct errmsg *msg);
/* What another process made, for as many rules; `fd` is taken, in every case. ERR_PEER if it is none. */
int limits_attach(int fd, size_t count, struct limits **out, struct errmsg *msg);
/* Borrowed: the descriptor to hand to other processes. */
int limits_fd(const struct limits *l);
void limits_free(struct limits *l);

/* Takes one request out of bucket `id`, by the host's monotonic clock. False: it is empty, or there is none (NULL
 * too: nothing is permitted); *wait_s: seconds until it is not. */
bool limits_take(struct limits *l, unsigned id, uint32_t limit, uint32_t seconds, uint64_t now_ms,
                 unsigned *wait_s);

/* Takes one of the requests that exeat makes itself on behalf of the sandbox (errand.h): there is a bucket of LIMITS_ERRANDS in a
 * minute for them. False: it is empty. Without `l` nobody counts. */
#define LIMITS_ERRANDS 600
bool limits_take_errand(struct limits *l, uint64_t now_ms);

#endif
