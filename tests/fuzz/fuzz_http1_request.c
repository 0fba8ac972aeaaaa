/*
 * Fuzz harness for request heads: the same head is found whole and byte by byte; what is accepted can be written, what
 * was written is accepted again, and means the same. Its URL is resolved too, and shown to git's recogniser.
 */
#include <stdlib.h>

#include "proxy/codec/git.h"
#include "proxy/codec/http1_write.h"
#include "proxy/codec/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static int find_head(struct slice in, struct slice *head) {
    struct http1_scan whole, bytes;
    struct slice again = SLICE_NONE;
    http1_scan_init(&whole, false);
    http1_scan_init(&bytes, false);
    *head = SLICE_NONE;
    int r = http1_scan(&whole, in, head), r2 = ERR_INCOMPLETE;
    for (size_t n = 1; n <= in.n && r2 == ERR_INCOMPLETE; n++)
        r2 = http1_scan(&bytes, slice_sub(in, 0, n), &again);
    must(r == r2 && whole.refusal == bytes.refusal && head->n == again.n && head->p == again.p);
    must((whole.refusal != HTTP_REFUSED_NOT) == (r && r != ERR_INCOMPLETE));
    return r;
}

/* No line of what is written holds a bare CR or LF, and none begins with a space. */
static void check_lines(struct slice text) {
    for (size_t i = 0; i < text.n; i++) {
        must(text.p[i] != 0);
        must(text.p[i] != '\n' || (i > 0 && text.p[i - 1] == '\r'));
        must(text.p[i] != '\r' || (i + 1 < text.n && text.p[i + 1] == '\n'));
        must(text.p[i] != '\n' || i + 1 == text.n || (text.p[i + 1] != ' ' && text.p[i + 1] != '\t'));
    }
}

static void check_write(const struct http1_request *req) {
    static struct http1_request again;
    struct http1_write opt = {.host = SLICE("a.test")};
    struct slice head;
    struct buf out;
    buf_init(&out, 1 << 20);
    if (req->form != HTTP1_FORM_AUTHORITY) {
        must(!http1_write_request(&out, req, &opt));
        check_lines(buf_slice(&out));
        /* near the limits what the writer adds may be too much */
        if (req->nfields + 4 <= HTTP_FIELDS_MAX && buf_len(&out) <= HTTP1_HEAD_MAX) {
            must(!find_head(buf_slice(&out), &head) && head.n == buf_len(&out));
            must(!http1_request_parse(&again, head));
            must(slice_eq(req->method, again.method) && slice_eq(req->origin, again.origin));
            must(req->framing == again.framing && req->length == again.length);
        }
    }
    buf_release(&out);
}

static void check_target(const struct http1_request *req) {
    static struct target target;
    struct target_identity id = {.port = 80};
    struct git_request git;
    struct buf path;
    buf_init(&path, 4 * HTTP1_TARGET_MAX);
    for (int tls = 0; tls < 2; tls++) {
        id.tls = tls;
        id.proxied = !tls;
        id.sni = SLICE("a.test");
        id.port = tls ? 443 : 80;
        if (target_resolve(&target, &id, req, &path)) {
            must(target.refusal != TARGET_REFUSED_NOT && target.error.text[0]);
            continue;
        }
        must(target.refusal == TARGET_REFUSED_NOT && target.host.n && target.port);
        must(!tls || slice_eq(url_host_slice(&target.host), SLICE("a.test")));
        git_classify(&git, req->method, target.path, target.query, SLICE(GIT_PUSH_REQUEST));
        must(git.kind != GIT_NOT || slice_eq(req->method, SLICE("GET")) ||
             slice_eq(req->method, SLICE("HEAD")));
    }
    buf_release(&path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct http1_request req;
    struct slice head;
    if (find_head(slice_make(data, size), &head))
        return 0;
    if (http1_request_parse(&req, head)) {
        must(req.refusal != HTTP_REFUSED_NOT);
        /* then one of the two parsers is wrong: look at it. (llhttp takes no tab behind a length.) */
        must(req.refusal != HTTP_REFUSED_SECOND_OPINION || slice_find(head, '\t') >= 0);
        return 0;
    }
    check_write(&req);
    check_target(&req);
    return 0;
}
