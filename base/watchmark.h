/*
 * Watchmarks: how a process that must not know a secret recognises it among bytes that pass by.
 *
 * Of a secret, eight bytes are chosen; a mark is a keyed fingerprint of these, WATCH_PRINT_BITS long, and where in the
 * secret they stand. Whoever has marks and key can look for places that may hold a secret, by a multiplication a byte.
 * Whether one does is told by a digest of the whole (HMAC-SHA256), and the digests stay where the secrets are: of a
 * secret that nobody can guess, who has the marks knows no more than that many bits, and its length. The key is random,
 * made anew at each start.
 *
 * Marks come from vault/marks.h; proxy/codec/watch.h looks for them.
 */
#ifndef BASE_WATCHMARK_H
#define BASE_WATCHMARK_H

#include "base/err.h"
#include "base/slice.h"

#define WATCH_GRAM        8  /* bytes that a fingerprint is made of */
#define WATCH_PRINT_BITS  40 /* of it */
#define WATCH_DIGEST_SIZE 32
#define WATCH_LEAST       12 /* bytes of a secret that can be looked for: shorter ones are found by chance */

struct watch_key {
    uint64_t factor; /* odd */
    uint8_t mac[WATCH_DIGEST_SIZE];
};

struct watchmark {
    uint64_t print;  /* of eight bytes */
    uint32_t after;  /* so many bytes of the secret follow them */
    uint32_t length; /* of the secret */
    bool part;       /* it is the second half of one, which tells only where the first is out of sight */
};

/* ERR_CRYPTO: there are no random numbers to be had. */
int watch_key_make(struct watch_key *key);

/* The whole product: its upper bits are the fingerprint. */
static inline uint64_t watch_product(uint64_t factor, const char gram[WATCH_GRAM]) {
    uint64_t x;
    memcpy(&x, gram, sizeof x);
    return x * factor;
}

static inline uint64_t watch_print(uint64_t product) {
    return product >> (64 - WATCH_PRINT_BITS);
}

/* 0 or ERR_CRYPTO. */
int watch_digest(const struct watch_key *key, struct slice bytes, uint8_t out[WATCH_DIGEST_SIZE]);

#endif
