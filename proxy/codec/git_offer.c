#include "proxy/codec/git_offer.h"

#include "proxy/codec/git.h"

enum {
    OFFER_SERVICE, /* discovery: "# service=…", which version 2 leaves out */
    OFFER_GAP,     /* … and its flush */
    OFFER_VERSION, /* "version 1", "version 2" or already the first ref */
    OFFER_CAPS,    /* version 2: a capability a line */
    OFFER_FIRST,   /* version 0 and 1: a ref with the capabilities behind a NUL */
    OFFER_REFS,    /* … the other refs, then shallow lines */
    OFFER_LISTED,  /* ls-refs: a ref a line */
    OFFER_RAW,     /* nothing more is looked at, all passes */
    OFFER_SILENT,  /* … nothing does: the server has said that it failed */
    OFFER_DONE,
    OFFER_BAD,
};

#define ID_MAX 64

void git_offer_init(struct git_offer *a, enum git_offer_kind kind, const struct git_offer_rules *rules) {
    *a = (struct git_offer){.kind = kind, .rules = *rules};
    a->state = kind == GIT_OFFER_LS_REFS ? OFFER_LISTED : OFFER_SERVICE;
    pkt_reader_init(&a->reader);
    buf_init(&a->caps, PKT_PAYLOAD);
    buf_init(&a->last, GIT_REF_MAX);
}

void git_offer_release(struct git_offer *a) {
    pkt_reader_release(&a->reader);
    buf_release(&a->caps);
    buf_release(&a->last);
}

static int bad(struct git_offer *a, const char *why) {
    a->state = OFFER_BAD;
    return errmsg_set(&a->error, ERR_PARSE, "%s", why);
}

/* ---- words ---- */

/* The id at the beginning of a line, of the same length as all before; *rest is what follows its space. */
static bool take_id(struct git_offer *a, struct slice line, struct slice *id, struct slice *rest) {
    if (!slice_cut(line, ' ', id, rest) || !git_id_valid(*id) || (a->digits && a->digits != id->n))
        return false;
    a->digits = id->n;
    return true;
}

static bool permits(struct git_offer *a, struct slice ref) {
    return git_ref_valid(ref, true) && a->rules.permits(a->rules.arg, ref);
}

static void show(struct git_offer *a, struct slice id, struct slice name, struct slice target) {
    if (target.n)
        a->rules.stands(a->rules.arg, name, target);
    a->rules.shown(a->rules.arg, id, target.n ? target : name);
}

/* A name as a server lists it, with what it stands for (empty: not known, or nothing). */
static bool visible(struct git_offer *a, struct slice name, struct slice target) {
    if (!a->rules.limited)
        return true;
    if (target.n && !permits(a, target))
        return false;
    return slice_eq(name, SLICE("HEAD")) ? target.n > 0 : permits(a, name);
}

/* ---- version 2's capabilities ---- */

static const char *const plain_caps[] = {"agent", "ls-refs", "object-format", "session-id", NULL};
static const char *const open_caps[] = {"server-option", "object-info", NULL}; /* where nothing is limited */
static const char *const features[] = {"shallow", "wait-for-done", "sideband-all", NULL};

/* A clone that leaves objects out asks for them later by their ids. */
static bool may_filter(const struct git_offer *a) {
    return !a->rules.limited || a->rules.any_object;
}

/* fetch=shallow wait-for-done filter … */
static int put_fetch(struct git_offer *a, struct slice list, struct buf *out) {
    char line[PKT_PAYLOAD];
    size_t n = sizeof("fetch") - 1;
    struct slice word;
    memcpy(line, "fetch", n);
    for (bool more = list.n > 0, first = true; more;) {
        more = slice_cut(list, ' ', &word, &list);
        bool uris = a->rules.packfile_uris && slice_eq(word, SLICE("packfile-uris"));
        bool filter = may_filter(a) && slice_eq(word, SLICE("filter"));
        /* by a ref's name git asks for HEAD too, and what that stands for is not said */
        bool names = !a->rules.limited && slice_eq(word, SLICE("ref-in-want"));
        if (!uris && !filter && !names && !pkt_word_in(word, features))
            continue;
        line[n++] = first ? '=' : ' '; /* what is kept is no longer than what was received */
        memcpy(line + n, word.p, word.n);
        n += word.n;
        first = false;
    }
    line[n++] = '\n';
    return pkt_put(out, slice_make(line, n));
}

static int take_cap(struct git_offer *a, struct slice payload, struct buf *out) {
    struct slice name, value;
    slice_cut(pkt_line(payload), '=', &name, &value);
    if (slice_eq(name, SLICE("fetch")))
        return put_fetch(a, value, out);
    bool pass = pkt_word_in(name, plain_caps) || (!a->rules.limited && pkt_word_in(name, open_caps)) ||
                (a->rules.bundle_uri && slice_eq(name, SLICE("bundle-uri")));
    return pass ? pkt_put(out, payload) : 0;
}

/* ---- versions 0 and 1 ---- */

static const char *const old_caps[] = {
    "multi_ack",       "multi_ack_detailed", "no-done", "thin-pack",    "side-band",
    "side-band-64k",   "ofs-delta",          "shallow", "deepen-since", "deepen-not",
    "deepen-relative", "no-progress",        NULL};
static const char *const old_values[] = {"agent", "object-format", "session-id", NULL};
static const char *const old_open[] = {"allow-tip-sha1-in-want", "allow-reachable-sha1-in-want", "filter",
                                       NULL};

/* symref=NAME:TARGET: both parts. */
static bool symref_of(struct slice cap, struct slice *name, struct slice *target) {
    struct slice key, value;
    return slice_cut(cap, '=', &key, &value) && slice_eq(key, SLICE("symref")) &&
           slice_cut(value, ':', name, target);
}

static bool old_cap_passes(struct git_offer *a, struct slice cap) {
    struct slice name, target, key, value;
    if (symref_of(cap, &name, &target))
        return visible(a, name, target);
    if (a->kind == GIT_OFFER_PUSH || pkt_word_in(cap, old_caps) ||
        (a->rules.any_object && pkt_word_in(cap, old_open)))
        return true;
    return slice_cut(cap, '=', &key, &value) && pkt_word_in(key, old_values);
}

/* What a name stands for, as the capabilities say. */
static struct slice old_target(const struct git_offer *a, struct slice wanted) {
    struct slice list = buf_slice(&a->caps), cap, name, target;
    for (bool more = list.n > 0; more;) {
        more = slice_cut(list, ' ', &cap, &list);
        if (symref_of(cap, &name, &target) && slice_eq(name, wanted))
            return target;
    }
    return SLICE_NONE;
}

/* A line of a ref, with the capabilities if it is the first that is shown. */
static int put_ref(struct git_offer *a, struct slice id, struct slice name, struct buf *out) {
    char text[PKT_PAYLOAD];
    struct buf line = {.data = text, .cap = sizeof text, .limit = sizeof text};
    struct slice list = buf_slice(&a->caps), cap;
    buf_put(&line, id);
    buf_putc(&line, ' ');
    buf_put(&line, name);
    if (a->caps_due)
        buf_putc(&line, 0);
    for (bool more = a->caps_due && list.n, first = true; more;) {
        more = slice_cut(list, ' ', &cap, &list);
        if (!cap.n || !old_cap_passes(a, cap))
            continue;
        if (!first)
            buf_putc(&line, ' ');
        buf_put(&line, cap);
        first = false;
    }
    a->caps_due = false;
    buf_putc(&line, '\n');
    return line.failed ? ERR_LIMIT : pkt_put(out, buf_slice(&line));
}

static int take_ref(struct git_offer *a, struct slice payload, struct slice id, struct slice name,
                    struct buf *out) {
    struct slice base = name;
    bool peeled = slice_ends(name, SLICE("^{}"));
    if (peeled)
        base.n -= 3;
    if (slice_eq(base, SLICE("capabilities")) &&
        peeled) /* of a repository without refs; put_refs_end says the same */
        return a->rules.limited ? 0 : pkt_put(out, payload);
    if (peeled && !slice_eq(base, buf_slice(&a->last)))
        return bad(a, "what a tag leads to does not stand behind the tag");
    if (!peeled) {
        buf_clear(&a->last);
        buf_put(&a->last, slice_sub(name, 0, GIT_REF_MAX)); /* a longer one is not shown */
        a->last_shown = visible(a, name, old_target(a, name));
    }
    if (!a->last_shown)
        return 0;
    show(a, id, base, old_target(a, base));
    return a->rules.limited ? put_ref(a, id, name, out) : pkt_put(out, payload);
}

static int take_old(struct git_offer *a, struct slice payload, struct buf *out) {
    struct slice line = pkt_line(payload), id, rest;
    if (slice_starts(line, SLICE("shallow "))) {
        id = slice_from(line, 8);
        if (!git_id_valid(id))
            return bad(a, "a shallow line without an id");
        a->rules.shown(a->rules.arg, id, SLICE_NONE);
        return pkt_put(out, payload);
    }
    if (!take_id(a, line, &id, &rest))
        return bad(a, "a line that is no ref");
    if (a->state == OFFER_FIRST) {
        struct slice name, caps;
        if (!slice_cut(rest, 0, &name, &caps))
            return bad(a, "a first ref without capabilities");
        buf_clear(&a->caps);
        if (buf_put(&a->caps, slice_trim(caps)))
            return ERR_NOMEM;
        a->caps_due = a->rules.limited;
        a->state = OFFER_REFS;
        rest = name;
    }
    return take_ref(a, payload, id, rest, out);
}

/* The capabilities of a server none of whose refs is shown go with a name that is none. */
static int put_refs_end(struct git_offer *a, struct buf *out) {
    char zeros[ID_MAX];
    if (!a->caps_due)
        return 0;
    memset(zeros, '0', sizeof zeros);
    return put_ref(a, slice_make(zeros, a->digits), SLICE("capabilities^{}"), out);
}

/* ---- ls-refs ---- */

/* ID NAME [symref-target:NAME] [peeled:ID], unborn NAME symref-target:NAME */
static int take_listed(struct git_offer *a, struct slice payload, struct buf *out) {
    struct slice line = pkt_line(payload), id, rest, name, word, target = SLICE_NONE, peeled = SLICE_NONE;
    bool unborn = slice_starts(line, SLICE("unborn "));
    if (unborn)
        rest = slice_from(line, 7);
    else if (!take_id(a, line, &id, &rest))
        return bad(a, "a line that is no ref");
    for (bool more = slice_cut(rest, ' ', &name, &rest); more;) {
        more = slice_cut(rest, ' ', &word, &rest);
        if (slice_starts(word, SLICE("symref-target:")))
            target = slice_from(word, 14);
        else if (slice_starts(word, SLICE("peeled:")) && git_id_valid(slice_from(word, 7)))
            peeled = slice_from(word, 7);
        else
            return bad(a, "an attribute of a ref that is not known");
    }
    if (!visible(a, name, target))
        return 0;
    if (!unborn)
        show(a, id, name, target);
    if (peeled.n)
        show(a, peeled, name, target);
    return pkt_put(out, payload);
}

/* ---- packets ---- */

static int take_version(struct git_offer *a, struct slice payload, struct buf *out) {
    struct slice line = pkt_line(payload);
    if (slice_eq(line, SLICE("version 2")) && a->kind != GIT_OFFER_PUSH) {
        a->version = 2;
        a->state = OFFER_CAPS;
        return pkt_put(out, payload);
    }
    if (slice_eq(line, SLICE("version 1")) && a->version == 0) {
        a->version = 1;
        a->state = OFFER_FIRST;
        return pkt_put(out, payload);
    }
    a->state = OFFER_FIRST;
    return take_old(a, payload, out);
}

static int take_line(struct git_offer *a, struct slice payload, struct buf *out) {
    if (slice_starts(payload, SLICE("ERR ")) && a->state != OFFER_DONE) {
        a->state = OFFER_SILENT; /* the client ends at it, if it is honest */
        return pkt_put(out, payload);
    }
    switch (a->state) {
    case OFFER_SERVICE:
        if (slice_eq(pkt_line(payload), a->kind == GIT_OFFER_PUSH ? SLICE("# service=git-receive-pack")
                                                                  : SLICE("# service=git-upload-pack"))) {
            a->state = OFFER_GAP;
            return pkt_put(out, payload);
        }
        /* of a push, too, git leaves it out for whom asks for version 2 */
        return a->kind == GIT_OFFER_PUSH || slice_eq(pkt_line(payload), SLICE("version 2"))
                   ? take_version(a, payload, out)
                   : bad(a, "it does not begin with its service");
    case OFFER_GAP: return bad(a, "no flush behind its service");
    case OFFER_VERSION: return take_version(a, payload, out);
    case OFFER_CAPS: return take_cap(a, payload, out);
    case OFFER_FIRST:
    case OFFER_REFS: return take_old(a, payload, out);
    case OFFER_LISTED: return take_listed(a, payload, out);
    default: return bad(a, "more behind its end");
    }
}

static int take_flush(struct git_offer *a, struct buf *out) {
    int r = 0;
    switch (a->state) {
    case OFFER_GAP: a->state = OFFER_VERSION; break;
    case OFFER_REFS:
        r = put_refs_end(a, out);
        a->state = OFFER_DONE;
        break;
    case OFFER_VERSION: /* old servers say nothing of a repository without refs */
    case OFFER_FIRST:
    case OFFER_CAPS:
    case OFFER_LISTED: a->state = OFFER_DONE; break;
    default: return bad(a, "a flush where none may be");
    }
    return r ? r : pkt_flush(out);
}

/* All refs may be seen: they are only looked at. */
static bool only_looks(const struct git_offer *a) {
    return !a->rules.limited &&
           (a->state == OFFER_FIRST || a->state == OFFER_REFS || a->state == OFFER_LISTED);
}

static int take(struct git_offer *a, const struct pkt *pkt, struct buf *out) {
    static const struct slice special[] = {
        [PKT_FLUSH] = {"0000", 4}, [PKT_DELIM] = {"0001", 4}, [PKT_END] = {"0002", 4}};
    bool data = pkt->kind == PKT_DATA;
    bool looks = only_looks(a) || (data && a->state == OFFER_VERSION && !a->rules.limited);
    int r;
    if (data)
        r = take_line(a, pkt->payload, out);
    else if (pkt->kind == PKT_FLUSH && !looks)
        r = take_flush(a, out);
    else
        r = bad(a, "a packet of a kind that can't be here");
    if (r != ERR_PARSE || !looks)
        return r;
    a->state = OFFER_RAW;
    a->error.text[0] = 0;
    return data ? pkt_put(out, pkt->payload) : buf_put(out, special[pkt->kind]);
}

int git_offer_feed(struct git_offer *a, struct slice in, struct buf *out) {
    int r = 0;
    while (r == 0 && in.n && a->state != OFFER_BAD && a->state != OFFER_RAW && a->state != OFFER_SILENT) {
        struct pkt pkt;
        size_t used;
        r = pkt_next(&a->reader, in, &used, &pkt);
        in = slice_from(in, used);
        if (r == ERR_INCOMPLETE)
            return 0;
        if (r == ERR_PARSE)
            return bad(a, "it is not made of pkt-lines");
        if (r == 0)
            r = take(a, &pkt, out);
    }
    if (r == 0 && a->state == OFFER_RAW)
        r = buf_put(out, in);
    if (a->state == OFFER_BAD)
        return ERR_PARSE;
    if (r)
        errmsg_set(&a->error, r, "there is no room for it");
    return r;
}

int git_offer_end(struct git_offer *a) {
    if (a->state == OFFER_DONE || a->state == OFFER_SILENT ||
        ((a->state == OFFER_RAW || only_looks(a)) && !pkt_reader_midway(&a->reader)))
        return 0;
    return a->state == OFFER_BAD ? ERR_PARSE : bad(a, "it ends too early");
}
