/*
 * policy: files on disk. tests/data/policy/good/ must load; each of tests/data/policy/bad/ must give exactly the
 * diagnostics that stand beside it (FILE.expected); the ready-made policies of policy/ must load and prove something
 * both ways. A first line "# set: NAME=VALUE" gives the file's variable. With POLICY_REGENERATE in the environment the
 * expected diagnostics are written anew, to be looked through with git diff.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>

#include "tests/unit/policy_support.h"

static const char *top(void) {
    const char *dir = getenv("TOP_SRCDIR");
    return dir ? dir : ".";
}

static int read_file(const char *path, struct buf *out) {
    FILE *f = fopen(path, "rb");
    int r = f ? 0 : ERR_NOTFOUND, c;
    while (f && !r && (c = getc(f)) != EOF)
        r = buf_putc(out, (char)c);
    if (f)
        fclose(f);
    return r;
}

/* Names are relative to `arg`; an included file is looked for beside the one that includes it. */
static int disk_read(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                     struct errmsg *msg) {
    char path[1024];
    const char *slash = from ? strrchr(from, '/') : NULL;
    int n = slash ? (int)(slash - from) + 1 : 0;
    size_t at = buf_len(resolved);
    buf_printf(resolved, "%.*s%s", n, from ? from : "", name);
    /* "x/../" goes, so that a file has one name */
    char *dots = strstr(buf_cstr(resolved) + at, "/../");
    if (dots) {
        char *start = dots;
        while (start > resolved->data + resolved->start && start[-1] != '/')
            start--;
        memmove(start, dots + 4, strlen(dots + 4) + 1);
        resolved->end = resolved->start + strlen(resolved->data + resolved->start);
    }
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, buf_cstr(resolved));
    int r = read_file(path, text);
    return r ? errmsg_set(msg, r, "no such file") : 0;
}

/* Loads one file; the diagnostics go to `out`. */
static int load_one(const char *dir, const char *name, const char *set_name, const char *set_value,
                    struct buf *out) {
    struct buf text;
    char path[1024], line[256];
    struct policy_set set = {set_name, set_value};
    struct policy *p;
    struct policy_diags diags;
    buf_init(&text, POLICY_FILE_MAX);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(read_file(path, &text), 0);
    if (slice_starts(buf_slice(&text), SLICE("# set: "))) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(buf_cstr(&text) + 7, "\n"), buf_cstr(&text) + 7);
        assert_int_equal(policy_set_parse(line, &set, NULL), 0);
    }
    buf_release(&text);
    struct policy_input in = {.files = &name,
                              .nfiles = 1,
                              .sets = &set,
                              .nsets = set.name != NULL,
                              .read = disk_read,
                              .arg = (void *)(uintptr_t)dir};
    policy_diags_init(&diags);
    int r = policy_load(&in, &p, &diags);
    policy_diags_format(&diags, false, out);
    policy_diags_release(&diags);
    policy_free(p);
    return r;
}

/* Calls `check` for each *.policy of a folder; returns how many there were. */
static size_t each(const char *folder, void (*check)(const char *dir, const char *name)) {
    char dir[1024];
    size_t n = 0;
    snprintf(dir, sizeof dir, "%s/%s", top(), folder);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (!slice_ends(slice_str(e->d_name), SLICE(".policy")))
            continue;
        check(dir, e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

static void check_good(const char *dir, const char *name) {
    struct buf out;
    buf_init(&out, 1 << 20);
    if (load_one(dir, name, NULL, NULL, &out))
        fail_msg("%s", buf_cstr(&out));
    buf_release(&out);
}

static void check_bad(const char *dir, const char *name) {
    struct buf out, wanted;
    char path[2048];
    buf_init(&out, 1 << 20);
    buf_init(&wanted, 1 << 20);
    assert_int_equal(load_one(dir, name, NULL, NULL, &out), ERR_PARSE);
    snprintf(path, sizeof path, "%s/%s.expected", dir, name);
    if (getenv("POLICY_REGENERATE")) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        fwrite(buf_cstr(&out), 1, buf_len(&out), f);
        fclose(f);
    }
    assert_int_equal(read_file(path, &wanted), 0);
    if (!slice_eq(buf_slice(&out), buf_slice(&wanted)))
        fail_msg("%s:\n%s\n--- expected:\n%s", name, buf_cstr(&out), buf_cstr(&wanted));
    buf_release(&out);
    buf_release(&wanted);
}

static void check_preset(const char *dir, const char *name) {
    struct buf out, text;
    char path[2048];
    buf_init(&out, 1 << 20);
    buf_init(&text, 1 << 20);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(read_file(path, &text), 0);
    bool repo = strstr(buf_cstr(&text), "\nlet repo");
    if (load_one(dir, name, repo ? "repo" : NULL, repo ? "acme/app" : NULL, &out))
        fail_msg("%s", buf_cstr(&out));
    assert_non_null(strstr(buf_cstr(&text), "\nexpect allow"));
    assert_non_null(strstr(buf_cstr(&text), "\nexpect deny"));
    buf_release(&out);
    buf_release(&text);
}

static void test_good(void **state) {
    (void)state;
    assert_true(each("tests/data/policy/good", check_good) >= 4);
}

static void test_bad(void **state) {
    (void)state;
    assert_true(each("tests/data/policy/bad", check_bad) >= 9);
}

static void test_presets(void **state) {
    (void)state;
    assert_true(each("policy", check_preset) >= 8);
}

/* The example of the design: another value proves another repository. */
static void test_bugfix_needs_a_repository(void **state) {
    struct buf out;
    char dir[1024];
    (void)state;
    buf_init(&out, 1 << 16);
    snprintf(dir, sizeof dir, "%s/policy", top());
    assert_int_equal(load_one(dir, "bugfix.policy", NULL, NULL, &out), ERR_PARSE);
    assert_non_null(strstr(buf_cstr(&out), "error: variable 'repo' has no value"));
    assert_non_null(strstr(buf_cstr(&out), "hint: give --set repo=VALUE"));
    buf_clear(&out);
    assert_int_equal(load_one(dir, "bugfix.policy", "repo", "Some-Org/some.thing", &out), 0);
    assert_int_equal(load_one(dir, "bugfix.policy", "repo", "*/*", &out), 0);
    buf_release(&out);
}

/* The text of the manual's example comes from memory, what it includes from the disk. */
struct example {
    const char *dir;
    struct slice text;
};

static int example_read(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                        struct errmsg *msg) {
    const struct example *e = arg;
    if (from)
        return disk_read((void *)(uintptr_t)e->dir, NULL, name, resolved, text, msg);
    buf_puts(resolved, name);
    /* mdoc writes a backslash as \e; one at the end of a line would join it to the next */
    for (size_t i = 0; i < e->text.n; i++) {
        buf_putc(text, e->text.p[i]);
        if (e->text.p[i] == '\\')
            assert_true(++i < e->text.n && e->text.p[i] == 'e');
    }
    return text->failed ? ERR_LIMIT : 0;
}

/* Each block of exeat-policy(5) that is marked as an example loads. */
static void test_manual(void **state) {
    static const char *const names[] = {"manual"};
    char path[1024], dir[1024];
    struct buf page;
    size_t n = 0;
    (void)state;
    snprintf(dir, sizeof dir, "%s/policy", top());
    snprintf(path, sizeof path, "%s/man/exeat-policy.5", top());
    buf_init(&page, 1 << 20);
    assert_int_equal(read_file(path, &page), 0);
    for (const char *p = buf_cstr(&page); (p = strstr(p, "\n# example\n")); n++) {
        const char *end = strstr(p, "\n.Ed\n");
        assert_non_null(end);
        struct example e = {dir, slice_make(p, (size_t)(end - p) + 1)};
        struct policy_input in = {.files = names, .nfiles = 1, .read = example_read, .arg = &e};
        struct policy_diags diags;
        struct policy *policy;
        struct buf out;
        policy_diags_init(&diags);
        buf_init(&out, 1 << 20);
        policy_load(&in, &policy, &diags);
        policy_diags_format(&diags, false, &out);
        if (!policy)
            fail_msg("%s", buf_cstr(&out));
        assert_true(policy_rule_count(policy) > 1);
        buf_release(&out);
        policy_diags_release(&diags);
        policy_free(policy);
        p = end;
    }
    assert_true(n >= 2);
    buf_release(&page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),    cmocka_unit_test(test_bad),
        cmocka_unit_test(test_presets), cmocka_unit_test(test_bugfix_needs_a_repository),
        cmocka_unit_test(test_manual),
    };
    return cmocka_run_group_tests_name("policy_files", tests, NULL, NULL);
}
