/*
 * Trees, compared entry by entry and directory by directory, as many at once as a merge has sides. What is the same on
 * all sides that count is not gone into. A directory and a file of the same name are two entries: one goes, one comes.
 */
#include <stdlib.h>

#include "proxy/codec/git_changes_internal.h"

struct side {
    struct slice rest;
    struct git_entry entry; /* the next one */
    bool have;
};

/* A directory that is being compared. */
struct frame {
    uint32_t path; /* bytes of the path above */
    struct side sides[GIT_SIDES_MAX];
};

struct git_diff {
    unsigned n;
    uint32_t commit;
    struct frame *frames;
    size_t depth, room;
    char path[GIT_PATH_MAX];
};

struct git_diff *git_diff_new(void) {
    return calloc(1, sizeof(struct git_diff));
}

void git_diff_free(struct git_changes *c) {
    if (!c->diff)
        return;
    git_memory_give(c->o->memory, c->diff->room * sizeof *c->diff->frames);
    free(c->diff->frames);
    free(c->diff);
    c->diff = NULL;
}

static int side_step(const struct git_changes *c, struct side *s) {
    int r = git_tree_next(&s->rest, c->o->id_size, &s->entry);
    s->have = r == 0;
    return r == ERR_EOF ? 0 : r;
}

/* A directory's tree on one side. ERR_EOF: it is missing, and is noted. */
static int side_open(struct git_changes *c, const uint8_t *id, struct side *s) {
    *s = (struct side){.have = false};
    if (!id)
        return 0;
    const struct git_object *object = git_objects_find(c->o, id);
    if (!object)
        return git_ids_add(&c->needs.trees, id) == GIT_IDS_NONE ? ERR_NOMEM : ERR_EOF;
    if (object->bad || object->type != GIT_TYPE_TREE) {
        char hex[2 * GIT_ID_MAX + 1];
        git_id_to_hex(id, c->o->id_size, hex);
        return errmsg_set(&c->error, ERR_PARSE, "the tree %s is malformed", hex);
    }
    s->rest = slice_make(object->data, object->size);
    return side_step(c, s);
}

/* Goes into a directory, unless one of its trees is missing. */
static int diff_enter(struct git_changes *c, const uint8_t *const *ids, size_t path) {
    struct git_diff *d = c->diff;
    bool missing = false;
    if (d->depth >= 2 * (size_t)GIT_DIFF_DEPTH)
        return errmsg_set(&c->error, ERR_LIMIT, "directories that are too deep");
    void *frames = git_memory_list(c->o->memory, d->frames, sizeof *d->frames, d->depth, &d->room);
    if (!frames)
        return ERR_NOMEM;
    d->frames = frames;
    struct frame *f = &d->frames[d->depth];
    f->path = (uint32_t)path;
    for (unsigned i = 0; i < d->n; i++) {
        int r = side_open(c, ids[i], &f->sides[i]);
        if (r && r != ERR_EOF)
            return r;
        missing |= r == ERR_EOF;
    }
    d->depth += !missing;
    return 0;
}

int git_diff_begin(struct git_changes *c, const struct git_sides *sides) {
    c->diff->n = sides->n;
    c->diff->commit = sides->commit;
    c->diff->depth = 0;
    return diff_enter(c, sides->root, 0);
}

static bool same(const struct git_entry *a, const struct git_entry *b, unsigned id_size) {
    if (!a || !b)
        return a == b;
    return a->mode == b->mode && memcmp(a->id, b->id, id_size) == 0;
}

/* Does the entry count as changed, as far as it goes by what these are? */
static bool counts(const struct git_diff *d, const struct git_entry *const *e, unsigned id_size) {
    if (d->n == 2)
        return !same(e[0], e[1], id_size);
    bool first = same(e[0], e[1], id_size), second = same(e[0], e[2], id_size);
    if (first && second)
        return false;
    if (!first && !second)
        return true;
    /* it is as the one parent has it: that is honest if the other one did not change it */
    const struct git_entry *other = first ? e[2] : e[1];
    for (unsigned i = 3; i < d->n; i++)
        if (!same(other, e[i], id_size))
            return true;
    return false;
}

/* The path of an entry, in d->path: its length, or 0: it is too long. */
static size_t diff_path(struct git_diff *d, size_t at, struct slice name) {
    if (name.n + 1 > GIT_PATH_MAX - at)
        return 0;
    memcpy(d->path + at, name.p, name.n);
    return at + name.n;
}

/* One name: what stands there on each side. */
static int diff_entry(struct git_changes *c, const struct frame *f, const struct git_entry *const *e,
                      const struct git_entry *any) {
    struct git_diff *d = c->diff;
    const uint8_t *ids[GIT_SIDES_MAX];
    bool link = false;
    if (!counts(d, e, c->o->id_size))
        return 0;
    size_t n = diff_path(d, f->path, any->name);
    if (n == 0)
        return errmsg_set(&c->error, ERR_LIMIT, "a path of more than %d bytes", GIT_PATH_MAX);
    if (git_entry_is_tree(any)) {
        for (unsigned i = 0; i < d->n; i++)
            ids[i] = e[i] ? e[i]->id : NULL;
        d->path[n] = '/';
        return diff_enter(c, ids, n + 1);
    }
    for (unsigned i = 0; i < d->n; i++)
        link |= e[i] && (e[i]->mode == GIT_MODE_LINK || e[i]->mode == GIT_MODE_GITLINK);
    int r = git_texts_add(c, &c->paths, slice_make(d->path, n), d->commit, link);
    return r == ERR_LIMIT ? errmsg_set(&c->error, r, "it changes too many paths") : r;
}

/* The next name of a directory, on whichever sides it stands. */
static int diff_step(struct git_changes *c) {
    struct git_diff *d = c->diff;
    struct frame *f = &d->frames[d->depth - 1];
    const struct git_entry *e[GIT_SIDES_MAX] = {NULL};
    struct git_entry copies[GIT_SIDES_MAX], least = {.mode = 0};
    int r = 0;
    for (unsigned i = 0; i < d->n; i++)
        if (f->sides[i].have && (!least.mode || git_entry_cmp(&f->sides[i].entry, &least) < 0))
            least = f->sides[i].entry;
    if (!least.mode) {
        d->depth--;
        return 0;
    }
    for (unsigned i = 0; i < d->n && r == 0; i++) {
        if (!f->sides[i].have || git_entry_cmp(&f->sides[i].entry, &least) != 0)
            continue;
        copies[i] = f->sides[i].entry;
        e[i] = &copies[i];
        r = side_step(c, &f->sides[i]);
    }
    return r ? r : diff_entry(c, f, e, &least);
}

int git_diff_run(struct git_changes *c, size_t *budget) {
    int r = 0;
    while (r == 0 && c->diff->depth) {
        if (*budget == 0)
            return ERR_INCOMPLETE;
        if (++c->work > GIT_CHANGES_WORK)
            return errmsg_set(&c->error, ERR_LIMIT, "there is too much to be compared");
        --*budget;
        r = diff_step(c);
    }
    return r;
}
