/*
 * Fuzz harness for the gate of fetches. The first byte picks the reader: an offer of refs, in pieces and whole, shows
 * the same, shows nothing that is hidden, and what comes out can be read again and comes out the same; a request that is
 * read and written anew asks for the same again, and for nothing that was not named.
 */
#include <stdlib.h>

#include "proxy/codec/git.h"
#include "proxy/codec/git_offer.h"
#include "proxy/codec/git_asked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static bool permits(void *arg, struct slice ref) {
    (void)arg;
    must(git_ref_valid(ref, true));
    return !memmem(ref.p, ref.n, "hid", 3);
}

static void shown(void *arg, struct slice id, struct slice ref) {
    must(git_id_valid(id));
    buf_printf(arg, "%.*s %.*s", SLICE_ARG(id), SLICE_ARG(ref));
}

static void stands(void *arg, struct slice name, struct slice ref) {
    must(!memmem(ref.p, ref.n, "\n", 1) && name.n + ref.n < PKT_PAYLOAD);
    buf_printf(arg, "%.*s=%.*s", SLICE_ARG(name), SLICE_ARG(ref));
}

static int offer(unsigned mode, struct slice in, size_t piece, struct buf *out, struct buf *ids) {
    struct git_offer a;
    struct git_offer_rules rules = {.limited = mode & 2,
                                    .any_object = mode & 4,
                                    .bundle_uri = mode & 8,
                                    .packfile_uris = mode & 16,
                                    .permits = permits,
                                    .shown = shown,
                                    .stands = stands,
                                    .arg = ids};
    int r = 0;
    enum git_offer_kind kind = mode & 1                    ? GIT_OFFER_LS_REFS
                               : (mode & 2) && (mode & 32) ? GIT_OFFER_PUSH
                                                           : GIT_OFFER_DISCOVERY;
    git_offer_init(&a, kind, &rules);
    for (size_t at = 0; at < in.n && r == 0; at += piece)
        r = git_offer_feed(&a, slice_sub(in, at, piece), out);
    if (r == 0)
        r = git_offer_end(&a);
    must((r != 0) == (a.error.text[0] != 0));
    git_offer_release(&a);
    return r;
}

/* A ref's line with a hidden name. The server's own words may hold anything. */
static void look(struct slice out) {
    struct pkt_reader reader;
    struct pkt pkt;
    size_t used;
    pkt_reader_init(&reader);
    while (out.n && pkt_next(&reader, out, &used, &pkt) == 0) {
        out = slice_from(out, used);
        if (pkt.kind == PKT_DATA && pkt.payload.n > 41 && git_id_valid(slice_sub(pkt.payload, 0, 40)))
            must(!memmem(pkt.payload.p, pkt.payload.n, " refs/hid", 9));
    }
    pkt_reader_release(&reader);
}

static void offers(unsigned mode, struct slice in) {
    struct buf whole, bytes, again, ids[3];
    struct buf *all[] = {&whole, &bytes, &again, &ids[0], &ids[1], &ids[2]};
    for (size_t i = 0; i < 6; i++)
        buf_init(all[i], 64u << 20);
    int r = offer(mode, in, in.n ? in.n : 1, &whole, &ids[0]), r2 = offer(mode, in, 1, &bytes, &ids[1]);
    must((r == 0) == (r2 == 0) && slice_eq(buf_slice(&whole), buf_slice(&bytes)) &&
         slice_eq(buf_slice(&ids[0]), buf_slice(&ids[1])));
    if (mode & 2)
        look(buf_slice(&whole));
    if (r == 0) {
        must(offer(mode, buf_slice(&whole), 7, &again, &ids[2]) == 0);
        must(slice_eq(buf_slice(&whole), buf_slice(&again)) &&
             slice_eq(buf_slice(&ids[0]), buf_slice(&ids[2])));
    }
    for (size_t i = 0; i < 6; i++)
        buf_release(all[i]);
}

static int item(void *arg, enum git_asked_item kind, struct slice value) {
    if (kind != GIT_ASKED_WANT_REF && kind != GIT_ASKED_EXCLUDE)
        must(git_id_valid(value));
    buf_printf(arg, "%d ", (int)kind);
    buf_put(arg, value);
    return 0;
}

static void requests(struct slice in) {
    struct git_asked f, g;
    struct buf clean, items, twice, others;
    buf_init(&clean, in.n);
    buf_init(&items, 64u << 20);
    buf_init(&twice, in.n);
    buf_init(&others, 64u << 20);
    int r = git_asked_read(&f, in, true, item, &items, &clean);
    must((r != 0) == (f.error.text[0] != 0));
    if (r == 0) {
        must(git_asked_read(&g, buf_slice(&clean), true, item, &others, &twice) == 0);
        must(slice_eq(buf_slice(&items), buf_slice(&others)) &&
             slice_eq(buf_slice(&clean), buf_slice(&twice)));
        must(f.command == g.command && f.deepens_freely == g.deepens_freely && f.filter == g.filter &&
             f.packfile_uris == g.packfile_uris && f.server_options == g.server_options);
        must(git_asked_read(&g, in, false, NULL, NULL, NULL) == 0);
    }
    buf_release(&clean);
    buf_release(&items);
    buf_release(&twice);
    buf_release(&others);
}

static void border(void *arg, struct slice id) {
    must(git_id_valid(id));
    *(size_t *)arg += 1;
}

static void borders(enum git_asked_command command, struct slice in) {
    size_t n[2] = {0, 0};
    for (size_t k = 0; k < 2; k++) {
        struct git_borders b;
        size_t piece = k || in.n == 0 ? 1 : in.n;
        git_borders_init(&b, command);
        for (size_t at = 0; at < in.n; at += piece)
            git_borders_feed(&b, slice_sub(in, at, piece), border, &n[k]);
        git_borders_release(&b);
    }
    must(n[0] == n[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    struct slice in = slice_make(data + 1, size - 1);
    unsigned mode = data[0];
    if (mode < 'a')
        offers(mode, in);
    else if (mode < 'z')
        requests(in);
    else
        borders(mode & 1 ? GIT_ASKED_OLD : GIT_ASKED_FETCH, in);
    return 0;
}
