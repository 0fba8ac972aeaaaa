/*
 * Records on their way from one worker to the scribe: a ring of bytes in memory that both have mapped (base/shared.h). What
 * lies in it is the scribe's even if the worker dies in the next moment, and putting it there takes no system call.
 *
 *     u32 length | bytes      over and over; a message may lie across the end
 *
 * The room of what was read is the writer's again when the reader is through with it (ring_done): what he took and died with
 * is there for the next reader. One end writes, the other reads; each keeps its own position and believes nothing of the
 * other's but that it may be anywhere: the reader copies a message before it looks at it, and a position that can't be is
 * ERR_PEER. A reader that has nothing to do says so (ring_rest), and is to be woken by other means then: ring_wants_wake
 * tells when.
 */
#ifndef PROXY_RECORD_RING_H
#define PROXY_RECORD_RING_H

#include "base/err.h"
#include "base/msg.h"
#include "base/slice.h"

#define RING_BYTES (256u << 10) /* several messages of MSG_MAX */
/* With more in it, the reader is to come before his time. Where both share a CPU all that goes through the writer waits while
 * the reader works: a writer without a moment to spare is worked for in small pieces, one that has time in rare ones. */
#define RING_EARLY (RING_BYTES / 4)

struct ring;

/* A new ring, empty. 0, ERR_IO or ERR_NOMEM. */
int ring_new(struct ring **out, struct errmsg *msg);
/* One end of what another process made; `fd` is taken, in every case. A reader begins where the last one was through. ERR_PEER
 * if it is none. */
int ring_attach(int fd, struct ring **out, struct errmsg *msg);
/* Borrowed: the descriptor to hand to other processes. */
int ring_fd(const struct ring *r);
void ring_free(struct ring *r);

/* The writer's. 0, or ERR_AGAIN: there is no room now. */
int ring_put(struct ring *r, struct slice message);
/* After ring_put: does the reader sleep, or must he come before his time (RING_EARLY)? Told once. */
bool ring_wants_wake(struct ring *r);

/* The reader's. Copies the next message into `memory`. 0; ERR_AGAIN: there is none; ERR_PEER: what the writer left is no
 * message, or longer than `cap`. */
int ring_take(struct ring *r, void *memory, size_t cap, struct slice *out);
/* All that was taken is where it is to be: its room is free. */
void ring_done(struct ring *r);
/* Nothing more is looked for until the writer wakes the reader. False: something has come just now. */
bool ring_rest(struct ring *r);

#endif
