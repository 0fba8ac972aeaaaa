/*
 * Decision ids: ULIDs (https://github.com/ulid/spec): 48 bits of milliseconds and 80 random bits in Crockford's base 32, 26 characters
 * that sort by time. Within one process they rise strictly, also within a millisecond.
 */
#ifndef BASE_ULID_H
#define BASE_ULID_H

#include <stdbool.h>

#include "base/slice.h"

#define ULID_LEN 26

struct ulid {
    char text[ULID_LEN + 1]; /* NUL-terminated */
};

struct ulid ulid_new(void);

/* Whether `s` is one, in upper or lower case; *out gets it in upper case. */
bool ulid_parse(struct slice s, struct ulid *out);

#endif
