/*
 * Deltas that wait for their base: chained to the id of an object, or to another delta that waits.
 */
#include <stdlib.h>

#include "proxy/codec/git_objects_internal.h"

#define PENDING_ROOM 64
#define PENDING_COST 32 /* of malloc */
/* Where no trees are kept, only what may make a commit is of use, and hardly anybody sends those as deltas. */
#define PENDING_COMMIT  (64u << 10)
#define PENDING_COMMITS (8u << 20)

bool git_pending_room(const struct git_objects *o, uint64_t size) {
    size_t one = o->trees ? o->limits.object : PENDING_COMMIT;
    size_t all = o->trees ? o->memory->limit / 2 : PENDING_COMMITS;
    return size <= one && o->pending_kept + size <= all && size <= git_memory_room(o->memory);
}

static int pending_grow(struct git_objects *o) {
    void *list;
    int r = git_objects_room(o, o->pending, sizeof *o->pending, o->npending, &o->pending_room, &list);
    o->pending = list;
    return r;
}

/* The head of the chain of deltas that wait for an id. */
static int pending_by_id(struct git_objects *o, const uint8_t *id, uint32_t **head) {
    size_t n = o->bases.n, room = n < o->first_room ? o->first_room
                                  : o->first_room   ? o->first_room * 2
                                                    : PENDING_ROOM;
    int r = git_objects_account(o, git_ids_cost(&o->bases) + (room - o->first_room) * sizeof *o->first);
    if (r)
        return r;
    if (room != o->first_room) {
        uint32_t *first = reallocarray(o->first, room, sizeof *first);
        if (!first)
            return ERR_NOMEM;
        o->first = first;
        o->first_room = room;
    }
    size_t i = git_ids_add(&o->bases, id);
    if (i == GIT_IDS_NONE)
        return ERR_NOMEM;
    if (o->bases.n > n)
        o->first[i] = GIT_NONE;
    *head = &o->first[i];
    return 0;
}

int git_pending_add(struct git_objects *o, struct git_place base, const uint8_t *base_id, char *data,
                    size_t size, bool pushed, struct git_place *place) {
    uint32_t *head = NULL;
    *place = (struct git_place){GIT_PLACE_LOST, GIT_NONE};
    if (!git_pending_room(o, size + PENDING_COST)) {
        o->forgotten++;
        free(data);
        return 0;
    }
    int r = pending_grow(o);
    if (r == 0 && base.number == GIT_NONE)
        r = pending_by_id(o, base_id, &head);
    else if (r == 0)
        head = &o->pending[base.number].first;
    if (r == 0)
        r = git_objects_account(o, size + PENDING_COST);
    if (r) {
        free(data);
        return r;
    }
    o->pending_kept += size + PENDING_COST;
    o->waiting++;
    o->pending[o->npending] = (struct git_delta){
        .data = data,
        .size = (uint32_t)size,
        .next = *head,
        .first = GIT_NONE,
        .object = GIT_NONE,
        .pushed = pushed,
    };
    *head = (uint32_t)o->npending;
    *place = (struct git_place){GIT_PLACE_DELTA, (uint32_t)o->npending++};
    return 0;
}

void git_pending_place(const struct git_objects *o, struct git_place *place) {
    const struct git_delta *d = &o->pending[place->number];
    if (d->object != GIT_NONE)
        *place = (struct git_place){GIT_PLACE_OBJECT, d->object};
}

static int pending_due(struct git_objects *o, uint32_t object, uint32_t *head) {
    if (*head == GIT_NONE)
        return 0;
    void *list;
    int r = git_objects_room(o, o->due, sizeof *o->due, o->ndue, &o->due_room, &list);
    o->due = list;
    if (r)
        return r;
    o->due[o->ndue++] = (struct git_due){.object = object, .first = *head};
    *head = GIT_NONE;
    return 0;
}

int git_pending_wake(struct git_objects *o, uint32_t object, uint32_t delta) {
    if (delta != GIT_NONE) {
        o->pending[delta].object = object;
        return pending_due(o, object, &o->pending[delta].first);
    }
    size_t i = git_ids_find(&o->bases, git_ids_at(&o->ids, object));
    return i == GIT_IDS_NONE ? 0 : pending_due(o, object, &o->first[i]);
}

uint32_t git_pending_take(struct git_objects *o, uint32_t delta, struct slice *data, bool *pushed) {
    struct git_delta *d = &o->pending[delta];
    *data = slice_make(d->data, d->size);
    *pushed = d->pushed;
    d->data = NULL;
    o->waiting--;
    o->pending_kept -= d->size + PENDING_COST;
    git_objects_unaccount(o, d->size + PENDING_COST);
    return d->next;
}

uint64_t git_objects_largest_waiting(const struct git_objects *o) {
    uint64_t largest = 0, from, to;
    for (size_t i = 0; i < o->npending; i++) {
        struct slice delta = slice_make(o->pending[i].data, o->pending[i].size);
        if (o->pending[i].data && o->pending[i].pushed && git_delta_sizes(&delta, &from, &to) && to > largest)
            largest = to;
    }
    return largest;
}

int git_objects_bases(const struct git_objects *o, uint64_t size, struct git_ids *out) {
    uint64_t from, to;
    for (size_t i = 0; i < o->bases.n; i++)
        for (uint32_t d = o->first[i]; d != GIT_NONE; d = o->pending[d].next) {
            struct slice delta = slice_make(o->pending[d].data, o->pending[d].size);
            if (!git_delta_sizes(&delta, &from, &to) || from > size)
                continue;
            if (git_ids_add(out, git_ids_at(&o->bases, i)) == GIT_IDS_NONE)
                return ERR_NOMEM;
            break;
        }
    return 0;
}

void git_pending_release(struct git_objects *o) {
    for (size_t i = 0; i < o->npending; i++)
        free(o->pending[i].data);
    free(o->pending);
    free(o->first);
    free(o->due);
    o->pending = NULL;
    o->first = NULL;
    o->due = NULL;
    o->npending = o->pending_room = o->first_room = o->ndue = o->due_room = 0;
    o->pending_kept = o->waiting = 0;
}
