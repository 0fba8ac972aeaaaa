/* The programs of exeat belong together: each is told the version of the one that starts it. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include "base/err.h"

/* 0 where `exeat`, the version of exeat itself, is this program's; else ERR_UNSUPPORTED with a message that names this one. */
int version_check(const char *exeat, struct errmsg *msg) MUST_CHECK;

#endif
