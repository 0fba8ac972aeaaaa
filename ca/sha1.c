#include "ca/sha1.h"

#define BLOCK 64

struct sha1 {
    uint32_t h[5];
    unsigned char block[BLOCK];
    uint64_t n; /* bytes so far */
};

static uint32_t rotate(uint32_t x, unsigned bits) {
    return x << bits | x >> (32 - bits);
}

/* The word of a step: of the text, then of the sixteen before it. Made as it is needed: eighty words made ahead are vectors to a
 * compiler, each read before the last one is written, and take twice as long. */
static inline uint32_t word(uint32_t w[16], unsigned i) {
    if (i >= 16)
        w[i % 16] = rotate(w[(i + 13) % 16] ^ w[(i + 8) % 16] ^ w[(i + 2) % 16] ^ w[i % 16], 1);
    return w[i % 16];
}

/* Five steps bring the names back to where they were, so that nothing has to be moved. */
#define STEP(a, b, c, d, e, function, constant, i)                                                           \
    e += word(w, i) + (constant) + function(b, c, d) + rotate(a, 5);                                         \
    b = rotate(b, 30);

#define STEPS(from, function, constant)                                                                      \
    for (unsigned i = (from); i < (from) + 20; i += 5) {                                                     \
        STEP(a, b, c, d, e, function, constant, i)                                                           \
        STEP(e, a, b, c, d, function, constant, i + 1)                                                       \
        STEP(d, e, a, b, c, function, constant, i + 2)                                                       \
        STEP(c, d, e, a, b, function, constant, i + 3)                                                       \
        STEP(b, c, d, e, a, function, constant, i + 4)                                                       \
    }

static uint32_t choose(uint32_t b, uint32_t c, uint32_t d) {
    return d ^ (b & (c ^ d));
}

static uint32_t parity(uint32_t b, uint32_t c, uint32_t d) {
    return b ^ c ^ d;
}

static uint32_t majority(uint32_t b, uint32_t c, uint32_t d) {
    return (b & c) | (d & (b | c));
}

static void take_block(struct sha1 *s, const unsigned char *p) {
    uint32_t w[16], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
    for (unsigned i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    STEPS(0, choose, 0x5a827999)
    STEPS(20, parity, 0x6ed9eba1)
    STEPS(40, majority, 0x8f1bbcdc)
    STEPS(60, parity, 0xca62c1d6)
    s->h[0] += a;
    s->h[1] += b;
    s->h[2] += c;
    s->h[3] += d;
    s->h[4] += e;
}

static void take(struct sha1 *s, struct slice text) {
    while (text.n) {
        size_t have = s->n % BLOCK, n = text.n < BLOCK - have ? text.n : BLOCK - have;
        if (n == BLOCK)
            take_block(s, (const unsigned char *)text.p);
        else
            memcpy(s->block + have, text.p, n);
        s->n += n;
        text = slice_from(text, n);
        if (n < BLOCK && s->n % BLOCK == 0)
            take_block(s, s->block);
    }
}

void sha1_of(const struct slice *texts, size_t n, unsigned char out[SHA1_SIZE]) {
    struct sha1 s = {.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
    static const char zeros[BLOCK];
    unsigned char length[8];
    for (size_t i = 0; i < n; i++)
        take(&s, texts[i]);
    for (unsigned i = 0; i < 8; i++)
        length[i] = (unsigned char)(s.n * 8 >> (56 - 8 * i));
    take(&s, SLICE("\x80"));
    take(&s, slice_make(zeros, (2 * BLOCK - 8 - s.n % BLOCK) % BLOCK));
    take(&s, slice_make(length, sizeof length));
    for (unsigned i = 0; i < SHA1_SIZE; i++)
        out[i] = (unsigned char)(s.h[i / 4] >> (24 - 8 * (i % 4)));
}
