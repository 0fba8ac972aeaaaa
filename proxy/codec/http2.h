/*
 * What HTTP/2 (RFC 9113) and HTTP/1 mean the same by: a list of fields with its pseudo-header fields becomes the head
 * of an HTTP/1.1 message, and the other way round. What is judged, recorded and passed on is then one thing, whatever
 * it came by: the head made here goes through http1_request_parse() or http1_response_parse(), with all of their
 * checks, and a request of HTTP/2 may go to a server of HTTP/1 as it stands.
 *
 * Nothing is put right. A list that is malformed by section 8 (names in upper case, pseudo-header fields out of order,
 * repeated or unknown, fields of an HTTP/1 connection, Host beside another :authority, spaces around a value) is
 * refused, as is everything that would end a line of the head early.
 *
 * Frames, HPACK, streams and windows are libnghttp2's; its own judgement of messages is off, since it drops some
 * malformed fields without a word. Pure functions over slices: no socket, no clock.
 */
#ifndef PROXY_CODEC_HTTP2_H
#define PROXY_CODEC_HTTP2_H

#include "base/buf.h"
#include "proxy/codec/http1.h"

/* The size of a list as SETTINGS_MAX_HEADER_LIST_SIZE counts it: names, values, and 32 bytes a field. */
#define HTTP2_LIST_MAX      65536
#define HTTP2_LIST_OVERHEAD 32
/* More fields than a head may have: crumbs of a cookie count one by one until they are put together. */
#define HTTP2_LIST_FIELDS 256

/* ---- a list of fields, as it is decoded ---- */

struct http2_list {
    struct buf bytes;          /* of each field: two lengths, name, value; private */
    size_t size;               /* as above */
    unsigned fields;           /* how many */
    bool regular;              /* a field that is no pseudo-header field has come */
    bool never;                /* one that is never to be indexed has come */
    enum http_refusal refusal; /* the first thing that was wrong; what comes behind is not kept */
};

void http2_list_init(struct http2_list *list);
/* Gives its memory back; it may be filled again then. */
void http2_list_clear(struct http2_list *list);

/* Checks and keeps (copies) the next field; `never` as in http.h. What is wrong shows in list->refusal. 0, or ERR_NOMEM. */
int http2_list_add(struct http2_list *list, struct slice name, struct slice value, bool never) MUST_CHECK;

/* Takes the next field, of which name, value and `never` are filled; *at is 0 before the first. False at the end. */
bool http2_list_next(const struct http2_list *list, size_t *at, struct http_field *field);

/* The head that was made of the list has been parsed, and these are its fields: sets `never` of those that it is true of. Of a
 * cookie in crumbs it is if it is of one of them. Returns whether it is of a pseudo-header field or Host. */
bool http2_list_marks(const struct http2_list *list, struct http_field *fields, size_t n);

/* ---- requests ---- */

#define HTTP2_KEY_LEN 24 /* of a Sec-WebSocket-Key */

struct http2_request {
    struct slice method; /* in the list; empty if it can't be told */
    bool websocket;      /* an extended CONNECT (RFC 8441): the head asks for an upgrade by GET */
};

/* Appends the head that the list means to `out` (limit HTTP1_HEAD_MAX). `ended`: the list ends the stream, no body
 * follows; else a body without a length becomes a chunked one. `key` is what the handshake of a WebSocket uses.
 * Returns HTTP_REFUSED_NOT or why not; then `about->method` may be set all the same. */
enum http_refusal http2_request_head(const struct http2_list *list, bool ended, const char key[HTTP2_KEY_LEN],
                                     struct buf *out, struct http2_request *about);

/* Does this field of a request go to a server that speaks HTTP/2? Those that the sender makes anew do not: Host, TE and
 * Expect. `websocket`: it goes as an extended CONNECT, without a key. */
bool http2_request_keeps(const struct http1_request *req, bool websocket, const struct http_field *field);

/* ---- answers ---- */

/* The same for an answer. `ended` as before; a final answer without a length and with a body becomes chunked. `proof` is
 * empty, or the request was an extended CONNECT for a WebSocket: then an answer that grants it becomes the 101 that
 * HTTP/1.1 would have (RFC 8441 5), with this for the Sec-WebSocket-Accept. */
enum http_refusal http2_response_head(const struct http2_list *list, bool ended, struct slice proof,
                                      struct buf *out);

/* Does this field of an answer go to a client that speaks HTTP/2? `head`: the request was HEAD. */
bool http2_response_keeps(const struct http1_response *resp, bool head, const struct http_field *field);

/* ---- trailers ---- */

/* The fields of a trailer section; those that may not be in one have `hop` set. Slices are into the list. Returns why
 * it is malformed, or HTTP_REFUSED_NOT. */
enum http_refusal http2_trailers(const struct http2_list *list, struct http_field *fields, size_t max,
                                 size_t *n);

#endif
