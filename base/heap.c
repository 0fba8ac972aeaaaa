#include "base/heap.h"

#include <malloc.h>

#define HEAP_FREE_MIN (1u << 20) /* bytes; less is left as it is */

void heap_settle(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void heap_give_back(void) {
#ifdef __GLIBC__
    struct mallinfo2 m = mallinfo2();
    if (m.fordblks > HEAP_FREE_MIN && m.fordblks > m.uordblks / 8)
        heap_settle();
#endif
}
