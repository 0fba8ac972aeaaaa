/*
 * policy diff against the slow and obvious way: random policies, random requests, each judged by both. What is judged
 * differently must be spoken of, every example must really differ, and what is spoken of must exist.
 */
#include "tests/unit/chance.h"
#include "tests/unit/policy_support.h"

#include "policy/tools.h"

static char *diff_text(const struct policy *a, const struct policy *b, enum policy_format format, size_t *n) {
    struct buf out;
    size_t unsure;
    buf_init(&out, 8 << 20);
    struct policy_print print = {.format = format, .out = &out};
    assert_int_equal(policy_diff(a, b, &print, n, &unsure), 0);
    if (unsure && !strstr(buf_cstr(&out), "the forge's API"))
        fail_msg("not decided:\n%s", buf_cstr(&out));
    char *text = strdup(buf_cstr(&out));
    buf_release(&out);
    return text;
}

static void differs(const char *from, const char *to, size_t count, const char *const *parts) {
    struct policy *a = load_text(from), *b = load_text(to);
    size_t n;
    char *text = diff_text(a, b, POLICY_TEXT, &n);
    for (const char *const *p = parts; *p; p++)
        if (!strstr(text, *p))
            fail_msg("'%s' is not in:\n%s", *p, text);
    if (n != count)
        fail_msg("%zu differences, not %zu:\n%s", n, count, text);
    free(text);
    policy_free(a);
    policy_free(b);
}

#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void nothing(void **state) {
    (void)state;
    differs("", "", 0, PARTS("no difference"));
    differs("allow GET https://a.test/**\n", "allow GET https://a.test/\nallow GET https://a.test/**\n", 0,
            PARTS("no difference"));
    differs("allow GET,HEAD https://a.test/{a,b}\n",
            "allow HEAD,GET https://a.test/b\nallow GET,HEAD https://a.test/a\n", 0, PARTS("no difference"));
    /* a deny of what nothing allows */
    differs("allow GET https://a.test/a\n", "allow GET https://a.test/a\ndeny GET https://a.test/b\n", 0,
            PARTS("no difference"));
}

static void gains(void **state) {
    (void)state;
    differs("", "allow GET https://a.test/x/*\n", 1,
            PARTS("becomes permitted", "for example: GET https://a.test/x/x"));
    differs("allow GET https://a.test/a/*\n", "allow GET https://a.test/*/b\nallow GET https://a.test/a/*\n",
            1, PARTS("but permitted already by t.policy:1 on /a/b"));
    differs("allow GET https://a.test/**\n", "allow GET https://a.test/**\nallow GET https://b.test/\n", 1,
            PARTS("+ GET https://b.test/"));
    differs("allow GET https://a.test/**\ndeny GET https://a.test/s/**\n", "allow GET https://a.test/**\n", 1,
            PARTS("before: denied by t.policy:2"));
    differs("allow GET https://a.test/**\n", "allow * https://a.test/**\n", 1,
            PARTS("+ * https://a.test", "for example: POST https://a.test/x/y",
                  "but permitted already by t.policy:1"));
}

static void losses(void **state) {
    (void)state;
    differs(
        "allow GET https://a.test/**\n", "allow GET https://a.test/**\ndeny GET https://a.test/s\n", 1,
        PARTS("ceases to be permitted", "after: denied by t.policy:2", "for example: GET https://a.test/s"));
    differs("allow GET https://*.a.test/**\n", "allow GET https://x.a.test/**\n", 1, PARTS("any.a.test"));
    differs("allow GET https://a.test:*/\n", "allow GET https://a.test/\n", 1, PARTS("https://a.test:8443/"));
}

static void git(void **state) {
    (void)state;
    differs("allow push https://a.test/r refs/heads/fix/*\n",
            "allow push https://a.test/r refs/heads/fix/**\n", 1, PARTS("refs/heads/fix/x/y create"));
    differs("allow push https://a.test/r refs/heads/*\n", "allow push https://a.test/r refs/heads/* force\n",
            2, PARTS("force", "ceases to be permitted"));
    differs("allow fetch https://a.test/r\n", "allow fetch https://a.test/r\ndeny GET https://a.test/**\n", 1,
            PARTS("- fetch https://a.test/r"));
    differs("allow fetch https://a.test/r\n", "allow fetch https://a.test/r refs/heads/*\n", 1,
            PARTS("- fetch https://a.test/r", "after: refs/", ": no rule allows a fetch of this ref"));
    differs(
        "allow fetch https://a.test/r refs/heads/a\n", "allow fetch https://a.test/r refs/heads/*\n", 1,
        PARTS("+ fetch https://a.test/r refs/heads/*", "for example: fetch https://a.test/r refs/heads/x"));
    differs("allow fetch https://a.test/r\n",
            "allow fetch https://a.test/r\ndeny fetch https://a.test/r refs/heads/s/*\n", 1,
            PARTS("- fetch https://a.test/r", "after: refs/heads/s/", "denied by t.policy:2"));
    differs("allow fetch https://a.test/r\n", "allow fetch https://a.test/r also archive any-object\n", 2,
            PARTS("+ fetch https://a.test/r also archive", "+ fetch https://a.test/r also any-object",
                  "before: no rule about this repository permits `also archive`"));
    /* letter case and .git make no difference to a forge */
    differs("allow fetch https://a.test/R.git\n", "allow fetch https://a.test/r/\n", 0,
            PARTS("no difference"));
}

static void credentials(void **state) {
    (void)state;
    differs("allow GET https://a.test/ with x\n", "allow GET https://a.test/ with y\n", 1,
            PARTS("before: allow, credential x", "after: allow, credential y"));
    differs("allow GET https://a.test/ with x\n", "allow GET https://a.test/\n", 1,
            PARTS("before: allow, credential x", "after: allow, no credential"));
}

/* --- random ------------------------------------------------------------------------------------------------ */

static const char *const paths[] = {"/",      "/a",       "/a/",   "/a/b",   "/*",     "/**",     "/a/*",
                                    "/a/**",  "/*/b",     "/**/b", "/a%2Fb", "/*%2f*", "/A",      "/a*b",
                                    "/**a**", "/{a,b}/c", "/b/**", "/*/*",   "/a/*/c", "/%41%7e!"};
static const char *const hosts[] = {"a.test", "b.test", "*.test", "x.a.test", "*.a.test", "*"};
static const char *const methods[] = {"GET", "GET,HEAD", "POST", "*", "HEAD"};
static const char *const refs[] = {"",       "refs/heads/*", "refs/heads/**", "refs/heads/a", "refs/tags/*",
                                   "refs/**"};
static const char *const also[] = {"", "", "", "also bundle-uri", "also any-object"};
static const char *const ops[] = {"", "create", "update", "delete", "force", "create delete"};

static void random_policy(char *text, size_t size) {
    size_t n = 0;
    for (uint32_t k = 1 + chance(6); k; k--) {
        const char *verb = chance(3) ? "allow" : chance(3) ? "deny" : "ask";
        const char *port = chance(5)   ? ""
                           : chance(2) ? ":8080"
                                       : ":*",
                   *scheme = chance(6) ? "https" : "http";
        const char *path = PICK(paths), *host = PICK(hosts);
        if (path[0] != '/' || path[1] == '/')
            path = "/a/b";
        uint32_t kind = chance(6);
        if (kind > 1) {
            n += (size_t)snprintf(text + n, size - n, "%s %s %s://%s%s%s\n", verb, PICK(methods), scheme,
                                  host, port, path);
            continue;
        }
        if (strcmp(path, "/") == 0)
            path = "/r";
        const char *ref = kind ? PICK(refs) : "", *op = *ref ? PICK(ops) : "";
        if (kind == 0 && *verb != 'd')
            op = PICK(also);
        if (kind == 0 && strcmp(verb, "ask") != 0 && chance(2))
            ref = PICK(refs);
        n += (size_t)snprintf(text + n, size - n, "%s %s %s://%s%s%s %s %s\n", verb, kind ? "push" : "fetch",
                              scheme, host, port, path, ref, op);
    }
}

static const char *const asked_paths[] = {"/",        "/a",     "/a/",    "/a/b",  "/A",     "/a%2Fb",
                                          "/a%2fB",   "/x",     "/x/b",   "/b",    "/a/x/c", "/a//b",
                                          "/a/c",     "/b/c",   "/ab",    "/axb",  "/a/%62", "/r",
                                          "/x/y/z/b", "/%41~!", "/A~%21", "/a/b/", "/a%2F"};
static const char *const asked_hosts[] = {"a.test",   "b.test",   "c.test",
                                          "x.a.test", "y.a.test", "other.example"};
static const char *const asked_methods[] = {"GET", "HEAD", "POST", "PUT", "get", "post"};
static const char *const asked_refs[] = {"refs/heads/a",   "refs/heads/A", "refs/heads/x",
                                         "refs/heads/x/y", "refs/tags/v",  "refs/x"};

/* A random request. */
static void random_request(struct asking *a) {
    static char url[256];
    static const char *const ports[] = {"", "", ":8080", ":99"};
    uint32_t kind = chance(4);
    snprintf(url, sizeof url, "%s://%s%s%s%s", chance(4) ? "https" : "http", PICK(asked_hosts), PICK(ports),
             PICK(asked_paths), "");
    if (kind > 1) {
        asking_init(a, FACTS_HTTP, PICK(asked_methods), url);
        return;
    }
    size_t n = strlen(url);
    bool discovery = kind == 1 && chance(4) == 0;
    while (n && url[n - 1] == '/')
        n--;
    const char *slash = strchr(strstr(url, "://") + 3, '/');
    if (!slash || n <= (size_t)(slash - url))
        n += (size_t)snprintf(url + n, sizeof url - n, "/a");
    snprintf(url + n, sizeof url - n, "%s%s", chance(2) ? ".git" : "",
             kind == 0   ? (chance(2) ? "/git-upload-pack" : "/info/refs?service=git-upload-pack")
             : discovery ? "/info/refs?service=git-receive-pack"
                         : "/git-receive-pack");
    asking_init(a, kind ? FACTS_GIT_PUSH : FACTS_GIT_FETCH, strstr(url, "info/refs") ? "GET" : "POST", url);
    if (kind == 1 && !discovery)
        asking_ref(a, PICK(asked_refs), (enum facts_op)chance(4), false);
    if (kind == 0 && slice_eq(a->f.method, SLICE("POST"))) {
        uint32_t what = chance(3);
        if (what == 0)
            asking_ref(a, PICK(asked_refs), FACTS_CREATE, false);
        else if (what == 1)
            a->f.extra = chance(2) ? FACTS_BUNDLE_URI : FACTS_ANY_OBJECT;
    }
}

/* A group names the permitting rule that makes the difference. */
static bool names_rule(const char *text, const struct verdict *v) {
    char name[64];
    snprintf(name, sizeof name, "by t.policy:%u: ", v->rule.line);
    return strstr(text, name) != NULL;
}

/* Random requests: what is judged differently stands in the section that it belongs into. */
static void compare(const struct policy *p, const struct policy *q, const char *from, const char *to) {
    size_t n;
    char *text = diff_text(p, q, POLICY_TEXT, &n);
    const char *others = strstr(text, "is permitted otherwise");
    const char *losses = strstr(text, "ceases to be permitted");
    for (int i = 0; i < 400; i++) {
        struct asking a;
        struct verdict v, w;
        char open[128];
        random_request(&a);
        policy_judge(p, &a.f, &v);
        policy_judge(q, &a.f, &w);
        if (v.action != w.action) {
            bool told = v.action == VERDICT_DENY
                            ? strncmp(text, "becomes permitted", 17) == 0 && names_rule(text, &w)
                        : w.action == VERDICT_DENY ? losses && names_rule(losses, &v)
                                                   : others && names_rule(others, &w);
            snprintf(open, sizeof open, "not decided: %.*s: ", SLICE_ARG(a.f.host));
            if (!told && !strstr(text, open))
                fail_msg("%.*s %.*s%.*s is judged differently and not spoken of\n--- from\n%s--- to\n%s--- "
                         "diff\n%s",
                         SLICE_ARG(a.f.method), SLICE_ARG(a.f.host), SLICE_ARG(a.f.path), from, to, text);
        }
        buf_release(&a.path);
    }
    free(text);
}

/* Whether the two judge a request differently. */
static bool asked_differ(const struct policy *p, const struct policy *q, enum facts_kind kind,
                         const char *method, const char *url, const char *ref, const char *op,
                         const struct facts *body) {
    struct asking a;
    struct verdict v, w;
    asking_init(&a, kind, method, url);
    a.f.body = body ? body->body : SLICE_NONE;
    a.f.field = body ? body->field : NULL;
    a.f.body_state = FACTS_BODY_WHOLE;
    for (unsigned extra = FACTS_PLAIN + 1; extra < FACTS_EXTRAS; extra++)
        if (strcmp(ref, "also") == 0 && strcmp(op, facts_extra_name((enum facts_extra)extra)) == 0)
            a.f.extra = (enum facts_extra)extra;
    if (kind == FACTS_GIT_FETCH && *ref && a.f.extra == FACTS_PLAIN)
        asking_ref(&a, ref, FACTS_CREATE, false);
    for (unsigned k = FACTS_CREATE; kind == FACTS_GIT_PUSH && *ref && k <= FACTS_FORCE; k++)
        if (strcmp(op, facts_op_name((enum facts_op)k)) == 0)
            asking_ref(&a, ref, (enum facts_op)k, false);
    policy_judge(p, &a.f, &v);
    policy_judge(q, &a.f, &w);
    buf_release(&a.path);
    return v.action != w.action || !slice_eq(v.credential, w.credential);
}

/* What a clone or a push asks for, in both spellings of the repository: it differs if one of them does. */
static bool git_differs(const struct policy *p, const struct policy *q, bool push, char *repository,
                        const char *ref, const char *op) {
    const char *service = push ? "git-receive-pack" : "git-upload-pack";
    char url[2048];
    bool differ = false;
    size_t n = strlen(repository);
    if (repository[n - 1] == '/')
        repository[--n] = 0; /* the root */
    for (int k = 0; k < 4; k++) {
        bool discovery = k & 1;
        if (discovery && *ref)
            continue;
        snprintf(url, sizeof url, "%s%s/%s%s", repository,
                 k & 2                                        ? ""
                 : strchr(strstr(repository, "://") + 3, '/') ? ".git"
                                                              : "/.git",
                 discovery ? "info/refs?service=" : "", service);
        differ |= asked_differ(p, q, push ? FACTS_GIT_PUSH : FACTS_GIT_FETCH, discovery ? "GET" : "POST", url,
                               ref, op, NULL);
    }
    return differ;
}

/* Every example, read back from the text and judged. */
static void prove_examples(const struct policy *p, const struct policy *q) {
    size_t n, seen = 0;
    char *text = diff_text(p, q, POLICY_TEXT, &n);
    const char *mark = "for example: ";
    for (char *at = text; (at = strstr(at, mark)); seen++) {
        char method[64], url[1024], ref[256] = "", op[32] = "";
        at += strlen(mark);
        char *end = strchr(at, '\n');
        *end = 0;
        struct asking body = {.f = {.kind = FACTS_HTTP}};
        asking_body(&body, at);
        int words = sscanf(at, "%63s %1023s %255s %31s", method, url, ref, op);
        bool push = strcmp(method, "push") == 0;
        assert_true(words == 2 || words == 4 || (words == 3 && !push));
        bool differ = push || strcmp(method, "fetch") == 0
                          ? git_differs(p, q, push, url, ref, op)
                          : asked_differ(p, q, FACTS_HTTP, method, url, "", "", &body.f);
        if (!differ)
            fail_msg("the example '%s' does not differ", at);
        at = end + 1;
    }
    assert_int_equal(seen, n);
    free(text);
}

static void random_pairs(void **state) {
    (void)state;
    char from[2048], to[2048];
    size_t found = 0;
    for (; found < 250; found++) {
        seed = (uint32_t)found * 7919u + 17u;
        random_policy(from, sizeof from);
        random_policy(to, sizeof to);
        struct policy *p = load_text(from), *q = load_text(to);
        compare(p, q, from, to);
        prove_examples(p, q);
        policy_free(p);
        policy_free(q);
    }
    assert_int_equal(found, 250);
}

#define CHANGES "allow push https://a.test/r refs/heads/* paths \"$v/**\"\n"
#define AUTHOR  "allow push https://a.test/r refs/heads/* author \"$v <*>\"\n"
#define OPTION  "allow push https://a.test/r refs/heads/* options $v\n"
#define HEADER  "allow GET https://a.test/ where header X ~ $v\n"
#define FIRST   "allow GET https://a.test~/a.* with x\n"
#define SECOND  "allow GET https://a.test~/.*b with y\n"

/* What can't be followed is said, unless it is the same on both sides and nothing that touches it changes. */
static void undecided(void **state) {
    (void)state;
    static const char *const pairs[][3] = {
        {"", "allow POST https://a.test/x where json a ~ 1\n", "1"},
        {"allow POST https://a.test/x where json a ~ 1\n", "allow POST https://a.test/x where json a ~ 2\n",
         "2"},
        {"allow POST https://a.test/x where json a ~ 1\n", "allow POST https://a.test/x where json a ~ 1\n",
         "0"},
        {"allow POST https://a.test/x where json a ~ 1\n",
         "allow POST https://a.test/x where json a ~ 1\nallow GET https://b.test/\n", "0"},
        {"allow POST https://a.test/x where json a ~ 1\n",
         "allow POST https://a.test/x where json a ~ 1\ndeny POST https://a.test/*\n", "1"},
        {"allow POST https://a.test/x where json a == 1\n", "allow POST https://a.test/x where json a == 2\n",
         "0"},
        {"allow GET https://a.test~/[0-9]+\n", "", "1"},
        /* the same words with other variables are other rules */
        {"let v = a\n" CHANGES, "let v = b\n" CHANGES, "1"},
        {"let v = a\n" CHANGES, "let v = a\n" CHANGES, "0"},
        {"let v = a\n" CHANGES, "allow push https://a.test/r refs/heads/* paths \"a/**\"\n", "0"},
        {"let v = a\n" AUTHOR, "let v = b\n" AUTHOR, "1"},
        {"let v = a\n" OPTION, "let v = b\n" OPTION, "1"},
        {"let v = a\n" HEADER, "let v = b\n" HEADER, "1"},
        {"let v = a.b\nallow GET https://a.test~/$v\n", "allow GET https://a.test~/a.b\n", "2"},
        {"let v = a.b\nallow GET https://a.test~/$v\n", "allow GET https://a.test~/a\\.b\n", "0"},
        /* which of two comes first decides the credential */
        {FIRST SECOND, SECOND FIRST, "2"},
        {FIRST SECOND, FIRST SECOND, "0"},
        {FIRST SECOND, FIRST FIRST SECOND, "0"},
        /* a deny is read generously */
        {FIRST, FIRST "deny GET https://a.test/A%2Fb\n", "1"},
        {"allow push https://a.test/r paths a\n",
         "allow push https://a.test/r paths a\ndeny push https://a.test/s\n", "0"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct policy *a = load_text(pairs[i][0]), *b = load_text(pairs[i][1]);
        struct buf out;
        size_t n, unsure;
        buf_init(&out, 1 << 20);
        struct policy_print print = {.format = POLICY_TEXT, .out = &out};
        assert_int_equal(policy_diff(a, b, &print, &n, &unsure), 0);
        if (unsure != (size_t)(pairs[i][2][0] - '0'))
            fail_msg("%zu not decided, not %s: %s", unsure, pairs[i][2], buf_cstr(&out));
        buf_release(&out);
        policy_free(a);
        policy_free(b);
    }
}

static void language(void **state) {
    (void)state;
    differs("allow GET https://a.test/\n", "ask GET https://a.test/\n", 1,
            PARTS("is permitted otherwise", "before: allow", "after: ask"));
    differs("", "tunnel https://a.test\n", 1,
            PARTS("+ tunnel https://a.test", "for example: tunnel https://a.test"));
    differs("", "allow lfs https://a.test/r\n", 1,
            PARTS("+ lfs https://a.test/r\n", "/r.git/info/lfs/objects/batch"));
    differs("", "allow lfs https://a.test/r download lock\n", 1,
            PARTS("+ lfs https://a.test/r download lock\n"));
    differs("allow lfs https://a.test/r download\n", "allow lfs https://a.test/r upload download\n", 1,
            PARTS("+ lfs https://a.test/r upload\n", "PUT https://a.test/r.git/info/lfs/objects/x\n"));
    differs("allow lfs https://a.test/r\n", "allow lfs https://a.test/r download upload\n", 1,
            PARTS("- lfs https://a.test/r\n"));
    differs("allow lfs https://a.test/r lock upload\n", "allow lfs https://a.test/r upload lock\n", 0,
            PARTS("no difference"));
    differs("allow GET https://a.test/ limit 10/m\n", "allow GET https://a.test/ limit 20/m\n", 1,
            PARTS("at most 10 in 60 s", "at most 20 in 60 s"));
}

/* What rules about HTTP permit of a repository, a rule about LFS may deny. */
static void lfs(void **state) {
    (void)state;
    differs("allow GET https://a.test/**\n", "allow GET https://a.test/**\ndeny lfs https://a.test/r\n", 1,
            PARTS("- GET https://a.test/**", "after: denied by t.policy:2",
                  "for example: GET https://a.test/r/info/lfs/"));
    differs("allow * https://a.test/**\ndeny lfs https://a.test/r download\n", "allow * https://a.test/**\n",
            1, PARTS("+ * https://a.test/**"));
    /* read generously, a path with an encoded slash may be a repository's */
    differs("allow GET https://a.test/{x,a%2Fb}\n",
            "allow GET https://a.test/{x,a%2Fb}\ndeny lfs https://a.test/a/*\n", 1,
            PARTS("for example: GET https://a.test/a%2Fb"));
    /* behind the repository, each path for itself */
    differs("allow lfs https://a.test/r\n", "allow lfs https://a.test/r\ndeny * https://a.test/**/verify\n",
            1, PARTS("/info/lfs/", "/verify"));
}

static void terms(void **state) {
    (void)state;
    differs("allow GET https://a.test/ to 10.0.0.0/8\n", "allow GET https://a.test/ to 11.0.0.0/8\n", 1,
            PARTS("before: allow, no credential, to 10.0.0.0/8\n",
                  "after: allow, no credential, to 11.0.0.0/8\n"));
    differs("allow GET https://a.test/ to 10.0.0.0/8 private\n", "allow GET https://a.test/ to 10.0.0.0/8\n",
            1, PARTS("is permitted otherwise"));
    differs("allow GET https://a.test/ to 10.0.0.0/8 172.16.0.0/12\n",
            "allow GET https://a.test/ to 172.16.0.0/12 10.0.0.0/8\n", 0, PARTS("no difference"));
    /* a body that is tried is not printed whole */
    differs("allow POST https://a.test/ where json a == m max-body 1MiB\n",
            "allow POST https://a.test/ where json a == m max-body 2MiB\n", 2,
            PARTS("body {\"a\":\"m\"} (with blanks 1048577 bytes)\n"));
}

/* What a deny took was not "permitted already". */
static void lifted(void **state) {
    (void)state;
    struct policy *a = load_text("allow GET https://a.test~/.*\nallow GET https://a.test/**\n"
                                 "deny GET https://a.test/s\n"),
                  *b = load_text("allow GET https://a.test~/.*\nallow GET https://a.test/**\n");
    struct buf out;
    size_t n, unsure;
    buf_init(&out, 1 << 20);
    struct policy_print print = {.format = POLICY_TEXT, .out = &out};
    assert_int_equal(policy_diff(a, b, &print, &n, &unsure), 0);
    assert_int_equal(n, 1);
    assert_non_null(strstr(buf_cstr(&out), "before: denied by t.policy:3"));
    assert_null(strstr(buf_cstr(&out), "already"));
    buf_release(&out);
    policy_free(a);
    policy_free(b);
}

static void lacks(const char *from, const char *to, const char *part) {
    struct policy *a = load_text(from), *b = load_text(to);
    size_t n;
    char *text = diff_text(a, b, POLICY_TEXT, &n);
    if (strstr(text, part))
        fail_msg("'%s' is in:\n%s", part, text);
    free(text);
    policy_free(a);
    policy_free(b);
}

/* A wildcard permits no address, but is denied on it. */
static void addresses(void **state) {
    (void)state;
    differs("allow GET https://*/\n", "allow GET https://{*,1.2.3.4}/\n", 1,
            PARTS("for example: GET https://1.2.3.4/\n"));
    lacks("allow GET https://*/\n", "allow GET https://{*,1.2.3.4}/\n", "already");
    differs("allow GET https://*/\n", "allow GET https://1.2.3.4/\n", 2, PARTS("- GET https://*/"));
    lacks("allow GET https://*/\n", "allow GET https://1.2.3.4/\n", "but");
    differs("allow GET https://*/a\n", "allow GET https://{*,1.2.3.4}/**\ndeny GET https://*/s\n", 2,
            PARTS("but permitted already by t.policy:1", "but denied by t.policy:2"));
}

/* However many ports and methods rules name. */
static void many(void **state) {
    (void)state;
    struct buf from;
    buf_init(&from, 1 << 20);
    for (int i = 0; i < 100; i++)
        buf_printf(&from, "allow M%d https://a.test/\nallow GET https://a.test:%d/\n", i, 1000 + i);
    char *before = strdup(buf_cstr(&from));
    buf_puts(&from, "allow LAST https://a.test/\nallow GET https://a.test:2000/\n");
    differs(before, buf_cstr(&from), 2, PARTS("+ LAST https://a.test/", "+ GET https://a.test:2000/"));
    free(before);
    buf_release(&from);
}

/* 2,000 rules on one host and many hosts: the answer comes, and it is the right one. */
static void large(void **state) {
    (void)state;
    struct buf from, to;
    buf_init(&from, 4 << 20);
    buf_init(&to, 4 << 20);
    for (int i = 0; i < 1000; i++) {
        buf_printf(&from, "allow GET https://h%d.test/p%d/**\n", i, i);
        buf_printf(&to, "allow GET https://h%d.test/p%d/**\n", i, i == 500 ? 501 : i);
    }
    struct policy *p = load_text(buf_cstr(&from)), *q = load_text(buf_cstr(&to));
    size_t n;
    char *text = diff_text(p, q, POLICY_JSON, &n);
    assert_int_equal(n, 2);
    assert_non_null(strstr(text, "h500.test"));
    free(text);
    policy_free(p);
    policy_free(q);
    buf_release(&from);
    buf_release(&to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),      cmocka_unit_test(gains),       cmocka_unit_test(losses),
        cmocka_unit_test(git),          cmocka_unit_test(credentials), cmocka_unit_test(large),
        cmocka_unit_test(lfs),          cmocka_unit_test(terms),       cmocka_unit_test(lifted),
        cmocka_unit_test(many),         cmocka_unit_test(undecided),   cmocka_unit_test(language),
        cmocka_unit_test(random_pairs), cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
