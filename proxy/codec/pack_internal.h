/*
 * Between the files of the pack parser only: the store of commits, and deltas.
 */
#ifndef PROXY_CODEC_PACK_INTERNAL_H
#define PROXY_CODEC_PACK_INTERNAL_H

#include "proxy/codec/pack.h"

#define PACK_NONE SIZE_MAX

/* The number of the commit, or PACK_NONE. */
size_t pack_store_by_offset(const struct pack *p, uint64_t offset);
size_t pack_store_by_id(const struct pack *p, const uint8_t *id);

/* Takes `data` (malloc'd, `size` bytes, a commit's contents) whatever comes of it. Offsets grow from call to call. 0,
 * ERR_LIMIT (memory), ERR_NOMEM, ERR_CRYPTO. */
int pack_store_add(struct pack *p, uint64_t offset, char *data, size_t size, uint32_t depth);
void pack_store_release(struct pack *p);

/* What the delta makes of the base, at most `most` bytes: *out is malloc'd. 0, ERR_PARSE, ERR_LIMIT, ERR_NOMEM. */
int pack_delta_apply(struct slice base, struct slice delta, size_t most, char **out, size_t *size);

/* Takes the next parent off a commit's header; *at is 0 at first. 0: `id` is filled. ERR_EOF: no more. ERR_PARSE. */
int pack_next_parent(struct slice commit, unsigned id_size, size_t *at, uint8_t *id);

/* Hexadecimal (either case) of exactly 2 * id_size digits. */
bool pack_id_from_hex(struct slice hex, unsigned id_size, uint8_t *id);

#endif
