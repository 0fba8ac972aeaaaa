/* The programs of exeat belong together: each is told which build the one is of that starts it, and works with no other. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include "base/err.h"

/* "0.1.0 (build …)": the version, and what all of its sources come to (Makefile.am). It is linked to programs alone, so that tests
 * need not be linked again for each change; without it the version stands here. */
extern const char version_build[];

/* 0 where `exeat`, the build of exeat itself, is this program's; else ERR_UNSUPPORTED with a message that names this one. */
int version_check(const char *exeat, struct errmsg *msg) MUST_CHECK;

#endif
