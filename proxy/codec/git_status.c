#include "proxy/codec/git_status.h"

#define WORDS_MAX 4096 /* a ref, another and two ids, or a ref and a reason */

void git_status_init(struct git_status *s, bool side_band, git_status_fn *take, void *arg) {
    *s = (struct git_status){.side_band = side_band, .take = take, .arg = arg};
    buf_init(&s->text, GIT_STATUS_TEXT_MAX);
    buf_init(&s->words, WORDS_MAX);
    pkt_reader_init(&s->outer);
    pkt_reader_init(&s->inner);
}

void git_status_release(struct git_status *s) {
    buf_release(&s->text);
    buf_release(&s->words);
    pkt_reader_release(&s->outer);
    pkt_reader_release(&s->inner);
}

/* ---- lines ---- */

static void bad(struct git_status *s) {
    s->end = GIT_STATUS_BAD;
}

static void fatal(struct git_status *s, struct slice why) {
    buf_clear(&s->text);
    buf_put(&s->text, slice_sub(pkt_line(why), 0, GIT_STATUS_TEXT_MAX));
    s->end = GIT_STATUS_FATAL;
}

/* The command that was spoken of last: no option belongs to it any more. */
static void close_said(struct git_status *s) {
    if (s->open)
        s->take(s->arg, &s->said);
    s->open = false;
}

/* Keeps a word beyond its packet. The memory is one block, reserved before the first, and never moves. */
static struct slice keep(struct git_status *s, struct slice word) {
    size_t at = buf_len(&s->words);
    if (buf_put(&s->words, word)) {
        bad(s);
        return SLICE_NONE;
    }
    return slice_from(buf_slice(&s->words), at);
}

static void open_said(struct git_status *s, struct slice ref, bool ok, struct slice reason) {
    char *room;
    close_said(s);
    buf_clear(&s->words);
    if (ref.n == 0 || ref.n > GIT_REF_MAX || buf_reserve(&s->words, WORDS_MAX, &room)) {
        bad(s);
        return;
    }
    s->said = (struct git_status_ref){.ok = ok};
    s->said.ref = keep(s, ref);
    s->said.reason = keep(s, slice_sub(reason, 0, GIT_STATUS_TEXT_MAX));
    s->open = true;
}

static bool is_id(struct slice id) {
    if (id.n != 40 && id.n != 64)
        return false;
    for (size_t i = 0; i < id.n; i++)
        if (ascii_hex(id.p[i]) < 0)
            return false;
    return true;
}

/* Each option may be given once. */
static bool set_option(struct git_status *s, struct slice name, struct slice value) {
    struct git_status_ref *said = &s->said;
    if (slice_eq(name, SLICE("refname"))) {
        if (said->to.n || value.n == 0 || value.n > GIT_REF_MAX)
            return false;
        said->to = keep(s, value);
    } else if (slice_eq(name, SLICE("old-oid"))) {
        if (said->old_id.n || !is_id(value))
            return false;
        said->old_id = keep(s, value);
    } else if (slice_eq(name, SLICE("new-oid"))) {
        if (said->new_id.n || !is_id(value))
            return false;
        said->new_id = keep(s, value);
    } else if (slice_eq(name, SLICE("forced-update"))) {
        said->forced = true;
    } /* a later version's: not of interest */
    return true;
}

static void read_line(struct git_status *s, struct slice line) {
    struct slice word, rest, ref, reason;
    slice_cut(line, ' ', &word, &rest);
    if (!s->unpack_seen) {
        s->unpack_seen = true;
        if (slice_eq(word, SLICE("ERR")))
            fatal(s, rest);
        else if (!slice_eq(word, SLICE("unpack")))
            bad(s);
        else if (!slice_eq(rest, SLICE("ok")))
            buf_put(&s->text, slice_sub(rest, 0, GIT_STATUS_TEXT_MAX));
    } else if (slice_eq(word, SLICE("ok"))) {
        open_said(s, rest, true, SLICE_NONE);
    } else if (slice_eq(word, SLICE("ng"))) {
        slice_cut(rest, ' ', &ref, &reason);
        open_said(s, ref, false, reason);
    } else if (slice_eq(word, SLICE("option")) && s->open && s->said.ok) {
        slice_cut(rest, ' ', &word, &rest);
        if (!set_option(s, word, rest))
            bad(s);
    } else {
        bad(s);
    }
}

/* ---- packets ---- */

static void feed_report(struct git_status *s, struct slice in) {
    while (s->end == GIT_STATUS_OPEN) {
        struct pkt pkt;
        size_t used;
        int r = pkt_next(&s->inner, in, &used, &pkt);
        in = slice_from(in, used);
        if (r == ERR_INCOMPLETE)
            return;
        if (r || (pkt.kind != PKT_DATA && pkt.kind != PKT_FLUSH)) {
            bad(s);
        } else if (pkt.kind == PKT_DATA) {
            read_line(s, pkt_line(pkt.payload));
        } else if (!s->unpack_seen) {
            bad(s);
        } else {
            close_said(s);
            if (s->end == GIT_STATUS_OPEN)
                s->end = GIT_STATUS_WHOLE;
        }
    }
}

static void feed_band(struct git_status *s, struct slice payload) {
    struct slice data = slice_from(payload, 1);
    if (slice_starts(payload, SLICE("\1")))
        feed_report(s, data);
    else if (slice_starts(payload, SLICE("\3")))
        fatal(s, data);
    else if (slice_starts(payload, SLICE("ERR ")))
        fatal(s, slice_from(payload, 4));
    else if (!slice_starts(payload, SLICE("\2")))
        bad(s);
}

void git_status_feed(struct git_status *s, struct slice in) {
    if (!s->side_band) {
        feed_report(s, in);
        return;
    }
    while (s->end == GIT_STATUS_OPEN) {
        struct pkt pkt;
        size_t used;
        int r = pkt_next(&s->outer, in, &used, &pkt);
        in = slice_from(in, used);
        if (r == ERR_INCOMPLETE)
            return;
        if (r || pkt.kind != PKT_DATA)
            bad(s); /* a flush here ends the side band before the report */
        else
            feed_band(s, pkt.payload);
    }
}
