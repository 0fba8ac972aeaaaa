#include "proxy/record/redis_guard.h"

#include <event2/event.h>
#include <hiredis/async.h>
#include <stdbool.h>
#include <stdlib.h>

struct guard {
    redisAsyncContext *ac;
    struct event *readable, *writable;
    void (*bad)(redisAsyncContext *ac, const char *why);
    const char **why; /* the owner's */
};

#if HIREDIS_MAJOR >= 1
typedef size_t elements;
#else
typedef int elements;
#endif

/* ---- replies, as the reader makes them ---- */

static redisReplyObjectFunctions theirs, ours; /* the reader's own, and those; alike for all readers */

/* Is a reply owed? If not, none is made of what came, which hiredis takes for an error of the connection. */
static bool is_owed(const redisReadTask *task) {
    redisAsyncContext *ac = task->privdata;
    struct guard *g = ac->ev.data;
    if (ac->replies.head)
        return true;
    *g->why = "it answers what nobody asked";
    return false;
}

/* An error without a question is how a server tells that it has no room for another connection; hiredis knows that one. */
static void *on_string(const redisReadTask *task, char *text, size_t n) {
    return task->type == REDIS_REPLY_ERROR || is_owed(task) ? theirs.createString(task, text, n) : NULL;
}

static void *on_integer(const redisReadTask *task, long long n) {
    return is_owed(task) ? theirs.createInteger(task, n) : NULL;
}

static void *on_nil(const redisReadTask *task) {
    return is_owed(task) ? theirs.createNil(task) : NULL;
}

static void *on_array(const redisReadTask *task, elements n) {
    struct guard *g = ((redisAsyncContext *)task->privdata)->ev.data;
    (void)n;
    *g->why = "it answers by a list";
    return NULL;
}

#if HIREDIS_MAJOR >= 1
static void *on_double(const redisReadTask *task, double value, char *text, size_t n) {
    return is_owed(task) ? theirs.createDouble(task, value, text, n) : NULL;
}

static void *on_bool(const redisReadTask *task, int value) {
    return is_owed(task) ? theirs.createBool(task, value) : NULL;
}
#endif

static void guard_reader(redisAsyncContext *ac) {
    redisReader *reader = ac->c.reader;
    theirs = *reader->fn;
    ours = theirs;
    ours.createString = on_string;
    ours.createArray = on_array;
    ours.createInteger = on_integer;
    ours.createNil = on_nil;
#if HIREDIS_MAJOR >= 1
    ours.createDouble = on_double;
    ours.createBool = on_bool;
#endif
    reader->fn = &ours;
    reader->privdata = ac;
}

/* ---- the loop ---- */

static void guard_on_readable(evutil_socket_t fd, short what, void *arg) {
    struct guard *g = arg;
    const redisReader *reader = g->ac->c.reader;
    (void)fd;
    (void)what;
    if (reader->len - reader->pos > REDIS_GUARD_MOST)
        g->bad(g->ac, "its answer is too long");
    else
        redisAsyncHandleRead(g->ac);
}

static void guard_on_writable(evutil_socket_t fd, short what, void *arg) {
    struct guard *g = arg;
    (void)fd;
    (void)what;
    redisAsyncHandleWrite(g->ac);
}

static void add_read(void *arg) {
    event_add(((struct guard *)arg)->readable, NULL);
}

static void del_read(void *arg) {
    event_del(((struct guard *)arg)->readable);
}

static void add_write(void *arg) {
    event_add(((struct guard *)arg)->writable, NULL);
}

static void del_write(void *arg) {
    event_del(((struct guard *)arg)->writable);
}

static void guard_free(void *arg) {
    struct guard *g = arg;
    if (g->readable)
        event_free(g->readable);
    if (g->writable)
        event_free(g->writable);
    free(g);
}

int redis_guard_attach(redisAsyncContext *ac, struct event_base *base,
                       void (*bad)(redisAsyncContext *ac, const char *why), const char **why) {
    struct guard *g = calloc(1, sizeof *g);
    if (!g)
        return ERR_NOMEM;
    *g = (struct guard){.ac = ac, .bad = bad, .why = why};
    g->readable = event_new(base, ac->c.fd, EV_READ, guard_on_readable, g);
    g->writable = event_new(base, ac->c.fd, EV_WRITE, guard_on_writable, g);
    if (!g->readable || !g->writable) {
        guard_free(g);
        return ERR_NOMEM;
    }
    *why = NULL;
    ac->ev.addRead = add_read;
    ac->ev.delRead = del_read;
    ac->ev.addWrite = add_write;
    ac->ev.delWrite = del_write;
    ac->ev.cleanup = guard_free;
    ac->ev.data = g;
    guard_reader(ac);
    add_read(g);
    add_write(g);
    return 0;
}
