/*
 * Merge bases. Both commits' histories are coloured until nothing changes any more; where the colours meet, with a
 * commit of either colour alone above, is a base. An older common ancestor may have such commits above it, too, by way of
 * an earlier merge: it counts as a base as well, which can only excuse less.
 */
#include <stdlib.h>

#include "proxy/codec/git_changes_internal.h"

#define SIDE_A  1u
#define SIDE_B  2u
#define BOTH    (SIDE_A | SIDE_B)
#define ABOVE_A 4u /* a commit of this colour alone is a child of it, or it is where that colour begins */
#define ABOVE_B 8u

struct colours {
    const struct git_objects *o;
    struct git_ids seen;
    uint8_t *flags; /* of each */
    size_t room;
    uint32_t *queue;
    size_t head, tail, queue_room;
    uint64_t work;
};

static int colours_room(struct colours *s) {
    size_t had = s->room;
    void *flags =
        s->seen.n > had ? git_memory_list(s->o->memory, s->flags, sizeof *s->flags, had, &s->room) : s->flags;
    if (!flags)
        return ERR_NOMEM;
    s->flags = flags;
    memset(s->flags + had, 0, s->room - had);
    void *queue = git_memory_list(s->o->memory, s->queue, sizeof *s->queue, s->tail, &s->queue_room);
    if (!queue)
        return ERR_NOMEM;
    s->queue = queue;
    return 0;
}

/* Each comes into the queue once for each colour. */
static int colours_add(struct colours *s, const uint8_t *id, uint8_t flags) {
    size_t i = git_ids_add(&s->seen, id);
    int r = i == GIT_IDS_NONE ? ERR_NOMEM : colours_room(s);
    if (r == 0 && (s->flags[i] & flags) != flags) {
        s->flags[i] |= flags;
        s->queue[s->tail++] = (uint32_t)i;
    }
    return r;
}

/* Gives a commit's parents what `flags` says. */
static int colours_parents(struct colours *s, const struct git_object *object, uint8_t flags, bool queue) {
    struct slice data = slice_make(object->data, object->size);
    uint8_t id[GIT_ID_MAX];
    size_t at = 0;
    int r = object->bad || object->type != GIT_TYPE_COMMIT ? ERR_PARSE
                                                           : git_commit_next(data, s->o->id_size, &at, id);
    while (r == 0 && (r = git_commit_next(data, s->o->id_size, &at, id)) == 0) {
        if (queue)
            r = colours_add(s, id, flags);
        else
            s->flags[git_ids_find(&s->seen, id)] |= flags;
    }
    return r == ERR_EOF ? 0 : r;
}

static int colours_spread(struct colours *s) {
    int r = 0;
    for (; r == 0 && s->head < s->tail; s->work++) {
        uint32_t i = s->queue[s->head++];
        const struct git_object *object = git_objects_find(s->o, git_ids_at(&s->seen, i));
        if (object)
            r = colours_parents(s, object, s->flags[i] & BOTH, true);
    }
    return r;
}

/* Says of what is common which colours are above it. Of a commit that is not there one can't tell: it is added to
 * `missing`. */
static int colours_above(struct colours *s, struct git_ids *missing) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < s->seen.n; i++) {
        uint8_t colour = s->flags[i] & BOTH;
        const uint8_t *id = git_ids_at(&s->seen, i);
        const struct git_object *object = git_objects_find(s->o, id);
        if (colour == BOTH)
            continue;
        if (object)
            r = colours_parents(s, object, colour == SIDE_A ? ABOVE_A : ABOVE_B, false);
        else
            r = git_ids_add(missing, id) == GIT_IDS_NONE ? ERR_NOMEM : 0;
    }
    return r;
}

static int colours_bases(struct colours *s, struct git_ids *out) {
    for (size_t i = 0; i < s->seen.n; i++)
        if (s->flags[i] == (BOTH | ABOVE_A | ABOVE_B) &&
            git_ids_add(out, git_ids_at(&s->seen, i)) == GIT_IDS_NONE)
            return ERR_NOMEM;
    return 0;
}

int git_bases(const struct git_objects *o, const uint8_t *a, const uint8_t *b, struct git_ids *out,
              enum git_answer *answer, struct git_ids *missing, uint64_t *work) {
    struct colours s = {.o = o};
    git_ids_init_in(&s.seen, o->id_size, o->memory);
    int r = colours_add(&s, a, SIDE_A);
    if (r == 0)
        r = colours_add(&s, b, SIDE_B);
    if (r == 0)
        r = colours_spread(&s);
    if (r == 0) {
        s.flags[git_ids_find(&s.seen, a)] |= ABOVE_A;
        s.flags[git_ids_find(&s.seen, b)] |= ABOVE_B;
        r = colours_above(&s, missing);
    }
    if (r == 0)
        r = colours_bases(&s, out);
    *answer = missing->n ? GIT_UNKNOWN : out->n ? GIT_YES : GIT_NO;
    *work += s.work + s.seen.n;
    git_ids_release(&s.seen);
    git_memory_give(o->memory, s.room * sizeof *s.flags + s.queue_room * sizeof *s.queue);
    free(s.flags);
    free(s.queue);
    return r;
}
