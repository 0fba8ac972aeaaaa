#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/git_request.h"
#include "base/log.h"
#include "proxy/command/tool.h"

#define TEXTS_MAX 64 /* of a kind */

struct texts {
    struct facts_text list[TEXTS_MAX];
    size_t n;
};

/* What the options say. */
struct explain {
    struct tool tool; /* first: rows that all tools have fill it in */
    bool brings;      /* something of what a push brings is told */
    struct facts_brought brought;
    bool size_known, blob_known;
    uint64_t size, blob;
    struct texts paths, authors, committers;
    struct slice options[TEXTS_MAX];
    size_t noptions;
};

static int take_header(void *target, char *value, struct errmsg *msg) {
    struct tool *t = target;
    if (t->nheaders == TOOL_HEADERS_MAX)
        return errmsg_set(msg, ERR_LIMIT, "given more than %d times", TOOL_HEADERS_MAX);
    if (!strchr(value, ':') || value[0] == ':')
        return errmsg_set(msg, ERR_USAGE, "'%s' is not 'NAME: VALUE'", value);
    t->headers[t->nheaders++] = value;
    return 0;
}

static int take_body(void *target, char *value, struct errmsg *msg) {
    if (!*value)
        return errmsg_set(msg, ERR_USAGE, "the value is empty");
    ((struct tool *)target)->body = value;
    return 0;
}

static int take_size_into(struct explain *x, const char *value, bool *known, uint64_t *out,
                          struct errmsg *msg) {
    if (!policy_size_parse(slice_str(value), out) && strcmp(value, "0") != 0)
        return errmsg_set(msg, ERR_USAGE, "'%s' is not a size: 512, 64KiB, 1MiB, 2GiB", value);
    *known = x->brings = true;
    return 0;
}

static int take_size(void *target, char *value, struct errmsg *msg) {
    struct explain *x = target;
    return take_size_into(x, value, &x->size_known, &x->size, msg);
}

static int take_blob(void *target, char *value, struct errmsg *msg) {
    struct explain *x = target;
    return take_size_into(x, value, &x->blob_known, &x->blob, msg);
}

static int take_commits(void *target, char *value, struct errmsg *msg) {
    struct explain *x = target;
    uint64_t n;
    if (!slice_u64(slice_str(value), UINT32_MAX, &n))
        return errmsg_set(msg, ERR_USAGE, "'%s' is not a number", value);
    x->brought.ncommits = (size_t)n;
    x->brought.commits_known = x->brings = true;
    return 0;
}

static int take_text(struct explain *x, char *value, struct texts *texts, bool *known, struct errmsg *msg) {
    if (texts->n == TEXTS_MAX)
        return errmsg_set(msg, ERR_LIMIT, "given more than %d times", TEXTS_MAX);
    texts->list[texts->n++].text = slice_str(value);
    *known = x->brings = true;
    return 0;
}

static int take_path(void *target, char *value, struct errmsg *msg) {
    struct explain *x = target;
    if (!*value || *value == '/')
        return errmsg_set(msg, ERR_USAGE, "'%s' is not a path below the repository's root", value);
    return take_text(x, value, &x->paths, &x->brought.paths_known, msg);
}

static int take_author(void *target, char *value, struct errmsg *msg) {
    struct explain *x = target;
    return take_text(x, value, &x->authors, &x->brought.authors_known, msg);
}

static int take_committer(void *target, char *value, struct errmsg *msg) {
    struct explain *x = target;
    return take_text(x, value, &x->committers, &x->brought.committers_known, msg);
}

static int take_signed(void *target, char *value, struct errmsg *msg) {
    struct explain *x = target;
    bool yes = strcmp(value, "yes") == 0;
    if (!yes && strcmp(value, "no") != 0)
        return errmsg_set(msg, ERR_USAGE, "'%s' is neither yes nor no", value);
    x->brought.nsigned = yes;
    x->brought.signed_known = x->brings = true;
    return 0;
}

static int take_push_option(void *target, char *value, struct errmsg *msg) {
    struct explain *x = target;
    if (x->noptions == TEXTS_MAX)
        return errmsg_set(msg, ERR_LIMIT, "given more than %d times", TEXTS_MAX);
    x->options[x->noptions++] = slice_str(value);
    x->brings = true;
    return 0;
}

static const struct option_row rows[] = {
    TOOL_ROW_SET,
    {'H', "header", "'NAME: VALUE'", take_header, "a header field of the request; may be repeated"},
    {0, "body", "FILE", take_body,
     "the request's body ('-': standard input); JSON unless a header says otherwise"},
    {0, "path", "FILE", take_path, "a file that the push changes, as git names it; may be repeated"},
    {0, "size", "SIZE", take_size, "bytes of the push's pack: 512, 64KiB, 10MiB"},
    {0, "blob", "SIZE", take_blob, "bytes of the largest file in it"},
    {0, "commits", "N", take_commits, "how many commits it brings"},
    {0, "author", "'NAME <MAIL>'", take_author, "of a commit that it brings; may be repeated"},
    {0, "committer", "'NAME <MAIL>'", take_committer, "the same; may be repeated"},
    {0, "signed", "yes|no", take_signed, "whether all its commits have signatures"},
    {'o', "push-option", "OPTION", take_push_option, "as of 'git push -o'; may be repeated"},
    TOOL_ROW_JSON,
    TOOL_ROW_HELP,
};
#define ROWS (sizeof rows / sizeof rows[0])

/* A facts_field over the options. A body is JSON unless they say otherwise, as in an expectation. */
static bool header(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct tool *t = arg;
    bool typed = !t->body;
    for (size_t k = 0; k < t->nheaders; k++)
        typed |= strncasecmp(t->headers[k], "content-type:", strlen("content-type:")) == 0;
    if (i == t->nheaders && !typed) {
        *name = SLICE("content-type");
        *value = SLICE("application/json");
        return true;
    }
    if (i >= t->nheaders)
        return false;
    slice_cut(slice_str(t->headers[i]), ':', name, value);
    *value = slice_trim(*value);
    return true;
}

static bool is_zero(struct slice id) {
    for (size_t i = 0; i < id.n; i++)
        if (id.p[i] != '0')
            return false;
    return id.n > 0;
}

static bool is_id(struct slice id) {
    for (size_t i = 0; i < id.n; i++)
        if (ascii_hex(id.p[i]) < 0)
            return false;
    return id.n == 40 || id.n == 64;
}

/* A branch's short name, as git takes it, is no ref that a rule could be about. */
static int take_ref(struct request *r, const char *name, struct errmsg *msg) {
    if (strncmp(name, "refs/", 5) != 0 && strcmp(name, "HEAD") != 0)
        return errmsg_set(msg, ERR_USAGE,
                          "'%s' is no ref; a branch is written refs/heads/NAME, a tag refs/tags/NAME", name);
    r->ref.name = slice_str(name);
    r->f.refs = &r->ref;
    r->f.nrefs = 1;
    return 0;
}

/* What is done to the ref: by name, or by the two ids. Without, an update that is not proved a fast-forward. */
static int take_operation(struct request *r, int argc, char **argv, struct errmsg *msg) {
    struct facts_ref *ref = &r->ref;
    ref->op = FACTS_CREATE;
    if (argc == 0)
        return 0;
    if (argc == 1 && facts_op_of(slice_str(argv[0]), &ref->op))
        return 0;
    if (argc == 1)
        return errmsg_set(msg, ERR_USAGE, "'%s' is none of create, update, delete and force", argv[0]);
    ref->old = slice_str(argv[0]);
    ref->new = slice_str(argv[1]);
    if (argc > 2 || !is_id(ref->old) || !is_id(ref->new) || ref->old.n != ref->new.n)
        return errmsg_set(msg, ERR_USAGE, "behind the ref stand an operation, or two object ids in full");
    ref->unproved = !is_zero(ref->old) && !is_zero(ref->new);
    ref->op = is_zero(ref->new) ? FACTS_DELETE : is_zero(ref->old) ? FACTS_CREATE : FACTS_FORCE;
    return 0;
}

/* lfs URL [download | upload | lock] */
static int take_lfs(struct request *r, int argc, char **argv, struct errmsg *msg) {
    enum facts_lfs op = FACTS_LFS_UNKNOWN;
    if (argc > 1 || (argc == 1 && !facts_lfs_of(slice_str(argv[0]), &op)))
        return errmsg_set(msg, ERR_USAGE, "behind the URL stands one of download, upload and lock");
    return request_lfs(r, op, msg);
}

/* A request to one of git's endpoints, as a refusal or the log shows it, is judged as the proxy judges it. */
static void take_endpoint(struct request *r) {
    bool push = slice_ends(r->f.path, SLICE("/git-receive-pack"));
    bool archive = slice_ends(r->f.path, SLICE("/git-upload-archive"));
    struct git_request g;
    git_classify(&g, r->f.method, r->f.path, r->f.query,
                 push      ? SLICE(GIT_PUSH_REQUEST)
                 : archive ? SLICE(GIT_ARCHIVE_REQUEST)
                           : SLICE(GIT_FETCH_REQUEST));
    if (g.kind == GIT_DISCOVER_FETCH || g.kind == GIT_FETCH || g.kind == GIT_ARCHIVE)
        r->f.kind = FACTS_GIT_FETCH;
    if (g.kind == GIT_ARCHIVE)
        r->f.extra = FACTS_ARCHIVE;
    else if (g.kind == GIT_DISCOVER_PUSH || g.kind == GIT_PUSH)
        r->f.kind = FACTS_GIT_PUSH;
}

/* [REF | also WHAT] */
static int take_fetched(struct request *r, int argc, char **argv, struct errmsg *msg) {
    if (strcmp(argv[0], "also") == 0 && argc == 2 && facts_extra_of(slice_str(argv[1]), &r->f.extra))
        return 0;
    if (argc > 1 || strcmp(argv[0], "also") == 0)
        return errmsg_set(
            msg, ERR_USAGE,
            "behind the URL stand a ref, or `also` and archive, bundle-uri, packfile-uris or any-object");
    return take_ref(r, argv[0], msg);
}

/* The proxy takes `get` for malformed, not for GET in other letters, and a rule can't name it. */
static int no_action(const char *word, struct errmsg *msg) {
    char hint[POLICY_HINT_MAX];
    return errmsg_set(
        msg, ERR_USAGE,
        "'%s' is neither a method, which is written in capitals, nor fetch, push, lfs or tunnel: %s", word,
        policy_action_hint(slice_str(word), hint));
}

/* METHOD URL, lfs URL [WORD], fetch URL [REF | also WHAT], push URL [REF [OPERATION | OLD NEW]], tunnel URL */
static int read_request(struct request *r, int argc, char **argv, struct errmsg *msg) {
    struct slice what = slice_str(argv[0]);
    enum facts_kind kind = slice_eq(what, SLICE("fetch"))    ? FACTS_GIT_FETCH
                           : slice_eq(what, SLICE("push"))   ? FACTS_GIT_PUSH
                           : slice_eq(what, SLICE("tunnel")) ? FACTS_TUNNEL
                                                             : FACTS_HTTP;
    bool git = kind == FACTS_GIT_FETCH || kind == FACTS_GIT_PUSH;
    bool lfs = slice_eq(what, SLICE("lfs"));
    if (kind == FACTS_HTTP && !lfs && !facts_method(what))
        return no_action(argv[0], msg);
    int e = request_url(r, kind, git || lfs ? SLICE("POST") : what, slice_str(argv[1]), msg);
    if (e < 0)
        return e;
    if (lfs)
        return take_lfs(r, argc - 2, argv + 2, msg);
    if (kind == FACTS_HTTP)
        take_endpoint(r);
    if (argc > 2 && kind == FACTS_GIT_FETCH)
        return take_fetched(r, argc - 2, argv + 2, msg);
    if (argc > 2 && kind != FACTS_GIT_PUSH)
        return errmsg_set(msg, ERR_USAGE, "'%s' stands behind the URL", argv[2]);
    if (argc > 2) {
        int bad = take_ref(r, argv[2], msg);
        return bad < 0 ? bad : take_operation(r, argc - 3, argv + 3, msg);
    }
    return 0;
}

/* What the push brings, as far as it was told. */
static void take_brought(const struct explain *x, struct request *r) {
    static struct facts_brought brought;
    brought = x->brought;
    brought.paths = x->paths.list;
    brought.npaths = x->paths.n;
    brought.authors = x->authors.list;
    brought.nauthors = x->authors.n;
    brought.committers = x->committers.list;
    brought.ncommitters = x->committers.n;
    /* all or one that is not */
    if (brought.ncommits == 0)
        brought.ncommits = 1;
    if (brought.nsigned)
        brought.nsigned = brought.ncommits;
    r->ref.brought = &brought;
    r->f.size_known = x->size_known;
    r->f.size = x->size;
    r->f.blob_known = x->blob_known;
    r->f.blob = x->blob;
    r->f.options = x->options;
    r->f.noptions = x->noptions;
}

static int explain(struct tool *t, struct request *r, const char *file) {
    struct buf body;
    struct errmsg msg;
    bool permitted = false;
    buf_init(&body, POLICY_BODY_MOST + 1);
    if (t->body) {
        buf_release(&body);
        if (tool_read_file(t->body, POLICY_BODY_MOST + 1, &body, &msg) < 0) {
            log_error("policy explain: %s", msg.text);
            buf_release(&body);
            return TOOL_TROUBLE;
        }
    }
    r->f.body_state = FACTS_BODY_WHOLE;
    r->f.body = buf_slice(&body);
    r->f.field = header;
    r->f.field_arg = t;
    struct policy *p = tool_load(t, &file, 1);
    int e = p ? policy_show(p, &r->f, &t->print, &permitted) : 0;
    if (e < 0)
        log_error("policy explain: %s", err_text(e));
    policy_free(p);
    buf_release(&body);
    return !p || e < 0 ? TOOL_TROUBLE : permitted ? EXIT_SUCCESS : EXIT_FINDINGS;
}

int command_policy_explain(int argc, char **argv) {
    static struct explain x;
    static struct request r;
    struct errmsg msg;
    int first;
    int status = tool_begin(
        &x.tool, "policy explain",
        "usage: exeat policy explain [OPTION]... FILE METHOD URL\n"
        "       exeat policy explain [OPTION]... FILE fetch URL [REF | also WHAT]\n"
        "       exeat policy explain [OPTION]... FILE lfs URL [download|upload|lock]\n"
        "       exeat policy explain [OPTION]... FILE tunnel URL\n"
        "       exeat policy explain [OPTION]... FILE push URL [REF [create|update|delete|force | OLD NEW]]\n"
        "\n"
        "Judges one request: verdict, the rule that decided, rules that came close with the part of each "
        "that\n"
        "failed, and the smallest rule that would have permitted it. Where the verdict on a push depends on "
        "what\n"
        "it brings, and that is not told by options, it says on what. Status 1: it is denied, or depends.\n",
        rows, ROWS, 3, argc, argv, &first);
    if (status >= 0)
        return status;
    int e = read_request(&r, argc - first - 1, argv + first + 1, &msg);
    if (e == 0 && x.brings && r.f.nrefs == 0)
        e = errmsg_set(&msg, ERR_USAGE, "what a push brings is judged with a ref: push URL REF");
    if (e == 0 && x.brings && r.f.kind != FACTS_GIT_PUSH)
        e = errmsg_set(&msg, ERR_USAGE, "only a push brings paths, commits and options");
    if (e < 0) {
        log_error("policy explain: %s", msg.text);
        status = TOOL_TROUBLE;
    } else {
        take_brought(&x, &r);
        status = explain(&x.tool, &r, argv[first]);
    }
    request_release(&r);
    return tool_end(&x.tool, status);
}
