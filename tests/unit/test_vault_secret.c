/* vault: where secrets come from, which are refused, where they may go, and that nothing is left of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tests/unit/vault_support.h"
#include "vault/internal.h"

struct state {
    char path[32];
};

static int set_up(void **state) {
    struct state *s = calloc(1, sizeof *s);
    memcpy(s->path, "/tmp/exeat-test-XXXXXX", 23);
    assert_non_null(mkdtemp(s->path));
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    struct state *s = *state;
    static const char *const names[] = {"token", "helper", "asked"};
    char path[64];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", s->path, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(s->path), 0);
    free(s);
    return 0;
}

static void put_file(const struct state *s, const char *name, const void *bytes, size_t n, mode_t mode) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", s->path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void put_script(const struct state *s, const char *text) {
    put_file(s, "helper", text, strlen(text), 0700);
}

static void renders(const struct vault *v, const char *name, const char *url, const char *path,
                    const char *header, const char *value) {
    struct vault_origin o = origin_of(url);
    struct errmsg msg = {""};
    int err;
    const struct form *form = vault_form(v, slice_str(name), &o, slice_str(path), &err, &msg);
    if (!form)
        fail_msg("%s", msg.text);
    assert_string_equal(form->header, header);
    if (!slice_eq(secret_slice(&form->value), slice_str(value)))
        fail_msg("'%.*s', not '%s'", SLICE_ARG(secret_slice(&form->value)), value);
}

static void refuses(const struct vault *v, const char *name, const char *url, const char *path, int err,
                    const char *says) {
    struct vault_origin o = origin_of(url);
    struct errmsg msg = {""};
    int got = 0;
    assert_null(vault_form(v, slice_str(name), &o, slice_str(path), &got, &msg));
    assert_int_equal(got, err);
    if (!strstr(msg.text, says))
        fail_msg("'%s' does not say '%s'", msg.text, says);
    assert_null(strstr(msg.text, "SECRET"));
}

/* --- binding and forms ---------------------------------------------------------------------------------- */

static void test_forms(void **state) {
    (void)state;
    setenv("EXEAT_TEST_A", "SECRET-A", 1);
    struct vault *v =
        open_vault(NULL, "credential a\n"
                         "  for https://github.com https://api.github.com https://h.test http://h.test\n"
                         "  for https://h.test:8443\n"
                         "  from env EXEAT_TEST_A\n"
                         "  inject basic x-access-token for https://github.com\n"
                         "  inject bearer for https://api.github.com\n"
                         "  inject header Private-Token for https://h.test\n"
                         "  inject header X-Key prefix \"Token \" for https://h.test:8443 http://h.test\n");
    renders(v, "a", "https://github.com", "/acme/app", "Authorization",
            "Basic eC1hY2Nlc3MtdG9rZW46U0VDUkVULUE=");
    renders(v, "a", "https://api.github.com", "/", "Authorization", "Bearer SECRET-A");
    renders(v, "a", "https://h.test", "/", "Private-Token", "SECRET-A");
    renders(v, "a", "https://h.test:8443", "/", "X-Key", "Token SECRET-A");
    renders(v, "a", "http://h.test", "/", "X-Key", "Token SECRET-A");
    refuses(v, "a", "https://evil.test", "/", ERR_DENIED, "credential 'a' is not for https://evil.test");
    refuses(v, "a", "http://github.com", "/", ERR_DENIED, "is not for http://github.com");
    refuses(v, "a", "https://github.com:8443", "/", ERR_DENIED, "is not for https://github.com:8443");
    refuses(v, "a", "https://x.github.com", "/", ERR_DENIED, "is not for");
    refuses(v, "a", "https://github.com.evil.test", "/", ERR_DENIED, "is not for");
    refuses(v, "b", "https://github.com", "/", ERR_NOTFOUND, "no credential 'b'");
    refuses(v, "", "https://github.com", "/", ERR_NOTFOUND, "no credential ''");
    vault_free(v);
    unsetenv("EXEAT_TEST_A");
}

/* C57: one forge wants Basic for git and Bearer for its interface. */
static void test_paths(void **state) {
    (void)state;
    setenv("EXEAT_TEST_A", "SECRET-A", 1);
    struct vault *v = open_vault(NULL, "credential a\n"
                                       "  for https://g.test/team/** https://g.test/api/**\n"
                                       "  from env EXEAT_TEST_A\n"
                                       "  inject basic git for https://g.test/**.git/**\n"
                                       "  inject bearer for https://g.test/api/*/x\n");
    renders(v, "a", "https://g.test", "/team/r.git/info/refs", "Authorization", "Basic Z2l0OlNFQ1JFVC1B");
    renders(v, "a", "https://g.test", "/api/v4/x", "Authorization", "Bearer SECRET-A");
    refuses(v, "a", "https://g.test", "/other/r.git/info/refs", ERR_DENIED,
            "is not for this path on https://g.test");
    refuses(v, "a", "https://g.test", "/api/v4/v5/x", ERR_DENIED, "has no form for this path");
    vault_free(v);
    unsetenv("EXEAT_TEST_A");
}

static void test_glob(void **state) {
    static const struct {
        const char *pattern, *path;
        bool matches;
    } rows[] = {
        {"/a", "/a", true},
        {"/a", "/ab", false},
        {"/a", "/", false},
        {"/*", "/", true},
        {"/*", "/abc", true},
        {"/*", "/a/b", false},
        {"/**", "/a/b/c", true},
        {"/**", "/", true},
        {"/a/**", "/a", false},
        {"/*.git/**", "/r.git/info/refs", true},
        {"/*.git/**", "/a/r.git/info", false},
        {"/**.git/**", "/a/b/r.git/x", true},
        {"/a*b*c", "/aXbYc", true},
        {"/a*b*c", "/abcbc", true},
        {"/a*b*c", "/ab/c", false},
        {"/***", "/x/y", true},
        {"/*/*", "/a/b", true},
        {"/*/*", "/a", false},
        {"/**/x", "/a/b/x", true},
        {"/**/x", "/x", false},
        {"/*a*a*a*a*a*a*a*a*b", "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    (void)state;
    setenv("EXEAT_TEST_A", "SECRET-A", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "credential a\n for https://a.test%s\n from env EXEAT_TEST_A\n inject bearer\n",
                 rows[i].pattern);
        struct vault *v = vault_of(NULL, text);
        struct vault_origin o = origin_of("https://a.test");
        int err;
        bool bound = vault_form(v, SLICE("a"), &o, slice_str(rows[i].path), &err, NULL) != NULL;
        if (bound != rows[i].matches)
            fail_msg("%s and %s: %d", rows[i].pattern, rows[i].path, bound);
        vault_free(v);
    }
    unsetenv("EXEAT_TEST_A");
}

/* --- sources -------------------------------------------------------------------------------------------- */

#define HEAD "credential a\n  for https://a.test\n  inject header X\n"

static void test_values(void **state) {
    struct state *s = *state;
    static char big[VAULT_VALUE_MAX + 16];
    memset(big, 'x', sizeof big);
    big[VAULT_VALUE_MAX] = '\n';
#define BYTES(text) (text), sizeof(text) - 1
    const struct {
        const char *bytes;
        size_t n;
        const char *value, *says;
    } rows[] = {
        {BYTES("SECRET-A"), "SECRET-A", NULL},
        {BYTES("SECRET-A\n"), "SECRET-A", NULL}, /* C19: one final line break is no part of it */
        {BYTES("SECRET-A\r\n"), "SECRET-A", NULL},
        {BYTES("SECRET A"), "SECRET A", NULL},
        {BYTES("SECRET-A\n\n"), NULL, "holds a line break"},
        {BYTES("SECRET\nX-Evil: 1"), NULL, "holds a line break"},
        {BYTES("SECRET-A\r"), NULL, "holds a line break"},
        {BYTES("SECRET\rA\n"), NULL, "holds a line break"},
        {BYTES("SECRET\0A"), NULL, "holds a control character"},
        {BYTES("SECRET\tA"), NULL, "holds a control character"},
        {BYTES("SECRET\177"), NULL, "holds a control character"},
        {BYTES(""), NULL, "is empty"},
        {BYTES("\n"), NULL, "is empty"},
        {BYTES("\r\n"), NULL, "is empty"},
        {BYTES(" SECRET-A"), NULL, "begins or ends with a blank"},
        {BYTES("SECRET-A \n"), NULL, "begins or ends with a blank"},
        {BYTES("SECRET-\xc3\xa4"), NULL, "can't carry"},
        {big, VAULT_VALUE_MAX + 1, "", NULL},
        {big, VAULT_VALUE_MAX + 2, NULL, "is too long"},
        {big, sizeof big, NULL, "is too long"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *said;
        put_file(s, "token", rows[i].bytes, rows[i].n, 0600);
        struct vault *v = vault_of(s->path, HEAD "  from file token\n");
        int r = resolve(v, &said);
        if (rows[i].value) {
            assert_int_equal(r, 0);
            if (*rows[i].value)
                renders(v, "a", "https://a.test", "/", "X", rows[i].value);
        } else {
            assert_int_equal(r, ERR_DENIED);
            if (!strstr(said, rows[i].says))
                fail_msg("row %zu: %s", i, said);
            assert_null(strstr(said, "SECRET"));
            assert_non_null(strstr(said, "error: credential 'a': the secret "));
            refuses(v, "a", "https://evil.test", "/", ERR_DENIED, "is not for");
        }
        free(said);
        vault_free(v);
    }
}

/* What one form can't carry another may. */
static void test_form_limits(void **state) {
    char *said;
    (void)state;
    setenv("EXEAT_TEST_A", "SECRET A\xc3\xa4", 1);
    struct vault *v =
        vault_of(NULL, "credential a\n for https://a.test\n from env EXEAT_TEST_A\n inject bearer\n");
    assert_int_equal(resolve(v, &said), ERR_DENIED);
    assert_non_null(strstr(said, "credentials:4:2: error: credential 'a': the secret holds a blank"));
    free(said);
    vault_free(v);
    v = open_vault(NULL, "credential a\n for https://a.test\n from env EXEAT_TEST_A\n inject basic u\n");
    renders(v, "a", "https://a.test", "/", "Authorization", "Basic dTpTRUNSRVQgQcOk");
    vault_free(v);
    unsetenv("EXEAT_TEST_A");
}

static void test_env(void **state) {
    char *said;
    (void)state;
    unsetenv("EXEAT_TEST_A");
    struct vault *v = vault_of(NULL, HEAD "  from env EXEAT_TEST_A\n");
    assert_int_equal(resolve(v, &said), ERR_DENIED);
    assert_non_null(strstr(said, "the variable EXEAT_TEST_A is not set"));
    free(said);
    setenv("EXEAT_TEST_A", "SECRET-A\n", 1); /* nothing is trimmed here */
    assert_int_equal(resolve(v, &said), ERR_DENIED);
    assert_non_null(strstr(said, "holds a line break"));
    free(said);
    setenv("EXEAT_TEST_A", "SECRET-A", 1);
    char *shown = getenv("EXEAT_TEST_A");
    assert_int_equal(resolve(v, &said), 0);
    free(said);
    vault_wipe_env(v);
    assert_null(getenv("EXEAT_TEST_A"));
    assert_int_equal(shown[0], 0);
    assert_memory_not_equal(shown, "SECRET-A", 8);
    renders(v, "a", "https://a.test", "/", "X", "SECRET-A");
    vault_free(v);
}

static void exec_case(const struct state *s, const char *script, unsigned ms, const char *value,
                      const char *says) {
    struct buf diags;
    put_script(s, script);
    buf_init(&diags, 1 << 16);
    struct vault *v = vault_of(s->path, HEAD "  from exec ./helper \"one two\" three\n");
    int r = vault_resolve(v, ms, &diags);
    if (value) {
        if (r)
            fail_msg("%s", buf_cstr(&diags));
        renders(v, "a", "https://a.test", "/", "X", value);
    } else {
        assert_int_equal(r, ERR_DENIED);
        assert_non_null(says);
        if (!strstr(buf_cstr(&diags), says))
            fail_msg("'%s' does not say '%s'", buf_cstr(&diags), says);
        assert_null(strstr(buf_cstr(&diags), "SECRET"));
    }
    buf_release(&diags);
    vault_free(v);
}

static void test_exec(void **state) {
    struct state *s = *state;
    exec_case(s, "#!/bin/sh\necho SECRET-A\n", 5000, "SECRET-A", NULL);
    exec_case(s, "#!/bin/sh\nprintf '%s|%s|%s' \"$1\" \"$2\" \"$#\"\n", 5000, "one two|three|2", NULL);
    exec_case(s, "#!/bin/sh\ncat; pwd\n", 5000, s->path, NULL); /* no input; in the vault's folder */
    exec_case(s, "#!/bin/sh\nls /proc/self/fd | tr '\\n' ,\n", 5000, "0,1,2,3,", NULL); /* 3 is ls's own */
    exec_case(s, "#!/bin/sh\necho SECRET-A >&2; echo SECRET-B; exit 3\n", 5000, NULL,
              "failed with exit status 3");
    exec_case(s, "#!/bin/sh\necho SECRET-A; kill -9 $$\n", 5000, NULL, "was ended by signal 9");
    exec_case(s, "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' S\n", 5000, NULL, "wrote more than");
    exec_case(s, "#!/bin/sh\n", 5000, NULL, "is empty");
    exec_case(s, "no program\n", 5000, NULL, "can't be run: Exec format error");
    uint64_t before = clock_monotonic_ms();
    exec_case(s, "#!/bin/sh\necho SECRET-A; sleep 30\n", 300, NULL, "did not end within 1 s");
    /* a helper that leaves a child behind with its output open is done when it ends */
    exec_case(s, "#!/bin/sh\necho SECRET-A; sleep 30 &\n", 5000, "SECRET-A", NULL);
    assert_in_range(clock_monotonic_ms() - before, 0, 25000);

    char *said;
    struct vault *v = vault_of(s->path, HEAD "  from exec exeat-no-such-program\n");
    assert_int_equal(resolve(v, &said), ERR_DENIED);
    assert_non_null(strstr(said, "'exeat-no-such-program' can't be run: No such file"));
    free(said);
    vault_free(v);
    /* nobody is left to be waited for */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_git_credential(void **state) {
    struct state *s = *state;
    char *said;
    const char *text =
        "credential a\n  for https://a.test:8443 https://b.test\n  from git-credential ./helper x\n"
        "  inject basic u\n";
    put_script(s, "#!/bin/sh\ncat >asked; echo \"$*\" >>asked\n"
                  "echo username=bob; echo password=SECRET=A; echo quit=0\n");
    struct vault *v = open_vault(s->path, text);
    renders(v, "a", "https://b.test", "/", "Authorization", "Basic dTpTRUNSRVQ9QQ==");
    vault_free(v);
    char asked[256] = "", path[64];
    snprintf(path, sizeof path, "%s/asked", s->path);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(asked, 1, sizeof asked - 1, f) > 0);
    fclose(f);
    assert_string_equal(asked, "protocol=https\nhost=a.test:8443\n\nx get\n");

    put_script(s, "#!/bin/sh\necho username=SECRET\n");
    v = vault_of(s->path, text);
    assert_int_equal(resolve(v, &said), ERR_DENIED);
    assert_non_null(strstr(said, "gave no password"));
    assert_null(strstr(said, "SECRET"));
    free(said);
    put_script(s, "#!/bin/sh\nprintf 'password=SECRET\\r\\n'\n");
    assert_int_equal(resolve(v, &said), ERR_DENIED);
    assert_non_null(strstr(said, "line break"));
    free(said);
    vault_free(v);
}

/* Every credential that can't be had is told of in one run, and none is kept then. */
static void test_all_errors(void **state) {
    char *said;
    (void)state;
    setenv("EXEAT_TEST_A", "SECRET-A", 1);
    struct vault *v =
        vault_of("/nonexistent", "credential a\n for https://a.test\n from env EXEAT_TEST_A\n inject bearer\n"
                                 "credential b\n for https://a.test\n from env EXEAT_TEST_B\n inject bearer\n"
                                 "credential c\n for https://a.test\n from file t\n inject bearer\n"
                                 "credential d\n for https://a.test\n from exec true\n inject bearer\n");
    assert_int_equal(resolve(v, &said), ERR_DENIED);
    assert_null(strstr(said, "credential 'a'"));
    assert_non_null(strstr(said, "credentials:7:7: error: credential 'b'"));
    assert_non_null(strstr(said, "/nonexistent/t can't be opened: No such file"));
    assert_non_null(strstr(said, "'true' can't be run"));
    free(said);
    for (size_t i = 0; i < v->n; i++)
        assert_int_equal(v->list[i].forms[0].value.n, 0); /* nor of the one that was there */
    vault_free(v);
    unsetenv("EXEAT_TEST_A");
}

/* --- wiping --------------------------------------------------------------------------------------------- */

#ifndef __SANITIZE_ADDRESS__ /* its shadow memory is too large to be searched */
/* The bytes that are looked for, put together here so that they stand nowhere else in this process's memory.
 * */
static size_t found_in_memory(const char *left, const char *right) {
    size_t found = 0, n = strlen(left) + strlen(right);
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    int mem = open("/proc/self/mem", O_RDONLY);
    assert_true(maps && mem >= 0);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char mode[8];
        /* the stack holds what is looked for, in halves; what is read is on pages of its own */
        if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || mode[0] != 'r' || strstr(line, "[v"))
            continue;
        for (unsigned long at = from; at + n <= to; at += 4096) {
            static char page[4096 + 64];
            ssize_t got = pread(mem, page, 4096 + n <= to - at ? 4096 + n : to - at, (off_t)at);
            for (ssize_t i = 0; i + (ssize_t)n <= got; i++)
                if (page[i] == left[0] && memcmp(page + i, left, strlen(left)) == 0 &&
                    memcmp(page + i + strlen(left), right, strlen(right)) == 0)
                    found++;
            secret_wipe(page, sizeof page);
        }
    }
    fclose(maps);
    close(mem);
    return found;
}

static void test_nothing_left(void **state) {
    struct state *s = *state;
    static const char left[] = "SECRET-w1pe", right[] = "-me-4711";
    put_script(s, "#!/bin/sh\nprintf 'SECRET-w1pe'; printf -- '-me-4711\\n'\n");
    struct vault *v = open_vault(s->path, "credential a\n for https://a.test\n from exec ./helper\n inject "
                                          "basic u for https://a.test/x\n inject bearer\n");
    assert_int_not_equal(found_in_memory(left, right), 0);
    vault_free(v);
    assert_int_equal(found_in_memory(left, right), 0);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_glob),
        cmocka_unit_test_setup_teardown(test_values, set_up, tear_down),
        cmocka_unit_test(test_form_limits),
        cmocka_unit_test(test_env),
        cmocka_unit_test_setup_teardown(test_exec, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_git_credential, set_up, tear_down),
        cmocka_unit_test(test_all_errors),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test_setup_teardown(test_nothing_left, set_up, tear_down),
#endif
    };
    return cmocka_run_group_tests_name("vault_secret", tests, NULL, NULL);
}
