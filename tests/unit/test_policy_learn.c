/* learn: what is seen becomes the rule that a person would write, what is not to be permitted is not. */
#include "tests/unit/policy_support.h"

#include "policy/learn.h"

static bool usual(void *arg, enum url_scheme scheme, struct slice host) {
    (void)arg;
    (void)scheme;
    return slice_ends(host, SLICE(".test"));
}

/* Members that a lesson leaves out are 0. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct lesson {
    const char *what, *url, *ref;
    enum facts_op op;
    bool unproved;
    unsigned sent;
    bool denied;
    const char *credential;
};

static char *learn(const struct lesson *list, size_t n) {
    struct learner *l = learner_new();
    struct buf out;
    for (size_t i = 0; i < n; i++) {
        struct asking a;
        bool push = strcmp(list[i].what, "push") == 0, fetch = strcmp(list[i].what, "fetch") == 0;
        asking_init(&a,
                    push    ? FACTS_GIT_PUSH
                    : fetch ? FACTS_GIT_FETCH
                            : FACTS_HTTP,
                    push || fetch ? "POST" : list[i].what, list[i].url);
        if (list[i].ref)
            asking_ref(&a, list[i].ref, list[i].op, list[i].unproved);
        assert_int_equal(learner_add(l, &a.f, slice_str(list[i].credential), list[i].sent, list[i].denied,
                                     SLICE("no rule names this host")),
                         0);
        buf_release(&a.path);
    }
    buf_init(&out, 1 << 20);
    assert_int_equal(learner_write(l, usual, NULL, &out), 0);
    char *text = strdup(buf_cstr(&out));
    buf_release(&out);
    learner_free(l);
    policy_free(load_text(text)); /* loads, and what it expects holds */
    return text;
}

/* The lines that are no comments and no expectations. */
static void learns(const struct lesson *list, size_t n, const char *rules, const char *part) {
    char *text = learn(list, n), got[4096] = "";
    for (char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        if (strncmp(line, "allow", 5) == 0)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s\n", (int)(end - line), line);
    }
    if (strcmp(got, rules) != 0 || (part && !strstr(text, part)))
        fail_msg("wanted:\n%s%s\ngot:\n%s\nof:\n%s", rules, part ? part : "", got, text);
    free(text);
}

#define LEARNS(rules, part, ...)                                                                             \
    do {                                                                                                     \
        const struct lesson list_[] = {__VA_ARGS__};                                                         \
        learns(list_, sizeof list_ / sizeof *list_, rules, part);                                            \
    } while (0)

static void paths(void **state) {
    (void)state;
    LEARNS("allow GET https://a.test/\n", "# seen 2 times: /", {"GET", "https://a.test/"},
           {"GET", "https://a.test/?q"});
    /* two stay as they are, three do not */
    LEARNS("allow GET https://a.test/x/1\nallow GET https://a.test/x/2\n", NULL,
           {"GET", "https://a.test/x/1"}, {"GET", "https://a.test/x/2"});
    LEARNS("allow GET https://a.test/x/*\n", "expect allow GET https://a.test/x/1",
           {"GET", "https://a.test/x/1"}, {"GET", "https://a.test/x/2"}, {"GET", "https://a.test/x/3"});
    LEARNS("allow GET https://a.test/*\nallow GET https://a.test/*/-/*\n", NULL, {"GET", "https://a.test/p"},
           {"GET", "https://a.test/q"}, {"GET", "https://a.test/r"}, {"GET", "https://a.test/p/-/p.tgz"},
           {"GET", "https://a.test/q/-/q.tgz"}, {"GET", "https://a.test/r/-/r.tgz"});
    LEARNS("allow GET https://a.test/@a%2F*\n", NULL, {"GET", "https://a.test/@a%2fb"},
           {"GET", "https://a.test/@a%2fc"}, {"GET", "https://a.test/@a%2fd"});
    LEARNS("allow GET,HEAD https://a.test/x\nallow GET,HEAD https://a.test/y\n", NULL,
           {"GET", "https://a.test/x"}, {"HEAD", "https://a.test/y"});
    LEARNS("allow GET https://a.test/$$x\n", NULL, {"GET", "https://a.test/$x"});
    LEARNS("allow GET https://a.test/x with c\n", "expect allow GET https://a.test/x with c",
           {"GET", "https://a.test/x", .credential = "c"});
}

/* What comes first has nothing in common but the server, unless it is many, or goes on alike. */
static void first_parts(void **state) {
    (void)state;
    LEARNS("allow GET https://a.test/api\nallow GET https://a.test/login\nallow GET https://a.test/status\n",
           NULL, {"GET", "https://a.test/login"}, {"GET", "https://a.test/status"},
           {"GET", "https://a.test/api"});
    LEARNS("allow GET https://a.test/acme/app\nallow GET https://a.test/beta/lib\n"
           "allow GET https://a.test/gamma/tool\n",
           NULL, {"GET", "https://a.test/acme/app"}, {"GET", "https://a.test/beta/lib"},
           {"GET", "https://a.test/gamma/tool"});
    LEARNS("allow GET https://a.test/*/app\n", NULL, {"GET", "https://a.test/acme/app"},
           {"GET", "https://a.test/beta/app"}, {"GET", "https://a.test/gamma/app"});
    LEARNS("allow GET https://a.test/acme/*\nallow GET https://a.test/beta/lib\n", NULL,
           {"GET", "https://a.test/acme/a"}, {"GET", "https://a.test/acme/b"},
           {"GET", "https://a.test/acme/c"}, {"GET", "https://a.test/beta/lib"});
    LEARNS("allow GET https://a.test/*\nallow GET https://a.test/*%2F*\n", NULL, {"GET", "https://a.test/a0"},
           {"GET", "https://a.test/a1"}, {"GET", "https://a.test/a2"}, {"GET", "https://a.test/a3"},
           {"GET", "https://a.test/a4"}, {"GET", "https://a.test/a5"}, {"GET", "https://a.test/a6"},
           {"GET", "https://a.test/@a%2Fb"}, {"GET", "https://a.test/@a%2Fc"},
           {"GET", "https://a.test/@a%2Fd"}, {"GET", "https://a.test/@b%2Fd"},
           {"GET", "https://a.test/@c%2Fd"});
    LEARNS("allow push https://a.test/acme/app refs/heads/x create\n"
           "allow push https://a.test/beta/app refs/heads/x create\n"
           "allow push https://a.test/gamma/app refs/heads/x create\n",
           NULL, {"push", "https://a.test/acme/app/git-receive-pack", "refs/heads/x", FACTS_CREATE},
           {"push", "https://a.test/beta/app/git-receive-pack", "refs/heads/x", FACTS_CREATE},
           {"push", "https://a.test/gamma/app/git-receive-pack", "refs/heads/x", FACTS_CREATE});
    LEARNS("allow push https://a.test/r refs/heads/fix/* create\nallow push https://a.test/r refs/heads/main "
           "create\n"
           "allow push https://a.test/r refs/heads/release create\nallow push https://a.test/r refs/tags/v1 "
           "create\n",
           NULL, {"push", "https://a.test/r/git-receive-pack", "refs/heads/main", FACTS_CREATE},
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/release", FACTS_CREATE},
           {"push", "https://a.test/r/git-receive-pack", "refs/tags/v1", FACTS_CREATE},
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/fix/1", FACTS_CREATE},
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/fix/2", FACTS_CREATE},
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/fix/3", FACTS_CREATE});
}

static void careful(void **state) {
    (void)state;
    LEARNS("", "# not permitted: it is a write, with a body\n#allow POST https://a.test/x",
           {"POST", "https://a.test/x", .sent = 10});
    LEARNS("", "#allow DELETE https://a.test/x", {"DELETE", "https://a.test/x"});
    LEARNS("allow GET https://a.test/\n", "# not permitted: the host is none", {"GET", "https://a.test/"},
           {"GET", "https://elsewhere.example/"});
    LEARNS("", "it goes to an address", {"GET", "https://192.0.2.1/"});
    LEARNS("", "it was denied: no rule names this host", {"GET", "https://a.test/", .denied = true});
    LEARNS("", "two slashes", {"GET", "https://a.test/x//y"});
    /* what the command chose can neither write a rule nor a pattern */
    LEARNS("", "characters that patterns are made of", {"GET", "https://a.test/**"});
    LEARNS("", "characters that patterns are made of",
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/{a,b}", FACTS_CREATE});
    LEARNS("", "?allow * https",
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/x\nallow * https://*", FACTS_CREATE});
    LEARNS("allow push https://a.test/r refs/heads/$$x create\n", NULL,
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/$x", FACTS_CREATE});
}

static void git(void **state) {
    (void)state;
    LEARNS("allow fetch https://a.test/r\nallow push https://a.test/r refs/heads/x create\n",
           "expect deny push https://a.test/r refs/heads/x delete force",
           {"fetch", "https://a.test/r.git/git-upload-pack"},
           {"push", "https://a.test/r.git/git-receive-pack", "refs/heads/x", FACTS_CREATE});
    LEARNS("allow push https://a.test/r refs/heads/fix/* create\n", NULL,
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/fix/1", FACTS_CREATE},
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/fix/2", FACTS_CREATE},
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/fix/3", FACTS_CREATE});
    LEARNS("", "it deletes a ref",
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/x", FACTS_DELETE});
    LEARNS("", "# not permitted: it is forced\n#allow push https://a.test/r refs/heads/x force\n",
           {"push", "https://a.test/r/git-receive-pack", "refs/heads/x", FACTS_FORCE});
    /* nobody looked what it is: as a rule it is none that is forced */
    LEARNS(
        "",
        "# seen once: refs/heads/x update\n# not permitted: it may be no fast-forward: that was not looked "
        "at\n"
        "#allow push https://a.test/r refs/heads/x update\n#expect allow push https://a.test/r refs/heads/x "
        "update\n",
        {"push", "https://a.test/r/git-receive-pack", "refs/heads/x", FACTS_FORCE, true});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths), cmocka_unit_test(first_parts),
                                       cmocka_unit_test(careful), cmocka_unit_test(git)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
