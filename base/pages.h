/* Pages of memory that nobody needs for now. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

/* Gives back those that lie in it as a whole; they are zero when they are touched next. For memory of mmap's, or static. */
void pages_give_back(void *p, size_t n);

#endif
