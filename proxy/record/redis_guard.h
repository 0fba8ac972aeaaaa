/*
 * hiredis on the event loop, with a server that need not be one of good will. hiredis itself ends the process for a reply that
 * nobody asked for, and gathers one that never ends until there is no memory left. What we ask is answered by a status, an
 * integer, a short string or an error; so
 *   - a reply while none is owed ends the connection, and so does one that is a list;
 *   - and one that is longer than REDIS_GUARD_MOST bytes, as far as it has come.
 */
#ifndef PROXY_RECORD_REDIS_GUARD_H
#define PROXY_RECORD_REDIS_GUARD_H

#include "base/err.h"

struct event_base;
struct redisAsyncContext;

#define REDIS_GUARD_MOST 65536

/* In place of hiredis' own way to the loop. `bad` is told, never from within a call of hiredis', that the connection is to be
 * dropped, by redisAsyncFree(). Where hiredis was made to end it, *why is set before; what it says itself is another thing then.
 * 0 or ERR_NOMEM. */
int redis_guard_attach(struct redisAsyncContext *ac, struct event_base *base,
                       void (*bad)(struct redisAsyncContext *ac, const char *why),
                       const char **why) MUST_CHECK;

#endif
