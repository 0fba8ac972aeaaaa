/*
 * What both sides of HTTP/2 share between libnghttp2 and an io: fields as the library takes them, a message's body on
 * its way out, and the loop that moves frames into the io's queue.
 *
 * A body is not copied into the library: it waits in `http2_out.bytes`, and goes from there behind its frame's head
 * straight into the io's queue. The session's callbacks are those of http2_callbacks().
 */
#ifndef PROXY_IO_HTTP2_IO_H
#define PROXY_IO_HTTP2_IO_H

#include <nghttp2/nghttp2.h>

#include "proxy/codec/http2.h"
#include "proxy/io/io.h"

#define HTTP2_FRAME_HEAD 9           /* bytes of every frame */
#define HTTP2_HIGH       (64u << 10) /* of a body that wait to go: its source is not read on */
#define HTTP2_LOW        (16u << 10) /* … until so few are left */
#define HTTP2_OUT_MAX    (16u << 20) /* a bug's measure: no answer of our own is as long */
#define HTTP2_WINDOW     65535       /* bytes of a body that wait in one stream, where nobody takes them */
#define HTTP2_FRAME      16384       /* of the longest frame */

/* ---- fields ---- */

#define HTTP2_NV_MAX (HTTP_FIELDS_MAX + 16)

struct http2_nvs {
    nghttp2_nv nv[HTTP2_NV_MAX];
    size_t n;
};

/* The session copies both, and writes names in lower case. Fields beyond HTTP2_NV_MAX are dropped: heads that were
 * parsed have fewer. */
void http2_nv_put(struct http2_nvs *nvs, struct slice name, struct slice value);
/* The same for a field of a message, as its sender wished it to be written. */
void http2_nv_field(struct http2_nvs *nvs, const struct http_field *field);
/* … and for a value that is a secret: it is never put into a table of the compression (RFC 7541 7.1.3). */
void http2_nv_secret(struct http2_nvs *nvs, struct slice name, struct slice value);

/* ---- a body on its way out ---- */

struct http2_out {
    nghttp2_session *session;
    struct io *io;
    int32_t id;
    struct buf bytes;
    struct http2_list trailers;
    uint64_t left;         /* of a length that was told: not gone yet; 0: none was */
    bool complete;         /* no more is added */
    bool waiting;          /* the session was told that there is nothing for now */
    bool was_full;         /* the source waits for HTTP2_LOW */
    struct io_share share; /* … of the io's sandbox */
    /* n bytes of it have gone into the io's queue. */
    void (*sent)(struct http2_out *out, size_t n);
};

void http2_out_init(struct http2_out *out, nghttp2_session *session, struct io *io, int32_t id,
                    void (*sent)(struct http2_out *out, size_t n));
void http2_out_release(struct http2_out *out);

/* What nghttp2_submit_… is given as the body. */
nghttp2_data_provider http2_out_provider(struct http2_out *out);

/* It will be so long, and its receiver was told: the last byte waits for the end, so that both go in one frame. That end would need no
 * room in the receiver's window, but the library sends it nothing where there is none (RFC 9113 6.9.1 permits it), and who has all
 * that was told need not open it any more. */
void http2_out_expect(struct http2_out *out, uint64_t length);
/* 0, ERR_LIMIT or ERR_NOMEM. */
int http2_out_put(struct http2_out *out, struct slice bytes);
/* No more comes but these trailers (those with `hop` set are left out). */
void http2_out_end(struct http2_out *out, const struct http_field *trailers, size_t n);
/* Does the source have to wait? Under pressure (io_memory.h) for all of it. Remembered in was_full. */
bool http2_out_full(struct http2_out *out);
/* May a source that had to wait go on? To be asked after sending. */
bool http2_out_drains(const struct http2_out *out);
/* … and it does: true once. */
bool http2_out_drained(struct http2_out *out);

/* ---- the loop ---- */

/* Sends frames until there are none, or the io is full: then `drained` comes. `wipe`: where they lay is wiped behind them.
 * 0; ERR_NOMEM: the session can't go on; or what io_flush() says. */
int http2_send(nghttp2_session *session, struct io *io, bool wipe);

/* What both sides ask of a session: windows are theirs to open, and proxy/codec/http2.h judges messages. NULL: no memory. The
 * caller deletes it. */
nghttp2_option *http2_option(void);

/* The callbacks that are alike on both sides: how bodies go out, and that frames of unknown types are ignored (RFC 9113, 5.5),
 * once the guard has counted them. As before. */
nghttp2_session_callbacks *http2_callbacks(void);

/* What rule was broken, where a GOAWAY of the library's own says so: in its words, or the code's name. Good as long as the frame. */
struct slice http2_broken_rule(const nghttp2_goaway *goaway);

/* The names to offer or to choose from by ALPN (RFC 7301), with "h2" before "http/1.1", or without. */
struct slice http2_alpn(bool http2);
/* Was "h2" chosen? */
bool http2_chosen(const struct io *io);

/* Memory that is wiped when the library gives it back, for sessions that carry secrets. */
nghttp2_mem *http2_wiping_memory(void);

#endif
