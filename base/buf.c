#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/block.h"

#define BUF_FIRST 256

void buf_init(struct buf *b, size_t limit) {
    *b = (struct buf){.limit = limit};
}

void buf_release(struct buf *b) {
    block_give(b->data);
    *b = (struct buf){.limit = b->limit};
}

void buf_clear(struct buf *b) {
    b->start = b->end = 0;
    b->failed = false;
}

/* Moves the contents to the front or into a larger block, so that `need` bytes fit behind them. */
static int buf_grow(struct buf *b, size_t need) {
    size_t len = buf_len(b);
    if (b->cap - len >= need && b->start >= b->cap / 2) {
        memmove(b->data, b->data + b->start, len);
        b->start = 0;
        b->end = len;
        return 0;
    }
    size_t cap = b->cap ? b->cap : BUF_FIRST;
    while (cap < len + need) {
        if (cap > SIZE_MAX / 2)
            return ERR_LIMIT;
        cap *= 2;
    }
    char *data = block_take(cap);
    if (!data)
        return ERR_NOMEM;
    if (len)
        memcpy(data, b->data + b->start, len);
    block_give(b->data);
    b->data = data;
    b->cap = cap;
    b->start = 0;
    b->end = len;
    return 0;
}

int buf_make_room(struct buf *b, size_t n, char **room) {
    size_t len = buf_len(b);
    if (len > b->limit || n > b->limit - len) {
        b->failed = true;
        return ERR_LIMIT;
    }
    if (len == 0)
        b->start = b->end = 0;
    if (b->cap - b->end < n || !b->data) {
        int r = buf_grow(b, n ? n : 1);
        if (r) {
            b->failed = true;
            return r;
        }
    }
    *room = b->data + b->end;
    return 0;
}

void buf_consume(struct buf *b, size_t n) {
    b->start += n;
    if (b->start >= b->end)
        b->start = b->end = 0;
}

int buf_put(struct buf *b, struct slice s) {
    char *room;
    int r = buf_reserve(b, s.n, &room);
    if (r)
        return r;
    if (s.n)
        memcpy(room, s.p, s.n);
    buf_commit(b, s.n);
    return 0;
}

int buf_puts(struct buf *b, const char *s) {
    return buf_put(b, slice_str(s));
}

int buf_printf(struct buf *b, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
        return ERR_INTERNAL;
    }
    char *room;
    int r = buf_reserve(b, (size_t)n, &room);
    if (r)
        return r;
    /* vsnprintf writes a NUL of its own, which counts against no limit */
    if (b->cap - b->end < (size_t)n + 1) {
        r = buf_grow(b, (size_t)n + 1);
        if (r) {
            b->failed = true;
            return r;
        }
        room = b->data + b->end;
    }
    va_start(ap, format);
    vsnprintf(room, (size_t)n + 1, format, ap);
    va_end(ap);
    buf_commit(b, (size_t)n);
    return 0;
}

const char *buf_cstr(struct buf *b) {
    if (b->cap - b->end < 1 || !b->data) {
        if (buf_grow(b, 1)) {
            b->failed = true;
            return NULL;
        }
    }
    b->data[b->end] = 0;
    return b->data + b->start;
}

void buf_trim(struct buf *b) {
    if (buf_len(b) == 0) {
        block_give(b->data);
        b->data = NULL;
        b->start = b->end = b->cap = 0;
    }
}
