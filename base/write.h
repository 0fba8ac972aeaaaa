/* Writing all of it, where write(2) takes a part or is interrupted. For files; what may block has loops of its own. */
#ifndef BASE_WRITE_H
#define BASE_WRITE_H

#include "base/err.h"
#include "base/slice.h"

/* 0, or ERR_IO: errno says why. */
int write_all(int fd, struct slice bytes) MUST_CHECK;

/* Into a file that is not there yet. 0, or ERR_IO with a message that begins with the path. */
int write_new(const char *path, struct slice bytes, unsigned mode, struct errmsg *msg) MUST_CHECK;

#endif
