#include "proxy/codec/git_fetch.h"

#include "proxy/codec/git.h"

#define GIT_WORDS_MAX 200 /* bytes of what a server says that are repeated */

/* Takes `word` off the front. */
static bool line_skip(struct slice *line, const char *word) {
    struct slice w = slice_str(word);
    if (!slice_starts(*line, w))
        return false;
    *line = slice_from(*line, w.n);
    return true;
}

/* The server's own words, cut, and without anything that is not plain text. */
static int server_says(struct errmsg *error, int err, struct slice words) {
    char text[GIT_WORDS_MAX + 1];
    size_t n = 0;
    words = slice_trim(pkt_line(words));
    for (size_t i = 0; i < words.n && n < GIT_WORDS_MAX; i++) {
        char c = words.p[i];
        text[n++] = c >= 0x20 && c < 0x7f ? c : ' ';
    }
    text[n] = '\0';
    return errmsg_set(error, err, "the server says: %s", text);
}

/* ---- what the server offers ---- */

enum { ADVERT_START, ADVERT_SERVICE, ADVERT_VERSION, ADVERT_LINES, ADVERT_DONE };

void git_advert_init(struct git_advert *a) {
    *a = (struct git_advert){.id_digits = 40};
    pkt_reader_init(&a->reader);
}

void git_advert_release(struct git_advert *a) {
    pkt_reader_release(&a->reader);
}

/* Is `word` among the words of the list? */
static bool list_has(struct slice list, struct slice word) {
    struct slice one;
    while (list.n) {
        slice_cut(list, ' ', &one, &list);
        if (slice_eq(one, word))
            return true;
    }
    return false;
}

static int advert_line(struct git_advert *a, struct slice line) {
    if (slice_eq(line, SLICE("fetch"))) {
        a->fetch = true;
    } else if (line_skip(&line, "fetch=")) {
        a->fetch = true;
        a->filter = list_has(line, SLICE("filter"));
        a->shallow = list_has(line, SLICE("shallow"));
    } else if (slice_eq(line, SLICE("ls-refs")) || slice_starts(line, SLICE("ls-refs="))) {
        a->ls_refs = true;
    } else if (line_skip(&line, "object-format=")) {
        bool sha256 = slice_eq(line, SLICE("sha256"));
        if (!sha256 && !slice_eq(line, SLICE("sha1")))
            return errmsg_set(&a->error, ERR_UNSUPPORTED, "the server's object format is not known");
        a->id_digits = sha256 ? 64 : 40;
    }
    return ERR_INCOMPLETE;
}

static int advert_version(struct git_advert *a, struct slice line) {
    if (!slice_eq(line, SLICE("version 2")))
        return errmsg_set(
            &a->error, ERR_UNSUPPORTED,
            "the server does not speak version 2 of git's protocol, in which alone it is asked");
    a->state = ADVERT_LINES;
    return ERR_INCOMPLETE;
}

static int advert_packet(struct git_advert *a, const struct pkt *pkt) {
    struct slice line = pkt_line(pkt->payload);
    if (pkt->kind == PKT_DATA && line_skip(&line, "ERR "))
        return server_says(&a->error, ERR_DENIED, line);
    if (pkt->kind == PKT_DATA) {
        if (a->state == ADVERT_START && slice_starts(line, SLICE("# service="))) {
            a->state = ADVERT_SERVICE;
            return ERR_INCOMPLETE;
        }
        if (a->state == ADVERT_START || a->state == ADVERT_VERSION)
            return advert_version(a, line);
        if (a->state == ADVERT_LINES)
            return advert_line(a, line);
    } else if (pkt->kind == PKT_FLUSH && a->state == ADVERT_SERVICE) {
        a->state = ADVERT_VERSION;
        return ERR_INCOMPLETE;
    } else if (pkt->kind == PKT_FLUSH && a->state == ADVERT_LINES) {
        a->state = ADVERT_DONE;
        return 0;
    }
    return errmsg_set(&a->error, ERR_PARSE, "the server's list of capabilities is malformed");
}

static int advert_bad(struct git_advert *a, int err) {
    return errmsg_set(&a->error, err, "%s",
                      err == ERR_PARSE ? "the server's answer is not git's: it has no pkt-lines"
                                       : err_text(err));
}

int git_advert_feed(struct git_advert *a, struct slice in) {
    while (a->err == 0 && a->state != ADVERT_DONE) {
        struct pkt pkt;
        size_t used;
        int r = pkt_next(&a->reader, in, &used, &pkt);
        in = slice_from(in, used);
        a->taken += used;
        if (a->taken > GIT_ADVERT_MAX) {
            a->err = errmsg_set(&a->error, ERR_LIMIT, "the server's list of capabilities is too long");
            break;
        }
        if (r == ERR_INCOMPLETE)
            return r;
        r = r ? advert_bad(a, r) : advert_packet(a, &pkt);
        a->err = r == ERR_INCOMPLETE ? 0 : r;
    }
    return a->err;
}

/* ---- a request ---- */

/* 0001 ends the capabilities. */
void git_command_begin(struct buf *out, const char *command, int id_digits) {
    pkt_printf(out, "command=%s\n", command);
    pkt_printf(out, "object-format=%s\n", id_digits == 64 ? "sha256" : "sha1");
    buf_puts(out, "0001");
}

void git_fetch_begin(struct buf *out, int id_digits, const char *filter) {
    git_command_begin(out, "fetch", id_digits);
    pkt_put(out, SLICE("no-progress\n"));
    pkt_put(out, SLICE("ofs-delta\n"));
    if (filter)
        pkt_printf(out, "filter %s\n", filter);
}

void git_fetch_want(struct buf *out, struct slice id) {
    pkt_printf(out, "want %.*s\n", SLICE_ARG(id));
}

void git_fetch_have(struct buf *out, struct slice id) {
    pkt_printf(out, "have %.*s\n", SLICE_ARG(id));
}

void git_fetch_alone(struct buf *out) {
    pkt_put(out, SLICE("deepen 1\n"));
}

void git_fetch_end(struct buf *out) {
    pkt_put(out, SLICE("done\n"));
    pkt_flush(out);
}

/* ---- its answer ---- */

enum { FETCH_SECTION, FETCH_LINES, FETCH_PACK, FETCH_DONE, FETCH_BAD };

void git_fetch_init(struct git_fetch *f) {
    *f = (struct git_fetch){.state = FETCH_SECTION};
    pkt_reader_init(&f->reader);
}

void git_fetch_release(struct git_fetch *f) {
    pkt_reader_release(&f->reader);
}

static enum git_fetch_step fetch_bad(struct git_fetch *f, const char *why) {
    errmsg_set(&f->error, ERR_PARSE, "%s", why);
    f->state = FETCH_BAD;
    return GIT_FETCH_BAD;
}

static enum git_fetch_step fetch_says(struct git_fetch *f, struct slice words) {
    server_says(&f->error, ERR_DENIED, words);
    f->state = FETCH_BAD;
    return GIT_FETCH_BAD;
}

/* A section's name, or a line of one that is not the pack. */
static enum git_fetch_step fetch_line(struct git_fetch *f, const struct pkt *pkt) {
    struct slice line = pkt_line(pkt->payload);
    if (pkt->kind == PKT_DELIM && f->state == FETCH_LINES) {
        f->state = FETCH_SECTION;
        return GIT_FETCH_MORE;
    }
    if (pkt->kind != PKT_DATA)
        return fetch_bad(f, "the server's answer has no pack");
    if (line_skip(&line, "ERR "))
        return fetch_says(f, line);
    if (f->state == FETCH_LINES)
        return GIT_FETCH_MORE;
    if (slice_eq(line, SLICE("packfile")))
        f->state = FETCH_PACK;
    else if (slice_eq(line, SLICE("shallow-info")) || slice_eq(line, SLICE("acknowledgments")))
        f->state = FETCH_LINES;
    else
        return fetch_bad(f, "the server's answer has a section that was not asked for");
    return GIT_FETCH_MORE;
}

static enum git_fetch_step fetch_band(struct git_fetch *f, const struct pkt *pkt, struct slice *pack) {
    if (pkt->kind == PKT_FLUSH) {
        f->state = FETCH_DONE;
        return GIT_FETCH_DONE;
    }
    if (pkt->kind != PKT_DATA || pkt->payload.n == 0)
        return fetch_bad(f, "the server's pack is not on the side band");
    struct slice rest = slice_from(pkt->payload, 1);
    switch (pkt->payload.p[0]) {
    case 1:
        *pack = rest;
        if (rest.n)
            return GIT_FETCH_DATA;
        f->lines += 5; /* a sign of life */
        return GIT_FETCH_MORE;
    case 2: f->lines += pkt->payload.n + 4; return GIT_FETCH_MORE;
    case 3: return fetch_says(f, rest);
    default: return fetch_bad(f, "the server's answer has an unknown side band");
    }
}

static enum git_fetch_step fetch_packet(struct git_fetch *f, const struct pkt *pkt, struct slice *pack) {
    if (f->state == FETCH_PACK)
        return fetch_band(f, pkt, pack);
    f->lines += pkt->payload.n + 4;
    return fetch_line(f, pkt);
}

enum git_fetch_step git_fetch_next(struct git_fetch *f, struct slice in, size_t *used, struct slice *pack) {
    *used = 0;
    *pack = SLICE_NONE;
    if (f->state >= FETCH_DONE)
        return f->state == FETCH_DONE ? GIT_FETCH_DONE : GIT_FETCH_BAD;
    for (;;) {
        struct pkt pkt;
        size_t took;
        int r = pkt_next(&f->reader, slice_from(in, *used), &took, &pkt);
        *used += took;
        if (r == ERR_INCOMPLETE)
            return GIT_FETCH_MORE;
        if (r)
            return fetch_bad(f, r == ERR_NOMEM ? "out of memory"
                                               : "the server's answer is not git's: it has no pkt-lines");
        enum git_fetch_step step = fetch_packet(f, &pkt, pack);
        if (step == GIT_FETCH_MORE && f->lines > GIT_FETCH_LINES_MAX)
            return fetch_bad(f, "the server's answer is too long before its pack");
        if (step != GIT_FETCH_MORE)
            return step;
    }
}

/* ---- a list of refs ---- */

void git_refs_ask(struct buf *out, int id_digits, struct slice prefix) {
    git_command_begin(out, "ls-refs", id_digits);
    pkt_printf(out, "ref-prefix %.*s\n", SLICE_ARG(prefix));
    pkt_flush(out);
}

enum { REFS_LINES, REFS_DONE, REFS_BAD };

void git_refs_init(struct git_refs *r, int id_digits) {
    *r = (struct git_refs){.id_digits = (size_t)id_digits};
    pkt_reader_init(&r->reader);
}

void git_refs_release(struct git_refs *r) {
    pkt_reader_release(&r->reader);
}

static enum git_refs_step refs_bad(struct git_refs *r, const char *why) {
    errmsg_set(&r->error, ERR_PARSE, "%s", why);
    r->state = REFS_BAD;
    return GIT_REFS_BAD;
}

/* "ID NAME", perhaps with more words behind it. */
static enum git_refs_step refs_packet(struct git_refs *r, const struct pkt *pkt, struct git_listed_ref *ref) {
    struct slice line = pkt_line(pkt->payload), rest, more;
    if (pkt->kind == PKT_FLUSH) {
        r->state = REFS_DONE;
        return GIT_REFS_DONE;
    }
    if (pkt->kind != PKT_DATA)
        return refs_bad(r, "the server's list of refs is malformed");
    if (line_skip(&line, "ERR ")) {
        server_says(&r->error, ERR_DENIED, line);
        r->state = REFS_BAD;
        return GIT_REFS_BAD;
    }
    struct git_listed_ref found;
    slice_cut(line, ' ', &found.id, &rest);
    slice_cut(rest, ' ', &found.name, &more);
    if (found.id.n != r->id_digits || !git_id_valid(found.id) || found.name.n == 0)
        return refs_bad(r, "the server's list of refs is malformed");
    *ref = found;
    return GIT_REFS_REF;
}

enum git_refs_step git_refs_next(struct git_refs *r, struct slice in, size_t *used,
                                 struct git_listed_ref *ref) {
    struct pkt pkt;
    *used = 0;
    *ref = (struct git_listed_ref){SLICE_NONE, SLICE_NONE};
    if (r->state != REFS_LINES)
        return r->state == REFS_DONE ? GIT_REFS_DONE : GIT_REFS_BAD;
    int err = pkt_next(&r->reader, in, used, &pkt);
    if (err == ERR_INCOMPLETE)
        return GIT_REFS_MORE;
    if (err)
        return refs_bad(r, err == ERR_NOMEM ? "out of memory"
                                            : "the server's answer is not git's: it has no pkt-lines");
    return refs_packet(r, &pkt, ref);
}
