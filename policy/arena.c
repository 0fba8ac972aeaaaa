#include "policy/arena.h"

#include <stdalign.h>
#include <stdlib.h>

/* As much as there is already: most policies are small, and most requests need next to nothing. */
#define BLOCK_LEAST ((size_t)4 << 10)
#define BLOCK_MOST  ((size_t)64 << 10)
#define CACHE_LINE  64

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    alignas(max_align_t) char data[];
};

void arena_init(struct arena *a, size_t limit) {
    *a = (struct arena){.limit = limit};
}

void arena_release(struct arena *a) {
    while (a->blocks) {
        struct arena_block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
    *a = (struct arena){.limit = a->limit};
}

static struct arena_block *block_new(struct arena *a, size_t n) {
    size_t size = a->used < BLOCK_LEAST ? BLOCK_LEAST : a->used > BLOCK_MOST ? BLOCK_MOST : a->used;
    size = size < n ? n : size;
    struct arena_block *b = calloc(1, sizeof *b + size);
    if (!b)
        return NULL;
    b->size = size;
    b->next = a->blocks;
    a->blocks = b;
    return b;
}

static size_t padding(const struct arena_block *b, size_t align) {
    return (align - ((uintptr_t)b->data + b->used) % align) % align;
}

void *arena_alloc(struct arena *a, size_t n) {
    size_t align = n >= CACHE_LINE ? CACHE_LINE : alignof(max_align_t);
    if (n > a->limit || a->used > a->limit - n) {
        a->failed = true;
        return NULL;
    }
    n = (n + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    struct arena_block *b = a->blocks;
    size_t skip = b ? padding(b, align) : 0;
    if (!b || b->size - b->used < n + skip) {
        b = block_new(a, n + align);
        skip = b ? padding(b, align) : 0;
    }
    if (!b) {
        a->failed = true;
        return NULL;
    }
    void *p = b->data + b->used + skip;
    b->used += n + skip;
    a->used += n;
    return p;
}

struct slice arena_copy(struct arena *a, struct slice s) {
    char *p = arena_alloc(a, s.n + 1);
    if (!p)
        return SLICE_NONE;
    if (s.n)
        memcpy(p, s.p, s.n);
    return slice_make(p, s.n);
}
