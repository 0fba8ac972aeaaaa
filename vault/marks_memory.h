/*
 * The memory of marks.h, for its two files alone: marks.c, and marks_memory.c, which lets go of it (and which the supervisor needs, that
 * frees a vault, without the other one).
 */
#ifndef VAULT_MARKS_MEMORY_H
#define VAULT_MARKS_MEMORY_H

#include "vault/marks.h"

struct mark {
    struct watchmark watch;
    uint8_t digest[WATCH_DIGEST_SIZE];
    uint32_t number;
    uint8_t form;
};

struct marks {
    struct watch_key key;
    struct mark *list;
    size_t n, room;
};

#endif
