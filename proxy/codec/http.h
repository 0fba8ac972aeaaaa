/*
 * What HTTP/1 and HTTP/2 share: fields, the names that mean something to us, and what may stand in them.
 *
 * A message's fields are an array of name/value slices into the bytes of the head, in the order received. No field is
 * copied. Each carries the id of its name, so that nobody compares names twice. Fields with `hop` set belong to the
 * connection and not to the message: they are never forwarded, and http_find() does not see them, so that no rule
 * judges what will not be served.
 *
 * Names are compared without regard to case, and with '_' taken for '-': CGI and WSGI servers can't tell the two
 * apart. Where that would change what is served (content_length), the parser refuses (HTTP_REFUSED_NAME_ALIKE).
 */
#ifndef PROXY_CODEC_HTTP_H
#define PROXY_CODEC_HTTP_H

#include "base/slice.h"

/* Fields of one head. A message with more is refused. */
#define HTTP_FIELDS_MAX 128

/* The names that exeat acts on; all the rest is HTTP_F_OTHER and passes through. The table is in http.c. */
enum http_field_id {
    HTTP_F_OTHER = 0,
    /* framing and the connection */
    HTTP_F_CONNECTION,
    HTTP_F_CONTENT_LENGTH,
    HTTP_F_EXPECT,
    HTTP_F_HOST,
    HTTP_F_HTTP2_SETTINGS,
    HTTP_F_KEEP_ALIVE,
    HTTP_F_PROXY_AUTHENTICATE,
    HTTP_F_PROXY_AUTHENTICATION_INFO,
    HTTP_F_PROXY_AUTHORIZATION,
    HTTP_F_PROXY_CONNECTION,
    HTTP_F_TE,
    HTTP_F_TRAILER,
    HTTP_F_TRANSFER_ENCODING,
    HTTP_F_UPGRADE,
    /* credentials */
    HTTP_F_AUTHORIZATION,
    HTTP_F_COOKIE,
    HTTP_F_SET_COOKIE,
    HTTP_F_WWW_AUTHENTICATE,
    HTTP_F_API_KEY, /* X-Api-Key, Api-Key, X-Goog-Api-Key, Private-Token, Job-Token, X-Auth-Token ... */
    /* what a server may take for another method, path or host than the ones judged */
    HTTP_F_METHOD_OVERRIDE, /* X-HTTP-Method-Override, X-HTTP-Method, X-Method-Override: refused */
    HTTP_F_TARGET_OVERRIDE, /* X-Original-URL, X-Rewrite-URL: refused */
    HTTP_F_ROUTE_HINT,      /* Forwarded, X-Forwarded-Host, X-Host ...: taken off, like a hop-by-hop field */
    /* the message */
    HTTP_F_ACCEPT,
    HTTP_F_ALT_SVC,
    HTTP_F_AGE,
    HTTP_F_CACHE_CONTROL,
    HTTP_F_CONTENT_ENCODING,
    HTTP_F_CONTENT_LOCATION,
    HTTP_F_CONTENT_RANGE,
    HTTP_F_CONTENT_TYPE,
    HTTP_F_DATE,
    HTTP_F_EXPIRES,
    HTTP_F_GIT_PROTOCOL,
    HTTP_F_IF_MATCH, /* this and the other If-… */
    HTTP_F_LOCATION,
    HTTP_F_MAX_FORWARDS,
    HTTP_F_PRAGMA,
    HTTP_F_RANGE,
    HTTP_F_USER_AGENT,
    HTTP_F_VARY,
    HTTP_F_COUNT
};

struct http_field {
    struct slice name;  /* as received */
    struct slice value; /* without the spaces and tabs around it; may be empty */
    enum http_field_id id;
    bool hop;   /* of this connection only: in the fixed list, or named by Connection */
    bool never; /* HTTP/2: it came as one never to be indexed, and is passed on as such (RFC 7541 6.2.3) */
};

/* How the end of a body is found. */
enum http_framing {
    HTTP_BODY_NONE,    /* there is none */
    HTTP_BODY_LENGTH,  /* Content-Length */
    HTTP_BODY_CHUNKED, /* Transfer-Encoding: chunked */
    HTTP_BODY_CLOSE,   /* answers only: it ends with the connection */
};

/* How much content is still to come where HTTP/2 frames it, and what its head told is held against the frames (RFC 9113 8.1.1). */
struct http_length {
    bool told; /* all zeros: it was not, so that whatever comes is right */
    uint64_t left;
};

static inline struct http_length http_length(enum http_framing framing, uint64_t length) {
    return (struct http_length){framing == HTTP_BODY_NONE || framing == HTTP_BODY_LENGTH,
                                framing == HTTP_BODY_LENGTH ? length : 0};
}

/* n bytes of content have come. False: more than the head told. */
static inline bool http_length_take(struct http_length *l, size_t n) {
    if (l->told && n > l->left)
        return false;
    l->left -= l->told ? n : 0;
    return true;
}

/* … and there are no more: were there fewer than the head told? */
static inline bool http_length_short(const struct http_length *l) {
    return l->told && l->left;
}

/* Why a message is refused. One text each (http_refusal_text), fit for an answer and for the log; none quotes bytes
 * of the message. */
enum http_refusal {
    HTTP_REFUSED_NOT = 0,
    HTTP_REFUSED_LINE_END,     /* a bare CR or LF */
    HTTP_REFUSED_CONTROL,      /* NUL or another control character */
    HTTP_REFUSED_TOO_LONG,     /* the head as a whole */
    HTTP_REFUSED_TOO_MANY,     /* fields */
    HTTP_REFUSED_REQUEST_LINE, /* not METHOD SP target SP version */
    HTTP_REFUSED_STATUS_LINE,  /* answers: not version SP status [SP reason] */
    HTTP_REFUSED_METHOD,       /* no method, too long, or lower-case letters */
    HTTP_REFUSED_VERSION,      /* neither HTTP/1.0 nor HTTP/1.1 */
    HTTP_REFUSED_TARGET,       /* in none of the four forms, or the wrong one for the method */
    HTTP_REFUSED_TARGET_LONG,
    HTTP_REFUSED_FRAGMENT,   /* '#' in the target */
    HTTP_REFUSED_USERINFO,   /* '@' in the authority */
    HTTP_REFUSED_AUTHORITY,  /* a malformed host or port in the target */
    HTTP_REFUSED_SCHEME,     /* absolute form with another scheme than http or https */
    HTTP_REFUSED_NAME,       /* not a token */
    HTTP_REFUSED_NAME_SPACE, /* a space before the colon */
    HTTP_REFUSED_NAME_ALIKE, /* content_length for content-length */
    HTTP_REFUSED_FOLD,       /* a line that begins with a space */
    HTTP_REFUSED_HOST_MISSING,
    HTTP_REFUSED_HOST_REPEATED,
    HTTP_REFUSED_HOST_BAD,
    HTTP_REFUSED_HOST_DIFFERS, /* target and Host name different authorities */
    HTTP_REFUSED_LENGTH_BAD,
    HTTP_REFUSED_LENGTH_REPEATED,
    HTTP_REFUSED_LENGTH_AND_CODING, /* Content-Length beside Transfer-Encoding */
    HTTP_REFUSED_CODING,            /* a Transfer-Encoding other than exactly "chunked", once */
    HTTP_REFUSED_CODING_1_0,        /* Transfer-Encoding in HTTP/1.0 */
    HTTP_REFUSED_CONNECTION,        /* Connection names a field that must not be taken off, or is malformed */
    HTTP_REFUSED_EXPECT,            /* an expectation other than 100-continue */
    HTTP_REFUSED_METHOD_OVERRIDE,
    HTTP_REFUSED_TARGET_OVERRIDE,
    HTTP_REFUSED_BODY,            /* a body where none may be (CONNECT, TRACE) */
    HTTP_REFUSED_REPEATED,        /* a field that may come once only came twice with different values */
    HTTP_REFUSED_SECOND_OPINION,  /* llhttp reads the head otherwise than we do */
    HTTP_REFUSED_CHUNK,           /* chunked coding malformed */
    HTTP_REFUSED_CHUNK_EXTENSION, /* chunk extension malformed or over-long */
    HTTP_REFUSED_TRAILER,         /* trailer section malformed or over-long */
    HTTP_REFUSED_UPGRADED,        /* answers: 101 though nothing was asked to be upgraded */
    HTTP_REFUSED_UPGRADE_MISSING, /* answers: 101 without Upgrade */
    HTTP_REFUSED_SWITCHED,        /* HTTP/2, answers: 101, which it does not have */
    HTTP_REFUSED_PSEUDO,         /* HTTP/2: a pseudo-header field is missing, repeated, unknown or too late */
    HTTP_REFUSED_NAME_CASE,      /* HTTP/2: upper case in a name */
    HTTP_REFUSED_VALUE_SPACE,    /* HTTP/2: a space or tab at an end of a value */
    HTTP_REFUSED_HOP_FIELD,      /* HTTP/2: a field of an HTTP/1 connection */
    HTTP_REFUSED_PROTOCOL,       /* HTTP/2: an extended CONNECT for something else than a WebSocket */
    HTTP_REFUSED_LENGTH_DIFFERS, /* HTTP/2: Content-Length and the body's length differ */
    HTTP_REFUSED_COUNT
};

/* "Content-Length beside Transfer-Encoding". Never NULL. */
const char *http_refusal_text(enum http_refusal refusal);

/* A short stable word for the log's `reason` ("length-and-coding"). Never NULL. */
const char *http_refusal_code(enum http_refusal refusal);

/* The status to answer a refused request with: 400, or 414, 417, 431, 501, 505. Always close the connection after. */
int http_refusal_status(enum http_refusal refusal);

/* The id of a name, '_' taken for '-'; *alike (may be NULL) says whether that was needed. */
enum http_field_id http_field_lookup(struct slice name, bool *alike);

/* Is a field of this name for one connection alone (RFC 9110, 7.6.1), or one that is treated so? */
bool http_is_hop(enum http_field_id id);

/* Do two names mean the same field, case and '_'/'-' aside? */
bool http_name_alike(struct slice a, struct slice b);

/* token of RFC 9110: at least one tchar and nothing else. */
bool http_is_token(struct slice s);

/* A value that can be written: no control characters but tab (so neither CR, LF nor NUL). */
bool http_is_value(struct slice s);

/* May this field travel in a trailer section? False for framing, routing, credentials, and whatever a recipient must
 * know before the body: those are dropped from trailers. */
bool http_trailer_allowed(const struct http_field *field);

/* Is a body with these fields in a content coding other than "identity"? */
bool http_encoded(const struct http_field *fields, size_t n);

/* First field of that id (or name) which is not hop-by-hop; NULL if there is none. `count` may be NULL. */
const struct http_field *http_find(const struct http_field *fields, size_t n, enum http_field_id id,
                                   size_t *count);
const struct http_field *http_find_name(const struct http_field *fields, size_t n, struct slice name,
                                        size_t *count);

/* Walks a comma-separated list: takes the next element off *list into *element, trimmed; false at the end. Empty
 * elements are skipped, as RFC 9110 5.6.1.2 wants. Quoted strings are not understood: use it for token lists. */
bool http_list_next(struct slice *list, struct slice *element);

#endif
