/* netns: the specification on its way to init, and the list of mounts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "netns/mountinfo.h"
#include "netns/wire.h"

static struct sandbox_spec example(void) {
    static char command[] = "echo", word[] = "";
    static char *argv[] = {command, word, NULL};
    static const char *const cover[] = {"/a", "/b\nc", NULL};
    struct sandbox_spec s = {.argv = argv, .state_dir = "/state", .cover = cover};
    s.inherit.umask = 027;
    s.inherit.blocked = 1ull << 63;
    memset(s.prefix6, 0xfd, sizeof s.prefix6);
    return s;
}

static struct sandbox_trust trust_example(void) {
    static const char *const bundles[] = {"/etc/ssl/cert.pem", NULL};
    static const struct sandbox_overlay overlays[] = {{"/java", {"\0\1\2", 3}}, {"/empty", {NULL, 0}}};
    return (struct sandbox_trust){SLICE("our root"), 0xddaa19ec, SLICE("all roots"), bundles, overlays, 2};
}

static void test_round_trip(void **state) {
    struct sandbox_spec s = example();
    struct wire_spec w;
    struct errmsg msg = {""};
    char path[64], cwd[4096];
    int fd;
    (void)state;
    /* a socket of this host, which is to be found */
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(path, sizeof path, "/tmp/exeat-spec-%d", (int)getpid());
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    if (wire_spec_write(&s, &fd, &msg))
        fail_msg("%s", msg.text);
    assert_int_equal(wire_spec_read(fd, &w, &msg), 0);
    assert_string_equal(w.argv[0], "echo");
    assert_string_equal(w.argv[1], "");
    assert_null(w.argv[2]);
    assert_string_equal(w.state_dir, "/state");
    assert_string_equal(w.cwd, getcwd(cwd, sizeof cwd));
    assert_string_equal(w.cover[1], "/b\nc");
    assert_null(w.cover[2]);
    assert_int_equal(w.inherit.umask, 027);
    assert_true(w.inherit.blocked == 1ull << 63);
    bool found = false;
    for (const char **p = w.sockets; p && *p; p++)
        found = found || strcmp(*p, path) == 0;
    assert_true(found);
    wire_spec_release(&w);
    assert_null(w.argv);
    close(fd);
    close(listener);
    unlink(path);
}

static void test_trust_round_trip(void **state) {
    struct sandbox_trust t = trust_example();
    struct wire_trust w;
    struct errmsg msg = {""};
    int fd;
    (void)state;
    assert_int_equal(wire_trust_write(&t, &fd, &msg), 0);
    assert_int_equal(wire_trust_read(fd, &w, &msg), 0);
    assert_true(slice_eq(w.ca_pem, SLICE("our root")));
    assert_true(slice_eq(w.bundle_pem, SLICE("all roots")));
    assert_int_equal(w.ca_hash, 0xddaa19ec);
    assert_string_equal(w.bundle_paths[0], "/etc/ssl/cert.pem");
    assert_null(w.bundle_paths[1]);
    assert_int_equal(w.noverlays, 2);
    assert_true(slice_eq(w.overlays[0].bytes, slice_make("\0\1\2", 3)));
    assert_int_equal(w.overlays[1].bytes.n, 0);
    wire_trust_release(&w);
    close(fd);
    /* neither is the other */
    struct wire_spec spec;
    struct sandbox_spec s = example();
    assert_int_equal(wire_trust_write(&t, &fd, &msg), 0);
    assert_int_equal(wire_spec_read(fd, &spec, &msg), ERR_PEER);
    close(fd);
    assert_int_equal(wire_spec_write(&s, &fd, &msg), 0);
    assert_int_equal(wire_trust_read(fd, &w, &msg), ERR_PEER);
    close(fd);
}

static void test_what_cannot_be_served(void **state) {
    struct errmsg msg;
    int fd;
    (void)state;
    struct sandbox_spec s = example();
    s.argv = NULL;
    assert_int_equal(wire_spec_write(&s, &fd, &msg), ERR_USAGE);
    s = example();
    s.state_dir = "relative";
    assert_int_equal(wire_spec_write(&s, &fd, &msg), ERR_USAGE);
}

/* A memfd with these bytes, sealed as it must be. */
static int sealed(const void *p, size_t n) {
    int fd = memfd_create("spec", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(fd, p, n), (ssize_t)n);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
    return fd;
}

static void test_malformed(void **state) {
    struct sandbox_spec s = example();
    struct wire_spec w;
    struct errmsg msg;
    struct stat st;
    int fd;
    (void)state;
    assert_int_equal(wire_spec_write(&s, &fd, &msg), 0);
    assert_int_equal(fstat(fd, &st), 0);
    size_t n = (size_t)st.st_size;
    char *bytes = malloc(n + 1);
    assert_int_equal(pread(fd, bytes, n, 0), st.st_size);
    close(fd);
    /* cut off anywhere */
    for (size_t cut = 1; cut < n; cut += cut < 200 ? 1 : 97) {
        fd = sealed(bytes, cut);
        assert_int_equal(wire_spec_read(fd, &w, &msg), ERR_PEER);
        close(fd);
    }
    /* something behind the end */
    bytes[n] = 0;
    fd = sealed(bytes, n + 1);
    assert_int_equal(wire_spec_read(fd, &w, &msg), ERR_PEER);
    close(fd);
    /* a length that reaches beyond, an unknown tag */
    memset(bytes + 4, 0xff, 4);
    fd = sealed(bytes, n);
    assert_int_equal(wire_spec_read(fd, &w, &msg), ERR_PEER);
    close(fd);
    free(bytes);
    fd = sealed("\xff\0\0\0\0\0\0\0\0", 9);
    assert_int_equal(wire_spec_read(fd, &w, &msg), ERR_PEER);
    close(fd);
    /* could still be changed */
    fd = memfd_create("spec", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(wire_spec_read(fd, &w, &msg), ERR_PEER);
    close(fd);
}

struct seen {
    char paths[8][256];
    size_t n;
};

static int remember(void *arg, const char *alias) {
    struct seen *seen = arg;
    if (seen->n < 8)
        snprintf(seen->paths[seen->n++], sizeof seen->paths[0], "%s", alias);
    return 0;
}

static void test_mounts(void **state) {
    struct mountinfo info;
    struct errmsg msg;
    bool rootfs = false;
    (void)state;
    assert_int_equal(mountinfo_read(&info, &msg), 0);
    for (size_t i = 0; i < info.n; i++) {
        rootfs = rootfs || strcmp(info.list[i].point, "/") == 0;
        assert_int_equal(info.list[i].point[0], '/');
        assert_true(strchr(info.list[i].dev, ':') != NULL);
        assert_true(info.list[i].type[0] != 0);
    }
    assert_true(rootfs);
    mountinfo_release(&info);
}

/* By a table of its own: the same file system is mounted where another part of it shows this very folder. */
static void test_aliases(void **state) {
    struct mountinfo info;
    struct seen seen = {.n = 0};
    char dir[] = "/tmp/exeat-alias-XXXXXX", file[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/f", dir);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(mountinfo_read(&info, NULL), 0);
    /* nothing is known of another mount: no alias but for real ones, which show the same inode */
    assert_int_equal(mountinfo_aliases(&info, file, remember, &seen), 0);
    for (size_t i = 0; i < seen.n; i++) {
        struct stat a, b;
        assert_int_equal(lstat(file, &a), 0);
        assert_int_equal(lstat(seen.paths[i], &b), 0);
        assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
    }
    assert_int_equal(mountinfo_aliases(&info, "/no/such/file", remember, &seen), 0);
    mountinfo_release(&info);
    unlink(file);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_trust_round_trip),
        cmocka_unit_test(test_what_cannot_be_served),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_aliases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
