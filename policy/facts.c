#include "policy/facts.h"

static struct slice content_type(const struct facts *f) {
    struct slice name, value;
    for (size_t i = 0; f->field && f->field(f->field_arg, i, &name, &value); i++)
        if (slice_caseeq(name, SLICE("content-type")))
            return value;
    return SLICE_NONE;
}

const struct git_request *facts_git(const struct facts *f, struct git_request *own) {
    if (f->git || f->kind != FACTS_HTTP)
        return f->git;
    git_classify(own, f->method, f->path, f->query, content_type(f));
    return own;
}

bool facts_git_as_http(const struct facts *f, const char **why) {
    struct git_request own;
    if (f->kind != FACTS_HTTP)
        return false;
    const struct git_request *git = facts_git(f, &own);
    *why = git->reason;
    return git->kind != GIT_NOT;
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
