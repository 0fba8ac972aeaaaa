#include "base/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/block.h"
#include "base/msg.h"

#define HEAP_FREE_MIN (1u << 20)   /* bytes; less is left as it is */
#define STACK_DEPTH   (256u << 10) /* more than a start goes below where it settles */

static void trim(void) {
    block_settle();
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static uintptr_t page_size(void) {
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

void heap_give_pages(void *p, size_t n) {
    uintptr_t page = page_size(), from = ((uintptr_t)p + page - 1) & ~(page - 1),
              to = ((uintptr_t)p + n) & ~(page - 1);
    if (from < to)
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

/* All pages below the one that the callees of here are on. Of what lies below them, if the stack is not that deep, there is nothing. */
static void trim_stack(void) {
    uintptr_t page = page_size(), end = ((uintptr_t)__builtin_frame_address(0) & ~(page - 1)) - page;
    heap_give_pages((void *)(end - STACK_DEPTH), STACK_DEPTH);
}

void heap_settle(void) {
    msg_settle();
    trim();
    trim_stack();
}

void heap_give_back(void) {
#ifdef __GLIBC__
    struct mallinfo2 m = mallinfo2();
    if (m.fordblks > HEAP_FREE_MIN && m.fordblks > m.uordblks / 8)
        trim();
#endif
}

void heap_one(void) {
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
#endif
}
