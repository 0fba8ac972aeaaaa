/*
 * A growable buffer with a hard limit, read from the front, written at the back.
 *
 * Life cycle: buf_init - use - buf_release (after which it may be initialised again). buf_clear keeps the memory.
 * A failed write leaves the contents as they were and is remembered in `failed`, so that a row of writes can be
 * checked once at its end. The buffer is not wiped: secrets belong into `struct secret`.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/err.h"
#include "base/slice.h"

struct buf {
    char *data;
    size_t start; /* first byte not yet consumed */
    size_t end;   /* one past the last byte */
    size_t cap;   /* bytes allocated at `data` */
    size_t limit; /* `end - start` never passes this */
    bool failed;  /* a write did not fit or memory was short */
};

void buf_init(struct buf *b, size_t limit);
void buf_release(struct buf *b);

/* Empties the buffer and takes `failed` back; keeps the memory for the next use. */
void buf_clear(struct buf *b);

static inline size_t buf_len(const struct buf *b) {
    return b->end - b->start;
}

static inline struct slice buf_slice(const struct buf *b) {
    return (struct slice){b->data ? b->data + b->start : NULL, b->end - b->start};
}

/* Makes room for `n` more bytes at the back. *room points at them; buf_commit says how many were written.
 * Returns 0, ERR_LIMIT or ERR_NOMEM. Invalidates slices taken before. */
static inline int buf_reserve(struct buf *b, size_t n, char **room) MUST_CHECK;
static inline void buf_commit(struct buf *b, size_t n) {
    b->end += n;
}

/* Takes `n` bytes off the front; n is at most buf_len. */
void buf_consume(struct buf *b, size_t n);

int buf_put(struct buf *b, struct slice s);
int buf_puts(struct buf *b, const char *s);
static inline int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A NUL behind the last byte (not counted), for functions that want a C string; NULL when memory is short. */
const char *buf_cstr(struct buf *b);

/* Gives the allocation back if the buffer is empty; an idle connection keeps none. */
void buf_trim(struct buf *b);

/* What follows is inline since most writes are short and find room. */

/* buf_reserve where the memory has no room yet, or the limit forbids it. */
int buf_make_room(struct buf *b, size_t n, char **room) MUST_CHECK;

static inline int buf_reserve(struct buf *b, size_t n, char **room) {
    if (n >= b->cap - b->end || buf_len(b) + n > b->limit)
        return buf_make_room(b, n, room);
    *room = b->data + b->end;
    return 0;
}

static inline int buf_putc(struct buf *b, char c) {
    char *room;
    int r = buf_reserve(b, 1, &room);
    if (r)
        return r;
    *room = c;
    buf_commit(b, 1);
    return 0;
}

#endif
