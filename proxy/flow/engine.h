/*
 * The engine: everything between a sandbox's listeners and the upstreams, for one worker and many sandboxes.
 *
 *     listener -> conn (transport: TLS or clear) -> xchg (one request and its answer) -> upstream
 *
 * It opens no file, starts no process and keeps no secret beyond the request that it is injected into. What it needs
 * of others is handed in: the client of the keeper (vault/client.h), the upstream side (proxy/upstream/upstream.h) and the
 * recorder (proxy/record/record.h), all made by the worker's main before, and freed by it after engine_free.
 *
 * Life cycle, in the worker:
 *     engine_new - engine_set_watched - engine_set_bindings - engine_add_sandbox … engine_drain_sandbox - engine_remove_sandbox -
 *     engine_drain - engine_free
 * All calls are on the event base's thread. Callbacks may call anything but engine_free.
 */
#ifndef PROXY_FLOW_ENGINE_H
#define PROXY_FLOW_ENGINE_H

#include <event2/event.h>
#include <openssl/ssl.h>

#include "base/err.h"
#include "base/slice.h"
#include "proxy/flow/time_limits.h"

struct bindings;     /* vault/bindings.h */
struct names;        /* netns/names.h: the synthetic addresses of one sandbox */
struct policy;       /* policy/policy.h */
struct recorder;     /* proxy/record/recorder.h */
struct upstream;     /* proxy/upstream/upstream.h: pool, resolver and dialler of the worker */
struct vault_client; /* vault/client.h */
struct watch_table;  /* proxy/codec/watch.h */

struct engine;

/* Times are in milliseconds; 0 is never taken as "no limit". engine_limits_default fills in what suits people and
 * models that think for minutes. */
struct engine_limits {
    /* 30 s: first byte to end of the TLS handshake; over HTTP/2 from there to the client's word on our settings */
    unsigned handshake_ms;
    unsigned head_ms;    /* 30 s: first byte of a request's head to its last */
    unsigned connect_ms; /* 30 s: of a connection to a server: upstream_config's, which has to be given it */
    unsigned idle_ms;    /* 5 min: a client's connection between two requests, and before the first byte */
    /* 10 s: of a server, until it is looked whether it can be reached (HTTP/2: upstream_http2.h): upstream_config's, too */
    unsigned silence_ms;
    unsigned answer_ms; /* 30 min: request sent to head of the answer, and between two pieces of an answer */
    /* 10 min: between two pieces of a request's body, and until a client takes more of an answer. What a piece has to bring is not
     * said: calls of gRPC, and what is piped into an upload, may bring a few bytes in an hour; and a sandbox that does so for ill
     * could as well bring as much as any rate asks for, at no cost to it. What it can hold on to in that way is what it may have at
     * all: its connections and streams, which the next limits are for, and the memory of each, which is small. */
    unsigned body_ms;
    unsigned relay_ms;    /* 1 h: between two pieces, from either side, of a WebSocket */
    unsigned linger_ms;   /* 10 s: after a refusal, see io_linger */
    unsigned connections; /* open client connections of the worker, 16384 */
    /* … of one sandbox, 8192; where it shares the worker with others, at most as many as are left when it has them */
    unsigned sandbox_connections;
    unsigned sandbox_streams; /* … and its streams of HTTP/2, on all of its connections, 2048 */
    size_t sandbox_memory;    /* … and bytes on their way, until there is pressure (io_memory.h), 128 MiB */
    unsigned accept_burst;    /* accepted in one turn of the loop, 32 */
    /* bytes that looking through a push may take, 256 MiB; all pushes together: twice that */
    size_t push_memory;
};
void engine_limits_default(struct engine_limits *limits);

/* Sets one of TIME_LIMITS from "head=10s" (ms, s, m, h; up to a day, never 0). 0, or ERR_USAGE with a message for the
 * user; then nothing has changed. */
int engine_limits_set_time(struct engine_limits *limits, struct slice text, struct errmsg *msg);

/* "30m (--time-limit answer)", for who has met it. Returns `text`. */
const char *engine_limits_met(const struct engine_limits *limits, enum time_limit which,
                              char text[TIME_LIMIT_TEXT]);

struct engine_config {
    struct event_base *base;
    struct engine_limits limits;
    struct vault_client *vault;
    struct upstream *upstream;
    struct recorder *recorder;
    struct slice ca_pem; /* exeat's root, for exeat.internal/ca.pem; copied */
    bool log_query;      /* values of queries are recorded: the operator has asked for them */
    bool shared;         /* more than one sandbox may come: the first leaves room */
};

/* 0, ERR_NOMEM or ERR_IO. The cache of leaves (ca/leaf.h) asks `vault` for certificates; the reserve descriptor for EMFILE is
 * opened here. */
int engine_new(const struct engine_config *config, struct engine **out, struct errmsg *msg);

/* All sandboxes and connections go, each exchange with an outcome record of its own. */
void engine_free(struct engine *engine);

/* The keeper's word on which hosts credentials are bound to (VAULT_BINDINGS). Taken; replaces the earlier one. Until
 * the first has come, the engine accepts no connection: no request could be judged to be free of credentials. */
void engine_set_bindings(struct engine *engine, struct bindings *bindings);

/* What the vault's secrets are recognised by, which no push may hold: before the bindings. Taken. Without a call, or NULL:
 * there are none. */
void engine_set_watched(struct engine *engine, struct watch_table *watched);

#define ENGINE_LISTENERS_MAX 8
#define ENGINE_NAME_MAX      128

/* One listening socket of a sandbox. */
struct engine_listener {
    int fd; /* TCP, listening; taken */
};

struct engine_sandbox {
    uint64_t id;                 /* as the keeper knows it */
    struct slice name;           /* for records and refusals; copied, at most ENGINE_NAME_MAX bytes */
    const struct policy *policy; /* borrowed until engine_remove_sandbox has returned */
    struct names *names;         /* borrowed likewise; NULL: no address is known to mean a name */
    struct why *why;             /* borrowed likewise; NULL: no decision is remembered */
    struct limits *limits;       /* borrowed likewise; NULL: rules with a `limit` permit nothing */
    struct shown *shown; /* borrowed likewise; NULL: where fetches are kept to some refs, none is permitted */
    struct engine_listener listeners[ENGINE_LISTENERS_MAX];
    size_t nlisteners;
};

/* 0; ERR_EXISTS (that id); ERR_NOMEM; ERR_LIMIT; ERR_IO. The descriptors are taken in every case. */
int engine_add_sandbox(struct engine *engine, const struct engine_sandbox *sandbox, struct errmsg *msg);

/* Closes the sandbox's listeners and connections, records outcomes, forgets it. Unknown ids are ignored. */
void engine_remove_sandbox(struct engine *engine, uint64_t id);

/* The sandbox is over: its listeners close, and its idle connections; exchanges under way may end. `done` is called once, when the last
 * one has ended or `ms` have passed (then the rest is cut off, and its outcomes say so), never from within; engine_remove_sandbox is due
 * then. After engine_remove_sandbox or engine_free it is not called. Once for each sandbox. */
void engine_drain_sandbox(struct engine *engine, uint64_t id, unsigned ms, void (*done)(void *arg),
                          void *arg);

/* The same for all that there are, and none is added any more. */
void engine_drain(struct engine *engine, unsigned ms, void (*done)(void *arg), void *arg);

#endif
