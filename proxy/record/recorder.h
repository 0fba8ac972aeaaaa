/*
 * A worker's end of the way to the scribe. Sending never blocks and never fails: what the ring (ring.h) can't take waits in
 * a bounded queue, what the queue can't take is counted, and as soon as there is room a `gap` record (sink "channel")
 * says how many are missing. Of what is free in the queue a sandbox leaves as much as it takes: one that does more than the
 * scribe can write loses its own records, not another's.
 *
 * A decision is recorded before it is acted on: when recorder_send returns, the record is where the scribe finds it though the
 * worker die in the next moment (in the ring, or, when the scribe does not keep up, in the queue, and then it does not
 * survive the worker). Once the scribe is gone the worker ends, and what it has to say until then goes the same way, to the one
 * that comes after (proxy/process/children.h).
 */
#ifndef PROXY_RECORD_RECORDER_H
#define PROXY_RECORD_RECORDER_H

#include "base/err.h"
#include "proxy/record/record.h"

struct event_base;
struct recorder;

#define RECORDER_BYTES    (8u << 20) /* of the queue: for one sandbox half of it */
#define RECORDER_RETRY_MS 5          /* the queue is tried again */

/* `fd` is a SOCK_SEQPACKET socket to the scribe, non-blocking, by which it is woken, and whose end is the scribe's; `ring` is a
 * descriptor of the ring that it reads. Ownership of both passes. `gone` is called, once and from the event loop, when the scribe
 * has closed its end: the worker must end. NULL when memory is short, or the ring none. */
struct recorder *recorder_new(struct event_base *base, int fd, int ring, void (*gone)(void *arg), void *arg);
/* What waits in the queue is handed over before, as far as there is room. */
void recorder_free(struct recorder *c);

/* Hands a record over. Returns it as record_encode has it, borrowed until the next call; SLICE_NONE if it is too long. */
struct slice recorder_send(struct recorder *c, const struct record *r);

/* Whether all that was sent is in the ring: for an orderly end. */
bool recorder_empty(const struct recorder *c);
/* Records that were lost so far. */
uint64_t recorder_lost(const struct recorder *c);

#endif
