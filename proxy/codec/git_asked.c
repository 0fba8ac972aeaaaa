#include "proxy/codec/git_asked.h"

#include "proxy/codec/git.h"

/* git's word for "all history": what lies beyond the client's border is sent, wherever that is. */
#define INFINITE_DEPTH 0x7fffffffu

typedef int item_fn(void *arg, enum git_asked_item item, struct slice value);

struct reading {
    struct git_asked *f;
    item_fn *item;
    void *arg;
    struct buf *clean;
    struct slice rest; /* of the body */
    struct pkt_reader reader;
};

static int bad(struct reading *r, const char *why) {
    return errmsg_set(&r->f->error, ERR_PARSE, "%s", why);
}

/* "want ID": *value is the id. */
static bool word(struct slice line, const char *name, struct slice *value) {
    size_t n = strlen(name);
    if (line.n <= n || memcmp(line.p, name, n) != 0 || line.p[n] != ' ')
        return false;
    *value = slice_from(line, n + 1);
    return true;
}

/* The next packet. ERR_EOF: the body has ended, between two packets. */
static int next(struct reading *r, struct pkt *pkt) {
    size_t used;
    if (r->rest.n == 0)
        return ERR_EOF;
    int e = pkt_next(&r->reader, r->rest, &used, pkt);
    r->rest = slice_from(r->rest, used);
    if (e == ERR_INCOMPLETE || e == ERR_PARSE)
        return bad(r, "the request is not made of whole pkt-lines");
    return e;
}

static int keep(struct reading *r, const struct pkt *pkt) {
    static const struct slice special[] = {
        [PKT_FLUSH] = {"0000", 4}, [PKT_DELIM] = {"0001", 4}, [PKT_END] = {"0002", 4}};
    if (!r->clean)
        return 0;
    return pkt->kind == PKT_DATA ? pkt_put(r->clean, pkt->payload) : buf_put(r->clean, special[pkt->kind]);
}

static int named(struct reading *r, enum git_asked_item item, struct slice value) {
    return r->item ? r->item(r->arg, item, value) : 0;
}

static int named_id(struct reading *r, enum git_asked_item item, struct slice id) {
    if (!git_id_valid(id) || (r->f->digits && r->f->digits != id.n))
        return bad(r, "a malformed object id in a fetch");
    r->f->digits = id.n;
    r->f->wants += item == GIT_ASKED_WANT;
    return named(r, item, id);
}

/* Lines about the border of history, the same in all versions. `what` is the reason if it is none. */
static int take_border(struct reading *r, struct slice line, const char *what) {
    struct slice value;
    uint64_t depth;
    if (word(line, "shallow", &value))
        return named_id(r, GIT_ASKED_SHALLOW, value);
    if (word(line, "deepen-not", &value)) {
        r->f->deepens = true;
        return named(r, GIT_ASKED_EXCLUDE, value);
    }
    if (word(line, "deepen-since", &value)) {
        r->f->deepens = true;
        return slice_u64(value, UINT64_MAX, &depth) ? 0 : bad(r, "a malformed deepen-since in a fetch");
    }
    if (!word(line, "deepen", &value))
        return bad(r, what);
    if (!slice_u64(value, INT32_MAX, &depth))
        return bad(r, "a malformed deepen in a fetch");
    r->f->deepens = true;
    r->f->deepens_freely |= depth == INFINITE_DEPTH;
    return 0;
}

/* ---- versions 0 and 1 ---- */

/* "want ID capabilities…" of the first line, kept without include-tag. */
static int take_first_want(struct reading *r, struct slice value, const struct pkt *pkt) {
    char text[PKT_PAYLOAD];
    struct buf line = {.data = text, .cap = sizeof text, .limit = sizeof text};
    struct slice id, list = SLICE_NONE, cap;
    bool more = slice_cut(value, ' ', &id, &list);
    int e = named_id(r, GIT_ASKED_WANT, id);
    buf_puts(&line, "want ");
    buf_put(&line, id);
    while (more) {
        more = slice_cut(list, ' ', &cap, &list);
        r->f->deepens_freely |= slice_eq(cap, SLICE("deepen-relative"));
        if (!slice_eq(cap, SLICE("include-tag"))) {
            buf_putc(&line, ' ');
            buf_put(&line, cap);
        }
    }
    if (pkt->payload.p[pkt->payload.n - 1] == '\n')
        buf_putc(&line, '\n');
    if (e == 0 && line.failed)
        e = bad(r, "the first line of a fetch is too long");
    return e || !r->clean ? e : pkt_put(r->clean, buf_slice(&line));
}

static int take_old_want(struct reading *r, const struct pkt *pkt) {
    struct slice line = pkt_line(pkt->payload), value;
    if (word(line, "want", &value)) {
        if (r->f->wants == 0)
            return take_first_want(r, value, pkt);
        int e = named_id(r, GIT_ASKED_WANT, value);
        return e ? e : keep(r, pkt);
    }
    int e = 0;
    if (word(line, "filter", &value))
        r->f->filter = true;
    else
        e = take_border(r, line, "a line of a fetch that is not known");
    return e ? e : keep(r, pkt);
}

/* What the client has, up to the end: lines, "done", and flushes between. */
static int take_old_have(struct reading *r, const struct pkt *pkt) {
    struct slice line = pkt_line(pkt->payload), value;
    bool good = pkt->kind == PKT_FLUSH ||
                (pkt->kind == PKT_DATA &&
                 ((word(line, "have", &value) && git_id_valid(value)) || slice_eq(line, SLICE("done"))));
    return good ? keep(r, pkt) : bad(r, "a line of a fetch that is not known");
}

static int read_old(struct reading *r, struct pkt pkt) {
    bool haves = false;
    int e = 0;
    while (e == 0) {
        if (haves || (pkt.kind != PKT_DATA && pkt.kind != PKT_FLUSH))
            e = take_old_have(r, &pkt);
        else if (pkt.kind == PKT_DATA)
            e = take_old_want(r, &pkt);
        else {
            haves = true;
            e = keep(r, &pkt);
        }
        if (e == 0)
            e = next(r, &pkt);
    }
    if (e == ERR_EOF)
        e = haves ? 0 : bad(r, "a fetch that ends before its wants do");
    return e;
}

/* ---- version 2 ---- */

static int take_fetch_argument(struct reading *r, const struct pkt *pkt) {
    static const char *const plain[] = {"done",         "thin-pack",     "no-progress", "ofs-delta",
                                        "sideband-all", "wait-for-done", NULL};
    struct slice line = pkt_line(pkt->payload), value;
    int e = 0;
    if (slice_eq(line, SLICE("include-tag")))
        return 0;
    if (word(line, "want", &value))
        e = named_id(r, GIT_ASKED_WANT, value);
    else if (word(line, "want-ref", &value))
        e = named(r, GIT_ASKED_WANT_REF, value);
    else if (word(line, "have", &value))
        e = git_id_valid(value) ? 0 : bad(r, "a malformed object id in a fetch");
    else if (word(line, "filter", &value))
        r->f->filter = true;
    else if (word(line, "packfile-uris", &value))
        r->f->packfile_uris = true;
    else if (slice_eq(line, SLICE("deepen-relative")))
        r->f->deepens_freely = true;
    else if (!pkt_word_in(line, plain))
        e = take_border(r, line, "an argument of a fetch that is not known");
    return e ? e : keep(r, pkt);
}

static int take_argument(struct reading *r, const struct pkt *pkt) {
    static const char *const list[] = {"peel", "symrefs", "unborn", NULL};
    struct slice line = pkt_line(pkt->payload), value;
    int e = 0;
    switch (r->f->command) {
    case GIT_ASKED_FETCH: return take_fetch_argument(r, pkt);
    case GIT_ASKED_LS_REFS:
        if (!pkt_word_in(line, list) && !word(line, "ref-prefix", &value))
            e = bad(r, "an argument of ls-refs that is not known");
        break;
    case GIT_ASKED_OBJECT_INFO:
        if (word(line, "oid", &value))
            e = named_id(r, GIT_ASKED_SIZE_OF, value);
        else if (!slice_eq(line, SLICE("size")))
            e = bad(r, "an argument of object-info that is not known");
        break;
    default: e = bad(r, "an argument where none is known"); break;
    }
    return e ? e : keep(r, pkt);
}

static int take_command(struct reading *r, struct slice name, bool *seen) {
    static const struct {
        const char *name;
        enum git_asked_command command;
    } commands[] = {{"ls-refs", GIT_ASKED_LS_REFS},
                    {"fetch", GIT_ASKED_FETCH},
                    {"bundle-uri", GIT_ASKED_BUNDLE_URI},
                    {"object-info", GIT_ASKED_OBJECT_INFO}};
    if (*seen)
        return bad(r, "two commands in one request");
    *seen = true;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (slice_eq(name, slice_str(commands[i].name))) {
            r->f->command = commands[i].command;
            return 0;
        }
    return bad(r, "a command of git's protocol that is not known");
}

/* command=NAME and capabilities, up to the arguments. */
static int take_head(struct reading *r, const struct pkt *pkt, bool *seen) {
    static const char *const known[] = {"agent", "object-format", "session-id", NULL};
    struct slice key, value;
    int e = 0;
    bool valued = slice_cut(pkt_line(pkt->payload), '=', &key, &value);
    if (valued && slice_eq(key, SLICE("command")))
        e = take_command(r, value, seen);
    else if (valued && slice_eq(key, SLICE("server-option")))
        r->f->server_options = true;
    else if (!pkt_word_in(key, known))
        e = bad(r, "a capability of git's protocol that is not known");
    return e ? e : keep(r, pkt);
}

static int read_two(struct reading *r, struct pkt pkt) {
    bool seen = false, arguments = false;
    int e = 0;
    while (e == 0) {
        if (pkt.kind == PKT_FLUSH) {
            if (!seen)
                return bad(r, "a request without a command");
            if (r->rest.n)
                return bad(r, "more behind the end of a request");
            return keep(r, &pkt);
        }
        if (pkt.kind == PKT_DELIM && !arguments) {
            arguments = true;
            e = keep(r, &pkt);
        } else if (pkt.kind != PKT_DATA) {
            return bad(r, "a packet of a kind that can't be here");
        } else if (arguments && !seen) {
            return bad(r, "a request without a command");
        } else {
            e = arguments ? take_argument(r, &pkt) : take_head(r, &pkt, &seen);
        }
        if (e == 0)
            e = next(r, &pkt);
    }
    return e == ERR_EOF ? bad(r, "a request that is cut off") : e;
}

/* ---- both ---- */

static bool looks_old(struct slice line) {
    static const char *const words[] = {"want",         "have",       "shallow", "deepen",
                                        "deepen-since", "deepen-not", "filter"};
    struct slice value;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (word(line, words[i], &value))
            return true;
    return slice_eq(line, SLICE("done"));
}

int git_asked_read(struct git_asked *f, struct slice body, bool strict, item_fn *item, void *arg,
                   struct buf *clean) {
    struct reading r = {.f = f, .item = item, .arg = arg, .clean = clean, .rest = body};
    struct pkt pkt;
    *f = (struct git_asked){.command = GIT_ASKED_PROBE};
    pkt_reader_init(&r.reader);
    int e = next(&r, &pkt);
    if (e == ERR_EOF) {
        e = bad(&r, "a fetch without a body");
    } else if (e == 0 && pkt.kind == PKT_FLUSH && r.rest.n == 0) {
        e = keep(&r, &pkt);
    } else if (e == 0 &&
               (pkt.kind == PKT_FLUSH || (pkt.kind == PKT_DATA && looks_old(pkt_line(pkt.payload))))) {
        f->command = GIT_ASKED_OLD;
        e = strict ? read_old(&r, pkt) : 0;
    } else if (e == 0) {
        e = read_two(&r, pkt);
    }
    pkt_reader_release(&r.reader);
    return e;
}

/* ---- the answer ---- */

void git_borders_init(struct git_borders *b, enum git_asked_command command) {
    *b = (struct git_borders){.old = command == GIT_ASKED_OLD, .inside = command == GIT_ASKED_OLD};
    pkt_reader_init(&b->reader);
}

void git_borders_release(struct git_borders *b) {
    pkt_reader_release(&b->reader);
}

/* Version 2 has sections, of which shallow-info is one; the older ones begin with these lines. */
static void take_answer(struct git_borders *b, const struct pkt *pkt, void (*border)(void *, struct slice),
                        void *arg) {
    struct slice line = pkt_line(pkt->payload), value;
    if (pkt->kind != PKT_DATA) {
        b->done = b->old || b->inside || pkt->kind != PKT_DELIM;
    } else if (b->inside && word(line, "shallow", &value) && git_id_valid(value)) {
        border(arg, value);
    } else if (b->inside) {
        b->done = !word(line, "unshallow", &value);
    } else if (slice_eq(line, SLICE("shallow-info"))) {
        b->inside = true;
    } else {
        /* a section that begins with a band's number was asked for by `sideband-all` */
        b->done = slice_eq(line, SLICE("packfile")) || line.n == 0 || (unsigned char)line.p[0] < 4;
    }
}

void git_borders_feed(struct git_borders *b, struct slice in, void (*border)(void *, struct slice),
                      void *arg) {
    while (in.n && !b->done) {
        struct pkt pkt;
        size_t used;
        int e = pkt_next(&b->reader, in, &used, &pkt);
        in = slice_from(in, used);
        if (e == ERR_INCOMPLETE)
            return;
        if (e)
            b->done = true;
        else
            take_answer(b, &pkt, border, arg);
    }
}
