/*
 * policy diff and policy check against the slow and obvious way, on all of the language: random policies (variables,
 * regular expressions, conditions, limits, networks, Git LFS, tunnels, what pushes bring, APIs of forges), random requests
 * drawn to hit them.
 *
 * What two policies judge differently diff must tell, or say of the host that it is not decided. And a rule that check
 * calls superfluous can be taken out: no request is judged otherwise.
 *
 *     test_policy_exact [FIRST COUNT]    tries other seeds
 */
#include "tests/unit/chance.h"
#include "tests/unit/policy_support.h"

#include "policy/tools.h"

#define RULES_MAX 8
#define RULE_MAX  512

static uint32_t first_seed = 1, seeds = 150;

/* --- policies ---------------------------------------------------------------------------------------------- */

struct text {
    char lines[RULES_MAX][RULE_MAX];
    size_t n;
    const char *v, *w; /* variables */
};

static const char *const values[] = {"a", "b", "a.b", "main"};
static const char *const hosts[] = {"git.test",       "git.test", "a.test", "api.git.test",
                                    "api.github.com", "*.test",   "*"};
static const char *const git_hosts[] = {"git.test", "git.test", "github.com", "*.test", "a.test"};
static const char *const paths[] = {"/**",
                                    "/**",
                                    "/a/*",
                                    "/$v",
                                    "/$v/**",
                                    "/a",
                                    "/a/b/info/lfs/**",
                                    "/**/verify",
                                    "/a%2Fb",
                                    "/api/v1/repos/a/b/**",
                                    "/api/v1/repos/*/*/contents/*",
                                    "/api/v1/repos/a/b/issues",
                                    "/api/v1/repos/a/b/unknown",
                                    "/api/v4/projects/a%2Fb/**",
                                    "/repos/a/b/**",
                                    "/repos/a/b/issues",
                                    "/repos/a/b/unknown",
                                    "/repos/*/*/git/refs",
                                    "/graphql",
                                    "/api/graphql",
                                    "~/[ab].*",
                                    "~/$v.*"};
static const char *const methods[] = {"GET", "POST", "POST,PUT", "*", "*", "DELETE"};
static const char *const repositories[] = {"/a/b", "/a/b", "/a/*", "/**", "/$v/b", "/$v", "~/a/.*"};
static const char *const refs[] = {
    "", "refs/heads/*", "refs/heads/$v", "refs/**", "refs/heads/{a,b}", "refs/tags/*", "refs/heads/**"};
static const char *const ops[] = {"", "", "create", "update", "delete", "force"};
static const char *const terms[] = {
    "",          "",           "with c",        "with d",        "limit 1/m",
    "limit 2/m", "to private", "to 10.0.0.0/8", "to 11.0.0.0/8", "with c limit 1/m"};
static const char *const conditions[] = {"",
                                         "",
                                         "",
                                         "where header X == $v",
                                         "where header X ~ $v",
                                         "where json branch == $v",
                                         "where query q == $w",
                                         "where header Content-Type == application/json",
                                         "where graphql operation == query",
                                         "where graphql field == createIssue"};
static const char *const brought[] = {
    "", "", "paths \"$v/**\"", "author \"$v <*>\"", "options $v", "max-size 1KiB"};
static const char *const denied[] = {"", "", "paths \"$v/**\"", "options $v"};
static const char *const lfs_ops[] = {"", "download", "upload", "lock", "download upload"};

static void random_rule(char *line) {
    const char *verb = chance(3) ? "allow" : chance(2) ? "deny" : "ask";
    const char *scheme = chance(8) ? "https" : "http", *port = chance(8) ? "" : chance(2) ? ":8080" : ":*";
    bool deny = verb[0] == 'd';
    const char *how = deny ? "" : PICK(terms);
    switch (chance(8)) {
    case 0:
    case 1:
    case 2:
    case 3:
        snprintf(line, RULE_MAX, "%s %s %s://%s%s%s %s %s", verb, PICK(methods), scheme, PICK(hosts), port,
                 PICK(paths), how, PICK(conditions));
        break;
    case 4:
    case 5: {
        const char *ref = PICK(refs);
        snprintf(line, RULE_MAX, "%s push %s://%s%s%s %s %s %s %s", verb, scheme, PICK(git_hosts), port,
                 PICK(repositories), ref, *ref ? PICK(ops) : "", how, deny ? PICK(denied) : PICK(brought));
        break;
    }
    case 6:
        snprintf(line, RULE_MAX, "%s fetch %s://%s%s%s %s %s", verb, scheme, PICK(git_hosts), port,
                 PICK(repositories), verb[0] == 'a' && verb[1] == 's' ? "" : PICK(refs), how);
        break;
    default:
        if (chance(6) == 0)
            snprintf(line, RULE_MAX, "tunnel https://%s", PICK(git_hosts));
        else
            snprintf(line, RULE_MAX, "%s lfs %s://%s%s%s %s %s", verb, scheme, PICK(git_hosts), port,
                     PICK(repositories), PICK(lfs_ops), how);
    }
}

static void random_text(struct text *t) {
    t->n = 1 + chance(RULES_MAX - 1);
    t->v = PICK(values);
    t->w = PICK(values);
    for (size_t i = 0; i < t->n; i++)
        random_rule(t->lines[i]);
    /* a forge whose API is open, but for what its push rules say */
    if (chance(2)) {
        snprintf(t->lines[0], RULE_MAX, "allow * https://git.test/**");
        t->n = t->n > 3 ? 3 : t->n;
        for (size_t i = 1; i < t->n; i++)
            snprintf(t->lines[i], RULE_MAX, "%s push https://git.test%s %s", chance(3) ? "allow" : "deny",
                     PICK(repositories), PICK(refs));
    }
}

/* What people do to a policy. */
static void change(struct text *t) {
    char line[RULE_MAX];
    size_t i = chance((uint32_t)t->n), k = chance((uint32_t)t->n);
    switch (chance(5)) {
    case 0: t->v = PICK(values); break;
    case 1:
        memmove(t->lines[i], t->lines[i + 1], (t->n - i - 1) * sizeof t->lines[0]);
        t->n--;
        break;
    case 2: random_rule(t->lines[i]); break;
    case 3:
        memcpy(line, t->lines[i], sizeof line);
        memcpy(t->lines[i], t->lines[k], sizeof line);
        memcpy(t->lines[k], line, sizeof line);
        break;
    default:
        if (t->n < RULES_MAX)
            random_rule(t->lines[t->n++]);
    }
}

/* Rule i is on line i + 3; `without` is left out. NULL: it is no policy. */
static struct policy *load(const struct text *t, size_t without, struct buf *out) {
    const char *files[] = {"t.policy", NULL, NULL};
    struct policy *p = NULL;
    struct policy_diags diags;
    buf_clear(out);
    buf_printf(out, "let v = %s\nlet w = %s\n", t->v, t->w);
    for (size_t i = 0; i < t->n; i++)
        buf_printf(out, "%s%s\n", i == without ? "# " : "", t->lines[i]);
    files[1] = buf_cstr(out);
    load_files(files, "t.policy", NULL, &p, &diags);
    policy_diags_release(&diags);
    return p;
}

/* --- requests ---------------------------------------------------------------------------------------------- */

static const char *const asked_hosts[] = {"git.test",       "git.test",   "a.test", "api.git.test",
                                          "api.github.com", "github.com", "b.test", "other.example"};
static const char *const asked_paths[] = {"/",
                                          "/a",
                                          "/b",
                                          "/a/b",
                                          "/a.b",
                                          "/axb",
                                          "/a%2Fb",
                                          "/main/x",
                                          "/a/b/info/lfs/objects/batch",
                                          "/a/b.git/info/lfs/objects/x",
                                          "/a/b/info/lfs/locks",
                                          "/a/info/lfs/objects/verify",
                                          "/b/b/info/lfs/locks/1/unlock",
                                          "/api/v1/repos/a/b/contents/x",
                                          "/api/v1/repos/a/b/issues",
                                          "/api/v1/repos/a/b/unknown",
                                          "/api/v1/repos/b/b/branches",
                                          "/api/v1/repos/a/b",
                                          "/api/v4/projects/a%2Fb/repository/branches",
                                          "/api/v4/projects/a%2Fb/repository/branches/main",
                                          "/api/v4/projects/a%2Fb/unknown",
                                          "/api/v4/projects/a%2Fb/issues",
                                          "/repos/a/b/git/refs",
                                          "/repos/a/b/git/refs/heads/a",
                                          "/repos/a/b/issues",
                                          "/repos/a/b/unknown",
                                          "/repos/main/b/merges",
                                          "/graphql",
                                          "/api/graphql"};
static const char *const asked_methods[] = {"GET", "POST", "POST", "PUT", "DELETE", "PATCH", "post"};
static const char *const bodies[] = {"",
                                     "{}",
                                     "{\"branch\":\"main\"}",
                                     "{\"branch\":\"a\"}",
                                     "{\"branch\":\"b\",\"base\":\"a\"}",
                                     "{\"ref\":\"refs/heads/a\"}",
                                     "{\"ref\":\"refs/heads/main\"}",
                                     "{\"ref\":\"refs/tags/a\"}",
                                     "{\"new_branch_name\":\"a\"}",
                                     "{\"operation\":\"upload\"}",
                                     "{\"operation\":\"download\"}",
                                     "{\"body\":\"/merge\"}",
                                     "{\"query\":\"query{viewer}\"}",
                                     "{\"query\":\"mutation{createIssue(input:{title:\\\"x\\\"}){id}}\"}",
                                     "{\"query\":\"mutation{unknown(input:{}){id}}\"}",
                                     "{\"query\":\"mutation{createCommitOnBranch(input:{branch:{"
                                     "repositoryNameWithOwner:\\\"a/b\\\",branchName:\\\"main\\\"}}){id}}\"}",
                                     "no JSON"};
static const char *const asked_refs[] = {"refs/heads/a",   "refs/heads/b", "refs/heads/main",
                                         "refs/heads/a.b", "refs/tags/a",  "refs/heads/a/b"};
static const char *const asked_repositories[] = {"/a/b", "/a/b", "/a/x", "/b/b", "/a", "/main/b"};

struct request {
    struct asking a;
    char url[256];
    struct facts_brought brought;
    struct facts_text path, author;
    struct slice option;
    const char *header; /* X; NULL: none */
    bool typed;         /* application/json */
};

static bool header_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct request *r = arg;
    if (!r->header)
        i++;
    if (i == 0) {
        *name = SLICE("X");
        *value = slice_str(r->header);
        return true;
    }
    *name = SLICE("Content-Type");
    *value = SLICE("application/json");
    return i == 1 && r->typed;
}

static void random_http(struct request *r, const char *origin) {
    snprintf(r->url, sizeof r->url, "%s%s%s", origin, PICK(asked_paths), chance(4) ? "" : "?q=a");
    asking_init(&r->a, FACTS_HTTP, PICK(asked_methods), r->url);
    r->header = chance(2) ? NULL : PICK(values);
    r->typed = chance(4) > 0;
    r->a.f.field = header_field;
    r->a.f.field_arg = r;
    r->a.f.body = slice_str(PICK(bodies));
    r->a.f.body_state = FACTS_BODY_WHOLE;
}

static void random_push(struct request *r, const char *origin) {
    static const char *const files[] = {"a/x", "b/x", "main/y"};
    static const char *const authors[] = {"a <a@b>", "b <b@b>"};
    bool discovery = chance(6) == 0;
    snprintf(r->url, sizeof r->url, "%s%s%s%s", origin, PICK(asked_repositories), chance(2) ? ".git" : "",
             discovery ? "/info/refs?service=git-receive-pack" : "/git-receive-pack");
    asking_init(&r->a, FACTS_GIT_PUSH, discovery ? "GET" : "POST", r->url);
    for (uint32_t k = discovery ? 0 : 1 + (chance(3) == 0); k; k--)
        asking_ref(&r->a, PICK(asked_refs), (enum facts_op)chance(4), false);
    r->path.text = slice_str(PICK(files));
    r->author.text = slice_str(PICK(authors));
    r->brought = (struct facts_brought){.paths_known = true,
                                        .paths = &r->path,
                                        .npaths = 1,
                                        .commits_known = true,
                                        .ncommits = 1,
                                        .authors = &r->author,
                                        .nauthors = 1,
                                        .committers = &r->author,
                                        .ncommitters = 1};
    for (size_t i = 0; i < r->a.f.nrefs && chance(4); i++)
        r->a.refs[i].brought = &r->brought;
    r->a.f.size_known = chance(4) > 0;
    r->a.f.size = chance(2) ? 100 : 2000;
    r->option = slice_str(PICK(values));
    r->a.f.options = &r->option;
    r->a.f.noptions = !discovery && chance(4) == 0;
}

static void random_request(struct request *r) {
    static const char *const ports[] = {"", "", "", ":8080", ":99"};
    char origin[64];
    snprintf(origin, sizeof origin, "%s://%s%s", chance(8) ? "https" : "http", PICK(asked_hosts),
             PICK(ports));
    memset(r, 0, sizeof *r);
    switch (chance(8)) {
    case 0:
    case 1: random_push(r, origin); break;
    case 2:
        snprintf(r->url, sizeof r->url, "%s%s/git-upload-pack", origin, PICK(asked_repositories));
        asking_init(&r->a, FACTS_GIT_FETCH, "POST", r->url);
        if (chance(2))
            asking_ref(&r->a, PICK(asked_refs), FACTS_CREATE, false);
        break;
    case 3:
        if (chance(4) == 0) {
            snprintf(r->url, sizeof r->url, "%s/", origin);
            asking_init(&r->a, FACTS_TUNNEL, "", r->url);
            break;
        } /* fall through */
    default: random_http(r, origin);
    }
    r->a.f.refs = r->a.refs;
}

/* --- verdicts ---------------------------------------------------------------------------------------------- */

static bool same_nets(const struct verdict *v, const struct verdict *w) {
    if (v->nnets != w->nnets)
        return false;
    for (size_t i = 0; i < v->nnets; i++)
        if (v->nets[i].bits != w->nets[i].bits || memcmp(v->nets[i].address, w->nets[i].address, 16) != 0)
            return false;
    return true;
}

static bool alike(const struct verdict *v, const struct verdict *w) {
    if (v->action != w->action || v->action == VERDICT_DENY)
        return v->action == w->action;
    return slice_eq(v->credential, w->credential) && v->limit == w->limit && v->max_body == w->max_body &&
           v->to_private == w->to_private && same_nets(v, w);
}

static void fail_on(const struct request *r, const char *what, const char *from, const char *to,
                    const char *text) {
    const struct facts *f = &r->a.f;
    fail_msg("seed %u: %s: %.*s %s refs %zu %.*s op %d body %.*s header %s\n--- from\n%s--- to\n%s---\n%s",
             first_seed, what, SLICE_ARG(f->method), r->url, f->nrefs,
             SLICE_ARG((f->nrefs ? f->refs[0].name : SLICE_NONE)), f->nrefs ? (int)f->refs[0].op : -1,
             SLICE_ARG(f->body), r->header ? r->header : "(none)", from, to, text);
}

/* --- diff -------------------------------------------------------------------------------------------------- */

/* Whether a line says of the host, or of hosts that it may stand for, that something is not decided. */
static bool not_decided(const char *text, struct slice host) {
    const char *mark = "not decided: ";
    for (const char *at = text; (at = strstr(at, mark)); at++) {
        const char *name = at + strlen(mark), *end = strstr(name, ": ");
        struct slice said = slice_make(name, (size_t)(end - name)), rest;
        if (slice_eq(said, host) || slice_eq(said, SLICE("*")) || slice_eq(said, SLICE("all")))
            return true;
        rest = slice_from(host, host.n > said.n ? host.n - said.n : 0);
        if (slice_eq(rest, said)) /* a suffix */
            return true;
        /* a name that stands for all that a wildcard takes, as any.test */
        bool stands = !slice_ends(said, SLICE(".test")) || slice_starts(said, SLICE("any.")) ||
                      slice_starts(said, SLICE("api.any.")) || slice_starts(said, SLICE("other.")) ||
                      slice_starts(said, SLICE("some."));
        if (stands && !slice_ends(said, SLICE("github.com")))
            return true;
    }
    return false;
}

/* Whether a group in the section names the rule. */
static bool names_rule(const char *section, const struct verdict *v) {
    char name[64];
    snprintf(name, sizeof name, "by t.policy:%u: ", v->rule.line);
    return section && strstr(section, name);
}

static bool told(const char *text, const struct verdict *v, const struct verdict *w) {
    const char *gains = strstr(text, "becomes permitted:"), *losses = strstr(text, "ceases to be permitted:"),
               *others = strstr(text, "is permitted otherwise:");
    if (v->action == VERDICT_DENY)
        return names_rule(gains, w);
    return w->action == VERDICT_DENY ? names_rule(losses, v) : names_rule(others, w);
}

static void compare(const struct policy *p, const struct policy *q, const char *from, const char *to) {
    struct buf out;
    size_t n, unsure;
    buf_init(&out, 8 << 20);
    struct policy_print print = {.format = POLICY_TEXT, .out = &out};
    assert_int_equal(policy_diff(p, q, &print, &n, &unsure), 0);
    for (int i = 0; i < 300; i++) {
        struct request r;
        struct verdict v, w;
        random_request(&r);
        policy_judge(p, &r.a.f, &v);
        policy_judge(q, &r.a.f, &w);
        if (!alike(&v, &w) && !told(buf_cstr(&out), &v, &w) && !not_decided(buf_cstr(&out), r.a.f.host))
            fail_on(&r, "judged differently, and not spoken of", from, to, buf_cstr(&out));
        buf_release(&r.a.path);
    }
    buf_release(&out);
}

static void differences(void **state) {
    (void)state;
    size_t compared = 0;
    struct buf from, to;
    buf_init(&from, 1 << 16);
    buf_init(&to, 1 << 16);
    for (uint32_t end = first_seed + seeds, begin = first_seed; first_seed < end; first_seed++) {
        struct text before, after;
        seed = first_seed * 7919u + 13u;
        random_text(&before);
        after = before;
        if (chance(4))
            change(&after);
        else
            random_text(&after);
        struct policy *p = load(&before, SIZE_MAX, &from), *q = load(&after, SIZE_MAX, &to);
        if (p && q) {
            compare(p, q, buf_cstr(&from), buf_cstr(&to));
            compared++;
        }
        policy_free(p);
        policy_free(q);
        if (first_seed + 1 == end) {
            first_seed = begin;
            break;
        }
    }
    assert_true(compared > seeds / 2);
    buf_release(&from);
    buf_release(&to);
}

/* --- check ------------------------------------------------------------------------------------------------- */

/* Line of the next rule that is called superfluous; 0: no more. */
static unsigned superfluous(const char **at) {
    static const char *const words[] = {"covers this rule",      "together cover", "takes nothing away",
                                        "denied by other rules", "never match",    "that this permits, in"};
    const char *mark = ": warning: ";
    while ((*at = strstr(*at, mark))) {
        const char *colon = *at, *end = strchr(colon, '\n');
        size_t n = (size_t)(end - colon);
        *at = end;
        while (colon[-1] != ':')
            colon--;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (memmem(end - n, n, words[i], strlen(words[i])))
                return (unsigned)strtoul(colon, NULL, 10);
    }
    return 0;
}

static size_t take_out(const struct text *t, const struct policy *p, const char *text) {
    struct buf out, without;
    size_t n, rules = 0;
    buf_init(&out, 8 << 20);
    buf_init(&without, 1 << 16);
    struct policy_print print = {.format = POLICY_TEXT, .out = &out};
    assert_int_equal(policy_check(p, NULL, NULL, &print, &n), 0);
    const char *at = buf_cstr(&out);
    for (unsigned line; (line = superfluous(&at)); rules++) {
        struct policy *q = load(t, line - 3, &without);
        assert_non_null(q);
        for (int i = 0; i < 300; i++) {
            struct request r;
            struct verdict v, w;
            random_request(&r);
            policy_judge(p, &r.a.f, &v);
            policy_judge(q, &r.a.f, &w);
            if (!alike(&v, &w))
                fail_on(&r, "judged differently without a rule that was called superfluous", text,
                        buf_cstr(&without), buf_cstr(&out));
            buf_release(&r.a.path);
        }
        policy_free(q);
    }
    buf_release(&out);
    buf_release(&without);
    return rules;
}

static void superfluous_rules(void **state) {
    (void)state;
    size_t rules = 0;
    struct buf text;
    buf_init(&text, 1 << 16);
    for (uint32_t end = first_seed + seeds; first_seed < end; first_seed++) {
        struct text t;
        seed = first_seed * 7919u + 101u;
        random_text(&t);
        struct policy *p = load(&t, SIZE_MAX, &text);
        if (p)
            rules += take_out(&t, p, buf_cstr(&text));
        policy_free(p);
    }
    assert_true(rules > seeds / 10);
    buf_release(&text);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        first_seed = (uint32_t)strtoul(argv[1], NULL, 10);
        seeds = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences),
        cmocka_unit_test(superfluous_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
