/* netns/walk: each socket is found down to the depth that is asked for, by however many threads, and what is nearer comes first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netns/walk.h"

#define WIDE 700 /* folders: enough for every thread */

struct scene {
    char dir[32];
    size_t found, deep, stop; /* sockets; those named "deep"; at so many ERR_LIMIT is returned, 0: never */
    char last[128];
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void put_folder(const struct scene *s, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", s->dir, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void put(const struct scene *s, const char *name, mode_t type) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", s->dir, name);
    assert_int_equal(mknod(path, type | 0600, 0), 0);
}

static int on_socket(void *arg, const char *path) {
    struct scene *s = arg;
    assert_int_equal(strncmp(path, s->dir, strlen(s->dir)), 0);
    s->found++;
    s->deep += strstr(path, "/deep") != NULL;
    snprintf(s->last, sizeof s->last, "%s", path + strlen(s->dir) + 1);
    return s->found == s->stop ? ERR_LIMIT : 0;
}

static int walk(struct scene *s, int depth) {
    struct errmsg msg;
    s->found = s->deep = 0;
    return walk_sockets(s->dir, depth, on_socket, s, &msg);
}

static int set_up(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    snprintf(s->dir, sizeof s->dir, "/tmp/walk.XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    struct scene *s = *state;
    nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(s);
    return 0;
}

static void each_depth(void **state) {
    struct scene *s = *state;
    char path[160];
    put(s, "a", S_IFSOCK);
    put_folder(s, "f");
    put(s, "f/b", S_IFSOCK);
    put(s, "f/file", S_IFREG);
    put(s, "f/fifo", S_IFIFO);
    put_folder(s, "f/g");
    put(s, "f/g/deep", S_IFSOCK);
    snprintf(path, sizeof path, "%s/f/link", s->dir);
    assert_int_equal(symlink(s->dir, path), 0);
    for (int depth = 1; depth <= 4; depth++) {
        assert_int_equal(walk(s, depth), 0);
        assert_int_equal(s->found, depth < 3 ? depth : 3);
        assert_int_equal(s->deep, depth >= 3);
    }
    assert_string_equal(s->last, "f/g/deep");
}

static void many_folders(void **state) {
    struct scene *s = *state;
    char name[64];
    for (int i = 0; i < WIDE; i++) {
        snprintf(name, sizeof name, "%d", i);
        put_folder(s, name);
        snprintf(name, sizeof name, "%d/s", i);
        put(s, name, S_IFSOCK);
        snprintf(name, sizeof name, "%d/f", i);
        put_folder(s, name);
        snprintf(name, sizeof name, "%d/f/deep", i);
        put(s, name, S_IFSOCK);
    }
    assert_int_equal(walk(s, 3), 0);
    assert_int_equal(s->found, 2 * WIDE);
    assert_int_equal(s->deep, WIDE);
    s->stop = 5;
    assert_int_equal(walk(s, 3), ERR_LIMIT);
    assert_int_equal(s->found, 5);
}

/* One folder's content is more than is looked at: what is nearer to the top than that is found all the same. */
static void the_nearest_first(void **state) {
    struct scene *s = *state;
    char path[128], name[64];
    put_folder(s, "full");
    put_folder(s, "full/below");
    put(s, "full/below/file", S_IFREG);
    snprintf(path, sizeof path, "%s/full/below/file", s->dir);
    for (int i = 0; i < WALK_ENTRIES; i++) {
        snprintf(name, sizeof name, "%s/full/below/%d", s->dir, i);
        assert_int_equal(link(path, name), 0);
    }
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "f%d", i);
        put_folder(s, name);
        snprintf(name, sizeof name, "f%d/s", i);
        put(s, name, S_IFSOCK);
    }
    assert_int_equal(walk(s, 3), 0);
    assert_int_equal(s->found, 50);
}

static void nothing_there(void **state) {
    struct scene *s = *state;
    struct errmsg msg;
    assert_int_equal(walk_sockets("/nowhere/at/all", 3, on_socket, s, &msg), 0);
    assert_int_equal(s->found, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(each_depth), TEST(many_folders), TEST(the_nearest_first),
                                       TEST(nothing_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
