/* policy: fetch and push, refs and operations, words and hints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/policy_support.h"

#define REPO "https://g.test/acme/app"

static void test_fetch(void **state) {
    static const struct {
        const char *rule, *url;
        enum verdict_reason reason;
    } rows[] = {
        {"allow fetch " REPO, REPO ".git/git-upload-pack", REASON_ALLOWED},
        {"allow fetch " REPO, REPO "/info/refs?service=git-upload-pack", REASON_ALLOWED},
        {"allow fetch " REPO ".git", REPO "/git-upload-pack", REASON_ALLOWED},
        {"allow fetch " REPO "/", REPO "/git-upload-pack", REASON_ALLOWED},
        {"allow fetch " REPO, "https://g.test/Acme/APP.GIT/git-upload-pack", REASON_ALLOWED},
        {"allow fetch https://g.test/Acme/App.git/", REPO "/git-upload-pack", REASON_ALLOWED},
        {"allow fetch " REPO, REPO "2/git-upload-pack", REASON_FETCH},
        {"allow fetch " REPO, "https://g.test/acme/git-upload-pack", REASON_FETCH},
        {"allow fetch " REPO, "https://g.test/acme/app/x.git/git-upload-pack", REASON_FETCH},
        {"allow fetch " REPO, "https://g.test/x/acme/app.git/git-upload-pack", REASON_FETCH},
        {"allow fetch " REPO, "http://g.test/acme/app.git/git-upload-pack", REASON_SCHEME},
        {"allow fetch " REPO, "https://g.test:8443/acme/app.git/git-upload-pack", REASON_PORT},
        {"allow fetch " REPO, "https://h.test/acme/app.git/git-upload-pack", REASON_HOST},
        {"allow fetch https://g.test/acme/*", REPO ".git/git-upload-pack", REASON_ALLOWED},
        {"allow fetch https://g.test/acme/*", "https://g.test/acme/a/b.git/git-upload-pack", REASON_FETCH},
        {"allow fetch https://g.test/**", "https://g.test/a/b/c/git-upload-pack", REASON_ALLOWED},
        {"allow fetch https://g.test", "https://g.test/a/b/c/git-upload-pack", REASON_ALLOWED},
        {"allow fetch https://g.test/", "https://g.test/a/git-upload-pack", REASON_FETCH},
        {"allow fetch https://g.test/", "https://g.test/git-upload-pack", REASON_ALLOWED},
        {"allow push " REPO, REPO "/git-upload-pack", REASON_FETCH},
        /* HTTP's allows never permit git, HTTP's denies stop it */
        {"allow * https://g.test/**", REPO "/git-upload-pack", REASON_FETCH},
        {"allow fetch " REPO "\ndeny fetch " REPO, REPO "/git-upload-pack", REASON_DENIED_BY_RULE},
        {"allow fetch " REPO "\ndeny POST https://g.test/**", REPO "/git-upload-pack", REASON_DENIED_BY_RULE},
        {"allow fetch " REPO "\ndeny * https://g.test/acme/**", REPO "/git-upload-pack",
         REASON_DENIED_BY_RULE},
        {"allow fetch " REPO "\ndeny PUT https://g.test/acme/**", REPO "/git-upload-pack", REASON_ALLOWED},
        {"allow fetch " REPO "\ndeny push " REPO, REPO "/git-upload-pack", REASON_ALLOWED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy *p = load_text(rows[i].rule);
        struct verdict v = ask_fetch(p, rows[i].url);
        if (v.reason != rows[i].reason)
            fail_msg("%s on %s: %s, not %s", rows[i].rule, rows[i].url, verdict_reason_code(v.reason),
                     verdict_reason_code(rows[i].reason));
        policy_free(p);
    }
}

/* Refs of a fetch, and what it may bring beside them. NULL: the request as such. */
static struct verdict ask_fetched(const struct policy *p, const char *ref, enum facts_extra extra,
                                  bool *limited) {
    struct asking a;
    struct verdict v;
    asking_init(&a, FACTS_GIT_FETCH, "POST", REPO ".git/git-upload-pack");
    if (ref)
        asking_ref(&a, ref, FACTS_CREATE, false);
    a.f.extra = extra;
    policy_judge(p, &a.f, &v);
    *limited = policy_limits_fetch(p, &a.f);
    buf_release(&a.path);
    return v;
}

static void test_fetched_refs(void **state) {
    static const struct {
        const char *rules;
        bool limited;
        const char *ref;
        enum facts_extra extra;
        enum verdict_reason reason;
    } rows[] = {
        {"allow fetch " REPO, false, "refs/heads/x", FACTS_PLAIN, REASON_ALLOWED},
        {"allow fetch " REPO, false, NULL, FACTS_ANY_OBJECT, REASON_EXTRA},
        {"allow fetch " REPO " refs/heads/*", true, NULL, FACTS_PLAIN, REASON_ALLOWED},
        {"allow fetch " REPO " refs/heads/*", true, "refs/heads/x", FACTS_PLAIN, REASON_ALLOWED},
        {"allow fetch " REPO " refs/heads/*", true, "refs/heads/x/y", FACTS_PLAIN, REASON_REFS},
        {"allow fetch " REPO " refs/heads/*", true, "refs/HEADS/x", FACTS_PLAIN, REASON_REFS},
        {"allow fetch " REPO " refs/heads/* also any-object", true, NULL, FACTS_ANY_OBJECT, REASON_ALLOWED},
        {"allow fetch " REPO " refs/heads/* also any-object", true, NULL, FACTS_BUNDLE_URI, REASON_EXTRA},
        {"allow fetch " REPO " also archive bundle-uri", false, NULL, FACTS_ARCHIVE, REASON_ALLOWED},
        /* a deny of some refs leaves the rest, and takes what may hold them */
        {"allow fetch " REPO "\ndeny fetch " REPO " refs/heads/s/*", true, NULL, FACTS_PLAIN, REASON_ALLOWED},
        {"allow fetch " REPO "\ndeny fetch " REPO " refs/heads/s/*", true, "refs/heads/a", FACTS_PLAIN,
         REASON_ALLOWED},
        {"allow fetch " REPO "\ndeny fetch " REPO " refs/heads/s/*", true, "refs/heads/S/a", FACTS_PLAIN,
         REASON_DENIED_BY_RULE},
        {"allow fetch " REPO " also archive\ndeny fetch " REPO " refs/heads/s", true, NULL, FACTS_ARCHIVE,
         REASON_DENIED_BY_RULE},
        {"allow fetch " REPO "\ndeny fetch https://g.test/other refs/heads/s", false, "refs/heads/s",
         FACTS_PLAIN, REASON_ALLOWED},
        /* a rule for all refs lifts the limit, but not with another credential than the one that is lent */
        {"allow fetch " REPO " refs/heads/a\nallow fetch " REPO, false, "refs/heads/b", FACTS_PLAIN,
         REASON_ALLOWED},
        {"allow fetch " REPO " refs/heads/a with x\nallow fetch " REPO " with y", true, "refs/heads/b",
         FACTS_PLAIN, REASON_ALLOWED},
        {"allow fetch " REPO " refs/heads/a\nask fetch " REPO, false, NULL, FACTS_PLAIN, REASON_ASKED},
        {"allow push " REPO " refs/heads/a", false, NULL, FACTS_PLAIN, REASON_FETCH},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool limited;
        struct policy *p = load_text(rows[i].rules);
        struct verdict v = ask_fetched(p, rows[i].ref, rows[i].extra, &limited);
        if (v.reason != rows[i].reason || limited != rows[i].limited)
            fail_msg("%s: %s %s: %s, limited %d", rows[i].rules, rows[i].ref ? rows[i].ref : "",
                     facts_extra_name(rows[i].extra), verdict_reason_code(v.reason), limited);
        policy_free(p);
    }
}

/* All names of one object are one: it is enough that one of them may be fetched. */
static void test_names_of_one_object(void **state) {
    static const struct {
        const char *rules, *refs; /* "name=id …" */
        enum verdict_reason reason;
        size_t bad, ref;
    } rows[] = {
        {"allow fetch " REPO " refs/heads/a", "refs/heads/a=1 refs/heads/b=1", REASON_ALLOWED, 0, 0},
        {"allow fetch " REPO " refs/heads/b", "refs/heads/a=1 refs/heads/b=1", REASON_ALLOWED, 0, 0},
        {"allow fetch " REPO " refs/heads/b", "refs/heads/a=1 refs/heads/b=2", REASON_REFS, 1, 0},
        {"allow fetch " REPO " refs/heads/b", "refs/heads/b=1 refs/heads/c=2 refs/heads/d=2 refs/heads/e=3",
         REASON_REFS, 2, 1},
        {"allow fetch " REPO " refs/heads/b", "refs/heads/b= refs/heads/c=", REASON_REFS, 1, 1},
        {"allow fetch " REPO "\ndeny fetch " REPO " refs/heads/b", "refs/heads/a=1 refs/heads/b=1",
         REASON_ALLOWED, 0, 0},
        {"allow fetch " REPO " refs/heads/b with x\nallow fetch " REPO " refs/heads/c with y",
         "refs/heads/b=1 refs/heads/c=1", REASON_ALLOWED, 0, 0},
        {"allow fetch " REPO " refs/heads/b with x\nallow fetch " REPO " refs/heads/c with y",
         "refs/heads/b=1 refs/heads/c=2", REASON_CREDENTIALS, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy *p = load_text(rows[i].rules);
        struct facts_ref refs[4] = {{.op = FACTS_CREATE}};
        struct slice rest = slice_str(rows[i].refs), one;
        struct asking a;
        struct verdict v;
        asking_init(&a, FACTS_GIT_FETCH, "POST", REPO ".git/git-upload-pack");
        a.f.refs = refs;
        for (bool more = true; more;) {
            more = slice_cut(rest, ' ', &one, &rest);
            slice_cut(one, '=', &refs[a.f.nrefs].name, &refs[a.f.nrefs].new);
            a.f.nrefs++;
        }
        policy_judge(p, &a.f, &v);
        if (v.reason != rows[i].reason || v.bad_refs != rows[i].bad || v.ref != rows[i].ref)
            fail_msg("%s: %s: %s, %zu bad, the first is %zu", rows[i].rules, rows[i].refs,
                     verdict_reason_code(v.reason), v.bad_refs, v.ref);
        buf_release(&a.path);
        policy_free(p);
    }
}

/* Whatever looks like git's endpoint to some server is not permitted as plain HTTP. */
static void test_git_as_http(void **state) {
    static const char *const like[] = {
        REPO ".git/git-upload-pack",
        REPO "/git-receive-pack",
        REPO "/GIT-Receive-Pack",
        REPO "/git-receive-pack/",
        REPO "/git-upload-archive",
        REPO "//git-receive-pack",
        REPO "%2fgit-receive-pack",
        REPO "/info/refs?service=git-upload-pack",
        REPO "/info%2frefs?a=b&service=git-receive-pack",
        REPO "/info//refs?service=git-upload-pack",
        REPO "/info/refs?service=git%2dreceive-pack",
        REPO "/INFO/refs?%73ervice=%67it-receive-pack",
        REPO "/info/refs",
        REPO "/info/refs?x=gitx",
        REPO "/git-receive-pack;x=1",
        REPO "/git-receive-pack%3Bx",
        REPO "/git-receive-pack.",
        REPO "/git-receive-pack%20",
        REPO "/git-receive-pack;a/",
        REPO "/objects/info/packs",
    };
    static const char *const unlike[] = {
        REPO "/git-upload-pack.txt",          REPO "/xgit-upload-pack", REPO "/refs?service=git-upload-pack",
        REPO "/blob/main/git-receive-pack.c", "https://g.test/",
    };
    struct policy *p = load_text("allow * https://g.test/**\nallow * https://g.test/**%2f**");
    (void)state;
    for (size_t i = 0; i < sizeof like / sizeof *like; i++)
        if (ask_http(p, "POST", like[i]).reason != REASON_GIT_AS_HTTP)
            fail_msg("%s passed as HTTP", like[i]);
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
        if (ask_http(p, "POST", unlike[i]).reason != REASON_ALLOWED)
            fail_msg("%s did not pass", unlike[i]);
    policy_free(p);
}

static void test_push(void **state) {
    static const struct {
        const char *rule, *ref;
        enum facts_op op;
        enum verdict_reason reason;
    } rows[] = {
        {"allow push " REPO, "refs/heads/x", FACTS_CREATE, REASON_ALLOWED},
        {"allow push " REPO, "refs/heads/x", FACTS_UPDATE, REASON_ALLOWED},
        {"allow push " REPO, "refs/heads/x", FACTS_DELETE, REASON_OPERATION},
        {"allow push " REPO, "refs/heads/x", FACTS_FORCE, REASON_OPERATION},
        {"allow push " REPO " refs/heads/fix/*", "refs/heads/fix/42", FACTS_CREATE, REASON_ALLOWED},
        {"allow push " REPO " refs/heads/fix/*", "refs/heads/fix/a/b", FACTS_CREATE, REASON_REFS},
        {"allow push " REPO " refs/heads/fix/**", "refs/heads/fix/a/b", FACTS_CREATE, REASON_ALLOWED},
        {"allow push " REPO " refs/heads/fix/*", "refs/heads/main", FACTS_CREATE, REASON_REFS},
        {"allow push " REPO " refs/heads/fix/*", "refs/tags/fix/42", FACTS_CREATE, REASON_REFS},
        {"allow push " REPO " refs/heads/fix", "refs/heads/Fix", FACTS_CREATE, REASON_REFS},
        {"allow push " REPO " refs/heads/a refs/tags/*", "refs/tags/v1", FACTS_CREATE, REASON_ALLOWED},
        {"allow push " REPO " refs/heads/{a,b}", "refs/heads/b", FACTS_CREATE, REASON_ALLOWED},
        {"allow push " REPO " refs/heads/x create", "refs/heads/x", FACTS_UPDATE, REASON_OPERATION},
        {"allow push " REPO " delete refs/heads/x", "refs/heads/x", FACTS_DELETE, REASON_ALLOWED},
        {"allow push " REPO " delete", "refs/heads/x", FACTS_CREATE, REASON_OPERATION},
        /* who may force may update, but not create or delete */
        {"allow push " REPO " force", "refs/heads/x", FACTS_FORCE, REASON_ALLOWED},
        {"allow push " REPO " force", "refs/heads/x", FACTS_UPDATE, REASON_ALLOWED},
        {"allow push " REPO " force", "refs/heads/x", FACTS_CREATE, REASON_OPERATION},
        /* a deny without operations is about all; one of update is about force too */
        {"allow push " REPO " create delete force\ndeny push " REPO " refs/heads/main", "refs/heads/main",
         FACTS_DELETE, REASON_DENIED_BY_RULE},
        {"allow push " REPO " create delete force\ndeny push " REPO " refs/heads/main", "refs/heads/x",
         FACTS_DELETE, REASON_ALLOWED},
        {"allow push " REPO " force\ndeny push " REPO " update", "refs/heads/x", FACTS_FORCE,
         REASON_DENIED_BY_RULE},
        {"allow push " REPO " force\ndeny push " REPO " force", "refs/heads/x", FACTS_UPDATE, REASON_ALLOWED},
        {"allow push " REPO " force\ndeny push " REPO " delete", "refs/heads/x", FACTS_FORCE, REASON_ALLOWED},
        {"allow push " REPO "\ndeny push " REPO " refs/heads/Main", "refs/heads/main", FACTS_CREATE,
         REASON_DENIED_BY_RULE},
        {"allow push " REPO "\ndeny POST https://g.test/**", "refs/heads/x", FACTS_CREATE,
         REASON_DENIED_BY_RULE},
        {"allow fetch " REPO, "refs/heads/x", FACTS_CREATE, REASON_PUSH},
        {"allow * https://g.test/**", "refs/heads/x", FACTS_CREATE, REASON_PUSH},
        {"allow push " REPO "2", "refs/heads/x", FACTS_CREATE, REASON_PUSH},
        {"allow push https://h.test", "refs/heads/x", FACTS_CREATE, REASON_HOST},
        {"allow push http://g.test", "refs/heads/x", FACTS_CREATE, REASON_SCHEME},
        {"allow push https://g.test:1", "refs/heads/x", FACTS_CREATE, REASON_PORT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy *p = load_text(rows[i].rule);
        struct verdict v = ask_push(p, REPO ".git/git-receive-pack", rows[i].ref, rows[i].op);
        if (v.reason != rows[i].reason)
            fail_msg("%s on %s %s: %s, not %s", rows[i].rule, rows[i].ref, facts_op_name(rows[i].op),
                     verdict_reason_code(v.reason), verdict_reason_code(rows[i].reason));
        assert_int_equal(v.bad_refs, v.action == VERDICT_DENY);
        policy_free(p);
    }
}

/* Without refs it is the discovery, or the probe. */
static void test_discovery(void **state) {
    static const struct {
        const char *rule;
        enum verdict_reason reason;
    } rows[] = {
        {"allow push " REPO, REASON_ALLOWED},
        {"allow push " REPO " refs/heads/x delete", REASON_ALLOWED},
        {"allow fetch " REPO, REASON_PUSH},
        {"allow push " REPO "2", REASON_PUSH},
        {"allow push " REPO "\ndeny push " REPO " refs/heads/main", REASON_ALLOWED},
        {"allow push " REPO "\ndeny push " REPO " force", REASON_ALLOWED},
        {"allow push " REPO "\ndeny push " REPO, REASON_DENIED_BY_RULE},
        {"allow push " REPO "\ndeny * https://g.test", REASON_DENIED_BY_RULE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy *p = load_text(rows[i].rule);
        struct verdict v = ask_push(p, REPO ".git/info/refs?service=git-receive-pack", NULL, FACTS_CREATE);
        if (v.reason != rows[i].reason)
            fail_msg("%s: %s", rows[i].rule, verdict_reason_code(v.reason));
        policy_free(p);
    }
}

/* All refs stand or fall together, wherever the bad one stands. */
static void test_many_refs(void **state) {
    struct policy *p = load_text("allow push " REPO " refs/heads/fix/* with one\n"
                                 "allow push " REPO " refs/heads/fix/* refs/heads/own/* force with one\n"
                                 "deny push " REPO " refs/heads/fix/never\n");
    const size_t n = 5000;
    struct facts_ref *refs = calloc(n, sizeof *refs);
    char(*names)[32] = calloc(n, sizeof *names);
    struct asking a;
    struct verdict v;
    (void)state;
    asking_init(&a, FACTS_GIT_PUSH, "POST", REPO ".git/git-receive-pack");
    a.f.refs = refs;
    a.f.nrefs = n;
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "refs/heads/fix/%zu", i);
        refs[i].name = slice_str(names[i]);
    }
    policy_judge(p, &a.f, &v);
    assert_int_equal(v.action, VERDICT_ALLOW);
    assert_true(slice_eq(v.credential, SLICE("one")));
    static const size_t places[] = {0, 2500, 4999};
    for (size_t k = 0; k < 3; k++) {
        struct facts_ref kept = refs[places[k]];
        refs[places[k]].name = SLICE("refs/heads/main");
        policy_judge(p, &a.f, &v);
        assert_int_equal(v.action, VERDICT_DENY);
        assert_int_equal(v.reason, REASON_REFS);
        assert_int_equal(v.ref, places[k]);
        assert_int_equal(v.bad_refs, 1);
        assert_int_equal(v.credential.n, 0);
        refs[places[k]] = kept;
        refs[places[k]].op = FACTS_DELETE;
        policy_judge(p, &a.f, &v);
        assert_int_equal(v.reason, REASON_OPERATION);
        refs[places[k]] = kept;
        refs[places[k]].name = SLICE("refs/heads/fix/never");
        policy_judge(p, &a.f, &v);
        assert_int_equal(v.reason, REASON_DENIED_BY_RULE);
        assert_int_equal(v.rule.line, 3);
        refs[places[k]] = kept;
    }
    buf_release(&a.path);
    free(refs);
    free(names);
    policy_free(p);
}

/* One request has one credential. */
static void test_mixed_credentials(void **state) {
    struct policy *p =
        load_text("allow push " REPO " refs/heads/a with a\nallow push " REPO " refs/heads/b with b\n"
                  "allow push " REPO " refs/heads/c\n");
    struct asking a;
    struct verdict v;
    (void)state;
    for (int second = 'a'; second <= 'c'; second++) {
        char name[] = "refs/heads/x";
        name[sizeof name - 2] = (char)second;
        asking_init(&a, FACTS_GIT_PUSH, "POST", REPO ".git/git-receive-pack");
        asking_ref(&a, "refs/heads/a", FACTS_CREATE, false);
        asking_ref(&a, name, FACTS_CREATE, false);
        policy_judge(p, &a.f, &v);
        assert_int_equal(v.action, second == 'a' ? VERDICT_ALLOW : VERDICT_DENY);
        assert_int_equal(v.reason, second == 'a' ? REASON_ALLOWED : REASON_CREDENTIALS);
        buf_release(&a.path);
    }
    policy_free(p);
}

static void check_words(const struct policy *p, const struct facts *f, const char *why, const char *hint) {
    struct verdict v;
    struct buf out;
    policy_judge(p, f, &v);
    buf_init(&out, 1 << 16);
    policy_explain(p, f, &v, 2, &out);
    assert_string_equal(buf_cstr(&out), why);
    buf_clear(&out);
    policy_hint(p, f, &v, &out);
    assert_string_equal(buf_cstr(&out), hint);
    /* a hint is a policy that does what it says */
    if (*hint && v.bad_refs == f->nrefs && !strstr(hint, "BRANCH")) {
        struct policy *one = load_text(hint);
        policy_judge(one, f, &v);
        assert_int_equal(v.action, VERDICT_ALLOW);
        policy_free(one);
    }
    buf_release(&out);
}

static void test_words(void **state) {
    static const struct {
        const char *method, *url, *why, *hint;
    } rows[] = {
        {"POST", "https://a.test/v1/x?y=z", "no rule allows POST on this host",
         "allow POST https://a.test/v1/x"},
        {"GET", "https://a.test/v1", "no rule allows GET on this path", "allow GET https://a.test/v1"},
        {"GET", "https://b.test/", "no rule names this host", "allow GET https://b.test/"},
        {"GET", "https://a.test:8443/ok", "rules name this host, but not its port 8443",
         "allow GET https://a.test:8443/ok"},
        {"GET", "http://a.test/ok", "rules name this host, but not over http", "allow GET http://a.test/ok"},
        {"GET", "https://a.test/ok/a%2fb", "the path has an encoded slash, which no rule spells",
         "allow GET https://a.test/ok/a%2Fb"},
        {"GET", "https://a.test/$x*y{z}", "no rule allows GET on this path",
         "allow GET https://a.test~/\\x24x\\*y%7Bz%7D"},
        {"GET", "https://a.test/ok/no", "denied by t.policy:2: ask Mara first", ""},
        {"GET", "https://10.1.2.3/", "no rule names this host", "allow GET https://10.1.2.3/"},
        {"GET", "https://[::1]:8/", "no rule names this host", "allow GET https://[::1]:8/"},
        {"GET", "https://a.test/ok/x", "allowed by t.policy:1", ""},
        {"POST", "https://a.test/r/git-receive-pack",
         "git's endpoints are permitted by fetch and push rules alone, and this is "
         "a git request with another Content-Type than its endpoint's",
         ""},
        {"we\001ird", "https://a.test/", "no rule allows we?ird on this host", ""},
    };
    struct policy *p =
        load_text("allow GET https://a.test/ok/**\ndeny GET https://a.test/ok/no note \"ask Mara first\"");
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asking a;
        asking_init(&a, FACTS_HTTP, rows[i].method, rows[i].url);
        check_words(p, &a.f, rows[i].why, rows[i].hint);
        buf_release(&a.path);
    }
    policy_free(p);
}

static void test_words_of_fetch(void **state) {
    struct policy *p = load_text("allow fetch " REPO " refs/heads/a");
    struct asking a;
    (void)state;
    asking_init(&a, FACTS_GIT_FETCH, "POST", REPO ".git/git-upload-pack");
    asking_ref(&a, "refs/heads/b", FACTS_CREATE, false);
    check_words(p, &a.f, "refs/heads/b: no rule allows a fetch of this ref",
                "allow fetch " REPO " refs/heads/b");
    a.f.nrefs = 0;
    a.f.extra = FACTS_BUNDLE_URI;
    check_words(p, &a.f, "no rule about this repository permits `also bundle-uri`",
                "allow fetch " REPO " also bundle-uri");
    buf_release(&a.path);
    policy_free(p);
}

static void test_words_of_git(void **state) {
    struct policy *p =
        load_text("allow push " REPO " refs/heads/fix/*\ndeny push " REPO " refs/heads/fix/no");
    struct asking a;
    struct verdict v;
    struct buf out;
    (void)state;
    buf_init(&out, 4096);
    asking_init(&a, FACTS_GIT_FETCH, "GET", "https://g.test/acme/App.git/info/refs?service=git-upload-pack");
    check_words(p, &a.f, "no rule allows fetch from this repository", "allow fetch https://g.test/acme/App");
    buf_release(&a.path);
    asking_init(&a, FACTS_GIT_FETCH, "POST", "https://g.test/.git/git-upload-pack");
    check_words(p, &a.f, "no rule allows fetch from this repository", "allow fetch https://g.test/");
    buf_release(&a.path);
    asking_init(&a, FACTS_GIT_PUSH, "GET", "https://g.test/x.git/info/refs?service=git-receive-pack");
    check_words(p, &a.f, "no rule allows push to this repository",
                "allow push https://g.test/x refs/heads/BRANCH");
    buf_release(&a.path);
    asking_init(&a, FACTS_GIT_PUSH, "POST", REPO ".git/git-receive-pack");
    asking_ref(&a, "refs/heads/fix/1", FACTS_CREATE, false);
    asking_ref(&a, "refs/heads/main", FACTS_CREATE, false);
    check_words(p, &a.f, "refs/heads/main: no rule allows a push to this ref",
                "allow push " REPO " refs/heads/main create");
    asking_ref(&a, "refs/heads/fix/2", FACTS_FORCE, true);
    asking_ref(&a, "refs/heads/fix/no", FACTS_CREATE, false);
    asking_ref(&a, "refs/heads/fix/3", FACTS_DELETE, false);
    policy_judge(p, &a.f, &v);
    assert_int_equal(v.bad_refs, 4);
    assert_int_equal(v.ref, 1);
    policy_explain(p, &a.f, &v, 0, &out);
    assert_string_equal(
        buf_cstr(&out),
        "refs/heads/main: no rule allows a push to this ref; refs/heads/fix/2: no rule allows force of "
        "this ref, and an update counts as force until it is proved a fast-forward; refs/heads/fix/no: "
        "denied by t.policy:2; "
        "refs/heads/fix/3: no rule allows delete of this ref");
    buf_clear(&out);
    policy_explain(p, &a.f, &v, 1, &out);
    assert_string_equal(buf_cstr(&out), "refs/heads/main: no rule allows a push to this ref; and 3 more");
    buf_clear(&out);
    policy_judge_ref(p, &a.f, 2, &v);
    assert_int_equal(v.reason, REASON_UNPROVED);
    assert_int_equal(v.ref, 2);
    policy_explain_ref(p, &a.f, &v, &out);
    assert_string_equal(
        buf_cstr(&out),
        "no rule allows force of this ref, and an update counts as force until it is proved a "
        "fast-forward");
    policy_judge_ref(p, &a.f, 0, &v);
    assert_int_equal(v.action, VERDICT_ALLOW);
    buf_release(&a.path);
    buf_release(&out);
    policy_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fetch),          cmocka_unit_test(test_git_as_http),
        cmocka_unit_test(test_fetched_refs),   cmocka_unit_test(test_names_of_one_object),
        cmocka_unit_test(test_push),           cmocka_unit_test(test_discovery),
        cmocka_unit_test(test_many_refs),      cmocka_unit_test(test_mixed_credentials),
        cmocka_unit_test(test_words),          cmocka_unit_test(test_words_of_git),
        cmocka_unit_test(test_words_of_fetch),
    };
    return cmocka_run_group_tests_name("policy_git", tests, NULL, NULL);
}
