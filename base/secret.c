/*
 * Every secret has a mapping of its own. A host has some dozens of secrets, so pages are cheap, and a mapping that
 * is wiped when its secret ends leaves nothing behind in a heap. A few wiped pages are kept, locked as they are, for the
 * next secrets: a worker takes one for each request that a credential goes with.
 */
#include "base/secret.h"

#include <sys/mman.h>
#include <unistd.h>

#define SPARE_PAGES 32
#define LINE        64 /* room is made, and wiped, in multiples of this */

static bool lock_failed;
static char *spare[SPARE_PAGES]; /* wiped pages of the smallest size */
static size_t nspare;

void secret_wipe(void *p, size_t n) {
    if (p && n)
        explicit_bzero(p, n);
}

bool secret_unlocked(void) {
    return lock_failed;
}

static size_t page_size(void) {
    static size_t size;
    if (size == 0)
        size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

/* Bytes of the mapping in which there is room for `cap`. */
static size_t mapped(size_t cap) {
    size_t page = page_size();
    return (cap + page - 1) / page * page;
}

int secret_reserve(struct secret *s, size_t cap) {
    secret_release(s);
    if (cap > SECRET_MAX)
        return ERR_LIMIT;
    cap = (cap / LINE + 1) * LINE;
    size_t size = mapped(cap);
    if (size == page_size() && nspare) {
        *s = (struct secret){.bytes = spare[--nspare], .n = 0, .cap = cap};
        return 0;
    }
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return ERR_NOMEM;
    /* advice may be unknown to an old kernel; the process is non-dumpable in any case */
    (void)madvise(p, size, MADV_DONTDUMP);
    (void)madvise(p, size, MADV_WIPEONFORK);
    if (mlock(p, size) < 0)
        lock_failed = true;
    *s = (struct secret){.bytes = p, .n = 0, .cap = cap};
    return 0;
}

int secret_set(struct secret *s, struct slice value) {
    struct secret fresh = {0};
    int r = secret_reserve(&fresh, value.n);
    if (r == 0 && value.n) {
        memcpy(fresh.bytes, value.p, value.n);
        fresh.n = value.n;
    }
    secret_release(s);
    *s = fresh;
    return r;
}

void secret_release(struct secret *s) {
    if (s->bytes) {
        size_t size = mapped(s->cap);
        secret_wipe(s->bytes, s->cap);
        if (size == page_size() && nspare < SPARE_PAGES)
            spare[nspare++] = s->bytes;
        else
            munmap(s->bytes, size);
    }
    *s = (struct secret){0};
}
