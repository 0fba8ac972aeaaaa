/* Push rules judge what a request to a forge's API writes, beside the rules about HTTP. */
#include "tests/unit/policy_support.h"

#define PUSH "allow push https://github.com/acme/app refs/heads/fix/* create update\n"
#define ANY  "allow push https://github.com/** refs/** create update delete force\n"
#define OPEN "allow * https://api.github.com/**\n"
#define HUB  "https://api.github.com"
#define REPO HUB "/repos/acme/app"

static bool json_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    (void)arg;
    *name = SLICE("content-type");
    *value = SLICE("application/json");
    return i == 0;
}

static char *judged(const char *policy, const char *method, const char *url, const char *body) {
    struct policy *p = load_text(policy);
    struct asking a;
    struct verdict v;
    struct buf out, hint;
    buf_init(&out, 1 << 16);
    buf_init(&hint, 1 << 16);
    asking_init(&a, FACTS_HTTP, method, url);
    a.f.field = json_field;
    /* as the proxy does: the body is there if it is asked for */
    a.f.body_state = FACTS_BODY_UNREAD;
    if (!body || policy_needs_body(p, &a.f)) {
        a.f.body_state = FACTS_BODY_WHOLE;
        a.f.body = slice_str(body);
    }
    policy_judge(p, &a.f, &v);
    buf_printf(&out, "%s %s: ", verdict_action_name(v.action), verdict_reason_code(v.reason));
    policy_explain(p, &a.f, &v, 0, &out);
    policy_hint(p, &a.f, &v, &hint);
    if (buf_len(&hint))
        buf_printf(&out, " => %.*s", SLICE_ARG(buf_slice(&hint)));
    char *text = strdup(buf_cstr(&out));
    buf_release(&out);
    buf_release(&hint);
    buf_release(&a.path);
    policy_free(p);
    return text;
}

static void says(const char *policy, const char *method, const char *url, const char *body,
                 const char *wanted) {
    char *got = judged(policy, method, url, body);
    if (strncmp(got, wanted, strlen(wanted)) != 0)
        fail_msg("%s %s %s\n  is judged: %s\n  wanted:    %s", method, url, body ? body : "", got, wanted);
    free(got);
}

static void pushes(void **state) {
    (void)state;
    says(OPEN PUSH, "PUT", REPO "/contents/x", "{\"branch\":\"fix/1\"}",
         "allow allowed: allowed by t.policy:1, and what it writes by t.policy:2");
    says(OPEN PUSH, "PUT", REPO "/contents/x", "{\"branch\":\"main\"}",
         "deny no-rule-for-ref: the request updates refs/heads/main of https://github.com/acme/app: no rule "
         "allows a push "
         "to this ref => allow push https://github.com/acme/app refs/heads/main update");
    says(OPEN PUSH "deny push https://github.com/acme/app refs/heads/fix/frozen note \"ask first\"\n", "PUT",
         REPO "/contents/x", "{\"branch\":\"fix/frozen\"}",
         "deny denied-by-rule: the request updates refs/heads/fix/frozen of https://github.com/acme/app: "
         "denied by "
         "t.policy:3: ask first");
    says(OPEN PUSH, "PATCH", REPO "/git/refs/heads/fix/1", "{\"sha\":\"1\",\"force\":true}",
         "deny no-rule-for-operation");
    says(OPEN PUSH, "PATCH", REPO "/git/refs/heads/fix/1", "{\"sha\":\"1\"}", "allow");
    says(OPEN PUSH, "DELETE", REPO "/git/refs/heads/fix/1", NULL, "deny no-rule-for-operation");
    says(OPEN PUSH, "POST", HUB "/repos/acme/other/merges", "{\"base\":\"fix/1\"}", "deny no-rule-for-push");
    says(OPEN "allow push https://github.com/acme/app refs/heads/* create update\n", "POST",
         REPO "/branches/a/rename", "{\"new_name\":\"b\"}",
         "deny no-rule-for-operation"); /* the old one goes */
    /* a deny that is wider than what is allowed */
    says(OPEN "allow push https://github.com/**\ndeny push https://github.com/acme/app refs/heads/main\n",
         "PUT", HUB "/repos/ACME/App.git/contents/x", "{\"branch\":\"Main\"}", "deny denied-by-rule");
    /* what can't be read, or is in no table, may be anything: it takes rules that permit that */
    for (size_t i = 0; i < 2; i++) {
        const char *url = i ? REPO "/frob" : REPO "/merges", *body = i ? "{}" : "{";
        says(OPEN ANY, "POST", url, body, "allow");
        says(OPEN ANY "allow push https://gist.github.com/x\n", "POST", url, body,
             i ? "allow" : "deny write-unreadable");
        says(OPEN ANY "deny push https://github.com/**/frozen\n", "POST", url, body,
             i ? "allow" : "deny write-unreadable");
        says(OPEN ANY "deny push https://github.com/** refs/heads/main\n", "POST", url, body,
             "deny write-un");
        says(OPEN "allow push https://github.com/** refs/** create update delete\n", "POST", url, body,
             "deny write-un");
        says(OPEN "allow push https://github.com/** refs/** create update delete force paths **\n", "POST",
             url, body, "deny write-un");
        says(OPEN "ask push https://github.com/** refs/** create update delete force\n", "POST", url, body,
             "deny write-un");
    }
    /* no rule about HTTP: those about pushes give nothing */
    says(PUSH, "PUT", REPO "/contents/x", "{\"branch\":\"fix/1\"}", "deny no-rule-for-host");
    /* without a word about pushes the known doors of a known forge are shut */
    says(OPEN, "PUT", REPO "/contents/x", "{\"branch\":\"fix/1\"}", "deny no-rule-for-host");
    says(OPEN, "GET", REPO "/contents/x", NULL, "allow");
    /* an ask */
    says(OPEN "ask push https://github.com/acme/app refs/heads/main\n", "PUT", REPO "/contents/x",
         "{\"branch\":\"main\"}", "ask asked: the request updates refs/heads/main");
}

static void files(void **state) {
    (void)state;
    const char *policy = OPEN PUSH "deny push https://github.com/acme/app paths .github/**\n";
    says(policy, "PUT", REPO "/contents/src/a.c", "{\"branch\":\"fix/1\"}", "allow");
    says(policy, "PUT", REPO "/contents/.github/workflows/x.yml", "{\"branch\":\"fix/1\"}",
         "deny denied-by-rule");
    says(policy, "POST", REPO "/merges", "{\"base\":\"fix/1\",\"head\":\"x\"}",
         "deny denied-by-rule"); /* not known */
    says(OPEN "allow push https://github.com/acme/app refs/heads/fix/* paths docs/**\n", "PUT",
         REPO "/contents/docs/a", "{\"branch\":\"fix/1\"}", "allow");
    says(OPEN "allow push https://github.com/acme/app refs/heads/fix/* paths docs/**\n", "PUT",
         REPO "/contents/a", "{\"branch\":\"fix/1\"}", "deny paths");
    says(OPEN "allow push https://github.com/acme/app refs/heads/fix/* max-size 8\n", "PUT",
         REPO "/contents/a", "{\"branch\":\"fix/1\"}", "deny max-size");
}

static void unknown_refs(void **state) {
    (void)state;
    says(OPEN PUSH, "PUT", REPO "/contents/x", "{}",
         "deny no-rule-for-ref: the request updates a ref of https://github.com/acme/app (the default "
         "branch, which the "
         "request does not name): no rule allows a push to this ref");
    says(OPEN PUSH, "PUT", REPO "/pulls/7/merge", "{}", "deny no-rule-for-ref");
    /* permitted whichever it is */
    says(OPEN "allow push https://github.com/acme/app\n", "PUT", REPO "/pulls/7/merge", "{}", "allow");
    says(OPEN "allow push https://github.com/acme/app refs/**\n", "PUT", REPO "/pulls/7/merge", "{}",
         "allow");
    says(OPEN "allow push https://github.com/acme/app refs/heads/**\n", "PUT", REPO "/pulls/7/merge", "{}",
         "deny");
    says(OPEN
         "allow push https://github.com/acme/app\ndeny push https://github.com/acme/app refs/heads/main\n",
         "PUT", REPO "/pulls/7/merge", "{}", "deny denied-by-rule");
    says(OPEN "allow push https://github.com/**\n", "PUT", HUB "/repositories/7/pulls/7/merge", "{}",
         "allow");
    says(OPEN "allow push https://github.com/acme/**\n", "PUT", HUB "/repositories/7/pulls/7/merge", "{}",
         "deny no-rule-for-push");
    says(OPEN "allow push https://github.com/**\ndeny push https://github.com/a/b refs/heads/x\n", "PUT",
         HUB "/repositories/7/pulls/7/merge", "{}", "deny denied-by-rule");
}

static void unreadable(void **state) {
    (void)state;
    says(OPEN PUSH, "PUT", REPO "/contents/x", "[1]",
         "deny write-unreadable: what it writes to a repository can't be read "
         "for certain: the body is no JSON object");
    says(OPEN PUSH, "POST", HUB "/graphql", "{\"id\":\"stored\"}", "deny write-unreadable");
    says(OPEN PUSH, "GET", HUB "/graphql.json?query=mutation%7Bx%7D&a=b", NULL, "deny write-unreadable");
}

#define SPOKEN "deny write-unknown"

static void unknown_endpoints(void **state) {
    (void)state;
    says(OPEN PUSH, "POST", REPO "/newthing", "{}", SPOKEN);
    says(OPEN PUSH, "POST", HUB "/repos/acme/other/newthing", "{}", "allow"); /* nobody speaks of it */
    says(OPEN PUSH, "POST", HUB "/newthing", "{}", SPOKEN);                   /* whatever it is about */
    says(OPEN, "POST", REPO "/newthing", "{}", "allow");
    says("allow POST " REPO "/newthing\n" PUSH, "POST", REPO "/newthing", "{}", "allow");
    says("allow POST " REPO "/new*\n" PUSH, "POST", REPO "/newthing", "{}", SPOKEN);
    says("allow * " REPO "/newthing\n" PUSH, "POST", REPO "/newthing", "{}", SPOKEN);
    says("let r = acme/app\nallow POST " HUB "/repos/$r/newthing\n" PUSH, "POST", REPO "/newthing", "{}",
         "allow");
    says(OPEN PUSH, "POST", REPO "/pulls", "{}", "allow");
    says(OPEN PUSH, "POST", REPO "/issues/7/comments", "{}", "allow");
    const char *strange = "{\"query\":\"mutation{inventThing(input:{}){a}}\"}";
    says(OPEN PUSH, "POST", HUB "/graphql", strange, SPOKEN);
    says("allow POST " HUB "/graphql\n" PUSH, "POST", HUB "/graphql", strange, SPOKEN);
    says("allow POST " HUB "/graphql where graphql field == inventThing\n" PUSH, "POST", HUB "/graphql",
         strange, "allow");
    says("allow POST " HUB "/graphql where graphql field in (inventThing, addStar)\n" PUSH, "POST",
         HUB "/graphql", strange, "allow");
    says("allow POST " HUB "/graphql where graphql field != addStar\n" PUSH, "POST", HUB "/graphql", strange,
         SPOKEN);
    /* what is named does not open what stands beside it */
    says("allow POST " HUB "/graphql where graphql field in (inventThing, deleteRef)\n" PUSH, "POST",
         HUB "/graphql",
         "{\"query\":\"mutation{inventThing(input:{}){a} deleteRef(input:{refId:\\\"R\\\"}){a}}\"}",
         "deny no-rule-for-push");
}

static void hosts(void **state) {
    (void)state;
    const char *body = "{\"branch\":\"main\"}";
    const char *corp = "allow * https://git.corp/**\nallow * https://api.git.corp/**\n"
                       "allow push https://git.corp/acme/app refs/heads/fix/*\n";
    says(corp, "PUT", "https://git.corp/api/v3/repos/acme/app/contents/x", body, "deny no-rule-for-ref");
    says(corp, "PUT", "https://git.corp/api/v1/repos/acme/app/contents/x", body, "deny no-rule-for-ref");
    says(corp, "POST", "https://git.corp/api/v4/projects/9/repository/branches", body,
         "deny no-rule-for-push");
    says(corp, "PUT", "https://api.git.corp/repos/acme/app/contents/x", body, "deny no-rule-for-ref");
    says(corp, "POST", "https://git.corp/api/graphql", "{\"query\":\"mutation{x}\"}", SPOKEN);
    says(corp, "POST", "https://git.corp/other/thing", body, "allow");
    /* nothing makes this host a forge */
    says("allow * https://a.test/**\n", "PUT", "https://a.test/api/v3/repos/acme/app/contents/x", body,
         "allow");
    says("allow * https://a.test/**\nallow fetch https://a.test/acme/app\n", "PUT",
         "https://a.test/api/v3/repos/acme/app/contents/x", body, "deny no-rule-for-push");
    says("allow * https://a.test/**\nallow push https://*.test/acme/app\n", "PUT",
         "https://a.test/api/v3/repos/acme/app/contents/x", body, "allow");
}

/* --- options of a push -------------------------------------------------------------------------------------- */

static void pushes_with(const char *policy, const char *ref, const char *option, const char *wanted) {
    struct policy *p = load_text(policy);
    struct asking a;
    struct verdict v;
    struct buf out;
    struct slice options[] = {slice_str(option), SLICE("ci.skip")};
    buf_init(&out, 1 << 16);
    asking_init(&a, FACTS_GIT_PUSH, "POST", "https://github.com/acme/app.git/git-receive-pack");
    asking_ref(&a, ref, FACTS_CREATE, false);
    a.f.options = options;
    a.f.noptions = option ? 2 : 0;
    policy_judge(p, &a.f, &v);
    buf_printf(&out, "%s: ", verdict_action_name(v.action));
    policy_explain_ref(p, &a.f, &v, &out);
    buf_puts(&out, " => ");
    policy_hint(p, &a.f, &v, &out);
    if (strncmp(buf_cstr(&out), wanted, strlen(wanted)) != 0)
        fail_msg("%s -o %s\n  is judged: %s\n  wanted:    %s", ref, option ? option : "", buf_cstr(&out),
                 wanted);
    buf_release(&out);
    buf_release(&a.path);
    policy_free(p);
}

static void push_options(void **state) {
    (void)state;
    const char *fix = "refs/heads/fix/1";
    const char *named =
        "allow push https://github.com/acme/app refs/heads/fix/* options merge_request.create topic=*\n";
    pushes_with(PUSH, fix, NULL, "allow");
    pushes_with(PUSH, fix, "integrations.skip_ci", "allow");
    pushes_with(
        PUSH, fix, "merge_request.create",
        "deny: t.policy:1 would permit it, but for `merge_request.create`: a push option that it does not "
        "name "
        "=> allow push https://github.com/acme/app refs/heads/fix/1 create options merge_request.create");
    pushes_with(
        PUSH, fix, "a title",
        "deny: t.policy:1 would permit it, but for `a title`: a push option that it does not name => ");
    pushes_with(named, fix, "merge_request.create", "allow");
    pushes_with(named, fix, "topic=x", "allow");
    pushes_with(named, fix, "topic=x/y", "deny");
    pushes_with(named, fix, "Topic=x", "deny");
    pushes_with(named, fix, "merge_request.auto_merge", "deny");
    pushes_with("allow push https://github.com/acme/app options **\ndeny push https://github.com/acme/app "
                "options *merge*\n",
                fix, "x.Merge", "deny: denied by t.policy:2");
    pushes_with("allow push https://github.com/acme/app options **\ndeny push https://github.com/acme/app "
                "options *merge*\n",
                fix, "other", "allow");
    /* Gerrit's stand in the ref */
    pushes_with("allow push https://github.com/acme/app refs/for/*\n", "refs/for/main", NULL, "allow");
    pushes_with("allow push https://github.com/acme/app refs/for/*\n", "refs/for/main%submit", NULL, "deny");
    pushes_with("allow push https://github.com/acme/app refs/for/* options topic=*\n",
                "refs/for/main%topic=a", NULL, "allow");
    pushes_with("allow push https://github.com/acme/app refs/for/* options topic=*\n",
                "refs/for/main%topic=a,submit", NULL, "deny");
    pushes_with("allow push https://github.com/acme/app refs/for/* options **\ndeny push "
                "https://github.com/acme/app options submit\n",
                "refs/for/main%topic=a,submit", NULL, "deny: denied by");
    pushes_with("allow push https://github.com/acme/app refs/for/* options topic=*\n", "refs/for/main%", NULL,
                "deny");
}

/* Expectations tell what the proxy would do. */
static void expectations(void **state) {
    (void)state;
    policy_free(load_text(OPEN PUSH "expect deny PUT " REPO "/contents/x\n"
                                    "expect deny PUT " REPO "/contents/x body {\"branch\":\"main\"}\n"
                                    "expect allow PUT " REPO "/contents/x body {\"branch\":\"fix/1\"}\n"
                                    "expect allow POST " REPO "/pulls\n"
                                    "expect deny PUT " REPO "/pulls/7/merge\n"));
    char *text = load_errors(OPEN PUSH "expect allow PUT " REPO "/contents/x body {\"branch\":\"main\"}\n",
                             NULL, NULL);
    assert_non_null(strstr(
        text, "the request updates refs/heads/main of https://github.com/acme/app: no rule allows a push"));
    free(text);
}

/* A body is asked for where it matters, and nowhere else. */
static void bodies(void **state) {
    (void)state;
    struct policy *p = load_text(OPEN PUSH);
    struct asking a;
    static const struct {
        const char *method, *url;
        bool needed;
    } cases[] = {{"PUT", REPO "/contents/x", true},
                 {"POST", HUB "/graphql", true},
                 {"POST", REPO "/pulls", false},
                 {"GET", REPO "/contents/x", false},
                 {"POST", REPO "/newthing", false},
                 {"PUT", "https://other.test/contents/x", false},
                 {"POST", REPO "/issues/1/comments", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asking_init(&a, FACTS_HTTP, cases[i].method, cases[i].url);
        assert_int_equal(policy_needs_body(p, &a.f) > 0, cases[i].needed);
        buf_release(&a.path);
    }
    policy_free(p);
    p = load_text(PUSH "allow PUT https://api.github.com/repos/acme/app/other\n"); /* denied without a look */
    asking_init(&a, FACTS_HTTP, "PUT", REPO "/contents/x");
    assert_int_equal(policy_needs_body(p, &a.f), 0);
    buf_release(&a.path);
    policy_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes),
        cmocka_unit_test(files),
        cmocka_unit_test(unknown_refs),
        cmocka_unit_test(unreadable),
        cmocka_unit_test(unknown_endpoints),
        cmocka_unit_test(hosts),
        cmocka_unit_test(expectations),
        cmocka_unit_test(push_options),
        cmocka_unit_test(bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
