/*
 * Which requests are git's?
 *
 * Two readings of the path are compared. The exact one is what git and every honest client sends; only it is taken
 * for an endpoint. The loose one undoes what some server might undo as well (case, encodings, doubled slashes, path
 * parameters, dots and spaces at the end of a segment): what is an endpoint in the loose reading and not in the exact
 * one is refused, so that no spelling slips past as plain HTTP.
 */
#include "base/git_request.h"

#include <string.h>

#define TAIL_ROOM 512
#define TAIL_KEEP 256

/* The end of the loosely read path. Its beginning does not matter here. */
struct tail {
    char text[TAIL_ROOM];
    size_t n;
};

static struct slice tail_slice(const struct tail *t) {
    return slice_make(t->text, t->n);
}

static void tail_segment_end(struct tail *t) {
    while (t->n && (t->text[t->n - 1] == '.' || t->text[t->n - 1] == ' '))
        t->n--;
}

static void tail_put(struct tail *t, char c) {
    if (c == '/') {
        tail_segment_end(t);
        if (t->n && t->text[t->n - 1] == '/')
            return;
    }
    if (t->n == TAIL_ROOM) {
        memmove(t->text, t->text + TAIL_ROOM - TAIL_KEEP, TAIL_KEEP);
        t->n = TAIL_KEEP;
    }
    t->text[t->n++] = ascii_lower(c);
}

/* Takes one character off, decoded as often as it was encoded. */
static char loose_next(struct slice s, size_t *i) {
    char c = s.p[(*i)++];
    int v;
    while (c == '%' && (v = slice_hex_pair(s, *i)) >= 0) {
        c = (char)v;
        *i += 2;
    }
    return c == '\\' ? '/' : c;
}

static void tail_read(struct tail *t, struct slice path) {
    bool parameter = false;
    t->n = 0;
    for (size_t i = 0; i < path.n;) {
        char c = loose_next(path, &i);
        if (c == '/')
            parameter = false;
        else if (c == ';')
            parameter = true;
        if (!parameter)
            tail_put(t, c);
    }
    tail_segment_end(t);
    while (t->n && t->text[t->n - 1] == '/') {
        t->n--;
        tail_segment_end(t);
    }
}

static const struct {
    struct slice suffix;
    const char *media_type; /* NULL: of the discovery, which sends no body */
    enum git_kind kind;
} endpoints[] = {
    {{"/info/refs", 10}, NULL, GIT_NOT},
    {{"/git-upload-pack", 16}, GIT_FETCH_REQUEST, GIT_FETCH},
    {{"/git-receive-pack", 17}, GIT_PUSH_REQUEST, GIT_PUSH},
    {{"/git-upload-archive", 19}, GIT_ARCHIVE_REQUEST, GIT_ARCHIVE},
};

#define ENDPOINTS (sizeof(endpoints) / sizeof(endpoints[0]))

/* Row of the endpoint that the path ends in, or ENDPOINTS. */
static size_t endpoint_row(struct slice path) {
    size_t i = 0;
    while (i < ENDPOINTS && !slice_ends(path, endpoints[i].suffix))
        i++;
    return i;
}

static void refuse(struct git_request *out, const char *reason) {
    *out = (struct git_request){.kind = GIT_REFUSED, .reason = reason};
}

/* ---- dumb HTTP ---- */

static bool all_hex(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (ascii_hex(s.p[i]) < 0)
            return false;
    return s.n > 0;
}

/* …/objects/info/packs, …/objects/pack/pack-ID.pack or .idx, …/objects/12/3456… */
static bool is_dumb(struct slice tail) {
    struct slice objects = SLICE("/objects/");
    size_t at = tail.n;
    while (at > 0 && !slice_starts(slice_from(tail, at - 1), objects))
        at--;
    if (at == 0)
        return false;
    struct slice rest = slice_from(tail, at - 1 + objects.n), dir, name, id, kind;
    if (!slice_cut(rest, '/', &dir, &name))
        return false;
    if (slice_eq(dir, SLICE("info")))
        return slice_eq(name, SLICE("packs")) || slice_ends(name, SLICE("alternates"));
    if (slice_eq(dir, SLICE("pack")) && slice_starts(name, SLICE("pack-")))
        return slice_cut(slice_from(name, 5), '.', &id, &kind) && (id.n == 40 || id.n == 64) && all_hex(id);
    return dir.n == 2 && all_hex(dir) && (name.n == 38 || name.n == 62) && all_hex(name);
}

/* ---- discovery ---- */

/* Does the encoded text decode (once, '+' for a space) to `plain`? Case matters unless `fold`. A longer text matches
 * with `prefix`. */
static bool decodes_to(struct slice text, struct slice plain, bool fold, bool prefix) {
    size_t i = 0, k = 0;
    while (i < text.n && k < plain.n) {
        char c = text.p[i++];
        int v = c == '%' ? slice_hex_pair(text, i) : -1;
        if (v >= 0) {
            c = (char)v;
            i += 2;
        }
        if (fold)
            c = ascii_lower(c);
        if (c != plain.p[k++])
            return false;
    }
    return k == plain.n && (i == text.n || prefix);
}

/* The one `service` parameter; anything that may count as a second one is refused. */
static const char *discovery_service(struct slice query, enum git_kind *kind) {
    unsigned services = 0;
    *kind = GIT_REFUSED;
    if (slice_find(query, ';') >= 0)
        return "a ';' in the query of a git discovery";
    while (query.n) {
        struct slice part, name, value;
        slice_cut(query, '&', &part, &query);
        slice_cut(part, '=', &name, &value);
        if (!decodes_to(name, SLICE("service"), true, true))
            continue;
        if (!decodes_to(name, SLICE("service"), false, false))
            return "a parameter of a git discovery that may pass for its service";
        if (services++)
            return "a git discovery that names its service twice";
        if (decodes_to(value, SLICE("git-upload-pack"), false, false))
            *kind = GIT_DISCOVER_FETCH;
        else if (decodes_to(value, SLICE("git-receive-pack"), false, false))
            *kind = GIT_DISCOVER_PUSH;
        else
            return "a git discovery of an unknown service";
    }
    return services ? NULL : "git's dumb HTTP protocol is not let through";
}

static void classify_discovery(struct git_request *out, bool reads, struct slice query) {
    enum git_kind kind;
    if (!reads) {
        refuse(out, "a git discovery by another method than GET");
        return;
    }
    const char *reason = discovery_service(query, &kind);
    if (reason)
        refuse(out, reason);
    else
        out->kind = kind;
}

/* ---- all ---- */

static struct slice media_type(struct slice content_type) {
    struct slice type, parameters;
    slice_cut(content_type, ';', &type, &parameters);
    return slice_trim(type);
}

static bool is_git_type(struct slice type) {
    return slice_caseeq(type, SLICE(GIT_PUSH_REQUEST)) || slice_caseeq(type, SLICE(GIT_FETCH_REQUEST)) ||
           slice_caseeq(type, SLICE(GIT_ARCHIVE_REQUEST));
}

/* No endpoint in any reading. */
static void classify_other(struct git_request *out, struct slice tail, struct slice type) {
    if (is_git_type(type))
        refuse(out, "a git request body sent to something that is no git endpoint");
    else if (is_dumb(tail))
        refuse(out, "git's dumb HTTP protocol is not let through");
}

static bool contains(struct slice s, struct slice what) {
    return s.n >= what.n && memmem(s.p, s.n, what.p, what.n) != NULL;
}

void git_classify(struct git_request *out, struct slice method, struct slice path, struct slice query,
                  struct slice content_type) {
    struct tail tail;
    struct slice type = media_type(content_type);
    bool reads = slice_eq(method, SLICE("GET")) || slice_eq(method, SLICE("HEAD"));
    *out = (struct git_request){.kind = GIT_NOT};
    tail_read(&tail, path);
    size_t loose = endpoint_row(tail_slice(&tail)), row = endpoint_row(path);
    if (loose == ENDPOINTS) {
        classify_other(out, tail_slice(&tail), type);
        return;
    }
    if (row != loose || contains(path, SLICE("//")) || contains(path, SLICE("%2F"))) {
        refuse(out, "a git endpoint in an ambiguous spelling");
        return;
    }
    struct slice repository = slice_sub(path, 0, path.n - endpoints[row].suffix.n);
    if (repository.n < 2) {
        refuse(out, "a git endpoint without a repository");
        return;
    }
    if (!endpoints[row].media_type) {
        classify_discovery(out, reads, query);
    } else if (!slice_eq(method, SLICE("POST"))) {
        refuse(out, "a git endpoint by another method than POST");
    } else if (!slice_caseeq(type, slice_str(endpoints[row].media_type))) {
        refuse(out, "a git request with another Content-Type than its endpoint's");
    } else {
        out->kind = endpoints[row].kind;
    }
    if (out->kind != GIT_REFUSED)
        out->repository = repository;
}
