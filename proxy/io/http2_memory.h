/*
 * The memory that a session of libnghttp2 is born with, and that it can do without while nothing happens.
 *
 * A session takes some 26 KiB when it is made: 16 KiB where frames are written, tables of streams and of the
 * compression. Most of it is empty, and all of it is idle on an idle connection. So what is taken while the session is
 * made lies together in pages of its own. They can be put to sleep: what is in them is copied out (the words that are
 * not zero: less than 2 KiB), and the pages go back to the kernel. Waking puts every word where it was, so the
 * session cannot tell. What it takes later (streams, entries of the compression's tables) comes from malloc, and
 * is left alone.
 *
 *     http2_memory_init - nghttp2_session_…_new3(…, http2_memory_for()) - http2_memory_made
 *         - any number of: sleep, wake - nghttp2_session_del, awake - http2_memory_release
 *
 * While it sleeps the session must not be entered.
 */
#ifndef PROXY_IO_HTTP2_MEMORY_H
#define PROXY_IO_HTTP2_MEMORY_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>

struct http2_memory {
    nghttp2_mem mem;
    char *pages;  /* NULL: there are none, all is malloc's, and it never sleeps */
    size_t used;  /* bytes of them */
    bool made;    /* what is taken from now on is malloc's */
    void *asleep; /* what was in them; NULL: it is awake */
};

/* Must stay where it is until it is released. */
void http2_memory_init(struct http2_memory *m);
void http2_memory_release(struct http2_memory *m);

/* What the session is to be made with. */
static inline nghttp2_mem *http2_memory_for(struct http2_memory *m) {
    return &m->mem;
}

/* The session is made. */
void http2_memory_made(struct http2_memory *m);

static inline bool http2_memory_sleeps(const struct http2_memory *m) {
    return m->asleep != NULL;
}

/* False: it can't or need not be, and is awake. */
bool http2_memory_sleep(struct http2_memory *m);
/* Nothing to do where it is awake. */
void http2_memory_wake(struct http2_memory *m);

#endif
