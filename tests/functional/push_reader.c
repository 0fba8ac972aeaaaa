/*
 * The codec of pushes as a program, for git_agrees.py.
 *
 *   push_reader commands   reads bodies, each behind its length (32 bits, little-endian); prints for each the result,
 *                          the number of push options, the commands, and a line with a dot
 *   push_reader refuse     reads one body, writes the answer that refuses it
 */
#include <stdio.h>
#include <stdlib.h>

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

int main(int argc, char **argv) {
    return argc == 2 && strcmp(argv[1], "refuse") == 0 ? refuse() : commands();
}
