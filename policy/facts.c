#include "policy/facts.h"

/* The next character from the end of a canonical path, in lower case, an encoded slash as '/'. */
static char before(struct slice *s) {
    if (s->n >= 3 && slice_eq(slice_from(*s, s->n - 3), SLICE("%2F"))) {
        s->n -= 3;
        return '/';
    }
    return ascii_lower(s->p[--s->n]);
}

/* Whether the path ends in `tail`, read generously. Slashes at its very end don't count. */
static bool ends_like(struct slice path, struct slice tail) {
    struct slice s = path;
    while (s.n) {
        struct slice shorter = s;
        if (before(&shorter) != '/')
            break;
        s = shorter;
    }
    while (tail.n) {
        if (s.n == 0)
            return false;
        char c = before(&s);
        if (c != tail.p[--tail.n])
            return false;
        /* a row of slashes counts as one */
        for (struct slice more = s; c == '/' && more.n && before(&more) == '/';)
            s = more;
    }
    return true;
}

/* Whether a query holds "git-" anywhere, percent encoding undone: it may name one of git's services. */
static bool names_service(struct slice query) {
    static const char wanted[] = "git-";
    size_t have = 0;
    for (size_t i = 0; i < query.n; i++) {
        char c = query.p[i];
        int byte = c == '%' ? slice_hex_pair(query, i + 1) : -1;
        if (byte >= 0) {
            c = (char)byte;
            i += 2;
        }
        c = ascii_lower(c);
        have = c == wanted[have] ? have + 1 : c == wanted[0];
        if (have == sizeof wanted - 1)
            return true;
    }
    return false;
}

bool facts_git_like(struct slice path, struct slice query) {
    if (path.n == 0 || !strchr("kKeEsSfF/", path.p[path.n - 1]))
        return false; /* the last letters of the endpoints, and of slashes: most paths end here */
    return ends_like(path, SLICE("/git-upload-pack")) || ends_like(path, SLICE("/git-receive-pack")) ||
           ends_like(path, SLICE("/git-upload-archive")) ||
           (ends_like(path, SLICE("/info/refs")) && names_service(query));
}

static bool cut_tail(struct slice *s, struct slice tail) {
    if (s->n < tail.n || !slice_caseeq(slice_from(*s, s->n - tail.n), tail))
        return false;
    s->n -= tail.n;
    return true;
}

static void cut_slashes(struct slice *s) {
    while (s->n && s->p[s->n - 1] == '/')
        s->n--;
}

struct slice facts_repository(struct slice path) {
    if (!cut_tail(&path, SLICE("/info/refs")) && !cut_tail(&path, SLICE("/git-upload-pack")) &&
        !cut_tail(&path, SLICE("/git-receive-pack")))
        cut_tail(&path, SLICE("/git-upload-archive"));
    cut_slashes(&path);
    if (cut_tail(&path, SLICE(".git")))
        cut_slashes(&path);
    return path;
}

const char *facts_extra_name(enum facts_extra extra) {
    static const char *const names[] = {[FACTS_PLAIN] = "",
                                        [FACTS_ARCHIVE] = "archive",
                                        [FACTS_BUNDLE_URI] = "bundle-uri",
                                        [FACTS_PACKFILE_URIS] = "packfile-uris",
                                        [FACTS_ANY_OBJECT] = "any-object"};
    _Static_assert(sizeof names / sizeof *names == FACTS_EXTRAS, "a name for each");
    return extra < FACTS_EXTRAS ? names[extra] : "";
}

const char *facts_op_name(enum facts_op op) {
    switch (op) {
    case FACTS_CREATE: return "create";
    case FACTS_UPDATE: return "update";
    case FACTS_DELETE: return "delete";
    case FACTS_FORCE: return "force";
    }
    return "?";
}

bool facts_op_of(struct slice word, enum facts_op *out) {
    for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE; op++)
        if (slice_eq(word, slice_str(facts_op_name((enum facts_op)op)))) {
            *out = (enum facts_op)op;
            return true;
        }
    return false;
}

bool facts_extra_of(struct slice word, enum facts_extra *out) {
    for (unsigned extra = FACTS_PLAIN + 1; extra < FACTS_EXTRAS; extra++)
        if (slice_eq(word, slice_str(facts_extra_name((enum facts_extra)extra)))) {
            *out = (enum facts_extra)extra;
            return true;
        }
    return false;
}

bool facts_method(struct slice method) {
    bool good = method.n > 0 && method.n <= 32 && method.p[0] >= 'A' && method.p[0] <= 'Z';
    for (size_t i = 0; good && i < method.n; i++) {
        char c = method.p[i];
        good = (c >= 'A' && c <= 'Z') || ascii_digit(c) || c == '-' || c == '_';
    }
    return good;
}
