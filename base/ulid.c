#include "base/ulid.h"

#include <endian.h>
#include <sys/random.h>

#include "base/clock.h"

static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* The last id made: 16 bytes, big-endian, time first. */
static uint8_t last[16];

/* Random bytes are fetched in advance: a system call for some dozens of ids. No secret is made of them. */
static uint8_t pool[320];
static size_t pool_left;

static void random_bytes(uint8_t *p, size_t n) {
    for (size_t have = 0; pool_left < n && have < sizeof pool;) {
        ssize_t got = getrandom(pool + have, sizeof pool - have, 0);
        if (got > 0)
            have += (size_t)got;
        pool_left = have;
    }
    pool_left -= n;
    memcpy(p, pool + pool_left, n);
}

struct ulid ulid_new(void) {
    uint64_t now = clock_wall_ms();
    uint64_t before = 0;
    for (int i = 0; i < 6; i++)
        before = before << 8 | last[i];
    if (now > before) {
        for (int i = 0; i < 6; i++)
            last[i] = (uint8_t)(now >> (40 - 8 * i));
        random_bytes(last + 6, 10);
        last[6] &= 0x7f; /* room to count up within a millisecond */
    } else {
        for (int i = 15; i >= 0 && ++last[i] == 0; i--)
            ;
    }

    struct ulid id;
    uint64_t high, low;
    memcpy(&high, last, sizeof high);
    memcpy(&low, last + sizeof high, sizeof low);
    high = be64toh(high);
    low = be64toh(low);
    /* from the end; 26 digits of 5 bits are 130: the first digit carries the top 3 bits alone */
    for (int i = ULID_LEN - 1; i >= 0; i--) {
        id.text[i] = digits[low & 31];
        low = low >> 5 | high << 59;
        high >>= 5;
    }
    id.text[ULID_LEN] = 0;
    return id;
}

/* Each of `digits`, by itself and by its small letter; 0 for all else. */
#define DIGIT(c)  [c] = (c)
#define LETTER(c) [c] = (c), [(c) + 'a' - 'A'] = (c)
static const char capitals[256] = {
    DIGIT('0'),  DIGIT('1'),  DIGIT('2'),  DIGIT('3'),  DIGIT('4'),  DIGIT('5'),  DIGIT('6'),  DIGIT('7'),
    DIGIT('8'),  DIGIT('9'),  LETTER('A'), LETTER('B'), LETTER('C'), LETTER('D'), LETTER('E'), LETTER('F'),
    LETTER('G'), LETTER('H'), LETTER('J'), LETTER('K'), LETTER('M'), LETTER('N'), LETTER('P'), LETTER('Q'),
    LETTER('R'), LETTER('S'), LETTER('T'), LETTER('V'), LETTER('W'), LETTER('X'), LETTER('Y'), LETTER('Z'),
};

bool ulid_parse(struct slice s, struct ulid *out) {
    if (s.n != ULID_LEN)
        return false;
    struct ulid id;
    bool all = true;
    for (size_t i = 0; i < ULID_LEN; i++) {
        id.text[i] = capitals[(unsigned char)s.p[i]];
        all &= id.text[i] != 0;
    }
    if (!all)
        return false;
    id.text[ULID_LEN] = 0;
    *out = id;
    return true;
}
