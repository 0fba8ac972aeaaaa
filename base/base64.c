#include "base/base64.h"

const char base64_digits[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(struct slice bytes, char *out) {
    const unsigned char *p = (const unsigned char *)bytes.p;
    size_t n = 0;
    for (size_t left = bytes.n; left; left -= left < 3 ? left : 3, p += 3) {
        uint32_t group = (uint32_t)p[0] << 16 | (left > 1 ? (uint32_t)p[1] << 8 : 0) | (left > 2 ? p[2] : 0);
        out[n++] = base64_digits[group >> 18];
        out[n++] = base64_digits[group >> 12 & 63];
        out[n++] = left > 1 ? base64_digits[group >> 6 & 63] : '=';
        out[n++] = left > 2 ? base64_digits[group & 63] : '=';
    }
    return n;
}
