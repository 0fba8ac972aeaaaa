#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "proxy/codec/git.h"
#include "proxy/command/tool.h"

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

static const struct option_row rows[] = {
    TOOL_ROW_SET,
    {'H', "header", "'NAME: VALUE'", take_header, "a header field of the request; may be repeated"},
    {0, "body", "FILE", take_body,
     "the request's body ('-': standard input); JSON unless a header says otherwise"},
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

/* What is done to the ref: by name, or by the two ids. Without, an update that is not proved a fast-forward. */
static int take_operation(struct request *r, int argc, char **argv, struct errmsg *msg) {
    struct facts_ref *ref = &r->ref;
    ref->op = FACTS_CREATE;
    if (argc == 0)
        return 0;
    if (argc == 1) {
        for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE; op++)
            if (strcmp(argv[0], facts_op_name((enum facts_op)op)) == 0) {
                ref->op = (enum facts_op)op;
                return 0;
            }
        return errmsg_set(msg, ERR_USAGE, "'%s' is none of create, update, delete and force", argv[0]);
    }
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
    unsigned op = FACTS_LFS_DOWNLOAD;
    if (argc == 0)
        return request_lfs(r, FACTS_LFS_UNKNOWN, msg);
    while (op < FACTS_LFS_COUNT && strcmp(argv[0], facts_lfs_name((enum facts_lfs)op)) != 0)
        op++;
    if (argc > 1 || op == FACTS_LFS_COUNT)
        return errmsg_set(msg, ERR_USAGE, "behind the URL stands one of download, upload and lock");
    return request_lfs(r, (enum facts_lfs)op, msg);
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

/* [REF | also WORD] */
static int take_fetched(struct request *r, int argc, char **argv, struct errmsg *msg) {
    if (strcmp(argv[0], "also") == 0 && argc == 2)
        for (unsigned extra = FACTS_PLAIN + 1; extra < FACTS_EXTRAS; extra++)
            if (strcmp(argv[1], facts_extra_name((enum facts_extra)extra)) == 0) {
                r->f.extra = (enum facts_extra)extra;
                return 0;
            }
    if (argc > 1 || strcmp(argv[0], "also") == 0)
        return errmsg_set(
            msg, ERR_USAGE,
            "behind the URL stand a ref, or `also` and archive, bundle-uri, packfile-uris or any-object");
    r->ref.name = slice_str(argv[0]);
    r->f.refs = &r->ref;
    r->f.nrefs = 1;
    return 0;
}

/* METHOD URL, lfs URL [WORD], fetch URL [REF | also WORD], push URL [REF [OPERATION | OLD NEW]], tunnel URL */
static int read_request(struct request *r, int argc, char **argv, struct errmsg *msg) {
    struct slice what = slice_str(argv[0]);
    enum facts_kind kind = slice_eq(what, SLICE("fetch"))    ? FACTS_GIT_FETCH
                           : slice_eq(what, SLICE("push"))   ? FACTS_GIT_PUSH
                           : slice_eq(what, SLICE("tunnel")) ? FACTS_TUNNEL
                                                             : FACTS_HTTP;
    bool git = kind == FACTS_GIT_FETCH || kind == FACTS_GIT_PUSH;
    bool lfs = slice_eq(what, SLICE("lfs"));
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
        r->ref.name = slice_str(argv[2]);
        r->f.refs = &r->ref;
        r->f.nrefs = 1;
        return take_operation(r, argc - 3, argv + 3, msg);
    }
    return 0;
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
    return !p || e < 0 ? TOOL_TROUBLE : permitted ? EXIT_SUCCESS : TOOL_FINDINGS;
}

int command_policy_explain(int argc, char **argv) {
    static struct tool t;
    static struct request r;
    struct errmsg msg;
    int first;
    int status = tool_begin(
        &t, "policy explain",
        "usage: exeat policy explain [OPTION]... FILE METHOD URL\n"
        "       exeat policy explain [OPTION]... FILE fetch URL [REF | also WORD]\n"
        "       exeat policy explain [OPTION]... FILE lfs URL [download|upload|lock]\n"
        "       exeat policy explain [OPTION]... FILE push URL [REF [create|update|delete|force | OLD NEW]]\n"
        "\n"
        "Judges one request: verdict, the rule that decided, rules that came close with the part of each "
        "that\n"
        "failed, and the smallest rule that would have permitted it. Status 1: it is denied.\n",
        rows, ROWS, 3, argc, argv, &first);
    if (status >= 0)
        return status;
    if (read_request(&r, argc - first - 1, argv + first + 1, &msg) < 0) {
        log_error("policy explain: %s", msg.text);
        status = TOOL_TROUBLE;
    } else {
        status = explain(&t, &r, argv[first]);
    }
    request_release(&r);
    return tool_end(&t, status);
}
