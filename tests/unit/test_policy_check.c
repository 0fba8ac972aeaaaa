/* policy check and policy explain: each warning where it belongs, and none where nothing is wrong. */
#include "tests/unit/policy_support.h"

#include "policy/tools.h"

static bool has(void *arg, struct slice name) {
    return slice_eq(name, slice_str(arg));
}

static void check(const char *text, const char *vault, size_t count, const char *part) {
    struct policy *p = load_text(text);
    struct buf out;
    size_t n;
    buf_init(&out, 1 << 20);
    struct policy_print print = {.format = POLICY_TEXT, .out = &out};
    char name[64];
    snprintf(name, sizeof name, "%s", vault ? vault : "");
    assert_int_equal(policy_check(p, vault ? has : NULL, name, &print, &n), 0);
    const char *said = buf_cstr(&out);
    if (n != count || (part && !strstr(said, part)))
        fail_msg("%zu warnings, not %zu with '%s':\n%s", n, count, part ? part : "", said);
    buf_release(&out);
    policy_free(p);
}

#define PROVED "allow GET https://a.test/x with c\nexpect allow GET https://a.test/x with c\n"

static void good(void **state) {
    (void)state;
    check("", NULL, 0, NULL);
    check(PROVED, NULL, 0, NULL);
    check(PROVED, "c", 0, NULL);
    check("allow GET https://a.test/**\ndeny GET https://a.test/s/**\n", NULL, 0, NULL);
    /* each gives something that the other does not */
    check("allow GET https://a.test/a/*\nallow GET https://a.test/*/a\n", NULL, 0, NULL);
}

static void covered(void **state) {
    (void)state;
    check("allow GET https://a.test/**\nallow GET https://a.test/x\n", NULL, 1,
          "t.policy:1 covers this rule");
    check("allow GET https://a.test/x\nallow GET https://a.test/**\n", NULL, 1,
          "t.policy:2 covers this rule");
    check("allow GET https://a.test/x\nallow GET https://a.test/x\n", NULL, 1,
          "t.policy:2: warning: t.policy:1 covers");
    check("allow GET,HEAD https://a.test/x\nallow GET https://a.test/x\nallow HEAD https://a.test/x\n", NULL,
          3, NULL);
    check("allow GET https://*.a.test/\nallow GET https://b.a.test/\n", NULL, 1, "t.policy:1 covers");
    check("allow GET https://a.test/**\ndeny GET https://a.test/s/**\ndeny GET https://a.test/s/x\n", NULL, 1,
          "t.policy:2 covers");
}

static void dead(void **state) {
    (void)state;
    check("allow GET https://a.test/x\ndeny GET https://a.test/y\n", NULL, 1, "takes nothing away");
    check("allow GET https://a.test/x\ndeny POST https://a.test/x\n", NULL, 1, "takes nothing away");
    check("allow GET https://a.test/s/x\ndeny GET https://a.test/s/**\n", NULL, 1,
          "is denied by other rules");
    check("allow GET https://a.test/r/info/refs\nallow POST https://a.test/r/git-receive-pack\n"
          "allow POST https://a.test/r/git-receive-pack;x=1\nallow GET https://a.test/r/objects/info/packs\n",
          NULL, 4, "never match");
}

/* What another rule always decides, in another way. */
static void shadowed(void **state) {
    (void)state;
    check("allow GET https://a.test/**\n"
          "allow GET https://a.test/x with c\nexpect allow GET https://a.test/x\n",
          NULL, 2, "t.policy:1 decides all that this permits, in another way");
    check("allow GET https://a.test/x with c\nexpect allow GET https://a.test/x with c\n"
          "allow GET https://a.test/**\n",
          NULL, 0, NULL);
    check("allow GET https://a.test/**\nallow GET https://a.test/x limit 10/m\n", NULL, 1,
          "t.policy:1 decides");
    check("allow GET https://a.test/**\nallow GET https://a.test/x to private\n", NULL, 1,
          "t.policy:1 decides");
    check("ask GET https://a.test/**\nallow GET https://a.test/x\n", NULL, 1, "t.policy:1 decides");
    check("allow GET https://a.test/x\nask GET https://a.test/**\n", NULL, 1, "t.policy:2 decides");
    check("allow GET https://a.test/**\nask GET https://a.test/x\n", NULL, 0, NULL);
    check("allow GET https://a.test/a\nallow GET https://a.test/b limit 1/m\n"
          "allow GET https://a.test/{a,b} limit 2/m\n",
          NULL, 1, "earlier rules decide");
    /* an equal limit is counted for each rule by itself */
    check("allow GET https://a.test/x limit 10/m\nallow GET https://a.test/** limit 10/m\n", NULL, 0, NULL);
    /* what can't be followed may come first, or not */
    check("allow GET https://a.test~/[xy]\nallow GET https://a.test/x limit 1/m\n", NULL, 0, NULL);
}

/* What a rule says of the forge's API counts, too. */
static void doors(void **state) {
    (void)state;
    const char *api = "allow * https://git.x.test/**\n";
    char text[1024];
    /* no push is permitted at all, but that the rule is there closes the API of the repository */
    snprintf(text, sizeof text, "%sdeny push https://git.x.test/a/b\n", api);
    check(text, NULL, 1, "permits POST");
    snprintf(text, sizeof text, "%sallow push https://git.x.test/a/b\ndeny push https://git.x.test/a/b\n",
             api);
    check(text, NULL, 1, NULL);
    check("allow push https://h.test/a/b\ndeny push https://h.test/a/b\n", NULL, 1, "denied by other rules");
    check("allow push https://git.x.test/a/b\ndeny push https://git.x.test/a/b\n"
          "allow GET https://git.x.test/readme\n",
          NULL, 1, "denied by other rules");
    /* one that names the endpoint opens it, though another takes it, too */
    check("allow push https://github.com/a/b refs/heads/fix/*\n"
          "allow POST https://api.github.com/repos/a/b/unknown/door\n"
          "allow POST https://api.github.com/repos/a/b/unknown/*\n",
          NULL, 0, NULL);
    check("allow POST https://api.github.com/repos/a/b/issues\n"
          "allow POST https://api.github.com/repos/a/b/issue*\n",
          NULL, 1, "covers this rule");
}

static void git_lfs(void **state) {
    (void)state;
    check("allow GET https://a.test/**\ndeny lfs https://a.test/r\n", NULL, 0, NULL);
    check("allow GET https://a.test/x\ndeny lfs https://a.test/r\n", NULL, 1, "takes nothing away");
}

static void credentials(void **state) {
    (void)state;
    check("allow GET https://a.test/x with c\n", NULL, 1, "no `expect` proves this rule");
    check(PROVED, "other", 1, "the vault defines no credential 'c'");
    check("allow GET http://a.test/x with c\nexpect allow GET http://a.test/x\n", NULL, 1, "plain HTTP");
    check("allow GET https://*.a.test/x with c\nexpect allow GET https://b.a.test/x\n", NULL, 1, "wildcard");
}

static void methods(void **state) {
    (void)state;
    check("allow GTE https://a.test/\n", NULL, 1, "did you mean GET?");
    check("allow PROPFIND,REPORT https://a.test/\n", NULL, 0, NULL);
    check("allow FROBNICATE https://a.test/\n", NULL, 1, "no common method");
}

static void past_push(void **state) {
    (void)state;
    const char *push = "allow push https://github.com/acme/app refs/heads/fix/* create\n";
    char text[1024];
    snprintf(text, sizeof text, "%sallow PUT https://api.github.com/repos/acme/app/**\n", push);
    check(text, NULL, 1, "PUT /repos/acme/app/contents/**");
    snprintf(text, sizeof text, "%sallow POST https://api.github.com/graphql\n", push);
    check(text, NULL, 1, "POST /graphql");
    snprintf(text, sizeof text, "%sallow POST https://api.github.com/repos/acme/app/pulls\n", push);
    check(text, NULL, 0, NULL);
    check("allow push https://github.com/acme/app create update\n"
          "allow PUT https://api.github.com/repos/acme/app/contents/**\n",
          NULL, 0, NULL);
}

static void explained(void **state) {
    (void)state;
    struct policy *p = load_text("allow GET https://a.test/v1/*\nallow POST https://a.test/v1/x\n"
                                 "allow GET http://a.test/v2\n");
    struct asking a;
    struct buf out;
    bool permitted = true;
    buf_init(&out, 1 << 16);
    struct policy_print print = {.format = POLICY_TEXT, .out = &out};
    asking_init(&a, FACTS_HTTP, "GET", "https://a.test/v2");
    assert_int_equal(policy_show(p, &a.f, &print, &permitted), 0);
    const char *said = buf_cstr(&out);
    assert_false(permitted);
    static const char *const parts[] = {"deny GET https://a.test/v2",
                                        "t.policy:1: allow GET https://a.test/v1/*",
                                        "path: its pattern does not take /v2",
                                        "method: it is about POST",
                                        "scheme: it is about http",
                                        "allow GET https://a.test/v2"};
    const char *at = said;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        at = strstr(at, parts[i]); /* in this order: what came furthest first */
        if (!at)
            fail_msg("'%s' is not (there) in:\n%s", parts[i], said);
    }
    buf_release(&out);
    buf_release(&a.path);
    policy_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),        cmocka_unit_test(covered), cmocka_unit_test(dead),
        cmocka_unit_test(shadowed),    cmocka_unit_test(doors),   cmocka_unit_test(git_lfs),
        cmocka_unit_test(credentials), cmocka_unit_test(methods), cmocka_unit_test(past_push),
        cmocka_unit_test(explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
