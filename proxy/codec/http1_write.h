/*
 * Writing heads: from a parsed message, what was judged and nothing else.
 *
 * Start line, Host, framing and connection fields are made anew. Every other field is copied in the bytes and order
 * received, except: hop-by-hop ones, those on the caller's drop list (names alike, http_name_alike), and in answers
 * Alt-Svc. Fields to add come last. Every name and value is checked once more before it is written, the added ones
 * too: a control character makes the whole write fail and leaves `out` as it was. Room is taken for the longest
 * possible result (512 bytes beside names and values), so a full `out` may be told a little early.
 */
#ifndef PROXY_CODEC_HTTP1_WRITE_H
#define PROXY_CODEC_HTTP1_WRITE_H

#include "base/buf.h"
#include "proxy/codec/http1.h"

struct http1_write {
    const struct slice *drop; /* names not to be copied */
    size_t ndrop;
    const struct http_field *add; /* name and value; appended as they are, `hop` and `id` are not looked at */
    size_t nadd;
    bool close;           /* say Connection: close */
    struct slice upgrade; /* ask for this protocol, or in a 101 switch to it: Upgrade and Connection say so */

    /* requests only */
    struct slice host;   /* for the new Host field; empty: the one received */
    bool drop_expect;    /* the caller has answered 100 itself, or will not */
    bool absolute;       /* to an upstream proxy, plain HTTP: target is "http://" host + origin */
    bool retarget;       /* use `target` instead of the request's origin form */
    struct slice target; /* path and query */

    /* answers only */
    int client_minor; /* 0: the client speaks HTTP/1.0, so no chunked coding and no implied keep-alive */
    /* HTTP/1.0: the client asked to keep the connection; answered if the length is known */
    bool client_keep_alive;

    /* set by the writer, answers only: how the body is framed towards the client. CLOSE where CHUNKED was, for an
     * HTTP/1.0 client: then the connection must end after it. */
    enum http_framing framing_out;
    bool closing; /* set by the writer: "Connection: close" was said, or the framing needs it */
};

/* Always HTTP/1.1. The body goes on with the framing of the request (chunked stays chunked, a length stays a
 * length). 0, ERR_PARSE for a name, value or host that can't be written, ERR_LIMIT or ERR_NOMEM from `out`. */
int http1_write_request(struct buf *out, const struct http1_request *req, struct http1_write *opt) MUST_CHECK;

/* Also for 1xx, of which a client that speaks HTTP/1.0 gets none: then nothing is written. An answer to HEAD keeps its
 * Content-Length and Transfer-Encoding as received; 204 and 1xx lose both. `head` says that the request was HEAD. A
 * close-delimited body becomes chunked for an HTTP/1.1 client. */
int http1_write_response(struct buf *out, const struct http1_response *resp, bool head,
                         struct http1_write *opt) MUST_CHECK;

/* An answer of exeat's own: status line, Content-Type, Content-Length, Date is left to the caller's `add`, and
 * Connection: close where asked. The body follows by the caller (not for HEAD). */
int http1_write_own(struct buf *out, int status, struct slice content_type, uint64_t length,
                    const struct http_field *add, size_t nadd, bool close) MUST_CHECK;

/* The usual phrase for a status; "" for an unknown one. */
const char *http1_reason(int status);

#endif
