/*
 * Inflating a gzip body in steps and within limits, for reading it: what is passed on is the body as it came.
 */
#ifndef PROXY_CODEC_GUNZIP_H
#define PROXY_CODEC_GUNZIP_H

#include "base/buf.h"

struct gunzip {
    void *stream; /* zlib's */
    size_t limit; /* most bytes that may come out; may be raised on the way */
    size_t produced;
    bool ended; /* the gzip member is complete */
};

/* 0 or ERR_NOMEM. Takes about 40 KiB while it lives. */
int gunzip_init(struct gunzip *g, size_t limit) MUST_CHECK;
void gunzip_release(struct gunzip *g);

/* Inflates from `in` and appends to `out` at most `most` bytes, so that a bomb is met in small steps. *used bytes of
 * `in` are spent; call again while *used < in.n or `most` bytes came. 0; ERR_EOF: the member has ended (there may be
 * output with it); ERR_LIMIT: more than `limit` came out in all; ERR_PARSE: not gzip. */
int gunzip_feed(struct gunzip *g, struct slice in, size_t *used, struct buf *out, size_t most) MUST_CHECK;

#endif
