/*
 * Fuzz harness for what a git server answers exeat: any cut of the answer gives the same pack and the same end, and no
 * more comes out than went in. The first byte chooses: the list of capabilities, a fetch, a list of refs.
 */
#include <stdlib.h>

#include "proxy/codec/git_fetch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static int advert(struct git_advert *a, struct slice in, size_t piece) {
    int r = ERR_INCOMPLETE;
    git_advert_init(a);
    for (size_t at = 0; at < in.n && r == ERR_INCOMPLETE; at += piece)
        r = git_advert_feed(a, slice_sub(in, at, piece));
    must(r == 0 || r == ERR_INCOMPLETE || a->error.text[0]);
    git_advert_release(a);
    return r;
}

static void adverts(struct slice in) {
    struct git_advert a, b;
    must(advert(&a, in, in.n) == advert(&b, in, 1));
    must(a.fetch == b.fetch && a.filter == b.filter && a.id_digits == b.id_digits);
    must(strcmp(a.error.text, b.error.text) == 0);
}

static enum git_fetch_step fetch(struct slice in, size_t piece, struct buf *pack) {
    enum git_fetch_step step = GIT_FETCH_MORE;
    struct git_fetch f;
    git_fetch_init(&f);
    while (in.n && step != GIT_FETCH_DONE && step != GIT_FETCH_BAD) {
        size_t used;
        struct slice data, part = slice_sub(in, 0, piece);
        step = git_fetch_next(&f, part, &used, &data);
        must(used <= part.n && (step != GIT_FETCH_MORE || used == part.n));
        must(step == GIT_FETCH_DATA || data.n == 0);
        in = slice_from(in, used);
        buf_put(pack, data);
    }
    must((step == GIT_FETCH_BAD) == (f.error.text[0] != '\0'));
    git_fetch_release(&f);
    return step;
}

static void fetches(struct slice in) {
    struct buf whole, bytes;
    buf_init(&whole, SIZE_MAX / 2);
    buf_init(&bytes, SIZE_MAX / 2);
    enum git_fetch_step a = fetch(in, in.n, &whole), b = fetch(in, 1, &bytes);
    must((a == GIT_FETCH_DONE) == (b == GIT_FETCH_DONE) && (a == GIT_FETCH_BAD) == (b == GIT_FETCH_BAD));
    must(slice_eq(buf_slice(&whole), buf_slice(&bytes)) && buf_len(&whole) < in.n + 1);
    buf_release(&whole);
    buf_release(&bytes);
}

static enum git_refs_step list(struct slice in, size_t piece, struct buf *out) {
    enum git_refs_step step = GIT_REFS_MORE;
    struct git_refs r;
    git_refs_init(&r, 40);
    while (in.n && step != GIT_REFS_DONE && step != GIT_REFS_BAD) {
        size_t used;
        struct git_listed_ref ref;
        struct slice part = slice_sub(in, 0, piece);
        step = git_refs_next(&r, part, &used, &ref);
        must(used <= part.n && (step != GIT_REFS_MORE || used == part.n));
        must(step == GIT_REFS_REF ? ref.id.n == 40 && ref.name.n : ref.id.n == 0);
        in = slice_from(in, used);
        buf_put(out, ref.id);
        buf_put(out, ref.name);
    }
    must((step == GIT_REFS_BAD) == (r.error.text[0] != '\0'));
    git_refs_release(&r);
    return step;
}

static void lists(struct slice in) {
    struct buf whole, bytes;
    buf_init(&whole, SIZE_MAX / 2);
    buf_init(&bytes, SIZE_MAX / 2);
    enum git_refs_step a = list(in, in.n, &whole), b = list(in, 1, &bytes);
    must((a == GIT_REFS_DONE) == (b == GIT_REFS_DONE) && (a == GIT_REFS_BAD) == (b == GIT_REFS_BAD));
    must(slice_eq(buf_slice(&whole), buf_slice(&bytes)) && buf_len(&whole) < in.n + 1);
    buf_release(&whole);
    buf_release(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    struct slice in = slice_make(data + 1, size - 1);
    switch (data[0] & 3) {
    case 0: adverts(in); break;
    case 1: fetches(in); break;
    default: lists(in); break;
    }
    return 0;
}
