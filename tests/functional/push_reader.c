/*
 * The codec of pushes as a program, for git_agrees.py.
 *
 *   push_reader commands   reads bodies, each behind its length (32 bits, little-endian); prints for each the result,
 *                          the number of push options, the commands, and a line with a dot
 *   push_reader refuse     reads one body, writes the answer that refuses it
 *   push_reader classify   reads lines of method, target and content type ("-" for none) between tabs; prints what the
 *                          request is taken for
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/url.h"
#include "proxy/codec/git.h"

#define BODY_MAX (1u << 20)

static char body[BODY_MAX];

static int read_push(struct git_push *push, size_t n) {
    size_t used;
    git_push_init(push);
    return git_push_feed(push, slice_make(body, n), &used);
}

static int commands(void) {
    unsigned char size[4];
    while (fread(size, 1, 4, stdin) == 4) {
        size_t n = size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16;
        struct git_push push;
        if (n > BODY_MAX || fread(body, 1, n, stdin) != n)
            return 1;
        int r = read_push(&push, n);
        printf("%d %zu %d\n", r, push.noptions, push.caps.push_options);
        for (size_t i = 0; r == 0 && i < push.ncommands; i++) {
            struct git_command c = git_push_command(&push, i);
            printf("%.*s %.*s %.*s\n", SLICE_ARG(c.old_id), SLICE_ARG(c.new_id), SLICE_ARG(c.ref));
        }
        puts(".");
        fflush(stdout);
        git_push_release(&push);
    }
    return 0;
}

static struct slice reason(size_t i, void *arg) {
    (void)arg;
    return i == 0 ? SLICE("exeat: first reason [ID]") : SLICE("exeat: other reason [ID]");
}

static int refuse(void) {
    struct git_push push;
    struct buf out;
    buf_init(&out, BODY_MAX);
    int r = read_push(&push, fread(body, 1, BODY_MAX, stdin));
    if (!r)
        r = git_report_refusal(&out, &push, reason, NULL,
                               SLICE("exeat: refused by a rule\nexeat: decision ID\n"));
    if (!r)
        r = fwrite(buf_slice(&out).p, 1, buf_len(&out), stdout) != buf_len(&out);
    git_push_release(&push);
    buf_release(&out);
    return r != 0;
}

static void classify_line(struct slice line, struct buf *path) {
    static const char *const kinds[] = {[GIT_NOT] = "not",
                                        [GIT_DISCOVER_FETCH] = "discover-fetch",
                                        [GIT_DISCOVER_PUSH] = "discover-push",
                                        [GIT_FETCH] = "fetch",
                                        [GIT_PUSH] = "push",
                                        [GIT_ARCHIVE] = "archive",
                                        [GIT_REFUSED] = "refused"};
    struct slice method, target, type, raw, query;
    struct git_request git;
    bool has_query;
    slice_cut(line, '\t', &method, &line);
    slice_cut(line, '\t', &target, &type);
    if (slice_eq(type, SLICE("-")))
        type = SLICE_NONE;
    url_target_split(target, &raw, &query, &has_query);
    buf_clear(path);
    if (url_path_canonical(raw, path, NULL, NULL) || url_query_check(query, NULL)) {
        puts("refused");
        return;
    }
    git_classify(&git, method, buf_slice(path), query, type);
    puts(kinds[git.kind]);
}

static int classify(void) {
    struct buf path;
    buf_init(&path, 1 << 17);
    while (fgets(body, sizeof(body), stdin)) {
        struct slice line, rest;
        slice_cut(slice_str(body), '\n', &line, &rest);
        classify_line(line, &path);
        fflush(stdout);
    }
    buf_release(&path);
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc == 2 ? argv[1] : "";
    return strcmp(mode, "refuse") == 0     ? refuse()
           : strcmp(mode, "classify") == 0 ? classify()
           : strcmp(mode, "commands") == 0 ? commands()
                                           : 2;
}
