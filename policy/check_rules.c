/* What can be said of a rule by looking at it alone, or at what the other rules say of the same repository. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/check.h"
#include "policy/overlap.h"

#define MESSAGE_MAX 1024

bool check_speaks_of(const struct check *c, const struct rule *r) {
    return c->p->tops[r->source->index];
}

int check_warn(struct check *c, const struct rule *r, const char *code, const char *hint, const char *format,
               ...) {
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    c->findings++;
    if (c->json) {
        json_open_object(c->json);
        print_text_json(c->json, "severity", SLICE("warning"));
        print_text_json(c->json, "code", slice_str(code));
        print_rule_json(c->json, "rule", r);
        print_text_json(c->json, "message", slice_str(message));
        if (hint)
            print_text_json(c->json, "hint", slice_str(hint));
        json_close(c->json);
        return 0;
    }
    struct buf *out = c->print->out;
    char place[MESSAGE_MAX];
    snprintf(place, sizeof place, "%s:%u:", r->where.file, r->where.line);
    print_painted(c->print, PAINT_BOLD, place);
    buf_putc(out, ' ');
    print_painted(c->print, PAINT_YELLOW, "warning:");
    buf_printf(out, " %s\n  %.*s\n", message, SLICE_ARG(r->where.text));
    if (hint)
        buf_printf(out, "  hint: %s\n", hint);
    return 0;
}

/* --- methods ----------------------------------------------------------------------------------------------- */

/* Registered ones, and a few that are in use. */
static const char *const methods[] = {
    "GET",      "HEAD",      "POST",        "PUT",        "PATCH",   "DELETE", "OPTIONS", "TRACE",
    "PROPFIND", "MKCOL",     "COPY",        "MOVE",       "LOCK",    "UNLOCK", "REPORT",  "SEARCH",
    "MERGE",    "PROPPATCH", "CHECKOUT",    "MKACTIVITY", "CHECKIN", "LINK",   "UNLINK",  "BIND",
    "UNBIND",   "REBIND",    "ACL",         "LABEL",      "UPDATE",  "QUERY",  "PURGE",   "BAN",
    "NOTIFY",   "SUBSCRIBE", "UNSUBSCRIBE", "MKCALENDAR",
};

/* Edits from one word to the other; a swap of neighbours is one. */
static unsigned distance(struct slice a, struct slice b) {
    enum { MAX = 24 };
    unsigned d[MAX + 1][MAX + 1];
    if (a.n > MAX || b.n > MAX)
        return MAX;
    for (size_t i = 0; i <= a.n; i++)
        for (size_t k = 0; k <= b.n; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = (unsigned)(i + k);
                continue;
            }
            unsigned best = d[i - 1][k - 1] + (a.p[i - 1] != b.p[k - 1]);
            if (d[i - 1][k] + 1 < best)
                best = d[i - 1][k] + 1;
            if (d[i][k - 1] + 1 < best)
                best = d[i][k - 1] + 1;
            if (i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1] &&
                d[i - 2][k - 2] + 1 < best)
                best = d[i - 2][k - 2] + 1;
            d[i][k] = best;
        }
    return d[a.n][b.n];
}

static void check_method(struct check *c, const struct rule *r, struct slice m) {
    const char *nearest = NULL;
    unsigned best = 3;
    char hint[80];
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        unsigned d = distance(m, slice_str(methods[i]));
        if (d == 0)
            return;
        if (d < best) {
            best = d;
            nearest = methods[i];
        }
    }
    snprintf(hint, sizeof hint, "did you mean %s?", nearest ? nearest : "");
    check_warn(c, r, "unknown-method", nearest ? hint : NULL, "no common method is called %.*s",
               SLICE_ARG(m));
}

static void check_methods(struct check *c, const struct rule *r) {
    struct slice rest = r->methods, one;
    for (bool more = r->action == TREE_HTTP && !r->any_method; more;) {
        more = slice_cut(rest, ',', &one, &rest);
        check_method(c, r, one);
    }
}

/* --- credentials ------------------------------------------------------------------------------------------- */

static void check_credential(struct check *c, const struct rule *r) {
    if (r->deny || r->credential.n == 0)
        return;
    if (r->target.host_kind != RULE_HOST_EXACT)
        check_warn(c, r, "credential-wildcard-host", "write a rule for each host that is to see it",
                   "lends credential '%.*s' to every host that the wildcard takes", SLICE_ARG(r->credential));
    if (r->target.scheme == URL_HTTP)
        check_warn(c, r, "credential-cleartext", "write https://",
                   "lends credential '%.*s' over plain HTTP, for all on the way to read",
                   SLICE_ARG(r->credential));
    if (c->has_credential && !c->has_credential(c->arg, r->credential))
        check_warn(c, r, "credential-undefined", NULL, "the vault defines no credential '%.*s'",
                   SLICE_ARG(r->credential));
    if (!r->proved)
        check_warn(c, r, "no-expect",
                   "add `expect allow` lines for what it must permit, `expect deny` for what not",
                   "no `expect` proves this rule, which lends a credential");
}

/* --- the forge's API ---------------------------------------------------------------------------------------- */

/* Requests of forges' APIs that move branches. `{}` is the repository of the push that they stand for. */
static const struct {
    const char *api, *forge; /* hosts; api NULL: any host whose push rules are looked at on itself */
    const char *methods;
    const char *path;
} writes[] = {
    {"api.github.com", "github.com", "POST", "/repos/*/*/git/refs"},
    {"api.github.com", "github.com", "PATCH,DELETE", "/repos/*/*/git/refs/**"},
    {"api.github.com", "github.com", "PUT,DELETE", "/repos/*/*/contents/**"},
    {"api.github.com", "github.com", "POST", "/repos/*/*/merges"},
    {"api.github.com", "github.com", "PUT", "/repos/*/*/pulls/*/merge"},
    {"api.github.com", "github.com", "POST", "/repos/*/*/merge-upstream"},
    {"api.github.com", "github.com", "POST", "/graphql"},
    {NULL, NULL, "POST", "/api/v4/projects/*/repository/commits"},
    {NULL, NULL, "POST", "/api/v4/projects/*/repository/branches"},
    {NULL, NULL, "DELETE", "/api/v4/projects/*/repository/branches/*"},
    {NULL, NULL, "POST,PUT,DELETE", "/api/v4/projects/*/repository/files/**"},
    {NULL, NULL, "PUT", "/api/v4/projects/*/merge_requests/*/merge"},
    {NULL, NULL, "POST,PUT,DELETE", "/api/v1/repos/*/*/contents/**"},
    {NULL, NULL, "POST", "/api/v1/repos/*/*/pulls/*/merge"},
};

static size_t units_of(const char *pattern, uint16_t units[128]) {
    size_t n = 0;
    for (const char *p = pattern; *p && n < 128; p++) {
        if (*p != '*') {
            units[n++] = (unsigned char)*p;
        } else {
            units[n++] = p[1] == '*' ? GLOB_STARSTAR : GLOB_STAR;
            p += p[1] == '*';
        }
    }
    return n;
}

/* Writes a path that the pattern takes. */
static void fill(struct buf *out, struct slice pattern) {
    for (size_t i = 0; i < pattern.n; i++) {
        if (pattern.p[i] != '*') {
            buf_putc(out, pattern.p[i]);
            continue;
        }
        buf_putc(out, 'x');
        i += i + 1 < pattern.n && pattern.p[i + 1] == '*';
    }
}

/* Whether the policy permits to push to the branch that such a request could write to. */
static bool push_permitted(const struct check *c, const char *forge, struct slice host, struct slice path) {
    struct slice owner, name, rest = slice_from(path, strlen("/repos/"));
    bool github = forge != NULL && slice_starts(path, SLICE("/repos/")) &&
                  slice_cut(rest, '/', &owner, &rest) && slice_cut(rest, '/', &name, &rest);
    char endpoint[1024];
    struct facts_ref ref = {.name = SLICE("refs/heads/main"), .op = FACTS_UPDATE};
    struct facts f = {.kind = FACTS_GIT_PUSH,
                      .scheme = URL_HTTPS,
                      .host = forge ? slice_str(forge) : host,
                      .port = 443,
                      .method = SLICE("POST"),
                      .refs = &ref,
                      .nrefs = 1};
    struct verdict v;
    if (!github)
        return false;
    int n = snprintf(endpoint, sizeof endpoint, "/%.*s/%.*s.git/git-receive-pack", SLICE_ARG(owner),
                     SLICE_ARG(name));
    f.path = slice_make(endpoint, n > 0 && (size_t)n < sizeof endpoint ? (size_t)n : 0);
    policy_judge(c->p, &f, &v);
    return v.action != VERDICT_DENY;
}

/* Whether the policy has anything to say about pushes to this forge. */
static bool has_push_rules(const struct check *c, struct slice host) {
    for (size_t i = 0; i < c->p->nrules; i++)
        if (c->p->rules[i].action == TREE_PUSH && slice_eq(c->p->rules[i].target.host, host))
            return true;
    return false;
}

static bool permitted(const struct check *c, const struct rule *r, struct slice method, struct slice path) {
    struct facts f = {.kind = FACTS_HTTP,
                      .scheme = r->target.scheme,
                      .host = r->target.host,
                      .port = r->target.port,
                      .method = method,
                      .path = path};
    struct verdict v;
    policy_judge(c->p, &f, &v);
    return v.action == VERDICT_ALLOW;
}

/* One way to write against one allow. True if it was spoken of. */
static bool check_write(struct check *c, const struct rule *r, size_t w) {
    uint16_t units[128];
    struct glob pattern = {.units = units, .n = units_of(writes[w].path, units)};
    static const uint16_t all[] = {GLOB_STARSTAR};
    static const struct glob every = {.units = all, .n = 1};
    struct slice forge = writes[w].forge ? slice_str(writes[w].forge) : r->target.host;
    struct slice rest = slice_str(writes[w].methods), method, one;
    struct overlap o;
    struct buf path;
    bool told = false;
    if ((writes[w].api && !slice_eq(r->target.host, slice_str(writes[w].api))) || !has_push_rules(c, forge))
        return false;
    overlap_init(&o);
    buf_init(&path, 1 << 16);
    for (size_t i = 0; i < (r->target.npaths ? r->target.npaths : 1); i++)
        overlap_globs(&o, r->target.npaths ? &r->target.paths[i] : &every, &pattern, false);
    for (bool more = true; more && !told;) {
        struct slice texts = buf_slice(&o.text);
        more = slice_cut(rest, ',', &method, &rest);
        while (!told && texts.n && slice_cut(texts, 0, &one, &texts)) {
            buf_clear(&path);
            fill(&path, one);
            if (!permitted(c, r, method, buf_slice(&path)) ||
                push_permitted(c, writes[w].forge, r->target.host, buf_slice(&path)))
                continue;
            check_warn(c, r, "writes-past-push",
                       "a deny for it, or a narrower path, keeps branches to the push rules",
                       "permits %.*s %.*s, which can change branches that no push rule permits",
                       SLICE_ARG(method), SLICE_ARG(one));
            told = true;
        }
    }
    overlap_release(&o);
    buf_release(&path);
    return told;
}

static void check_writes(struct check *c, const struct rule *r) {
    if (r->deny || r->action != TREE_HTTP || r->target.host_kind != RULE_HOST_EXACT)
        return;
    for (size_t w = 0; w < sizeof writes / sizeof *writes; w++)
        if (check_write(c, r, w))
            return; /* one is enough to look at */
}

int policy_check(const struct policy *p, bool (*has_credential)(void *arg, struct slice name), void *arg,
                 const struct policy_print *print, size_t *findings) {
    struct json j;
    struct check c = {.p = p, .has_credential = has_credential, .arg = arg, .print = print};
    if (print->format == POLICY_JSON) {
        json_init(&j, print->out);
        json_open_array(&j);
        c.json = &j;
    }
    for (size_t i = 0; i < p->nrules; i++) {
        if (!check_speaks_of(&c, &p->rules[i]))
            continue;
        check_methods(&c, &p->rules[i]);
        check_credential(&c, &p->rules[i]);
        check_writes(&c, &p->rules[i]);
    }
    int r = check_classes(&c);
    if (c.json)
        json_close(&j);
    *findings = c.findings;
    return r == 0 && print->out->failed ? ERR_LIMIT : r;
}
