/*
 * Fuzz harness for the answer to a push, plain and on the side band: any cut says the same, and what is passed on keeps
 * to its bounds.
 */
#include <stdlib.h>

#include "proxy/codec/git_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static void take(void *arg, const struct git_status_ref *ref) {
    struct buf *said = arg;
    must(ref->ref.n > 0 && ref->ref.n <= GIT_REF_MAX && ref->to.n <= GIT_REF_MAX);
    must(ref->reason.n <= GIT_STATUS_TEXT_MAX && (!ref->ok || ref->reason.n == 0));
    must(ref->ok || (ref->to.n == 0 && ref->old_id.n == 0 && ref->new_id.n == 0 && !ref->forced));
    must((ref->old_id.n == 0 || ref->old_id.n == 40 || ref->old_id.n == 64) && ref->new_id.n <= 64);
    buf_printf(said, "%d%d %zu ", ref->ok, ref->forced, ref->ref.n);
    buf_put(said, ref->ref);
    buf_put(said, ref->reason);
    buf_put(said, ref->to);
    buf_put(said, ref->old_id);
    buf_put(said, ref->new_id);
}

static enum git_status_end run(struct slice in, bool side_band, size_t piece, struct buf *said) {
    struct git_status s;
    git_status_init(&s, side_band, take, said);
    for (size_t at = 0; at < in.n; at += piece)
        git_status_feed(&s, slice_sub(in, at, piece));
    enum git_status_end end = s.end;
    must(buf_len(&s.text) <= GIT_STATUS_TEXT_MAX);
    buf_put(said, buf_slice(&s.text));
    git_status_feed(&s, SLICE("0000"));
    must(end == GIT_STATUS_OPEN || s.end == end);
    git_status_release(&s);
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice in = slice_make(data, size);
    for (int side_band = 0; side_band < 2; side_band++) {
        struct buf whole, bytes;
        buf_init(&whole, 64u << 20);
        buf_init(&bytes, 64u << 20);
        must(run(in, side_band, in.n ? in.n : 1, &whole) == run(in, side_band, 1, &bytes));
        must(slice_eq(buf_slice(&whole), buf_slice(&bytes)));
        buf_release(&whole);
        buf_release(&bytes);
    }
    return 0;
}
