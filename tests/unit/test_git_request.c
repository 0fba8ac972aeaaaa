/* base/git_request: which requests are git's, in every spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/git_request.h"
#include "base/url.h"

#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

#define UP "application/x-git-upload-pack-request"
#define RP "application/x-git-receive-pack-request"

static const char *const kinds[] = {"not",  "discover-fetch", "discover-push", "fetch",
                                    "push", "archive",        "refused"};

/* method, target as received, content type: kind, repository */
static const struct {
    const char *method, *target, *type, *kind, *repository;
} rows[] = {
    {"GET", "/acme/app.git/info/refs?service=git-upload-pack", "", "discover-fetch", "/acme/app.git"},
    {"HEAD", "/acme/app/info/refs?service=git-upload-pack", "", "discover-fetch", "/acme/app"},
    {"GET", "/r.git/info/refs?service=git-receive-pack", "", "discover-push", "/r.git"},
    {"GET", "/r.git/info/refs?x=1&service=git-receive-pack&y", "", "discover-push", "/r.git"},
    {"GET", "/r.git/info/refs?service=git%2dreceive-pack", "", "discover-push", "/r.git"},
    {"GET", "/r.git/info/refs?s%65rvice=git-upload-pack", "", "discover-fetch", "/r.git"},
    {"GET", "/r.git/inf%6f/refs?service=git-upload-pack", "", "discover-fetch",
     "/r.git"}, /* canonical by then */
    {"POST", "/acme/app.git/git-upload-pack", UP, "fetch", "/acme/app.git"},
    {"POST", "/acme/app.git/git-receive-pack", RP, "push", "/acme/app.git"},
    {"POST", "/acme/app.git/git-receive-pack?x=1", RP "; charset=utf-8", "push", "/acme/app.git"},
    {"POST", "/Acme/App.GIT/git-upload-pack", "Application/X-Git-Upload-Pack-Request", "fetch",
     "/Acme/App.GIT"},
    /* the service of a discovery */
    {"GET", "/r.git/info/refs", "", "refused", ""},
    {"GET", "/r.git/info/refs?", "", "refused", ""},
    {"GET", "/r.git/info/refs?x=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs?service", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git-upload-archive", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=GIT-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git-upload-pack+", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git%252dreceive-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git-upload-pack&service=git-receive-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git-upload-pack&service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git-upload-pack&%73ervice=git-receive-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git-upload-pack&Service=git-receive-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git-upload-pack&service[]=git-receive-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs?service=git-upload-pack;service=git-receive-pack", "", "refused", ""},
    {"POST", "/r.git/info/refs?service=git-upload-pack", "", "refused", ""},
    {"PUT", "/r.git/info/refs", "", "refused", ""},
    {"GET", "/info/refs?service=git-upload-pack", "", "refused", ""},
    /* spellings */
    {"GET", "/R.GIT/Info/Refs?service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs/?service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git//info/refs?service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info//refs?service=git-upload-pack", "", "refused", ""},
    {"GET", "/a//r.git/info/refs?service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info%2Frefs?service=git-upload-pack", "", "refused", ""},
    {"GET", "/a%2fr.git/info/refs?service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs;x=y?service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info;x/refs?service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs%20?service=git-upload-pack", "", "refused", ""},
    {"GET", "/r.git/info/refs.?service=git-upload-pack", "", "refused", ""},
    {"POST", "/r.git/git-receive-pack/", RP, "refused", ""},
    {"POST", "/r.git/git-receive-pack//", RP, "refused", ""},
    {"POST", "/r.git/Git-Receive-Pack", RP, "refused", ""},
    {"POST", "/r.git/git-receive-pack;a", "", "refused", ""},
    {"POST", "/r.git/git-receive-pack%3Ba", "", "refused", ""},
    {"POST", "/r.git%2Fgit-receive-pack", "", "refused", ""},
    {"POST", "/r.git/git-receive-pack.", "", "refused", ""},
    {"POST", "/git-receive-pack", RP, "refused", ""},
    {"PUT", "/r.git/git-receive-pack", RP, "refused", ""},
    {"OPTIONS", "/r.git/git-upload-pack", "", "refused", ""},
    {"POST", "/r.git/git-upload-archive", "", "refused", ""},
    {"POST", "/r.git/git-upload-archive", UP, "refused", ""},
    {"POST", "/r.git/git-upload-archive", "application/x-git-upload-archive-request", "archive", "/r.git"},
    {"POST", "/r.git/Git-Upload-Archive", "application/x-git-upload-archive-request", "refused", ""},
    /* content types */
    {"POST", "/r.git/git-receive-pack", UP, "refused", ""},
    {"POST", "/r.git/git-receive-pack", "", "refused", ""},
    {"POST", "/r.git/git-upload-pack", "text/plain", "refused", ""},
    {"POST", "/r.git/other", RP, "refused", ""},
    {"PUT", "/x", "application/x-git-Receive-pack-request ; a=b", "refused", ""},
    /* dumb HTTP */
    {"GET", "/r.git/objects/info/packs", "", "refused", ""},
    {"GET", "/r.git/objects/info/http-alternates", "", "refused", ""},
    {"GET", "/r.git/objects/pack/pack-0123456789012345678901234567890123456789.idx", "", "refused", ""},
    {"GET", "/r.git/objects/ab/01234567890123456789012345678901234567", "", "refused", ""},
    /* plain HTTP */
    {"GET", "/", "", "not", ""},
    {"GET", "/repos/acme/app/commits/HEAD", "", "not", ""},
    {"GET", "/docs/git-receive-pack", "", "refused", ""},
    {"POST", "/api/git-receive-packs", "application/json", "not", ""},
    {"POST", "/xgit-receive-pack", "", "not", ""},
    {"GET", "/v1/info/refsx", "", "not", ""},
    {"GET", "/objects/ab/cd", "", "not", ""},
    {"POST", "/acme/app.git/info/lfs/objects/batch", "application/vnd.git-lfs+json", "not", ""},
};

static void test_endpoints(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct slice raw, query;
        struct git_request git;
        struct buf path;
        bool has_query;
        buf_init(&path, 1 << 16);
        url_target_split(slice_str(rows[i].target), &raw, &query, &has_query);
        assert_int_equal(url_path_canonical(raw, &path, NULL, NULL), 0);
        git_classify(&git, slice_str(rows[i].method), buf_slice(&path), query, slice_str(rows[i].type));
        if (strcmp(kinds[git.kind], rows[i].kind) || !slice_eq(git.repository, slice_str(rows[i].repository)))
            fail_msg("row %zu: %s %s: %s %.*s", i, rows[i].method, rows[i].target, kinds[git.kind],
                     SLICE_ARG(git.repository));
        assert_int_equal(git.reason != NULL, git.kind == GIT_REFUSED);
        buf_release(&path);
    }
}

/* However much is put in between or behind, the end of the path is seen. */
static void test_padded(void **state) {
    static const char *const pads[] = {"/", ";", ".", "%20", "/x/..."};
    (void)state;
    for (size_t p = 0; p < ROWS(pads); p++) {
        struct buf path;
        struct git_request git;
        buf_init(&path, 1 << 20);
        buf_puts(&path, "/r.git/a");
        for (int i = 0; i < 3000; i++)
            buf_puts(&path, pads[p]);
        buf_puts(&path, "/git-receive-pack");
        for (int i = 0; i < 3000 && p < 4; i++)
            buf_puts(&path, pads[p]);
        buf_puts(&path, "/");
        git_classify(&git, SLICE("POST"), buf_slice(&path), SLICE_NONE, SLICE(RP));
        assert_int_equal(git.kind, GIT_REFUSED);
        buf_release(&path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_padded),
    };
    return cmocka_run_group_tests_name("git_request", tests, NULL, NULL);
}
