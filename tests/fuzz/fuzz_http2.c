/*
 * Fuzz harness for HTTP/2's lists of fields: "name value" lines, as they come out of the compression, in any bytes. What
 * becomes the head of a request or an answer has a line for each field and no more, both parsers of HTTP/1 read it
 * alike, and its fields are the list's.
 */
#include <stdlib.h>

#include "proxy/codec/http1_body.h"
#include "proxy/codec/http2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static size_t lines(struct slice head) {
    size_t n = 0;
    for (size_t i = 0; i < head.n; i++)
        n += head.p[i] == '\n';
    return n;
}

/* The end of the head is its own end, and nothing in it looks like another. */
static void check_head(struct slice head, bool response) {
    struct http1_scan scan;
    struct slice found = SLICE_NONE;
    http1_scan_init(&scan, response);
    must(http1_scan(&scan, head, &found) == 0 && found.p == head.p && found.n == head.n);
}

static void check_request(const struct http2_list *list, bool ended) {
    static struct http1_request req;
    struct http2_request about;
    struct buf out;
    buf_init(&out, HTTP1_HEAD_MAX);
    enum http_refusal why = http2_request_head(list, ended, "dGhlIHNhbXBsZSBub25jZQ==", &out, &about);
    must(!about.method.n || http_is_token(about.method));
    if (why == HTTP_REFUSED_NOT) {
        must(lines(buf_slice(&out)) <= list->fields + 5u);
        check_head(buf_slice(&out), false);
        if (http1_request_parse(&req, buf_slice(&out)) == 0) {
            must(about.websocket ? slice_eq(req.method, SLICE("GET")) : slice_eq(req.method, about.method));
            must(ended || req.framing != HTTP_BODY_NONE || about.websocket ||
                 slice_eq(req.method, SLICE("CONNECT")));
        } else {
            must(req.refusal != HTTP_REFUSED_SECOND_OPINION && req.refusal != HTTP_REFUSED_LINE_END &&
                 req.refusal != HTTP_REFUSED_CONTROL && req.refusal != HTTP_REFUSED_REQUEST_LINE);
        }
    }
    buf_release(&out);
}

/* With a `proof` it answers an extended CONNECT. */
static void check_response(const struct http2_list *list, bool ended, struct slice proof) {
    static struct http1_response resp;
    struct buf out;
    buf_init(&out, HTTP1_HEAD_MAX);
    if (http2_response_head(list, ended, proof, &out) == HTTP_REFUSED_NOT) {
        must(lines(buf_slice(&out)) <= list->fields + 2u + (proof.n ? 3u : 0));
        check_head(buf_slice(&out), true);
        if (http1_response_parse(&resp, buf_slice(&out), SLICE("GET"), proof.n > 0))
            must(resp.refusal != HTTP_REFUSED_SECOND_OPINION && resp.refusal != HTTP_REFUSED_LINE_END);
    }
    buf_release(&out);
}

static void check_trailers(const struct http2_list *list) {
    struct http_field fields[HTTP1_TRAILER_FIELDS];
    size_t n;
    if (http2_trailers(list, fields, HTTP1_TRAILER_FIELDS, &n))
        return;
    must(n == list->fields);
    for (size_t i = 0; i < n; i++)
        must(http_is_token(fields[i].name) && http_is_value(fields[i].value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct http2_list list;
    struct slice rest = slice_make(data, size), line, name, value;
    struct http_field field;
    http2_list_init(&list);
    while (rest.n) {
        slice_cut(rest, '\n', &line, &rest);
        slice_cut(line, ' ', &name, &value);
        must(http2_list_add(&list, name, value, false) == 0);
    }
    size_t at = 0, n = 0;
    while (http2_list_next(&list, &at, &field))
        n++;
    must(list.refusal ? n < list.fields : n == list.fields);
    for (int ended = 0; ended < 2; ended++) {
        check_request(&list, ended);
        check_response(&list, ended, SLICE_NONE);
        check_response(&list, ended, SLICE("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }
    check_trailers(&list);
    http2_list_clear(&list);
    return 0;
}
