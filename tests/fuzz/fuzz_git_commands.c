/*
 * Fuzz harness for the command section of a push, plain or gzipped: any cut gives the same commands; every command is
 * well-formed; the refusal of whatever was read can be written.
 */
#include <stdlib.h>

#include "proxy/codec/git.h"
#include "proxy/codec/gunzip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static int run(struct git_push *push, struct slice in, size_t piece) {
    int r = ERR_INCOMPLETE;
    git_push_init(push);
    for (size_t at = 0, used; at < in.n && r == ERR_INCOMPLETE; at += used) {
        struct slice part = slice_sub(in, at, piece);
        r = git_push_feed(push, part, &used);
        must(used <= part.n && (r != ERR_INCOMPLETE || used == part.n));
    }
    return r;
}

static struct slice reason(size_t i, void *arg) {
    (void)i;
    return *(struct slice *)arg;
}

static void check(struct git_push *push) {
    bool pack = false;
    for (size_t i = 0; i < push->ncommands; i++) {
        struct git_command c = git_push_command(push, i);
        size_t zeros = strspn(c.old_id.p, "0");
        must(c.old_id.n == (size_t)push->caps.id_digits && c.new_id.n == c.old_id.n);
        must((c.op == GIT_CREATE) == (zeros >= c.old_id.n));
        must(git_ref_valid(c.ref, c.op == GIT_DELETE));
        pack = pack || c.op != GIT_DELETE;
    }
    must(pack == push->pack_follows);
}

static void compare(struct git_push *a, struct git_push *b) {
    must(a->consumed == b->consumed && a->ncommands == b->ncommands && a->noptions == b->noptions);
    for (size_t i = 0; i < a->ncommands; i++) {
        struct git_command x = git_push_command(a, i), y = git_push_command(b, i);
        must(x.op == y.op && slice_eq(x.ref, y.ref) && slice_eq(x.old_id, y.old_id) &&
             slice_eq(x.new_id, y.new_id));
    }
}

static void judge(struct slice in) {
    struct git_push whole, bytes;
    struct buf out;
    int r = run(&whole, in, in.n ? in.n : 1), r2 = run(&bytes, in, 1);
    must(r == r2);
    compare(&whole, &bytes);
    if (r == 0)
        check(&whole);
    else
        must(r == ERR_INCOMPLETE || whole.error.text[0] != 0);
    buf_init(&out, 32u << 20);
    struct slice why = slice_sub(in, 0, 600);
    must(!git_report_refusal(&out, &whole, reason, &why, slice_sub(in, 0, 100000)));
    buf_release(&out);
    git_push_release(&whole);
    git_push_release(&bytes);
}

static void judge_gzip(struct slice in) {
    struct gunzip g;
    struct buf out;
    size_t at = 0, used;
    int r = 0;
    if (gunzip_init(&g, 1 << 16))
        return;
    buf_init(&out, 1 << 17);
    while (r == 0 && at < in.n) {
        r = gunzip_feed(&g, slice_from(in, at), &used, &out, 1000);
        at += used;
    }
    must(buf_len(&out) <= 1 << 16);
    judge(buf_slice(&out));
    buf_release(&out);
    gunzip_release(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice in = slice_make(data, size);
    if (slice_starts(in, SLICE("\x1f\x8b")))
        judge_gzip(in);
    else
        judge(in);
    return 0;
}
