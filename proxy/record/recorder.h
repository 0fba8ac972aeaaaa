/*
 * A worker's end of the way to the scribe. Sending never blocks and never fails: what the socket can't take waits in
 * a bounded queue, what the queue can't take is counted, and as soon as there is room a `gap` record (sink "channel")
 * says how many are missing.
 *
 * Records of one turn of the loop go together, in one message: outcomes, and verdicts that permit; an outcome waits for up
 * to RECORDER_WAIT_MS for others to go with. A decision is recorded before it is acted on, so whoever acts on a permission
 * calls recorder_flush first. A refusal does not wait: it is with the kernel (or in the queue) when recorder_send returns,
 * and with it all that was handed over before.
 */
#ifndef PROXY_RECORD_RECORDER_H
#define PROXY_RECORD_RECORDER_H

#include "base/err.h"
#include "proxy/record/record.h"

struct event_base;
struct recorder;

#define RECORDER_BYTES   (4u << 20)
#define RECORDER_WAIT_MS 5

/* `fd` is a SOCK_SEQPACKET socket to the scribe, non-blocking; ownership passes. `gone` is called, once
 * and from the event loop, when the scribe has closed its end: the worker must end. NULL when memory is
 * short. */
struct recorder *recorder_new(struct event_base *base, int fd, void (*gone)(void *arg), void *arg);
/* What still waits for others to go with is handed over before, if the kernel takes it at once. */
void recorder_free(struct recorder *c);

/* Hands a record over. A refusal or a gap is with the kernel, in the queue, or counted when this returns; all else is
 * when recorder_flush has returned, or the loop's turn (of outcomes: RECORDER_WAIT_MS) has ended. Returns the record
 * as record_encode has it, borrowed until the next call; SLICE_NONE if it is too long. */
struct slice recorder_send(struct recorder *c, const struct record *r);
void recorder_flush(struct recorder *c);

/* Whether all that was handed over is with the kernel: for an orderly end. */
bool recorder_empty(const struct recorder *c);
/* Records that were lost so far. */
uint64_t recorder_lost(const struct recorder *c);

#endif
