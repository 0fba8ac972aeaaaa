#include "base/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <unistd.h>

#include "base/block.h"
#include "base/msg.h"
#include "base/pages.h"

#define HEAP_FREE_MIN (1u << 20)   /* bytes; less is left as it is */
#define STACK_DEPTH   (256u << 10) /* more than a start goes below where it settles */

static void trim(void) {
    block_settle();
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* All pages below the one that the callees of here are on. Of what lies below them, if the stack is not that deep, there is nothing. */
static void trim_stack(void) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t end = ((uintptr_t)__builtin_frame_address(0) & ~(page - 1)) - page;
    pages_give_back((void *)(end - STACK_DEPTH), STACK_DEPTH);
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
