/*
 * A bump allocator: everything that belongs to one loaded policy is freed at once. Internal to policy/.
 *
 * Memory comes zeroed and aligned for any type; what is as large as a line of the cache begins on one. When none is left, or
 * the limit is reached, NULL is returned and `failed` stays set, so that a loader may go on and check once at its end.
 */
#ifndef POLICY_ARENA_H
#define POLICY_ARENA_H

#include "base/slice.h"

struct arena_block;

struct arena {
    struct arena_block *blocks;
    size_t used; /* bytes handed out, all blocks together */
    size_t limit;
    bool failed;
};

void arena_init(struct arena *a, size_t limit);
void arena_release(struct arena *a);
void *arena_alloc(struct arena *a, size_t n);

/* A copy with a NUL behind it, not counted. SLICE_NONE when memory is short. */
struct slice arena_copy(struct arena *a, struct slice s);

#endif
