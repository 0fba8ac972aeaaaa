/*
 * What follows from the parents that commits name.
 */

#include "proxy/codec/git_changes_internal.h"

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

int git_history_names(const struct git_objects *o, const struct git_object *object, struct git_ids *set) {
    struct slice data = slice_make(object->data, object->size);
    uint8_t id[GIT_ID_MAX];
    enum git_type type;
    size_t at = 0;
    int r;
    if (object->bad)
        return ERR_PARSE;
    if (object->type == GIT_TYPE_TAG) {
        r = git_tag_target(data, o->id_size, id, &type);
        return r ? r : git_ids_add(set, id) == GIT_IDS_NONE ? ERR_NOMEM : 0;
    }
    if (object->type != GIT_TYPE_COMMIT)
        return ERR_PARSE;
    r = git_commit_next(data, o->id_size, &at, id);
    while (r == 0 && (r = git_commit_next(data, o->id_size, &at, id)) == 0)
        if (git_ids_add(set, id) == GIT_IDS_NONE)
            return ERR_NOMEM;
    return r == ERR_EOF ? 0 : r;
}

/* The next id of a set that grows meanwhile: copied, since its memory moves. */
static bool walk_next(const struct git_ids *set, size_t *head, uint8_t *id) {
    if (*head == set->n)
        return false;
    memcpy(id, git_ids_at(set, (*head)++), set->id_size);
    return true;
}

/* What can't be read there has no history. */
int git_history_settled(const struct git_objects *o, struct git_ids *set) {
    uint8_t id[GIT_ID_MAX];
    size_t head = 0;
    int r = 0;
    for (size_t i = 0; i < o->settled.n; i++)
        if (git_ids_add(set, git_ids_at(&o->settled, i)) == GIT_IDS_NONE)
            return ERR_NOMEM;
    while (r != ERR_NOMEM && walk_next(set, &head, id)) {
        const struct git_object *object = git_objects_find(o, id);
        r = object ? git_history_names(o, object, set) : 0;
    }
    return r == ERR_NOMEM ? r : 0;
}

int git_objects_missing(const struct git_objects *o, const struct git_ids *tips, struct git_ids *out) {
    struct git_ids seen, settled;
    uint8_t id[GIT_ID_MAX];
    size_t head = 0;
    git_ids_init_in(&seen, o->id_size, o->memory);
    git_ids_init_in(&settled, o->id_size, o->memory);
    int r = git_history_settled(o, &settled);
    for (size_t i = 0; r == 0 && i < tips->n; i++)
        r = git_ids_add(&seen, git_ids_at(tips, i)) == GIT_IDS_NONE ? ERR_NOMEM : 0;
    while (r == 0 && walk_next(&seen, &head, id)) {
        const struct git_object *object = git_objects_find(o, id);
        if (git_ids_find(&settled, id) != GIT_IDS_NONE)
            continue;
        if (object)
            r = git_history_names(o, object, &seen);
        else if (git_ids_add(out, id) == GIT_IDS_NONE)
            r = ERR_NOMEM;
    }
    git_ids_release(&seen);
    git_ids_release(&settled);
    return r;
}
