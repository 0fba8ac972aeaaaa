#include "base/block.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pages.h"

/* AddressSanitizer sees nothing of memory that does not come from malloc each time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BLOCKS false
#elif defined(__has_feature)
#define BLOCKS !__has_feature(address_sanitizer)
#else
#define BLOCKS true
#endif

#define LEAST 1024 /* up to here malloc is as fast */

/* Heads and small answers; a record of TLS with all that OpenSSL puts around it. */
#define SMALL_SIZE  ((size_t)8 << 10)
#define SMALL_COUNT 48
#define LARGE_SIZE  ((size_t)17 << 10)
#define LARGE_COUNT 12
#define SMALL_BYTES (SMALL_SIZE * SMALL_COUNT)
#define ALL_BYTES   (SMALL_BYTES + LARGE_SIZE * LARGE_COUNT)

/* Blocks of one size that nobody has. They are named outside of themselves: what overruns one finds no pointer there. */
struct spare {
    size_t n;
    char *blocks[SMALL_COUNT];
};

static char *all; /* MAP_FAILED: there are none */
static struct spare small, large;

static void fill(struct spare *s, char *at, size_t size, size_t count) {
    for (s->n = 0; s->n < count; s->n++)
        s->blocks[s->n] = at + size * s->n;
}

static void make(void) {
    all = BLOCKS ? mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                 : MAP_FAILED;
    if (all == MAP_FAILED)
        return;
    fill(&small, all, SMALL_SIZE, SMALL_COUNT);
    fill(&large, all + SMALL_BYTES, LARGE_SIZE, LARGE_COUNT);
}

void *block_take(size_t n) {
    if (n > LEAST && n <= LARGE_SIZE) {
        if (!all)
            make();
        struct spare *s = n <= SMALL_SIZE ? &small : &large;
        if (s->n)
            return s->blocks[--s->n];
    }
    return malloc(n);
}

/* Where in them; ALL_BYTES or more: it is malloc's. */
static size_t place_of(const void *p) {
    return all && all != MAP_FAILED ? (uintptr_t)p - (uintptr_t)all : SIZE_MAX;
}

void block_give(void *p) {
    size_t at = place_of(p);
    if (at >= ALL_BYTES) {
        if (p) /* mostly it is NULL */
            free(p);
        return;
    }
    struct spare *s = at < SMALL_BYTES ? &small : &large;
    assert(s->n < (s == &small ? SMALL_COUNT : LARGE_COUNT));
    s->blocks[s->n++] = p;
}

void *block_resize(void *p, size_t n) {
    size_t at = place_of(p);
    if (at >= ALL_BYTES)
        return realloc(p, n);
    size_t size = at < SMALL_BYTES ? SMALL_SIZE : LARGE_SIZE;
    void *fresh = n <= size ? p : block_take(n);
    if (fresh && fresh != p) {
        memcpy(fresh, p, size);
        block_give(p);
    }
    return fresh;
}

static void settle(const struct spare *s, size_t size) {
    for (size_t i = 0; i < s->n; i++)
        pages_give_back(s->blocks[i], size);
}

void block_settle(void) {
    settle(&small, SMALL_SIZE);
    settle(&large, LARGE_SIZE);
}
