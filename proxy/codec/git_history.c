/*
 * What follows from the parents that commits name.
 */
#include <stdlib.h>

#include "proxy/codec/git_objects.h"

/* "tree ID", then "parent ID" for each parent, then something else: git reads no parent behind that. */
int git_commit_next(struct slice commit, unsigned id_size, size_t *at, uint8_t *id) {
    struct slice word = *at ? SLICE("parent ") : SLICE("tree ");
    struct slice rest = slice_from(commit, *at);
    if (!slice_starts(rest, word))
        return *at ? ERR_EOF : ERR_PARSE;
    size_t line = word.n + 2 * (size_t)id_size;
    if (rest.n <= line || rest.p[line] != '\n' ||
        !git_id_from_hex(slice_sub(rest, word.n, line - word.n), id_size, id))
        return ERR_PARSE;
    *at += line + 1;
    return 0;
}

/* "object ID", "type WORD". */
int git_tag_target(struct slice tag, unsigned id_size, uint8_t *id, enum git_type *type) {
    static const char *const names[] = {"", "commit", "tree", "blob", "tag"};
    struct slice line, rest;
    if (!slice_cut(tag, '\n', &line, &rest) || !slice_starts(line, SLICE("object ")) ||
        !git_id_from_hex(slice_from(line, 7), id_size, id))
        return ERR_PARSE;
    if (!slice_cut(rest, '\n', &line, &rest) || !slice_starts(line, SLICE("type ")))
        return ERR_PARSE;
    for (unsigned i = GIT_TYPE_COMMIT; i <= GIT_TYPE_TAG; i++) {
        if (slice_eq(slice_from(line, 5), slice_str(names[i]))) {
            *type = (enum git_type)i;
            return 0;
        }
    }
    return ERR_PARSE;
}

/* Each id comes into `seen` once; those from `head` on are still to be looked at. */
struct walk {
    const struct git_objects *o;
    struct git_ids seen;
    size_t head;
};

/* Adds what an object names: a commit's parents, a tag's target. */
static int walk_names(struct walk *w, const struct git_object *object) {
    struct slice data = slice_make(object->data, object->size);
    uint8_t id[GIT_ID_MAX];
    enum git_type type;
    size_t at = 0;
    int r;
    if (object->bad)
        return ERR_PARSE;
    if (object->type == GIT_TYPE_TAG) {
        r = git_tag_target(data, w->o->id_size, id, &type);
        return r ? r : git_ids_add(&w->seen, id) == GIT_IDS_NONE ? ERR_NOMEM : 0;
    }
    if (object->type != GIT_TYPE_COMMIT)
        return ERR_PARSE;
    r = git_commit_next(data, w->o->id_size, &at, id);
    while (r == 0 && (r = git_commit_next(data, w->o->id_size, &at, id)) == 0)
        if (git_ids_add(&w->seen, id) == GIT_IDS_NONE)
            return ERR_NOMEM;
    return r == ERR_EOF ? 0 : r;
}

/* The next id, copied since the set's memory moves. */
static bool walk_next(struct walk *w, uint8_t *id) {
    if (w->head == w->seen.n)
        return false;
    memcpy(id, git_ids_at(&w->seen, w->head++), w->o->id_size);
    return true;
}

int git_objects_is_ancestor(const struct git_objects *o, const uint8_t *old, const uint8_t *young,
                            enum git_answer *answer) {
    struct walk w = {.o = o};
    enum git_answer found = GIT_NO;
    uint8_t id[GIT_ID_MAX];
    git_ids_init(&w.seen, o->id_size);
    int r = git_ids_add(&w.seen, young) == GIT_IDS_NONE ? ERR_NOMEM : 0;
    while (r == 0 && walk_next(&w, id)) {
        const struct git_object *object = git_objects_find(o, id);
        if (memcmp(id, old, o->id_size) == 0) {
            found = GIT_YES;
            break;
        }
        if (object && object->type == GIT_TYPE_COMMIT)
            r = walk_names(&w, object);
        else
            found = GIT_UNKNOWN;
    }
    git_ids_release(&w.seen);
    if (r == 0)
        *answer = found;
    return r;
}

int git_objects_missing(const struct git_objects *o, const uint8_t *tip, struct git_ids *out) {
    struct walk w = {.o = o};
    uint8_t id[GIT_ID_MAX];
    git_ids_init(&w.seen, o->id_size);
    int r = git_ids_add(&w.seen, tip) == GIT_IDS_NONE ? ERR_NOMEM : 0;
    while (r == 0 && walk_next(&w, id)) {
        const struct git_object *object = git_objects_find(o, id);
        if (git_objects_is_settled(o, id))
            continue;
        if (object)
            r = walk_names(&w, object);
        else if (git_ids_add(out, id) == GIT_IDS_NONE)
            r = ERR_NOMEM;
    }
    git_ids_release(&w.seen);
    return r;
}
