/*
 * Bodies of HTTP/1.1: a decoder that yields spans of the input without copying, and the chunked encoder.
 *
 * Life cycle: http1_body_init - http1_body_next until DONE or an error - http1_body_release. Only the trailer section
 * is ever stored (HTTP1_TRAILER_MAX at most); without one nothing is allocated.
 *
 * The chunked grammar is taken literally: CRLF only, at most 16 digits of size, extensions well-formed and short.
 * What comes out is framed anew by the writer, so no chunk boundary, extension or surprise passes through.
 */
#ifndef PROXY_CODEC_HTTP1_BODY_H
#define PROXY_CODEC_HTTP1_BODY_H

#include "base/buf.h"
#include "proxy/codec/http.h"

#define HTTP1_TRAILER_MAX         8192
#define HTTP1_TRAILER_FIELDS      32
#define HTTP1_CHUNK_EXTENSION_MAX 256   /* bytes of extensions on one chunk */
#define HTTP1_CHUNK_OVERHEAD_MAX  65536 /* bytes of extensions in a whole body */

enum http1_step {
    HTTP1_STEP_MORE, /* all of `in` is used; more is needed */
    HTTP1_STEP_DATA, /* *data is the next span; call again with the rest */
    HTTP1_STEP_DONE, /* the body has ended; bytes behind *used belong to the next message */
    HTTP1_STEP_BAD,  /* body->refusal says why; close both connections */
};

struct http1_body {
    enum http_framing framing;
    enum http_refusal refusal;
    uint64_t left;     /* of the length or of the current chunk */
    uint64_t received; /* bytes of content so far */
    int state;         /* of the chunked decoder, private */
    unsigned digits;   /* size digits read, private */
    size_t extension;  /* bytes in this chunk's extensions, private */
    size_t overhead;   /* bytes in all extensions, private */
    bool done;
    struct buf trailer; /* raw trailer section with its final CRLF */
};

void http1_body_init(struct http1_body *body, enum http_framing framing, uint64_t length);
void http1_body_release(struct http1_body *body);

/* Takes the next step over `in`. *used bytes of it are spent (including those of *data), *data is a span of content
 * inside `in`, empty unless DATA is returned. Calling again after DONE gives DONE and uses nothing. A body without
 * bytes (NONE, length 0) is DONE at once. */
enum http1_step http1_body_next(struct http1_body *body, struct slice in, size_t *used, struct slice *data);

/* The connection has ended. 0: that was a proper end (close-delimited, or already done); ERR_EOF: truncated. */
int http1_body_eof(struct http1_body *body) MUST_CHECK;

/* After DONE: the trailer fields. Those that may not be in a trailer (http_trailer_allowed) have `hop` set.
 * Slices are into body->trailer. Returns the number of fields, 0 if there is no trailer section. */
size_t http1_body_trailers(const struct http1_body *body, struct http_field *fields, size_t max);

/* ---- encoder ---- */

/* Room for the longest chunk header: 16 digits, CRLF. */
#define HTTP1_CHUNK_HEAD_MAX 18

/* Writes "1F40\r\n" to `out` and returns its length. The content follows, then CRLF. n must not be 0: that would end
 * the body. */
size_t http1_chunk_head(char out[HTTP1_CHUNK_HEAD_MAX], uint64_t n);

/* The last chunk, the trailer fields that are not `hop`, not in `drop` and valid, and the final CRLF.
 * Returns 0 or buf's error. */
int http1_chunk_end(struct buf *out, const struct http_field *trailers, size_t n, const struct slice *drop,
                    size_t ndrop) MUST_CHECK;

#endif
