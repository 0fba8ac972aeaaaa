/*
 * All sinks of the scribe together: every record goes to the file, to Redis and, if it is to be shown, to
 * standard error; a gap of one is written to all. This is what the scribe's main uses:
 *
 *     sinks_new - sinks_receive for each message of a worker - sinks_stop - sinks_free
 */
#ifndef PROXY_RECORD_SINKS_H
#define PROXY_RECORD_SINKS_H

#include "base/err.h"
#include "base/msg.h"
#include "proxy/record/record.h"
#include "proxy/record/sink_redis.h"

struct event_base;
struct sinks;

#define SINKS_STOP_MS 3000 /* for all that is queued, after sinks_stop */

struct sinks_config {
    struct event_base *base;
    int log_fd;              /* opened with O_APPEND by the supervisor; -1: none. Ownership passes */
    struct redis_url *redis; /* resolved; moved out of. NULL: none */
    int line_fd;             /* standard error; -1: none. Stays the caller's */
    int loudness;            /* 0 -q, 1, 2 -v: record_shown */
    unsigned style;          /* of lines: enum record_style; log_colour(line_fd) says whether in colour */
};

struct sinks *sinks_new(const struct sinks_config *config); /* NULL when memory is short */
void sinks_free(struct sinks *s);

/* One message of a worker. 0, or ERR_PEER: the worker breaks the protocol; close it and say so. */
int sinks_receive(struct sinks *s, struct msg_in *m);

/* All that was received is in the file, or counted as missing there. Else that is so at the end of the loop's turn. */
void sinks_flush(struct sinks *s);

/* A record of the scribe's own, or one that was read. */
void sinks_write(struct sinks *s, const struct record *r);

/* Drains; `done` is called from the event loop when all is written or the time is up. */
void sinks_stop(struct sinks *s, void (*done)(void *arg), void *arg);

#endif
