#include "proxy/codec/git_memory.h"

#include <stdint.h>
#include <stdlib.h>

#define LIST_ROOM 64

/* What may be in use of the account itself after something was kept. */
static size_t memory_share(const struct git_memory *m) {
    return m->limit - m->limit / 4;
}

static size_t memory_left(const struct git_memory *m, size_t limit) {
    return m->used < limit ? limit - m->used : 0;
}

static bool memory_add(struct git_memory *m, size_t n, size_t limit) {
    m->full = n > memory_left(m, limit) ? m : m->of && n > memory_left(m->of, m->of->limit) ? m->of : NULL;
    if (m->full)
        return false;
    m->used += n;
    if (m->of)
        m->of->used += n;
    return true;
}

bool git_memory_take(struct git_memory *m, size_t n) {
    return !m || memory_add(m, n, m->limit);
}

bool git_memory_keep(struct git_memory *m, size_t n) {
    return !m || memory_add(m, n, memory_share(m));
}

void git_memory_give(struct git_memory *m, size_t n) {
    if (!m)
        return;
    m->used -= n;
    if (m->of)
        m->of->used -= n;
}

size_t git_memory_room(const struct git_memory *m) {
    if (!m)
        return SIZE_MAX;
    size_t own = memory_left(m, memory_share(m)), of = m->of ? memory_left(m->of, m->of->limit) : own;
    return own < of ? own : of;
}

void *git_memory_list(struct git_memory *m, void *list, size_t size, size_t n, size_t *room) {
    size_t more = *room ? *room * 2 : LIST_ROOM;
    if (n < *room)
        return list;
    if (!git_memory_take(m, (more - *room) * size))
        return NULL;
    void *grown = reallocarray(list, more, size);
    if (!grown)
        git_memory_give(m, (more - *room) * size);
    else
        *room = more;
    return grown;
}
