#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void pages_give_back(void *p, size_t n) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)p + page - 1) & ~(page - 1),
              to = ((uintptr_t)p + n) & ~(page - 1);
    if (from < to)
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
}
