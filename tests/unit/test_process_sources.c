/* Where policies, the state directory and names of sandboxes come from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/process/config.h"
#include "proxy/process/sources.h"
#include "proxy/process/state.h"

static char folder[64];

static void put(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/exeat-sources.XXXXXX");
    if (!mkdtemp(folder) || chdir(folder) < 0)
        return -1;
    if (mkdir("a", 0700) < 0 || mkdir("shared", 0700) < 0)
        return -1;
    put("top.policy", "top");
    put("a/one.policy", "one");
    put("a/two.policy", "two");
    put("shared/two.policy", "another two");
    put("shared/three.policy", "three");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    static const char *const files[] = {"top.policy", "a/one.policy", "a/two.policy", "shared/two.policy",
                                        "shared/three.policy"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
    rmdir("a");
    rmdir("shared");
    return chdir("/") < 0 || rmdir(folder) < 0 ? -1 : 0;
}

static int read_file(struct sources *s, const char *from, const char *name, char *resolved, char *text,
                     struct errmsg *msg) {
    struct buf r, t;
    buf_init(&r, 4096);
    buf_init(&t, 16);
    int err = sources_read(s, from, name, &r, &t, msg);
    snprintf(resolved, 256, "%.*s", SLICE_ARG(buf_slice(&r)));
    snprintf(text, 256, "%.*s", SLICE_ARG(buf_slice(&t)));
    buf_release(&r);
    buf_release(&t);
    return err;
}

static void where_a_policy_is_looked_for(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "/nowhere:%s/shared", folder);
    struct sources s;
    assert_int_equal(sources_init(&s), 0);
    s.path = path;
    static const struct {
        const char *from, *name, *resolved, *text;
    } cases[] = {
        {NULL, "top.policy", "top.policy", "top"},
        {NULL, "./a/../top.policy", "top.policy", "top"},
        {"top.policy", "a/one.policy", "a/one.policy", "one"},
        {"a/one.policy", "two.policy", "a/two.policy", "two"}, /* beside the one that includes it first */
        {"top.policy", "two.policy", "shared/two.policy", "another two"}, /* then in the search path */
        {"a/one.policy", "three.policy", "shared/three.policy", "three"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char resolved[256], text[256];
        struct errmsg msg;
        assert_int_equal(read_file(&s, cases[i].from, cases[i].name, resolved, text, &msg), 0);
        assert_string_equal(resolved, cases[i].resolved);
        assert_string_equal(text, cases[i].text);
    }
    sources_release(&s);
}

static void what_is_no_policy(void **state) {
    (void)state;
    struct sources s;
    struct errmsg msg;
    char resolved[256], text[256];
    assert_int_equal(sources_init(&s), 0);
    /* a file of the command line is where it was said to be, or nowhere */
    assert_int_equal(read_file(&s, NULL, "three.policy", resolved, text, &msg), ERR_NOTFOUND);
    assert_non_null(strstr(msg.text, "no such file"));
    /* ... and that a ready-made one of the name is elsewhere is said */
    s.path = "/nowhere:shared";
    assert_int_equal(read_file(&s, NULL, "three.policy", resolved, text, &msg), ERR_NOTFOUND);
    assert_non_null(strstr(msg.text, "there is shared/three.policy"));
    s.path = NULL;
    assert_int_equal(read_file(&s, "top.policy", "four.policy", resolved, text, &msg), ERR_NOTFOUND);
    assert_non_null(strstr(msg.text, "beside"));
    assert_int_equal(read_file(&s, NULL, "a", resolved, text, &msg), ERR_IO);
    assert_non_null(strstr(msg.text, "directory"));
    put("long.policy", "seventeen bytes!!");
    assert_int_equal(read_file(&s, NULL, "long.policy", resolved, text, &msg), ERR_LIMIT);
    put("long.policy", "sixteen bytes !!");
    assert_int_equal(read_file(&s, NULL, "long.policy", resolved, text, &msg), 0);
    unlink("long.policy");
    sources_release(&s);
}

static void a_file_in_memory_cannot_be_changed(void **state) {
    (void)state;
    struct errmsg msg;
    struct slice mapped;
    int fd = memory_file("t", SLICE("hello"), &msg);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_int_equal(memory_file_map(fd, 5, &mapped), 0);
    assert_int_equal(mapped.n, 5);
    assert_memory_equal(mapped.p, "hello", 5);
    memory_file_unmap(&mapped);
    assert_int_equal(memory_file_map(fd, 4, &mapped), ERR_LIMIT);
    close(fd);

    fd = memory_file("empty", SLICE_NONE, &msg);
    assert_int_equal(memory_file_map(fd, 5, &mapped), 0);
    assert_int_equal(mapped.n, 0);
    close(fd);

    fd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(memory_file_map(fd, 5, &mapped), ERR_PEER);
    close(fd);
}

static void where_the_state_is(void **state) {
    (void)state;
    struct errmsg msg;
    static const struct {
        const char *named, *xdg, *home, *path;
    } cases[] = {
        {"/s", "/xdg", "/home/u", "/s"},
        {NULL, "/xdg", "/home/u", "/xdg/exeat"},
        {NULL, "relative", "/home/u", "/home/u/.local/state/exeat"}, /* to be ignored, says the standard */
        {NULL, "", "/home/u", "/home/u/.local/state/exeat"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("XDG_STATE_HOME", cases[i].xdg, 1);
        setenv("HOME", cases[i].home, 1);
        char *path = state_path(cases[i].named, &msg);
        assert_string_equal(path, cases[i].path);
        free(path);
    }
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s/x", folder);
    char *path = state_path("x", &msg);
    assert_string_equal(path, wanted);
    free(path);
}

static void the_state_is_made_for_its_owner_alone(void **state) {
    (void)state;
    struct errmsg msg;
    struct stat st;
    char path[128];
    snprintf(path, sizeof path, "%s/new/er/state", folder);
    int fd = state_open(path, &msg);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    int log = state_open_log(fd, path, NULL, &msg);
    assert_true(log >= 0);
    assert_int_equal(fstat(log, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close(log);
    assert_int_equal(unlinkat(fd, STATE_LOG_FILE, 0), 0);
    /* nobody can have the log written elsewhere by a link in its place */
    assert_int_equal(symlinkat("/dev/null", fd, STATE_LOG_FILE), 0);
    assert_int_equal(state_open_log(fd, path, NULL, &msg), -1);
    assert_non_null(strstr(msg.text, "--log"));
    unlinkat(fd, STATE_LOG_FILE, 0);
    close(fd);
    rmdir("new/er/state");
    rmdir("new/er");
    rmdir("new");
    assert_int_equal(state_open("/proc/nothing/here", &msg), -1);
    assert_non_null(strstr(msg.text, "--state"));
}

static void names_of_sandboxes(void **state) {
    (void)state;
    static const char *const good[] = {"a", "npm-7k", "A.b_c-9", "0"};
    static const char *const bad[] = {"", "-a", ".a", "a b", "a/b", "a\n", "\xc3\xa9", "a:b"};
    struct config_sandbox s;
    struct errmsg msg;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(config_set_name(&s, good[i], &msg), 0);
        assert_string_equal(s.name, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(config_set_name(&s, bad[i], &msg), ERR_USAGE);
    char longest[CONFIG_NAME_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[CONFIG_NAME_MAX + 1] = 0;
    assert_int_equal(config_set_name(&s, longest, &msg), ERR_USAGE);
    longest[CONFIG_NAME_MAX] = 0;
    assert_int_equal(config_set_name(&s, longest, &msg), 0);

    static const char *const commands[] = {"/usr/bin/npm", "a command with spaces and \n", "--", "", "x/"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *argv[] = {(char *)(uintptr_t)commands[i], NULL};
        s.argv = argv;
        config_make_name(&s);
        char made[CONFIG_NAME_MAX + 1];
        snprintf(made, sizeof made, "%s", s.name);
        assert_int_equal(config_set_name(&s, made, &msg), 0);
        config_make_name(&s);
        assert_string_not_equal(made, s.name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_a_policy_is_looked_for),          cmocka_unit_test(what_is_no_policy),
        cmocka_unit_test(a_file_in_memory_cannot_be_changed),    cmocka_unit_test(where_the_state_is),
        cmocka_unit_test(the_state_is_made_for_its_owner_alone), cmocka_unit_test(names_of_sandboxes),
    };
    return cmocka_run_group_tests_name("process sources", tests, setup, teardown);
}
