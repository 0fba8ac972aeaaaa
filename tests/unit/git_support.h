/* Repositories for the tests of codecs that read packs: git makes them, one with SHA-1 and one with SHA-256. */
#ifndef TESTS_UNIT_GIT_SUPPORT_H
#define TESTS_UNIT_GIT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/block.h"
#include "base/buf.h"

static char dir[2][64];

/* A file that the script left. The caller gives it to unload. */
static inline struct slice load(unsigned which, const char *name) {
    char path[256];
    struct buf b;
    snprintf(path, sizeof path, "%s/%s", dir[which], name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    buf_init(&b, 16 << 20);
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
        assert_int_equal(buf_put(&b, slice_make(piece, n)), 0);
    fclose(f);
    assert_non_null(buf_cstr(&b));
    return buf_slice(&b);
}

static inline void unload(struct slice s) {
    block_give((void *)(uintptr_t)s.p); /* a buffer's */
}

/* Runs the script once for each hash: $1 is a folder of its own, $2 the hash's name. */
static inline int repositories_make(const char *script) {
    for (unsigned i = 0; i < 2; i++) {
        char command[256];
        snprintf(dir[i], sizeof dir[i], "/tmp/exeat-test-git-XXXXXX");
        if (!mkdtemp(dir[i]))
            return -1;
        setenv("TEST_GIT_SCRIPT", script, 1);
        snprintf(command, sizeof command, "sh -c \"$TEST_GIT_SCRIPT\" sh %s %s >&2", dir[i],
                 i ? "sha256" : "sha1");
        if (system(command) != 0)
            return -1;
    }
    return 0;
}

static inline int repositories_remove(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        char command[128];
        snprintf(command, sizeof command, "rm -rf %s", dir[i]);
        if (system(command) != 0)
            return -1;
    }
    return 0;
}

#endif
