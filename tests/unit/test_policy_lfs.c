/* policy: what requests to Git LFS are for, and when their bodies have to be known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/policy_support.h"

#define LFS   "https://a.test/acme/app.git/info/lfs/"
#define BATCH LFS "objects/batch"

struct sent {
    const char *type, *encoding;
};

static bool sent_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct sent *s = arg;
    if (i == 0) {
        *name = SLICE("Content-Type");
        *value = slice_str(s->type);
        return true;
    }
    *name = SLICE("Content-Encoding");
    *value = slice_str(s->encoding ? s->encoding : "");
    return i == 1 && s->encoding;
}

static const struct sent usual = {"application/vnd.git-lfs+json; charset=utf-8", NULL};

static void asking_lfs(struct asking *a, const char *method, const char *url, const char *body,
                       const struct sent *sent) {
    asking_init(a, FACTS_HTTP, method, url);
    a->f.field = sent_field;
    a->f.field_arg = sent;
    a->f.body_state = body ? FACTS_BODY_WHOLE : FACTS_BODY_UNREAD;
    a->f.body = slice_str(body ? body : "");
}

static void test_operations(void **state) {
    static const struct sent zipped = {"application/vnd.git-lfs+json", "gzip"}, text = {"text/plain", NULL},
                             wide = {"application/json; charset=utf-16", NULL};
    static const char download[] = "{\"operation\":\"download\",\"objects\":[]}";
    static const struct {
        const char *method, *url, *body;
        const struct sent *sent;
        enum facts_lfs operation;
    } rows[] = {
        {"POST", BATCH, download, &usual, FACTS_LFS_DOWNLOAD},
        {"POST", BATCH, "{\"objects\":[],\"operation\":\"upload\"}", &usual, FACTS_LFS_UPLOAD},
        {"POST", BATCH, NULL, &usual, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, download, &zipped, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, download, &text, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, download, &wide, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, "[\"download\"]", &usual, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, "{\"operation\":\"Download\"}", &usual, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, "{\"operation\":\"lock\"}", &usual, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, "{\"operation\":[\"download\"]}", &usual, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, "{\"OPERATION\":\"download\"}", &usual, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, "{\"operation\":\"download\",\"Operation\":\"upload\"}", &usual, FACTS_LFS_UNKNOWN},
        {"POST", BATCH, "{\"operation\":\"download\",\"\\u006fperation\":\"upload\"}", &usual,
         FACTS_LFS_UNKNOWN},
        {"POST", BATCH "/", download, &usual, FACTS_LFS_UNKNOWN},
        {"POST", LFS "Objects/batch", download, &usual, FACTS_LFS_UNKNOWN},
        {"PATCH", BATCH, download, &usual, FACTS_LFS_UNKNOWN},
        {"get", LFS "objects/12", "", &usual, FACTS_LFS_UNKNOWN},
        {"GET", LFS "objects/12", NULL, &usual, FACTS_LFS_DOWNLOAD},
        {"HEAD", LFS "objects/12", NULL, &usual, FACTS_LFS_DOWNLOAD},
        {"GET", LFS "locks", NULL, &usual, FACTS_LFS_DOWNLOAD},
        {"PUT", LFS "objects/12", NULL, &usual, FACTS_LFS_UPLOAD},
        {"PUT", LFS "locks", NULL, &usual, FACTS_LFS_UNKNOWN},
        {"POST", LFS "objects/12/verify", "{}", &usual, FACTS_LFS_UPLOAD},
        {"POST", LFS "locks/verify", "{}", &usual, FACTS_LFS_UPLOAD},
        {"POST", LFS "locks", "{}", &usual, FACTS_LFS_LOCK},
        {"POST", LFS "locks/12/unlock", "{}", &usual, FACTS_LFS_LOCK},
        {"POST", LFS "objects", "{}", &usual, FACTS_LFS_UNKNOWN},
        {"DELETE", LFS "locks/12", "", &usual, FACTS_LFS_UNKNOWN},
        {"GET", "https://a.test/acme/app.git/info/refs", NULL, &usual, FACTS_LFS_UNKNOWN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asking a;
        asking_lfs(&a, rows[i].method, rows[i].url, rows[i].body, rows[i].sent);
        if (facts_lfs_operation(&a.f) != rows[i].operation)
            fail_msg("%s %s %s: %d", rows[i].method, rows[i].url, rows[i].body ? rows[i].body : "",
                     facts_lfs_operation(&a.f));
        buf_release(&a.path);
    }
}

/* The body of a batch is asked for where a word decides, and of nothing else: an object may be large. */
static void test_bodies(void **state) {
    struct policy *p =
        load_text("allow lfs https://a.test/acme/app download upload\n"
                  "allow lfs https://a.test/acme/all\n"
                  "allow lfs https://a.test/acme/json download where json x == 1 max-body 2MiB\n");
    static const struct {
        const char *method, *url;
        size_t body;
    } rows[] = {
        {"POST", BATCH, POLICY_BODY_DEFAULT},
        {"PUT", LFS "objects/12", 0},
        {"POST", LFS "locks", 0},
        {"POST", "https://a.test/acme/all.git/info/lfs/objects/batch", 0},
        {"POST", "https://a.test/acme/json.git/info/lfs/objects/batch", 2 << 20},
        {"POST", "https://a.test/acme/other.git/info/lfs/objects/batch", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asking a;
        asking_lfs(&a, rows[i].method, rows[i].url, NULL, &usual);
        assert_int_equal(policy_needs_body(p, &a.f), rows[i].body);
        buf_release(&a.path);
    }
    policy_free(p);
}

/* What is refused says what was asked, and the hint is a rule that permits just that. */
static void test_reasons(void **state) {
    struct policy *p = load_text("allow lfs https://a.test/acme/app download\n");
    static const struct {
        const char *method, *url, *body, *why, *hint;
    } rows[] = {
        {"POST", BATCH, "{\"operation\":\"upload\"}", "no rule allows LFS upload of this repository",
         "allow lfs https://a.test/acme/app upload"},
        {"POST", LFS "locks", "{}", "no rule allows LFS lock of this repository",
         "allow lfs https://a.test/acme/app lock"},
        {"POST", BATCH, "{}",
         "no rule allows LFS of this repository whatever is asked of it, and what is asked here can't be "
         "told",
         "allow POST https://a.test/acme/app.git/info/lfs/objects/batch"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asking a;
        struct verdict v;
        struct buf text;
        buf_init(&text, 4096);
        asking_lfs(&a, rows[i].method, rows[i].url, rows[i].body, &usual);
        policy_judge(p, &a.f, &v);
        assert_int_equal(v.reason, REASON_OPERATION);
        policy_explain(p, &a.f, &v, 0, &text);
        assert_string_equal(buf_cstr(&text), rows[i].why);
        buf_clear(&text);
        policy_hint(p, &a.f, &v, &text);
        assert_string_equal(buf_cstr(&text), rows[i].hint);
        struct policy *hint = load_text(rows[i].hint);
        policy_judge(hint, &a.f, &v);
        assert_int_equal(v.action, VERDICT_ALLOW);
        policy_free(hint);
        buf_release(&text);
        buf_release(&a.path);
    }
    policy_free(p);
}

static void test_described(void **state) {
    struct policy *p =
        load_text("allow lfs https://a.test/acme/app lock download with c\nallow lfs https://a.test/b\n");
    struct buf text;
    (void)state;
    buf_init(&text, 4096);
    policy_describe(p, POLICY_TEXT, &text);
    assert_string_equal(buf_cstr(&text),
                        "allow lfs https://a.test/acme/app download lock with c  # t.policy:1\n"
                        "allow lfs https://a.test/b  # t.policy:2\n");
    buf_release(&text);
    policy_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_described),
    };
    return cmocka_run_group_tests_name("policy_lfs", tests, NULL, NULL);
}
