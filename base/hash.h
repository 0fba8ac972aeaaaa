/*
 * A hash for tables in memory: FNV-1a, folded so that the low bits hang on all of them. Fast for the short texts that we look up
 * (names of hosts, of credentials), and no secret: where a sandbox chooses the keys, and a full bucket would cost, the seed is
 * random (ca/leaf.c), or it is another hash (netns/names.c).
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

#include "base/slice.h"

#define HASH_SEED 0xcbf29ce484222325u

/* `seed` is HASH_SEED, a number that goes with the key, or what hash_bytes gave for the key's part before. */
static inline uint64_t hash_bytes(uint64_t seed, struct slice s) {
    uint64_t h = seed;
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

#endif
