/*
 * The memory that looking through a push may take: one account, on which all draw who keep something of it, be it
 * objects, sets of ids on the way to an answer, or the answer itself (git_objects.h, git_ids.h, git_changes.h).
 *
 * What is kept of packs may take three quarters of it: the rest is for finding out what that means, which can be done
 * when a pack has filled its part.
 *
 * An account may be part of another one, of all pushes that a process looks through, which has to have room as well.
 * Only sizes that were asked for are counted, and those that grow by doubling while they are copied are not counted
 * twice; so a process takes at most half as much again.
 */
#ifndef PROXY_CODEC_GIT_MEMORY_H
#define PROXY_CODEC_GIT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct git_memory {
    size_t limit, used;
    struct git_memory *of;         /* borrowed; NULL: it is not part of another one */
    const struct git_memory *full; /* which of them had no room for what was asked for last; NULL: both had */
};

/* For the answer to a question; false: there is no room, and nothing was taken. NULL is an account without a limit. */
bool git_memory_take(struct git_memory *m, size_t n);

/* For what a pack brings. */
bool git_memory_keep(struct git_memory *m, size_t n);

/* What was taken, either way. */
void git_memory_give(struct git_memory *m, size_t n);

/* Bytes that git_memory_keep would give now. */
size_t git_memory_room(const struct git_memory *m);

/* A list with room for one more than its `n` of `size` bytes, in place of `list`; what that takes is counted, and *room says
 * how many it has room for. NULL: there is no room, or no memory; `list` is as it was. What is freed, the caller gives
 * back: *room * size. */
void *git_memory_list(struct git_memory *m, void *list, size_t size, size_t n, size_t *room);

#endif
