/* policy: the smallest rule that would permit a request. Each that is proposed is added to the policy, which then permits
 * the request, and not the ones beside it. */
#include "tests/unit/chance.h"
#include "tests/unit/policy_support.h"

#include "policy/tools.h"

#define GH     "https://api.github.com/repos/acme/app"
#define GQL    "https://api.github.com/graphql"
#define REPO   "https://g.test/acme/app"
#define PUSHES "allow push https://github.com/acme/app refs/heads/fix/*\n"

/* A request with all that may be told of it. */
struct probe {
    struct asking a;
    const char *header; /* "NAME: VALUE" */
    struct facts_text paths[16], author;
    struct facts_brought brought;
};

static bool probe_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct probe *q = arg;
    *name = SLICE("content-type");
    *value = SLICE("application/json");
    if (i == 1 && q->header) {
        slice_cut(slice_str(q->header), ':', name, value);
        *value = slice_trim(*value);
    }
    return i < 1 + (size_t)(q->header != NULL);
}

static void probe_http(struct probe *q, const char *method, const char *url, const char *body,
                       const char *header) {
    *q = (struct probe){.header = header};
    asking_init(&q->a, FACTS_HTTP, method, url);
    q->a.f.body_state = body ? FACTS_BODY_WHOLE : FACTS_BODY_UNREAD;
    q->a.f.body = slice_str(body);
    q->a.f.field = probe_field;
    q->a.f.field_arg = q;
}

/* The hint, and the verdict on the request once it is added. The caller frees the text. */
static char *hinted(const char *policy, const struct facts *f, enum verdict_action *then) {
    struct policy *p = load_text(policy);
    struct verdict v;
    struct buf out;
    buf_init(&out, 1 << 16);
    policy_judge(p, f, &v);
    policy_hint(p, f, &v, &out);
    policy_free(p);
    char *hint = strdup(buf_len(&out) ? buf_cstr(&out) : "");
    *then = v.action;
    if (*hint) {
        char text[16384];
        assert_int_equal(v.action, VERDICT_DENY);
        snprintf(text, sizeof text, "%s\n%s\n", policy, hint);
        p = load_text(text);
        policy_judge(p, f, &v);
        *then = v.action;
        policy_free(p);
    }
    buf_release(&out);
    return hint;
}

static void wants(const char *policy, struct probe *q, const char *wanted) {
    enum verdict_action then;
    char *hint = hinted(policy, &q->a.f, &then);
    if (strcmp(hint, wanted) != 0)
        fail_msg("%s\n  is proposed: %s\n  wanted:      %s", policy, hint, wanted);
    assert_int_equal(then == VERDICT_ALLOW, *wanted != 0 && !strstr(wanted, "# if push"));
    free(hint);
    buf_release(&q->a.path);
}

/* What the rule that came close asks of body, headers and query, the smallest rule asks too. */
static void conditions(void **state) {
    static const struct {
        const char *policy, *method, *url, *body, *header, *wanted;
    } rows[] = {
        {"allow POST https://a.test/x where json base == main\n", "POST", "https://a.test/x",
         "{\"base\":\"dev\"}", NULL, "allow POST https://a.test/x where json base == \"dev\""},
        {"allow POST https://a.test/x where json base == main and json draft == true\n", "POST",
         "https://a.test/x", "{\"base\":\"main\",\"draft\":false}", NULL,
         "allow POST https://a.test/x where json base == main and json draft == false"},
        {"allow POST https://a.test/* where json a[*].b in (1, 2)\n", "POST", "https://a.test/x",
         "{\"a\":[{\"b\":2},{\"b\":\"$x \\\"3\\\"\"}]}", NULL,
         "allow POST https://a.test/x where json a[*].b in (2, \"$$x \\\"3\\\"\")"},
        {"allow POST https://a.test/x where json n == null max-body 2MiB\n", "POST", "https://a.test/x",
         "{\"n\":-5}", NULL, "allow POST https://a.test/x where json n == -5 max-body 2097152"},
        {"allow GET https://a.test/x where header X == y and query q == 1\n", "GET", "https://a.test/x?q=2",
         "", "X: z", "allow GET https://a.test/x where header X == \"z\" and query q == \"2\""},
        {"let v = z\nallow GET https://a.test/x where header X == $v and query q == 1\n", "GET",
         "https://a.test/x?q=2", "", "X: z",
         "allow GET https://a.test/x where header X == \"z\" and query q == \"2\""},
        /* what can't be told can't be asked for */
        {"allow POST https://a.test/x where json base == main\n", "POST", "https://a.test/x",
         "{\"base\":", NULL, "allow POST https://a.test/x"},
        {"allow POST https://a.test/x where json base == main\n", "POST", "https://a.test/x", "{}", NULL,
         "allow POST https://a.test/x"},
        {"allow POST https://a.test/x where json base == main\n", "POST", "https://a.test/x",
         "{\"base\":1.5}", NULL, "allow POST https://a.test/x"},
        {"allow GET https://a.test/x where header X ~ a|b\n", "GET", "https://a.test/x", "", "X: c",
         "allow GET https://a.test/x where header X == \"c\""},
        /* a deny, an ask, the form of a request: no rule helps */
        {"deny POST https://a.test/** where json base == dev\n", "POST", "https://a.test/x",
         "{\"base\":\"dev\"}", NULL, ""},
        {"ask POST https://a.test/** where json base == main\n", "POST", "https://a.test/x", "{", NULL, ""},
        {"allow GET https://a.test/x\n", "POST", "https://a.test/r/git-receive-pack", "", NULL, ""},
        {"deny * https://a.test/\ndeny GET https://10.0.0.1/x\n", "GET", "https://10.0.0.1/x", "", NULL, ""},
        {"deny * https://a.test/\n", "GET", "https://10.0.0.1/x", "", NULL, "allow GET https://10.0.0.1/x"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe q;
        probe_http(&q, rows[i].method, rows[i].url, rows[i].body, rows[i].header);
        wants(rows[i].policy, &q, rows[i].wanted);
    }
}

/* A mutation is permitted by its name, and the push that it amounts to by a push rule: both are proposed. */
static void other_doors(void **state) {
    static const struct {
        const char *policy, *method, *url, *body, *wanted;
    } rows[] = {
        {PUSHES "allow * " GH "/**\n", "PUT", GH "/contents/x", "{\"branch\":\"main\"}",
         "allow push https://github.com/acme/app refs/heads/main update"},
        {PUSHES "allow * " GH "/**\n", "PUT", GH "/contents/x", "{\"message\":\"m\"}",
         "allow push https://github.com/acme/app refs/** update"},
        {PUSHES, "PUT", GH "/contents/x", "{\"branch\":\"main\"}",
         "allow PUT " GH "/contents/x\nallow push https://github.com/acme/app refs/heads/main update"},
        {"allow push https://github.com/acme/app paths src/**\nallow * " GH "/**\n", "PUT",
         GH "/contents/a/b", "{\"branch\":\"main\"}",
         "allow push https://github.com/acme/app refs/heads/main update paths a/b"},
        {PUSHES "deny push https://github.com/acme/app paths .github/**\nallow * " GH "/**\n", "PUT",
         GH "/contents/.github/x", "{\"branch\":\"fix/1\"}", ""},
        {PUSHES, "PUT", GH "/contents/x", NULL,
         "allow PUT " GH "/contents/x  # if push rules permit what it writes"},
        {PUSHES "allow * " GH "/**\n", "POST", GH "/frob", "{}", "allow POST " GH "/frob"},
        {PUSHES, "POST", GQL, "{\"query\":\"{ viewer { login } }\"}",
         "allow POST " GQL " where graphql operation == query and graphql field == viewer"},
        {PUSHES "allow POST " GQL " where graphql operation == query\n", "POST", GQL,
         "{\"query\":\"mutation { a: addComment(input: {}) { id } addStar(input: {}) { id } }\"}",
         "allow POST " GQL " where graphql operation == mutation and graphql field in (addComment, addStar)"},
        {PUSHES, "POST", GQL,
         "{\"query\":\"mutation { createRef(input: {repositoryId: \\\"R_1\\\", name: \\\"refs/heads/m\\\", "
         "oid: "
         "\\\"1\\\"}) { clientMutationId } }\"}",
         "allow POST " GQL " where graphql operation == mutation and graphql field == createRef\n"
         "allow push https://github.com/** refs/heads/m create"},
        {PUSHES "allow POST " GQL "\n", "POST", GQL, "{\"query\":\"mutation { frob(input: {}) { id } }\"}",
         "allow POST " GQL " where graphql operation == mutation and graphql field == frob"},
        {PUSHES "allow POST " GQL "\n", "POST", GQL, "{\"query\":\"{ ...A } fragment A on Q { ...A }\"}", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe q;
        probe_http(&q, rows[i].method, rows[i].url, rows[i].body, NULL);
        wants(rows[i].policy, &q, rows[i].wanted);
    }
}

static void pushed(const char *policy, const char *ref, enum facts_op op, const char *const *paths,
                   uint64_t size, const char *author, const char *wanted) {
    struct probe q = {.header = NULL};
    asking_init(&q.a, FACTS_GIT_PUSH, "POST", REPO ".git/git-receive-pack");
    asking_ref(&q.a, ref, op, false);
    for (; paths && paths[q.brought.npaths]; q.brought.npaths++)
        q.paths[q.brought.npaths].text = slice_str(paths[q.brought.npaths]);
    q.author.text = slice_str(author);
    q.brought.paths_known = paths != NULL;
    q.brought.paths = q.paths;
    q.brought.authors_known = q.brought.commits_known = q.brought.signed_known = author != NULL;
    q.brought.authors = &q.author;
    q.brought.nauthors = 1;
    q.brought.ncommits = 5;
    q.a.refs[0].brought = &q.brought;
    q.a.f.size = q.a.f.blob = size;
    q.a.f.size_known = q.a.f.blob_known = size > 0;
    wants(policy, &q, wanted);
}

/* … and of what a push brings. */
static void brought(void **state) {
    static const char *const two[] = {"src/a", "doc/b c", NULL}, *const odd[] = {"a*b", NULL},
                             *const many[] = {"a/1", "a/2", "b/3", "c", "d/4", "d/5", "e", "f", "g", NULL};
    const char *fix = "refs/heads/fix/1";
    (void)state;
    pushed("allow push " REPO " refs/heads/* paths src/** max-size 1KiB\n", fix, FACTS_CREATE, two, 1000,
           NULL, "allow push " REPO " refs/heads/fix/1 create paths src/a \"doc/b c\" max-size 1KiB");
    pushed("allow push " REPO " refs/heads/* paths src/** max-size 1KiB\n", fix, FACTS_CREATE, two, 1 << 20,
           NULL, "allow push " REPO " refs/heads/fix/1 create paths src/a \"doc/b c\" max-size 1MiB");
    pushed("allow push " REPO " paths src/**\n", fix, FACTS_UPDATE, many, 0, NULL,
           "allow push " REPO " refs/heads/fix/1 update paths a/** b/** c d/** e f g");
    pushed("allow push " REPO " paths src/**\n", fix, FACTS_UPDATE, odd, 0, NULL,
           "allow push " REPO " refs/heads/fix/1 update");
    pushed("allow push " REPO " max-blob 1GiB max-commits 2 author *@corp.test signed\n", fix, FACTS_CREATE,
           two, (5ull << 30) + 1, "Eve E <e@evil.test>",
           "allow push " REPO " refs/heads/fix/1 create max-blob 5242881KiB max-commits 5 author \"Eve E "
           "<e@evil.test>\"");
    /* on another ref, by another operation */
    pushed("allow push " REPO " refs/heads/fix/* create paths src/**\n", "refs/heads/x", FACTS_CREATE, two, 0,
           NULL, "allow push " REPO " refs/heads/x create paths src/a \"doc/b c\"");
    pushed("allow push " REPO " refs/heads/fix/* create paths src/**\n", fix, FACTS_DELETE, NULL, 0, NULL,
           "allow push " REPO " refs/heads/fix/1 delete");
    pushed("allow push " REPO " refs/heads/*\ndeny push " REPO " paths doc/**\n", fix, FACTS_CREATE, two, 0,
           NULL, "");
    pushed("allow push " REPO " refs/heads/*\ndeny push " REPO " paths doc/**\n", fix, FACTS_CREATE, NULL, 0,
           NULL, "");
    pushed("deny push " REPO " refs/heads/fix/*\n", "refs/heads/x", FACTS_FORCE, NULL, 0, NULL,
           "allow push " REPO " refs/heads/x force");
}

/* That an update was not proved a fast-forward is no reason to permit more than updates. */
static void not_looked_at(void **state) {
    static const char *const rules[] = {"allow push " REPO " refs/heads/a\n", "allow push " REPO "\n"};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (unsigned unproved = 0; unproved < 2; unproved++) {
            struct probe q = {.header = NULL};
            asking_init(&q.a, FACTS_GIT_PUSH, "POST", REPO ".git/git-receive-pack");
            asking_ref(&q.a, "refs/heads/x", FACTS_FORCE, unproved);
            wants(rules[i], &q,
                  unproved && i == 0 ? "allow push " REPO
                                       " refs/heads/x force  # update, if it is a fast-forward"
                                     : "allow push " REPO " refs/heads/x force");
        }
}

/* All refs of a push, or none. */
static void many_refs(void **state) {
    (void)state;
    for (size_t n = 1; n <= 10; n++) {
        struct probe q = {.header = NULL};
        static char names[10][32];
        struct buf wanted;
        buf_init(&wanted, 4096);
        asking_init(&q.a, FACTS_GIT_PUSH, "POST", REPO ".git/git-receive-pack");
        asking_ref(&q.a, "refs/heads/ok", FACTS_UPDATE, false);
        for (size_t i = 0; i < n; i++) {
            snprintf(names[i], sizeof names[i], "refs/heads/b%zu", i);
            asking_ref(&q.a, names[i], FACTS_CREATE, false);
            buf_printf(&wanted, "%sallow push " REPO " %s create", i ? "\n" : "", names[i]);
        }
        wants("allow push " REPO " refs/heads/ok\n", &q, n <= 8 ? buf_cstr(&wanted) : "");
        buf_release(&wanted);
    }
    struct probe q = {.header = NULL};
    asking_init(&q.a, FACTS_GIT_PUSH, "POST", REPO ".git/git-receive-pack");
    asking_ref(&q.a, "refs/heads/ok", FACTS_UPDATE, false);
    asking_ref(&q.a, "refs/heads/b", FACTS_CREATE, false);
    struct probe again = q;
    again.a.f.refs = again.a.refs;
    q.a.f.refs = q.a.refs;
    /* one request has one credential */
    wants("allow push " REPO " refs/heads/ok with c\n", &q, "allow push " REPO " refs/heads/b create with c");
    asking_init(&again.a, FACTS_GIT_PUSH, "POST", REPO ".git/git-receive-pack");
    asking_ref(&again.a, "refs/heads/no", FACTS_UPDATE, false);
    asking_ref(&again.a, "refs/heads/b", FACTS_CREATE, false);
    wants("deny push " REPO " refs/heads/no\n", &again, "");
}

/* --- whatever the policy ------------------------------------------------------------------------------------- */

static void random_policy(char *text, size_t size) {
    static const char *const verbs[] = {"allow", "allow", "allow", "deny", "ask"};
    static const char *const http[] = {"GET https://a.test/x",   "POST https://a.test/*",
                                       "* https://*.test/**",    "POST https://api.github.com/**",
                                       "PUT " GH "/contents/**", "POST " GQL,
                                       "lfs https://a.test/r"};
    static const char *const parts[] = {"",
                                        "",
                                        " where json base == main",
                                        " where json base != main and header X == y",
                                        " where query q in (1, 2)",
                                        " where graphql operation == query",
                                        " where graphql field == deleteRef"};
    static const char *const pushes[] = {"push https://g.test/acme/app refs/heads/fix/*",
                                         "push https://*.test/** refs/**",
                                         "push https://github.com/acme/app",
                                         "push https://github.com/** refs/heads/*",
                                         "fetch https://g.test/**",
                                         "fetch https://g.test/acme/app refs/heads/a"};
    static const char *const brings[] = {"", "", " paths src/**", " author *@a.test", " options topic=*"};
    static const char *const limits[] = {
        "", "", " max-size 1KiB", " max-commits 2", " signed", " max-blob 1KiB"};
    size_t n = 0, rules = 1 + chance(5);
    text[0] = 0;
    for (size_t i = 0; i < rules; i++) {
        const char *verb = PICK(verbs), *what = chance(2) ? PICK(http) : PICK(pushes);
        bool push = strncmp(what, "push", 4) == 0, fetch = strncmp(what, "fetch", 5) == 0;
        if (fetch && strcmp(verb, "ask") == 0)
            verb = "allow";
        n += (size_t)snprintf(text + n, size - n, "%s %s%s%s\n", verb, what,
                              push                           ? PICK(brings)
                              : fetch                        ? ""
                              : strncmp(what, "lfs", 3) == 0 ? ""
                                                             : PICK(parts),
                              push && strcmp(verb, "deny") != 0 ? PICK(limits) : "");
    }
}

static void random_request(struct probe *q) {
    static const char *const urls[] = {"https://a.test/x",
                                       "https://a.test/x/y?q=1",
                                       "https://b.test/?q=3",
                                       GQL,
                                       GH "/contents/x",
                                       GH "/merges",
                                       GH "/frob",
                                       "https://a.test/r.git/info/lfs/objects/batch",
                                       "https://a.test/a%2fb"};
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};
    static const char *const bodies[] = {
        "",
        "{\"base\":\"main\"}",
        "{\"base\":\"dev\",\"head\":\"x\",\"branch\":\"main\"}",
        "{\"branch\":\"fix/1\"}",
        "{\"query\":\"{ viewer }\"}",
        "{\"query\":\"mutation { deleteRef(input: {refId: \\\"R\\\"}) { x } }\"}",
        "{\"operation\":\"upload\"}",
        "{"};
    static const char *const headers[] = {NULL, "X: y", "X: z"};
    static const char *const refs[] = {"refs/heads/fix/1", "refs/heads/main", "refs/for/main%topic=x"};
    static const char *const repos[] = {REPO, "https://github.com/acme/app", "https://github.com/acme/b"};
    if (chance(2)) {
        probe_http(q, PICK(methods), PICK(urls), PICK(bodies), PICK(headers));
        return;
    }
    *q = (struct probe){.header = NULL};
    bool push = chance(3);
    asking_init(&q->a, push ? FACTS_GIT_PUSH : FACTS_GIT_FETCH, "POST", PICK(repos));
    for (size_t i = chance(3); i > 0; i--) {
        asking_ref(&q->a, PICK(refs), (enum facts_op)chance(FACTS_FORCE + 1), false);
        q->a.refs[q->a.f.nrefs - 1].brought = &q->brought;
    }
    q->paths[0].text = chance(2) ? SLICE("src/a") : SLICE("b");
    q->author.text = chance(2) ? SLICE("a <a@a.test>") : SLICE("b <b@b.test>");
    q->brought = (struct facts_brought){.paths_known = chance(2),
                                        .paths = q->paths,
                                        .npaths = 1,
                                        .commits_known = chance(2),
                                        .ncommits = 1 + chance(4),
                                        .authors_known = chance(2),
                                        .authors = &q->author,
                                        .nauthors = 1,
                                        .signed_known = chance(2)};
    q->a.f.size_known = q->a.f.blob_known = chance(2);
    q->a.f.size = q->a.f.blob = chance(2000);
}

static void every_one_permits(void **state) {
    size_t hints = 0, none = 0;
    (void)state;
    for (uint32_t i = 0; i < 6000; i++) {
        char text[2048];
        struct probe q;
        enum verdict_action then;
        seed = i * 7919u + 13u;
        random_policy(text, sizeof text);
        random_request(&q);
        q.a.f.field_arg = &q;
        q.a.f.refs = q.a.refs;
        char *hint = hinted(text, &q.a.f, &then);
        if (*hint && then != VERDICT_ALLOW)
            fail_msg("%s--- proposes\n%s\n--- which does not permit it", text, hint);
        hints += *hint != 0;
        none += !*hint && then == VERDICT_DENY;
        free(hint);
        buf_release(&q.a.path);
    }
    assert_true(hints > 1500 && none > 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions),    cmocka_unit_test(other_doors), cmocka_unit_test(brought),
        cmocka_unit_test(not_looked_at), cmocka_unit_test(many_refs),   cmocka_unit_test(every_one_permits),
    };
    return cmocka_run_group_tests_name("policy_hint", tests, NULL, NULL);
}
