#include "ca/openssl.h"

#include <openssl/crypto.h>
#include <stdint.h>

void openssl_begin(bool settings) {
    uint64_t options = OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS;
#ifndef __SANITIZE_ADDRESS__ /* a search for leaks would find what it keeps */
    options |= OPENSSL_INIT_NO_ATEXIT;
#endif
    OPENSSL_init_crypto(options | (settings ? OPENSSL_INIT_LOAD_CONFIG : 0), NULL);
}
