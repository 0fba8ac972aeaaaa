/*
 * By which names objects were shown: the part of `shown` that records are made from (shown.h says what for). It lies in
 * memory that processes share, begins as zeros and takes no lock. What is read from it was written whole, for this very
 * object, or is not given out.
 */
#ifndef PROXY_FLOW_SHOWN_NAMES_H
#define PROXY_FLOW_SHOWN_NAMES_H

#include <stdatomic.h>

#include "base/slice.h"

#define SHOWN_NAMES_WORDS   (1u << 19) /* of 8 bytes, for some 70,000 names of usual length */
#define SHOWN_NAMES_OBJECTS (1u << 16)

struct shown_names {
    _Atomic uint64_t end;                       /* words written so far */
    _Atomic uint64_t last[SHOWN_NAMES_OBJECTS]; /* of an object: where its last name is */
    _Atomic uint64_t words[SHOWN_NAMES_WORDS];
};

/* `key` is the repository's; `list` the number of the list that shows the name now. */
void shown_names_add(struct shown_names *t, const unsigned char key[32], uint32_t list, struct slice id,
                     struct slice name);

/* Calls `found` with each name that the last list with this object had for it, until it returns false. A name may come
 * twice. */
void shown_names_find(const struct shown_names *t, const unsigned char key[32], struct slice id,
                      bool (*found)(void *arg, struct slice name), void *arg);

#endif
