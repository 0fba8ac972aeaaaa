/* vault: the grammar, by the files of tests/data/vault: those in good/ parse, those in bad/ say exactly what
 * stands in FILE.expected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>

#include "tests/unit/vault_support.h"

static struct buf read_text(const char *path) {
    struct buf text;
    char *room;
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s can't be opened", path);
    buf_init(&text, VAULT_FILE_MAX);
    assert_int_equal(buf_reserve(&text, VAULT_FILE_MAX, &room), 0);
    buf_commit(&text, fread(room, 1, VAULT_FILE_MAX, f));
    fclose(f);
    return text;
}

/* Calls `each` for every file of a folder but the expectations. */
static size_t each_file(const char *folder, void (*each)(const char *path, const char *name)) {
    const char *top = getenv("TOP_SRCDIR");
    char dir[2048], path[4096];
    size_t n = 0;
    snprintf(dir, sizeof dir, "%s/tests/data/vault/%s", top ? top : ".", folder);
    DIR *d = opendir(dir);
    if (!d)
        fail_msg("%s can't be opened", dir);
    struct dirent *e;
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.' || strstr(e->d_name, ".expected"))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        each(path, e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

static void good(const char *path, const char *name) {
    struct buf text = read_text(path), diags;
    struct vault *v = NULL;
    buf_init(&diags, 1 << 20);
    if (vault_parse(name, NULL, buf_slice(&text), &v, &diags))
        fail_msg("%s", buf_cstr(&diags));
    assert_int_equal(buf_len(&diags), 0);
    vault_free(v);
    buf_release(&text);
    buf_release(&diags);
}

static void bad(const char *path, const char *name) {
    char expected_path[4200];
    snprintf(expected_path, sizeof expected_path, "%s.expected", path);
    struct buf text = read_text(path), expected = read_text(expected_path), diags;
    struct vault *v = NULL;
    buf_init(&diags, 1 << 20);
    assert_int_equal(vault_parse(name, NULL, buf_slice(&text), &v, &diags), ERR_PARSE);
    assert_null(v);
    if (!slice_eq(buf_slice(&diags), buf_slice(&expected)))
        fail_msg("%s: said\n%sand not\n%s", name, buf_cstr(&diags), buf_cstr(&expected));
    buf_release(&text);
    buf_release(&expected);
    buf_release(&diags);
}

static void test_good(void **state) {
    (void)state;
    assert_in_range(each_file("good", good), 3, 1000);
}

static void test_bad(void **state) {
    (void)state;
    assert_in_range(each_file("bad", bad), 9, 1000);
}

static void try_parse(const char *bytes, size_t n) {
    struct buf diags;
    struct vault *v = NULL;
    /* a block of exactly that size, so that a sanitizer sees a read past its end */
    char *copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    buf_init(&diags, 1 << 20);
    int r = vault_parse("x", NULL, slice_make(copy, n), &v, &diags);
    assert_true(r == 0 ? v && buf_len(&diags) == 0 : r == ERR_PARSE && !v && buf_len(&diags) > 0);
    vault_free(v);
    buf_release(&diags);
    free(copy);
}

/* Cut off anywhere, or with any bit turned over, a file either parses or is refused with words. */
static void mutate(const char *path, const char *name) {
    struct buf text = read_text(path);
    struct slice s = buf_slice(&text);
    (void)name;
    for (size_t i = 0; i < s.n; i++)
        try_parse(s.p, i);
    char *copy = malloc(s.n + 1);
    for (size_t i = 0; i < s.n * 8; i += 3) {
        memcpy(copy, s.p, s.n);
        copy[i / 8] ^= (char)(1 << i % 8);
        try_parse(copy, s.n);
    }
    free(copy);
    buf_release(&text);
}

static void test_mutations(void **state) {
    (void)state;
    each_file("good", mutate);
    each_file("bad", mutate);
}

static void test_too_many(void **state) {
    struct buf text, diags;
    struct vault *v = NULL;
    (void)state;
    buf_init(&text, VAULT_FILE_MAX * 2);
    buf_init(&diags, 1 << 20);
    for (int i = 0; i < 60; i++)
        buf_puts(&text, "nonsense\n");
    assert_int_equal(vault_parse("x", NULL, buf_slice(&text), &v, &diags), ERR_PARSE);
    assert_non_null(strstr(buf_cstr(&diags), "x:50:1: error"));
    assert_null(strstr(buf_cstr(&diags), "x:51:1"));
    assert_non_null(strstr(buf_cstr(&diags), "too many errors: 10 more"));
    while (buf_len(&text) <= VAULT_FILE_MAX)
        buf_puts(&text, "# filled up with a comment that is rather long and has no other use\n");
    assert_int_equal(vault_parse("x", NULL, buf_slice(&text), &v, &diags), ERR_LIMIT);
    buf_clear(&text);
    buf_clear(&diags);
    buf_puts(&text, "credential a\n  for");
    while (buf_len(&text) < VAULT_LINE_MAX + 100)
        buf_printf(&text, " https://h%zu.test", buf_len(&text));
    assert_int_equal(vault_parse("x", NULL, buf_slice(&text), &v, &diags), ERR_PARSE);
    assert_non_null(strstr(buf_cstr(&diags), "too"));
    buf_release(&text);
    buf_release(&diags);
}

static void test_sources(void **state) {
    (void)state;
    struct vault *v =
        vault_of("/etc/exeat", "credential a\n for https://a.test\n from env A_TOKEN\n inject bearer\n"
                               "credential b\n for https://a.test\n from file sub/t\n inject bearer\n"
                               "credential c\n for https://a.test\n from file /t\n inject bearer\n"
                               "credential d\n for https://a.test\n from exec ./t x\n inject bearer\n"
                               "credential e\n for https://a.test\n from git-credential t\n inject bearer\n");
    static const struct vault_source rows[] = {{VAULT_FROM_ENV, "A_TOKEN"},
                                               {VAULT_FROM_FILE, "/etc/exeat/sub/t"},
                                               {VAULT_FROM_FILE, "/t"},
                                               {VAULT_FROM_EXEC, "./t"},
                                               {VAULT_FROM_GIT_CREDENTIAL, "t"}};
    assert_int_equal(vault_count(v), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(vault_source(v, i).kind, rows[i].kind);
        assert_string_equal(vault_source(v, i).name, rows[i].name);
        assert_true(vault_has(v, slice_str(vault_name(v, i))));
    }
    assert_false(vault_has(v, SLICE("f")));
    assert_false(vault_has(v, SLICE("")));
    vault_free(v);
}

static void test_read(void **state) {
    char path[] = "/tmp/exeat-test-XXXXXX";
    struct errmsg msg = {""};
    struct buf text;
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "credential", 10), 10);
    buf_init(&text, VAULT_FILE_MAX + 65536);
    assert_int_equal(vault_read(path, &text, &msg), 0);
    assert_true(slice_eq(buf_slice(&text), SLICE("credential")));
    assert_int_equal(fchmod(fd, 0620), 0);
    assert_int_equal(vault_read(path, &text, &msg), ERR_DENIED);
    assert_non_null(strstr(msg.text, "others may write to"));
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(ftruncate(fd, VAULT_FILE_MAX + 1), 0);
    assert_int_equal(vault_read(path, &text, &msg), ERR_LIMIT);
    if (geteuid() == 0) {
        assert_int_equal(fchown(fd, 12345, 12345), 0);
        assert_int_equal(vault_read(path, &text, &msg), ERR_DENIED);
    }
    close(fd);
    unlink(path);
    assert_int_equal(vault_read(path, &text, &msg), ERR_IO);
    assert_int_equal(vault_read("/tmp", &text, &msg), ERR_DENIED);
    buf_release(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),     cmocka_unit_test(test_bad),     cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_too_many), cmocka_unit_test(test_sources), cmocka_unit_test(test_read),
    };
    return cmocka_run_group_tests_name("vault_parse", tests, NULL, NULL);
}
