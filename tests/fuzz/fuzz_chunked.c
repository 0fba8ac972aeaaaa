/*
 * Fuzz harness for the chunked decoder: whole, byte by byte and in odd pieces it yields the same content and ends at
 * the same byte. llhttp reads along: of a body that we take it reads the same content to the same end, or refuses it
 * on the way (version 8.1 knows neither a second extension nor an escaped quote). It never goes on where we end.
 */
#include <llhttp.h>
#include <stdlib.h>

#include "proxy/codec/http1_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

struct outcome {
    enum http1_step last;
    enum http_refusal refusal;
    size_t used;
    struct buf content;
};

static struct outcome run(struct slice in, size_t piece) {
    struct outcome o = {.last = HTTP1_STEP_MORE};
    struct http_field fields[HTTP1_TRAILER_FIELDS];
    struct http1_body body;
    http1_body_init(&body, HTTP_BODY_CHUNKED, 0);
    buf_init(&o.content, SIZE_MAX / 2);
    while (o.last == HTTP1_STEP_DATA || (o.last == HTTP1_STEP_MORE && o.used < in.n)) {
        struct slice data;
        size_t used;
        o.last = http1_body_next(&body, slice_sub(in, o.used, piece), &used, &data);
        must(o.last != HTTP1_STEP_DATA || data.n > 0);
        buf_put(&o.content, data);
        o.used += used;
    }
    o.refusal = body.refusal;
    must(body.received == buf_len(&o.content));
    must((http1_body_eof(&body) == 0) == (o.last == HTTP1_STEP_DONE));
    size_t n = http1_body_trailers(&body, fields, HTTP1_TRAILER_FIELDS);
    for (size_t i = 0; i < n; i++)
        must(http_is_token(fields[i].name) && http_is_value(fields[i].value));
    http1_body_release(&body);
    return o;
}

static int on_body(llhttp_t *parser, const char *at, size_t n) {
    struct buf *content = parser->data;
    return buf_put(content, slice_make(at, n)) ? -1 : 0;
}

static int on_done(llhttp_t *parser) {
    (void)parser;
    return HPE_PAUSED;
}

static void compare(const struct outcome *ours, struct slice in) {
    static const llhttp_settings_t settings = {.on_body = on_body, .on_message_complete = on_done};
    struct slice head = SLICE("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    struct buf content;
    llhttp_t parser;
    buf_init(&content, SIZE_MAX / 2);
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    parser.data = &content;
    must(llhttp_execute(&parser, head.p, head.n) == HPE_OK);
    llhttp_errno_t r = llhttp_execute(&parser, in.p, ours->used);
    must(r == HPE_PAUSED ? slice_eq(buf_slice(&content), buf_slice(&ours->content))
                         : r != HPE_OK && slice_starts(buf_slice(&ours->content), buf_slice(&content)));
    buf_release(&content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t pieces[] = {1, 2, 7};
    struct slice in = slice_make(data, size);
    struct outcome whole = run(in, size ? size : 1);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct outcome o = run(in, pieces[i]);
        must(o.last == whole.last && o.refusal == whole.refusal && o.used == whole.used);
        must(slice_eq(buf_slice(&o.content), buf_slice(&whole.content)));
        buf_release(&o.content);
    }
    if (whole.last == HTTP1_STEP_DONE)
        compare(&whole, in);
    buf_release(&whole.content);
    return 0;
}
