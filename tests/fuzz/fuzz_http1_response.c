/*
 * Fuzz harness for the heads of answers. The first byte picks the request's method and the client's version; the
 * rest is the head. What is accepted can be written, for either kind of client, and is accepted again.
 */
#include <stdlib.h>

#include "proxy/codec/http1_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static void check_write(const struct http1_response *resp, bool head, int minor) {
    static struct http1_response again;
    struct http1_write opt = {.client_minor = minor, .client_keep_alive = true};
    struct http1_scan scan;
    struct slice found;
    struct buf out;
    buf_init(&out, 1 << 20);
    must(!http1_write_response(&out, resp, head, &opt));
    http1_scan_init(&scan, true);
    /* near the limits what the writer adds may be too much */
    bool near = resp->nfields + 4 > HTTP_FIELDS_MAX || buf_len(&out) > HTTP1_HEAD_MAX;
    if (!near && resp->status != 101 && buf_len(&out)) {
        must(!http1_scan(&scan, buf_slice(&out), &found) && found.n == buf_len(&out));
        must(!http1_response_parse(&again, found, head ? SLICE("HEAD") : SLICE("GET"), false));
        must(again.status == resp->status && again.framing == opt.framing_out);
        must(again.keep_alive != opt.closing || again.framing == HTTP_BODY_CLOSE);
        must(again.length == resp->length);
    }
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct http1_response resp;
    struct http1_scan scan;
    struct slice head;
    if (size == 0)
        return 0;
    bool is_head = data[0] & 1;
    http1_scan_init(&scan, true);
    if (http1_scan(&scan, slice_make(data + 1, size - 1), &head))
        return 0;
    if (http1_response_parse(&resp, head, is_head ? SLICE("HEAD") : SLICE("GET"), data[0] & 4)) {
        must(resp.refusal != HTTP_REFUSED_NOT);
        /* then one of the two parsers is wrong: look at it. (llhttp takes no tab behind a length.) */
        must(resp.refusal != HTTP_REFUSED_SECOND_OPINION || slice_find(head, '\t') >= 0);
        return 0;
    }
    check_write(&resp, is_head, data[0] >> 1 & 1);
    return 0;
}
