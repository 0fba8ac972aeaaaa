/*
 * The store: objects by id, and the memory that they take.
 */
#include "proxy/codec/git_objects.h"

#include <stdio.h>
#include <stdlib.h>

#include "proxy/codec/git_objects_internal.h"
#include "proxy/codec/git_tree.h"

#define OBJECTS_ROOM 64
#define MALLOC_COST  32 /* what malloc needs for itself, and rounds up by */

void git_objects_limits_default(struct git_objects_limits *limits) {
    *limits = (struct git_objects_limits){
        .object = 16u << 20,
        .depth = 4095,
        .made = 1u << 30,
    };
}

int git_objects_init(struct git_objects *o, unsigned id_size, bool trees,
                     const struct git_objects_limits *limits, struct git_memory *memory) {
    uint32_t empty;
    *o = (struct git_objects){.memory = memory, .limits = *limits, .id_size = id_size, .trees = trees};
    if (id_size != 20 && id_size != 32)
        return ERR_USAGE;
    git_ids_init(&o->ids, id_size);
    git_ids_init_in(&o->settled, id_size, memory);
    git_ids_init(&o->bases, id_size);
    o->md = EVP_MD_fetch(NULL, id_size == 20 ? "SHA1" : "SHA256", NULL);
    o->hash = EVP_MD_CTX_new();
    char *nothing = malloc(1);
    int r = !nothing ? ERR_NOMEM : o->md && o->hash ? 0 : ERR_CRYPTO;
    if (r == 0)
        r = git_objects_take(o, GIT_TYPE_TREE, nothing, 0, false, &empty);
    else
        free(nothing);
    if (r)
        git_objects_release(o);
    return r;
}

void git_objects_release(struct git_objects *o) {
    for (size_t i = 0; i < o->ids.n; i++)
        free((char *)(uintptr_t)o->list[i].data);
    free(o->list);
    o->list = NULL;
    o->room = 0;
    git_pending_release(o);
    git_ids_release(&o->ids);
    git_ids_release(&o->settled);
    git_ids_release(&o->bases);
    EVP_MD_CTX_free(o->hash);
    EVP_MD_free(o->md);
    o->hash = NULL;
    o->md = NULL;
    git_memory_give(o->memory, o->kept);
    o->kept = 0;
}

const struct git_object *git_objects_find(const struct git_objects *o, const uint8_t *id) {
    size_t i = git_ids_find(&o->ids, id);
    return i == GIT_IDS_NONE ? NULL : &o->list[i];
}

int git_objects_account(struct git_objects *o, size_t more) {
    if (!git_memory_keep(o->memory, more))
        return errmsg_set(&o->error, ERR_LIMIT, "its commits%s take too much memory",
                          o->trees ? " and trees" : "");
    o->kept += more;
    return 0;
}

void git_objects_unaccount(struct git_objects *o, size_t less) {
    git_memory_give(o->memory, less);
    o->kept -= less;
}

int git_objects_room(struct git_objects *o, void *given, size_t size, size_t n, size_t *room, void **list) {
    *list = given;
    if (n < *room)
        return 0;
    size_t more = *room ? *room * 2 : OBJECTS_ROOM;
    int r = git_objects_account(o, (more - *room) * size);
    if (r)
        return r;
    void *grown = reallocarray(given, more, size);
    if (!grown)
        return ERR_NOMEM;
    *list = grown;
    *room = more;
    return 0;
}

/* Room for one more object. */
static int objects_grow(struct git_objects *o) {
    size_t room = o->ids.n < o->room ? o->room : o->room ? o->room * 2 : OBJECTS_ROOM;
    int r = git_objects_account(o, git_ids_cost(&o->ids) + (room - o->room) * sizeof *o->list);
    if (r || room == o->room)
        return r;
    struct git_object *list = reallocarray(o->list, room, sizeof *list);
    if (!list)
        return ERR_NOMEM;
    o->list = list;
    o->room = room;
    return 0;
}

int git_objects_hash(struct git_objects *o, enum git_type type, struct slice data, uint8_t *id) {
    static const char *const names[] = {"", "commit", "tree", "blob", "tag"};
    char head[32];
    int n = snprintf(head, sizeof head, "%s %zu", names[type], data.n) + 1;
    unsigned got = 0;
    if (EVP_DigestInit_ex2(o->hash, o->md, NULL) != 1 || EVP_DigestUpdate(o->hash, head, (size_t)n) != 1 ||
        EVP_DigestUpdate(o->hash, data.p, data.n) != 1 || EVP_DigestFinal_ex(o->hash, id, &got) != 1 ||
        got != o->id_size)
        return ERR_CRYPTO;
    return 0;
}

/* Is a commit or tree malformed where it is looked at? */
static bool objects_bad(const struct git_objects *o, enum git_type type, struct slice data) {
    uint8_t id[GIT_ID_MAX];
    size_t at = 0;
    int r = 0;
    if (type == GIT_TYPE_TREE)
        return git_tree_check(data, o->id_size) != 0;
    while (type == GIT_TYPE_COMMIT && r == 0)
        r = git_commit_next(data, o->id_size, &at, id);
    return r == ERR_PARSE;
}

/* A new object, whose memory is counted. */
static int objects_put(struct git_objects *o, const uint8_t *id, const struct git_object *object) {
    int r = git_objects_account(o, object->size + MALLOC_COST);
    if (r == 0)
        r = objects_grow(o);
    if (r)
        return r;
    size_t number = git_ids_add(&o->ids, id);
    if (number == GIT_IDS_NONE)
        return ERR_NOMEM;
    o->list[number] = *object;
    return git_pending_wake(o, (uint32_t)number, GIT_NONE);
}

/* Keeps an object, once; what waits for it is due, but not yet made. */
static int objects_keep(struct git_objects *o, enum git_type type, char *data, size_t size, unsigned depth,
                        bool pushed, uint32_t *number) {
    uint8_t id[GIT_ID_MAX];
    struct slice contents = slice_make(data, size);
    int r = git_objects_hash(o, type, contents, id);
    size_t found = r ? GIT_IDS_NONE : git_ids_find(&o->ids, id);
    if (r == 0 && found == GIT_IDS_NONE) {
        struct git_object object = {
            .data = data,
            .size = (uint32_t)size,
            .depth = (uint16_t)depth,
            .type = (uint8_t)type,
            .context = o->context && !pushed,
            .bad = objects_bad(o, type, contents),
        };
        found = o->ids.n;
        r = objects_put(o, id, &object);
        if (o->ids.n == found)
            free(data);
    } else {
        free(data);
    }
    if (r)
        return o->error.text[0] ? r : errmsg_set(&o->error, r, "%s", err_text(r));
    o->list[found].pushed |= pushed;
    o->list[found].context &= o->context && !pushed;
    *number = (uint32_t)found;
    return 0;
}

/* What a delta makes of an object. */
static int objects_apply(struct git_objects *o, uint32_t base, struct slice delta, bool pushed,
                         uint32_t *number) {
    const struct git_object *b = &o->list[base];
    char *made;
    size_t size;
    if (b->depth >= o->limits.depth)
        return errmsg_set(&o->error, ERR_LIMIT, "a chain of more than %u deltas", o->limits.depth);
    size_t room = git_memory_room(o->memory);
    int r = git_delta_apply(slice_make(b->data, b->size), delta,
                            room < o->limits.object ? room : o->limits.object, &made, &size);
    if (r == ERR_PARSE)
        return errmsg_set(&o->error, r, "a delta that does not fit its base");
    if (r == ERR_LIMIT && room < o->limits.object)
        return git_objects_account(o, room + 1);
    if (r)
        return errmsg_set(&o->error, r, "an object made by a delta is too large");
    o->made += size;
    if (o->made > o->limits.made) {
        free(made);
        return errmsg_set(&o->error, ERR_LIMIT, "its deltas make more than %llu MiB",
                          (unsigned long long)o->limits.made >> 20);
    }
    return objects_keep(o, b->type, made, size, b->depth + 1u, pushed, number);
}

/* Each delta that is made may make others due; none waits on the stack. */
static int objects_make(struct git_objects *o) {
    struct git_due *due;
    int r = 0;
    while (r == 0 && o->ndue) {
        due = &o->due[o->ndue - 1];
        uint32_t number, d = due->first, base = due->object;
        if (d == GIT_NONE) {
            o->ndue--;
            continue;
        }
        struct slice delta;
        bool pushed;
        due->first = git_pending_take(o, d, &delta, &pushed);
        r = objects_apply(o, base, delta, pushed, &number);
        free((char *)(uintptr_t)delta.p);
        if (r == 0)
            r = git_pending_wake(o, number, d);
    }
    return r;
}

int git_objects_take(struct git_objects *o, enum git_type type, char *data, size_t size, bool pushed,
                     uint32_t *number) {
    int r = objects_keep(o, type, data, size, 0, pushed, number);
    return r ? r : objects_make(o);
}

enum git_place_kind git_objects_base(struct git_objects *o, struct git_place *base, const uint8_t *base_id) {
    size_t found = base_id ? git_ids_find(&o->ids, base_id) : GIT_IDS_NONE;
    if (found != GIT_IDS_NONE)
        *base = (struct git_place){GIT_PLACE_OBJECT, (uint32_t)found};
    else if (base->kind == GIT_PLACE_DELTA)
        git_pending_place(o, base);
    else if (base_id)
        *base = (struct git_place){GIT_PLACE_DELTA, GIT_NONE};
    return base->kind;
}

int git_objects_take_delta(struct git_objects *o, struct git_place base, const uint8_t *base_id, char *data,
                           size_t size, bool pushed, struct git_place *place) {
    int r;
    place->number = GIT_NONE;
    switch (place->kind = git_objects_base(o, &base, base_id)) {
    case GIT_PLACE_OBJECT:
        r = objects_apply(o, base.number, slice_make(data, size), pushed, &place->number);
        free(data);
        return r ? r : objects_make(o);
    case GIT_PLACE_DELTA: return git_pending_add(o, base, base_id, data, size, pushed, place);
    case GIT_PLACE_LOST: break;
    }
    free(data);
    return 0;
}

int git_objects_settle(struct git_objects *o, const uint8_t *id) {
    return git_ids_add(&o->settled, id) == GIT_IDS_NONE ? ERR_NOMEM : 0;
}

void git_objects_unsettle(struct git_objects *o) {
    git_ids_release(&o->settled);
}
