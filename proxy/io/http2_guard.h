/*
 * How much a peer of HTTP/2 may ask for that is of no use to it. Each frame is cheap to send and can be made costly to
 * take: pings and settings want an answer, a reset throws work away that was begun, a window opened by one byte makes
 * a frame of one byte, an empty frame keeps everybody busy for nothing. So each kind has a budget, which honest use
 * earns back: time, requests that came to their end, and data in either direction. Who has spent it gets GOAWAY.
 *
 * Pure but for the clock, which is handed in.
 */
#ifndef PROXY_IO_HTTP2_GUARD_H
#define PROXY_IO_HTTP2_GUARD_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#define HTTP2_GUARD_IDLE          2000 /* frames of no use: at first, and at most */
#define HTTP2_GUARD_IDLE_SECOND   500  /* … that a second gives back */
#define HTTP2_GUARD_IDLE_DATA     2    /* … that a piece of data, sent or received, does */
#define HTTP2_GUARD_IDLE_WHOLE    4    /* … that an exchange does which came to its end */
#define HTTP2_GUARD_RESETS        200 /* streams that were begun and given up, by whomever the peer made do it */
#define HTTP2_GUARD_RESETS_SECOND 20
#define HTTP2_GUARD_CONTINUATIONS 7   /* frames of one header block behind its first */
#define HTTP2_GUARD_PIECE         256 /* bytes from which data counts as a piece */
#define HTTP2_EXTENSIONS          10  /* the first type of frame that RFC 9113 does not define */

struct http2_guard {
    unsigned idle, resets;  /* what is left */
    unsigned continuations; /* of the block under way */
    uint64_t second;        /* monotonic ms: when time last gave something back */
};

void http2_guard_init(struct http2_guard *guard, uint64_t now_ms);

/* A frame begins to come. NULL, or what there is too much of, in words, and how much there may be. */
const char *http2_guard_frame(struct http2_guard *guard, const nghttp2_frame_hd *head, uint64_t now_ms);

/* A stream ends in the middle of its exchange, by the peer's own RST_STREAM or by one that it made us send. NULL, or the
 * same. */
const char *http2_guard_broken(struct http2_guard *guard, uint64_t now_ms);

/* A DATA frame of n bytes has come. */
void http2_guard_data(struct http2_guard *guard, size_t n);

/* … or gone; `left` bytes more were there to go with it, if the peer's windows had been open for them. */
void http2_guard_sent(struct http2_guard *guard, size_t n, size_t left);

/* An exchange came to its proper end. */
void http2_guard_whole(struct http2_guard *guard);

#endif
