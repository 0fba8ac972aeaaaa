/*
 * Decisions into a Redis stream: XADD exeat:decisions MAXLEN ~ N * field value …, hiredis on the event loop.
 *
 * Nothing ever waits for Redis. Records go into a bounded queue; at most SINK_REDIS_FLIGHT of them are on
 * their way at once; one leaves the queue when Redis has confirmed it. A connection on which nothing is
 * confirmed for SINK_REDIS_COMMAND_MS, one that breaks, and one that answers with an error (out of memory,
 * read-only, loading, no permission, …) is dropped, and so is one on which something else comes than the answers to what was sent
 * (redis_guard.h); after 100 ms, doubled up to 5 s, another is made and
 * what was not confirmed is sent again. So a record whose confirmation was lost may be there twice, never
 * not at all: `id` and `event` tell.
 *
 * When the queue is full, newcomers are dropped and counted until an eighth of it is free again; where
 * they would have stood a `gap` record is queued. What is left at the end counts as a gap, too.
 *
 *     redis://[[user]:password@]HOST[:PORT][/DB][?maxlen=N]       user and password percent-encoded
 *     unix:PATH[?maxlen=N&db=N&user=U&password=P]
 *
 * The host is looked up once, by sink_redis_resolve, before the process is confined. The password is kept
 * as a secret, and stands in no message.
 */
#ifndef PROXY_RECORD_SINK_REDIS_H
#define PROXY_RECORD_SINK_REDIS_H

#include "base/addr.h"
#include "base/err.h"
#include "base/secret.h"
#include "proxy/record/record.h"

struct event_base;
struct sink_redis;

#define SINK_REDIS_STREAM     "exeat:decisions"
#define SINK_REDIS_MAXLEN     1000000 /* entries that the stream keeps, unless the URL says otherwise */
#define SINK_REDIS_RECORDS    65536   /* of the queue … */
#define SINK_REDIS_BYTES      (16u << 20)
#define SINK_REDIS_FLIGHT     256
#define SINK_REDIS_COMMAND_MS 2000
#define SINK_REDIS_ADDRS_MAX  8 /* of the host, tried in turn */

struct redis_url {
    char host[256]; /* NUL-terminated; empty for a unix socket */
    char path[108]; /* NUL-terminated; empty for TCP */
    uint16_t port;
    unsigned db;
    uint64_t maxlen; /* 0: unlimited */
    struct secret user, password;
    struct addr addrs[SINK_REDIS_ADDRS_MAX]; /* of sink_redis_resolve */
    size_t naddrs;
};

/* Reads --redis. 0 or ERR_USAGE, with a message that shows what was expected but nothing of user and
 * password; *out is empty then. Released by redis_url_release in either case. */
int redis_url_parse(struct slice text, struct redis_url *out, struct errmsg *msg);
void redis_url_release(struct redis_url *u);

/* Looks the host up, blocking; an address is taken as it is. 0 or ERR_NOTFOUND with a message. */
int sink_redis_resolve(struct redis_url *u, struct errmsg *msg);

/* `url` is moved out of, and empty afterwards. NULL when memory is short. Connecting begins with the loop. */
struct sink_redis *sink_redis_new(struct event_base *base, struct redis_url *url);
void sink_redis_free(struct sink_redis *s);

/* Queues a record (copied). Never blocks. `false`: it was dropped and counted. */
bool sink_redis_write(struct sink_redis *s, const struct record *r);

/* A gap that has ended (there is room again): the same that went into the stream itself, for the other
 * sinks. With `force` (the process ends) also one that has not, and what is still queued counts as
 * missing. False: none. */
bool sink_redis_take_gap(struct sink_redis *s, bool force, struct record *gap);

/* All delivered. */
bool sink_redis_empty(const struct sink_redis *s);
/* Told when it becomes so. */
void sink_redis_on_empty(struct sink_redis *s, void (*empty)(void *arg), void *arg);

/* Counts for tests and metrics. */
struct sink_redis_stats {
    uint64_t delivered, dropped, connects, errors;
    size_t queued;
};
void sink_redis_stats(const struct sink_redis *s, struct sink_redis_stats *out);

#endif
