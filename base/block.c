#include "base/block.h"

#include <assert.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/heap.h"

/* AddressSanitizer sees nothing of memory that does not come from malloc each time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BLOCKS false
#elif defined(__has_feature)
#define BLOCKS !__has_feature(address_sanitizer)
#else
#define BLOCKS true
#endif

/* Up to here a piece of malloc's, which of itself has seven of a size at hand. Its sizes are 24 bytes and each 16 more. */
#define LEAST       ((size_t)1024)
#define PIECE_FIRST ((size_t)24)
#define PIECE_STEP  ((size_t)16)
#define PIECE_SIZES ((LEAST - PIECE_FIRST) / PIECE_STEP + 2)
#define PIECE_BYTES ((size_t)8 << 10) /* of each size */
#define PIECE_COUNT 2200              /* of all sizes */

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

/* Pieces of one size or a little more. They are named outside of themselves, too; in each is the mark of those that nobody
 * has, so that one that is given back twice is seen. */
static struct {
    void **held;
    uint16_t n, most;
} pieces[PIECE_SIZES];
static void *piece_names[PIECE_COUNT];
static uint64_t piece_mark; /* 0: there are none yet */

static void make_pieces(void) {
    void **at = piece_names;
    if (getrandom(&piece_mark, sizeof piece_mark, 0) != sizeof piece_mark)
        piece_mark = 0;
    piece_mark |= 1;
    for (size_t i = 0; BLOCKS && i < PIECE_SIZES; i++) {
        pieces[i].held = at;
        pieces[i].most = (uint16_t)(PIECE_BYTES / (PIECE_FIRST + i * PIECE_STEP));
        at += pieces[i].most;
    }
    assert(at <= piece_names + PIECE_COUNT);
}

static void *piece_take(size_t n) {
    size_t size = n <= PIECE_FIRST ? 0 : (n - PIECE_FIRST + PIECE_STEP - 1) / PIECE_STEP;
    if (pieces[size].n == 0)
        return malloc(n);
    uint64_t *piece = pieces[size].held[--pieces[size].n];
    *piece = 0;
    return piece;
}

static bool piece_is_held(const void *piece, size_t size) {
    for (size_t i = 0; i < pieces[size].n; i++)
        if (pieces[size].held[i] == piece)
            return true;
    return false;
}

static void piece_give(uint64_t *piece) {
    size_t size = (malloc_usable_size(piece) - PIECE_FIRST) / PIECE_STEP;
    if (!piece_mark)
        make_pieces();
    if (size < PIECE_SIZES && *piece == piece_mark && piece_is_held(piece, size))
        abort();
    if (size >= PIECE_SIZES || pieces[size].n == pieces[size].most) {
        free(piece);
        return;
    }
    *piece = piece_mark;
    pieces[size].held[pieces[size].n++] = piece;
}

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
    if (n <= LEAST)
        return piece_take(n);
    if (n <= LARGE_SIZE) {
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
            piece_give(p);
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
        heap_give_pages(s->blocks[i], size);
}

void block_settle(void) {
    for (size_t i = 0; i < PIECE_SIZES; i++)
        while (pieces[i].n)
            free(pieces[i].held[--pieces[i].n]);
    heap_give_pages(piece_names, sizeof piece_names);
    settle(&small, SMALL_SIZE);
    settle(&large, LARGE_SIZE);
}
