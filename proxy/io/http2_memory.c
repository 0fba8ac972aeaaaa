#include "proxy/io/http2_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGES_SIZE 32768 /* what does not fit is malloc's */

/* ---- what the library asks for ---- */

union block {
    size_t n;
    max_align_t align;
};

static bool in_pages(const struct http2_memory *m, const void *p) {
    return m->pages && (const char *)p >= m->pages && (const char *)p < m->pages + PAGES_SIZE;
}

static void *memory_malloc(size_t n, void *arg) {
    struct http2_memory *m = arg;
    if (!m->pages || m->made || n > PAGES_SIZE - sizeof(union block))
        return malloc(n);
    union block *b = (union block *)(void *)(m->pages + m->used);
    size_t whole = (sizeof *b + n + sizeof *b - 1) / sizeof *b * sizeof *b;
    if (whole > PAGES_SIZE - m->used)
        return malloc(n);
    b->n = n;
    m->used += whole;
    return b + 1;
}

/* The pages go as one. */
static void memory_free(void *p, void *arg) {
    if (p && !in_pages(arg, p))
        free(p);
}

static void *memory_calloc(size_t n, size_t size, void *arg) {
    if (size && n > SIZE_MAX / size)
        return NULL;
    void *p = memory_malloc(n * size, arg);
    if (p)
        memset(p, 0, n * size);
    return p;
}

static void *memory_realloc(void *p, size_t n, void *arg) {
    if (p && !in_pages(arg, p))
        return realloc(p, n);
    void *q = memory_malloc(n, arg);
    if (p && q) {
        size_t old = ((union block *)p - 1)->n;
        memcpy(q, p, old < n ? old : n);
    }
    return q;
}

/* ---- life ---- */

void http2_memory_init(struct http2_memory *m) {
    *m = (struct http2_memory){.mem = {.mem_user_data = m,
                                       .malloc = memory_malloc,
                                       .free = memory_free,
                                       .calloc = memory_calloc,
                                       .realloc = memory_realloc}};
    void *p = mmap(NULL, PAGES_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return;
    m->pages = p;
    /* a huge one would hold the pages of many sessions, and give none back */
    (void)madvise(p, PAGES_SIZE, MADV_NOHUGEPAGE);
}

void http2_memory_made(struct http2_memory *m) {
    m->made = true;
}

void http2_memory_release(struct http2_memory *m) {
    free(m->asleep);
    m->asleep = NULL;
    if (m->pages)
        munmap(m->pages, PAGES_SIZE);
    m->pages = NULL;
}

/* ---- sleep ---- */

/* Words of the pages that are not zero: runs of them, each behind a word that says where it begins and how long it is,
 * and a run of none at the end. */
struct run {
    uint32_t at, n;
};
_Static_assert(sizeof(struct run) == sizeof(uint64_t), "a word");

/* How many words the runs take; they are written too, unless `out` is NULL. */
static size_t runs_of(const uint64_t *words, size_t n, uint64_t *out) {
    size_t taken = 0;
    for (size_t i = 0; i < n;) {
        size_t begin = i;
        while (i < n && words[i])
            i++;
        if (i > begin) {
            struct run run = {(uint32_t)begin, (uint32_t)(i - begin)};
            if (out) {
                memcpy(out + taken, &run, sizeof run);
                memcpy(out + taken + 1, words + begin, run.n * sizeof *words);
            }
            taken += 1 + run.n;
        }
        while (i < n && !words[i])
            i++;
    }
    if (out)
        out[taken] = 0;
    return taken + 1;
}

bool http2_memory_sleep(struct http2_memory *m) {
    const uint64_t *words = (const uint64_t *)(const void *)m->pages;
    size_t n = (m->used + sizeof *words - 1) / sizeof *words;
    if (!m->pages || m->asleep)
        return false;
    size_t need = runs_of(words, n, NULL);
    if (need > n / 2)
        return false;
    uint64_t *kept = malloc(need * sizeof *kept);
    if (!kept)
        return false;
    runs_of(words, n, kept);
    if (madvise(m->pages, PAGES_SIZE, MADV_DONTNEED)) {
        free(kept);
        return false;
    }
    m->asleep = kept;
    return true;
}

void http2_memory_wake(struct http2_memory *m) {
    const uint64_t *kept = m->asleep;
    uint64_t *words = (uint64_t *)(void *)m->pages;
    struct run run;
    if (!kept)
        return;
    for (memcpy(&run, kept, sizeof run); run.n; memcpy(&run, kept, sizeof run)) {
        memcpy(words + run.at, kept + 1, run.n * sizeof *words);
        kept += 1 + run.n;
    }
    free(m->asleep);
    m->asleep = NULL;
}
