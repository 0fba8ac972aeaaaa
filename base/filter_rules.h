/*
 * The system calls that processes of exeat's and of a sandbox may make, in libseccomp's terms. Only the maker of
 * base/filter_table.h and a test are linked with this: see base/filter.h.
 */
#ifndef BASE_FILTER_RULES_H
#define BASE_FILTER_RULES_H

#include <seccomp.h>

#include "base/filter.h"

/* A new context with the rules, for this architecture. To be released by the caller; NULL when it can't be made. */
scmp_filter_ctx filter_rules(enum filter which);

#endif
