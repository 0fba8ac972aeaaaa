#include "proxy/codec/gunzip.h"

#include <stdlib.h>
#include <zlib.h>

/* zlib's word for "gzip header and trailer, nothing else". */
#define GZIP_ONLY (16 + MAX_WBITS)
#define STEP      4096

int gunzip_init(struct gunzip *g, size_t limit) {
    *g = (struct gunzip){.limit = limit};
    z_stream *z = calloc(1, sizeof(*z));
    if (!z)
        return ERR_NOMEM;
    if (inflateInit2(z, GZIP_ONLY) != Z_OK) {
        free(z);
        return ERR_NOMEM;
    }
    g->stream = z;
    return 0;
}

void gunzip_release(struct gunzip *g) {
    if (g->stream) {
        inflateEnd(g->stream);
        free(g->stream);
    }
    g->stream = NULL;
}

/* One call of inflate: at most `room` bytes, one more than allowed, so that passing the limit is noticed. */
static int gunzip_step(struct gunzip *g, struct slice in, size_t *used, struct buf *out, size_t room,
                       size_t *made) {
    z_stream *z = g->stream;
    char *to;
    int r = buf_reserve(out, room, &to);
    if (r)
        return r;
    z->next_in = (z_const Bytef *)(uintptr_t)(in.p + *used);
    z->avail_in = in.n - *used > UINT32_MAX ? UINT32_MAX : (uInt)(in.n - *used);
    uInt given = z->avail_in;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)room;
    int zr = inflate(z, Z_NO_FLUSH);
    *used += given - z->avail_in;
    *made = room - z->avail_out;
    if (zr == Z_MEM_ERROR)
        return ERR_NOMEM;
    if (zr != Z_OK && zr != Z_STREAM_END && zr != Z_BUF_ERROR)
        return ERR_PARSE;
    g->produced += *made;
    if (g->produced > g->limit)
        return ERR_LIMIT;
    buf_commit(out, *made);
    g->ended = zr == Z_STREAM_END;
    return g->ended ? ERR_EOF : 0;
}

int gunzip_feed(struct gunzip *g, struct slice in, size_t *used, struct buf *out, size_t most) {
    *used = 0;
    if (!g->stream)
        return ERR_USAGE;
    if (g->ended)
        return ERR_EOF;
    while (most) {
        size_t room = most < STEP ? most : STEP, made = 0;
        int r = gunzip_step(g, in, used, out, room, &made);
        if (r)
            return r;
        most -= made;
        /* output that did not fill its room: inflate wants more input, and took all there was */
        if (made != room)
            break;
    }
    return 0;
}
