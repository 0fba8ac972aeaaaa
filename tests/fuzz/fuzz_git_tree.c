/*
 * Fuzz harness for git's trees, in two readings of the input. As one tree: what is well-formed has names of one segment,
 * in an order in which none comes twice. As a recipe for a history of trees and commits: what an update brings is the
 * same however the work is cut, more without merge bases than with them, and every path could be one of a work tree.
 */
#include <stdio.h>
#include <stdlib.h>

#include "proxy/codec/git_changes_internal.h"
#include "proxy/codec/git_objects_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ID_SIZE 20
#define MOST    64
#define NAMES   4 /* in a tree, and trees at all: a few of each make thousands of paths */
#define TREES   5

static void must(bool truth) {
    if (!truth)
        abort();
}

static void check_tree(struct slice tree) {
    struct git_entry list[MOST], e;
    size_t n = 0;
    if (git_tree_check(tree, ID_SIZE))
        return;
    while (n < MOST && git_tree_next(&tree, ID_SIZE, &e) == 0) {
        must(e.name.n && slice_find(e.name, '/') < 0 && slice_find(e.name, 0) < 0);
        for (size_t i = 0; i < n; i++)
            must(git_entry_cmp(&list[i], &e) < 0 && !slice_eq(list[i].name, e.name));
        list[n++] = e;
    }
}

struct recipe {
    struct slice in;
    struct git_objects o;
    uint8_t trees[MOST][ID_SIZE], commits[MOST][ID_SIZE];
    size_t ntrees, ncommits;
};

static uint8_t take(struct recipe *r) {
    uint8_t c = r->in.n ? (uint8_t)r->in.p[0] : 0;
    r->in = slice_from(r->in, 1);
    return c;
}

static void keep(struct recipe *r, enum git_type type, struct buf *b, uint8_t *id) {
    uint32_t number;
    char *copy = malloc(buf_len(b) + 1);
    if (buf_len(b))
        memcpy(copy, buf_slice(b).p, buf_len(b));
    must(git_objects_take(&r->o, type, copy, buf_len(b), take(r) & 1, &number) == 0);
    memcpy(id, git_ids_at(&r->o.ids, number), ID_SIZE);
    must(!r->o.list[number].bad);
    buf_release(b);
}

/* Names a to d, each once at most, as files of a few contents, links, submodules and directories made before. */
static void make_tree(struct recipe *r) {
    static const unsigned modes[] = {0100644, 0100755, GIT_MODE_LINK, GIT_MODE_GITLINK};
    struct buf b;
    uint8_t names = take(r);
    buf_init(&b, 4096);
    for (unsigned i = 0; i < NAMES; i++) {
        uint8_t what = take(r), id[ID_SIZE] = {0};
        if (!(names & 1u << i))
            continue;
        id[0] = what >> 6;
        bool dir = what & 4 && r->ntrees;
        buf_printf(&b, "%o %c%c", dir ? GIT_MODE_TREE : modes[what & 3], 'a' + (int)i, 0);
        buf_put(&b, slice_make(dir ? r->trees[(what >> 3) % r->ntrees] : id, ID_SIZE));
    }
    keep(r, GIT_TYPE_TREE, &b, r->trees[r->ntrees++]);
}

static void make_commit(struct recipe *r) {
    struct buf b;
    uint8_t tree = take(r), parents = take(r) % 4;
    char hex[2 * GIT_ID_MAX + 1];
    buf_init(&b, 4096);
    if (r->ntrees == 0)
        return;
    git_id_to_hex(r->trees[tree % r->ntrees], ID_SIZE, hex);
    buf_printf(&b, "tree %s\n", hex);
    for (; parents && r->ncommits; parents--) {
        git_id_to_hex(r->commits[take(r) % r->ncommits], ID_SIZE, hex);
        buf_printf(&b, "parent %s\n", hex);
    }
    buf_printf(&b, "author %u <a>\n\n", take(r) % 4);
    keep(r, GIT_TYPE_COMMIT, &b, r->commits[r->ncommits++]);
}

static void run(const struct recipe *r, const uint8_t *old, const uint8_t *young, bool excuse, size_t budget,
                struct git_changes *c) {
    int result;
    must(git_changes_init(c, &r->o, old, young, excuse ? GIT_CHANGES_EXCUSE : 0) == 0);
    while ((result = git_changes_run(c, budget)) == ERR_INCOMPLETE)
        ;
    must(result == 0 && git_changes_complete(c));
    for (size_t i = 0; i < c->paths.n; i++) {
        struct slice path = git_text(&c->paths, i);
        must(path.n % 2 == 1);
        for (size_t k = 1; k < path.n; k += 2)
            must(path.p[k] == '/');
    }
}

/* Everything in `few` is in `many`. */
static void must_hold(const struct git_texts *many, const struct git_texts *few) {
    for (size_t i = 0; i < few->n; i++) {
        size_t k = 0;
        while (k < many->n && !slice_eq(git_text(many, k), git_text(few, i)))
            k++;
        must(k < many->n && (many->list[k].link || !few->list[i].link));
    }
}

static void check_history(struct slice in) {
    struct recipe r = {.in = in};
    struct git_objects_limits limits;
    struct git_changes c[3];
    struct git_memory memory = {.limit = 256u << 20};
    git_objects_limits_default(&limits);
    must(git_objects_init(&r.o, ID_SIZE, true, &limits, &memory) == 0);
    while (r.in.n > 4 && r.ntrees < TREES && r.ncommits < MOST) {
        if (take(&r) & 1)
            make_tree(&r);
        else
            make_commit(&r);
    }
    if (r.ncommits) {
        const uint8_t *old = r.commits[take(&r) % r.ncommits], *young = r.commits[r.ncommits - 1];
        must(git_objects_settle(&r.o, old) == 0);
        run(&r, old, young, true, 1, &c[0]);
        run(&r, old, young, true, 1000000, &c[1]);
        run(&r, old, young, false, 7, &c[2]);
        must(c[0].ncommits == c[1].ncommits && c[0].paths.n == c[1].paths.n);
        must_hold(&c[0].paths, &c[1].paths);
        must_hold(&c[2].paths, &c[0].paths);
        for (unsigned i = 0; i < 3; i++)
            git_changes_release(&c[i]);
    }
    git_objects_release(&r.o);
    must(memory.used == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct slice in = slice_make(data, size);
    check_tree(in);
    check_history(in);
    return 0;
}
