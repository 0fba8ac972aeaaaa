/*
 * HTTP/1.1 heads: where one ends, whether it follows RFC 9112 to the byte, and what it says.
 *
 * A head is read in three steps. http1_scan() finds its end while bytes arrive (in linear time, also one byte at a
 * time) and refuses early what can never become one. http1_request_parse() / http1_response_parse() then check the
 * whole head against the grammar and fill a struct with slices into it. Last, inside the parse, llhttp reads the same
 * bytes, with every lenient flag off, and must come to the same result: a head that two parsers read differently is
 * refused. Its word alone never counts, since versions in use accept bare CR and LF, folding and HTTP/0.9.
 *
 * Everything here is a pure function over slices: no socket, no clock, no allocation. The struct's slices are good as
 * long as the bytes of the head are. Bodies are in http1_body.h, writing in http1_write.h.
 */
#ifndef PROXY_CODEC_HTTP1_H
#define PROXY_CODEC_HTTP1_H

#include "base/err.h"
#include "proxy/codec/http.h"

#define HTTP1_HEAD_MAX   65536 /* start line and all fields with the empty line */
#define HTTP1_TARGET_MAX 16384
#define HTTP1_METHOD_MAX 32

/* ---- finding the end of a head ---- */

struct http1_scan {
    size_t pos;                /* bytes looked at */
    size_t line;               /* where the current line began */
    size_t skip;               /* bytes of empty lines before the head */
    bool response;             /* an answer: no empty line may come before it */
    bool after_cr;             /* the last byte was a CR */
    enum http_refusal refusal; /* set when http1_scan fails */
};

void http1_scan_init(struct http1_scan *scan, bool response);

/* `data` is everything received since the head's first byte, the same bytes again and more in each call.
 * 0: *head is the head with its final empty line (one empty line before a request is skipped, RFC 9112 2.2); what
 *    follows begins at head->p + head->n.
 * ERR_INCOMPLETE: more bytes are needed. ERR_LIMIT, ERR_PARSE: never a head; scan->refusal says why. */
int http1_scan(struct http1_scan *scan, struct slice data, struct slice *head) MUST_CHECK;

/* ---- requests ---- */

enum http1_form {
    HTTP1_FORM_ORIGIN,    /* /path?query */
    HTTP1_FORM_ABSOLUTE,  /* http://authority/path?query */
    HTTP1_FORM_AUTHORITY, /* host:port, of CONNECT */
    HTTP1_FORM_ASTERISK,  /* *, of OPTIONS */
};

/* A host and port as they stand in a target or Host field. */
struct http1_authority {
    struct slice host; /* as received; an IPv6 address without its brackets */
    int port;          /* 1 to 65535, or 0 where none is given */
    bool ipv6;         /* it stood in brackets */
};

struct http1_request {
    /* why parsing failed; the rest is then undefined but for `method` and `minor`, which are set if they could be
     * read and empty or 1 otherwise */
    enum http_refusal refusal;
    struct slice method;
    struct slice target; /* as received */
    int minor;           /* 0 or 1: HTTP/1.0 or HTTP/1.1 */
    enum http1_form form;
    struct slice scheme;              /* absolute form: "http" or "https" in any case; otherwise empty */
    struct http1_authority authority; /* absolute and authority form; they agree with Host, if there is one */
    struct slice origin;              /* path and query in the bytes received, what goes upstream; "*" for the
                                         asterisk form; "/" for an absolute form without path; empty for CONNECT */
    struct slice host_field;          /* the value of Host; empty only if there was none (HTTP/1.0) */
    struct http1_authority host;      /* Host taken apart; host.host is empty if there was none */

    enum http_framing framing; /* NONE, LENGTH or CHUNKED */
    uint64_t length;           /* of HTTP_BODY_LENGTH; may be 0 */
    bool keep_alive;           /* the client is willing to go on after this request */
    bool expect_continue;      /* Expect: 100-continue in an HTTP/1.1 request (in 1.0 it is ignored) */
    bool te_trailers;          /* TE: trailers, with Connection naming it or not */
    struct slice upgrade;      /* value of Upgrade if Connection names it; empty otherwise */
    bool never;                /* as of a field (http.h): the target, or another word of the first line */

    size_t nfields;
    struct http_field fields[HTTP_FIELDS_MAX];
};

/* Parses one complete head as http1_scan delimits it. 0, or ERR_PARSE, ERR_AMBIGUOUS or ERR_LIMIT with
 * req->refusal set. The struct is big (6 KiB): keep it no longer than the exchange. */
int http1_request_parse(struct http1_request *req, struct slice head) MUST_CHECK;

/* ---- answers ---- */

struct http1_response {
    enum http_refusal refusal; /* why parsing failed: the upstream is broken, answer 502 */
    int minor;
    int status;          /* 100 to 599 (up to 999 is accepted) */
    struct slice reason; /* may be empty */

    enum http_framing framing; /* given the request's method; NONE for HEAD, 1xx, 204 and 304 */
    uint64_t length;           /* of HTTP_BODY_LENGTH */
    bool keep_alive;           /* the connection may carry another request after this answer */
    bool interim;              /* 1xx other than 101: another head follows */
    struct slice upgrade;      /* of 101: value of Upgrade */
    bool never;                /* as of a field (http.h): the status */

    size_t nfields;
    struct http_field fields[HTTP_FIELDS_MAX];
};

/* The same for an answer to a request of `method`. A 101 is refused unless `upgrade_asked`. Repeated, equal
 * Content-Length values are refused as well. */
int http1_response_parse(struct http1_response *resp, struct slice head, struct slice method,
                         bool upgrade_asked) MUST_CHECK;

/* ---- authorities ---- */

/* host[:port]: a name of letters, digits, '-', '_' and '.', an IPv4 address (which looks the same) or an IPv6
 * address in brackets. No userinfo, no empty port, no percent-encoding, nothing beyond ASCII. On failure *out is
 * unchanged and one of HTTP_REFUSED_USERINFO or HTTP_REFUSED_AUTHORITY is returned; HTTP_REFUSED_NOT is success. */
enum http_refusal http1_authority_parse(struct slice text, struct http1_authority *out);

/* Are two the same, case and one final dot aside, `port` standing for a missing port? */
bool http1_authority_eq(const struct http1_authority *a, const struct http1_authority *b, int port);

#endif
