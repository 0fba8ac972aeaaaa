#include "base/watchmark.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

int watch_key_make(struct watch_key *key) {
    if (getrandom(key, sizeof *key, 0) != sizeof *key)
        return ERR_CRYPTO;
    key->factor |= 1;
    return 0;
}

int watch_digest(const struct watch_key *key, struct slice bytes, uint8_t out[WATCH_DIGEST_SIZE]) {
    unsigned n = 0;
    if (!HMAC(EVP_sha256(), key->mac, sizeof key->mac, (const unsigned char *)bytes.p, bytes.n, out, &n))
        return ERR_CRYPTO;
    return n == WATCH_DIGEST_SIZE ? 0 : ERR_CRYPTO;
}
