/*
 * Between the files of the HTTP/1 parser; nobody else includes this.
 */
#ifndef PROXY_CODEC_HTTP1_INTERNAL_H
#define PROXY_CODEC_HTTP1_INTERNAL_H

#include "base/err.h"
#include "proxy/codec/http1.h"

/* A field section as it was read, with what framing and connection need to know about it. */
struct http1_section {
    struct http_field *fields;
    size_t n;
    const struct http_field *host, *transfer_encoding, *content_length, *upgrade;
    uint64_t length; /* of content_length */
    unsigned hosts, codings, lengths;
    unsigned types, encodings; /* Content-Type, Content-Encoding */
    bool close, keep_alive, upgrade_named;
};

/* Takes the next line off *rest, without its CRLF. A bare LF is refused; a bare CR or a NUL stays in the line, for
 * whoever checks its characters. */
enum http_refusal http1_line(struct slice *rest, struct slice *line);

/* One field line into *field. */
enum http_refusal http1_field_line(struct slice line, struct http_field *field);

/* The fields behind the start line, up to and with the empty line, which must be the last bytes of `rest`. Applies
 * what holds for requests and answers alike: the grammar, Connection and the fields it names, one valid length.
 * `strict`: fields that override others, repeat or look alike are refused (requests), not just passed (answers). */
enum http_refusal http1_fields(struct slice rest, struct http1_section *section, bool strict);

/* What llhttp must agree with. */
struct http1_opinion {
    struct slice head, method, target; /* method is empty for an answer */
    int minor, status;
    const struct http_field *fields;
    size_t nfields;
    bool chunked, has_length;
    uint64_t length;
};

/* A Transfer-Encoding is chunked alone, in HTTP/1.1, and without a Content-Length beside it (RFC 9112 6.1). */
enum http_refusal http1_coding(const struct http1_section *s, int minor);

/* Does llhttp, strict, read the head the same way: start line, every field's place and end, framing, no byte left? */
bool http1_second_opinion(const struct http1_opinion *ours);

/* The code that goes with a refusal. */
int http1_refusal_err(enum http_refusal refusal);

#endif
