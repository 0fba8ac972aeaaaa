/*
 * Object ids in binary: 20 bytes of a SHA-1 or 32 of a SHA-256; and sets of them.
 *
 * A set keeps the order in which ids were added and gives each a number, so that whoever uses it can keep something
 * beside each. An id is a hash already and serves as its own: whoever makes objects whose ids begin alike only slows
 * the search down, and by far too little for the work it took.
 */
#ifndef PROXY_CODEC_GIT_IDS_H
#define PROXY_CODEC_GIT_IDS_H

#include "base/err.h"
#include "base/slice.h"
#include "proxy/codec/git_memory.h"

#define GIT_ID_MAX   32 /* bytes of a SHA-256 */
#define GIT_IDS_NONE SIZE_MAX

/* Hexadecimal (either case) of exactly 2 * id_size digits. */
bool git_id_from_hex(struct slice hex, unsigned id_size, uint8_t *id);

/* Writes 2 * id_size digits, in lower case, and a NUL. */
void git_id_to_hex(const uint8_t *id, unsigned id_size, char out[2 * GIT_ID_MAX + 1]);

struct git_ids {
    uint8_t *bytes; /* id_size of them for each id: see git_ids_at */
    size_t n;
    /* private */
    unsigned id_size;
    struct git_memory *memory;
    size_t room;
    uint32_t *table; /* open addressing: number + 1 */
    size_t slots;
};

/* An empty set of ids of 20 or 32 bytes; it takes no memory yet. `memory` (borrowed) counts what it will take; NULL: nobody
 * does. */
void git_ids_init_in(struct git_ids *set, unsigned id_size, struct git_memory *memory);
void git_ids_init(struct git_ids *set, unsigned id_size); /* … which nobody counts */
void git_ids_release(struct git_ids *set); /* of a zeroed struct, too; empty then, and as after its init */

static inline const uint8_t *git_ids_at(const struct git_ids *set, size_t i) {
    return set->bytes + i * set->id_size;
}

/* The number of an id, or GIT_IDS_NONE. */
size_t git_ids_find(const struct git_ids *set, const uint8_t *id);

/* The number of an id, which is added if it is new (then it is set->n - 1). GIT_IDS_NONE: out of memory, or of its share
 * of it, or more than four thousand million; nothing has changed. */
size_t git_ids_add(struct git_ids *set, const uint8_t *id);

/* Bytes of memory that one more id may take, by which a set that must stay below a limit is judged beforehand. */
size_t git_ids_cost(const struct git_ids *set);

#endif
