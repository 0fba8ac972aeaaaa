/*
 * Writing DER from the end to the beginning, so that every length is known when it is written. Internal to
 * ca/.
 *
 *     size_t end = der_mark(&d);           the end of what is about to be written
 *     der_put(&d, …);                      the last member first
 *     der_wrap(&d, DER_SEQUENCE, end);     tag and length of all since the mark
 *
 * What does not fit is remembered in `failed`.
 */
#ifndef CA_DER_H
#define CA_DER_H

#include "base/slice.h"

#define DER_INTEGER          0x02
#define DER_BIT_STRING       0x03
#define DER_OCTET_STRING     0x04
#define DER_OID              0x06
#define DER_UTF8_STRING      0x0c
#define DER_UTC_TIME         0x17
#define DER_GENERALIZED_TIME 0x18
#define DER_SEQUENCE         0x30
#define DER_SET              0x31
#define DER_CONTEXT(n)       (0x80 | (n))
#define DER_CONTEXT_OF(n)    (0xa0 | (n)) /* constructed */

struct der {
    unsigned char *bytes;
    size_t cap;
    size_t at; /* where the first byte that was written is */
    bool failed;
};

static inline struct slice der_slice(const struct der *d) {
    return slice_make(d->bytes + d->at, d->cap - d->at);
}

/* Counted from the end, so that it stays good while more is written before it. */
static inline size_t der_mark(const struct der *d) {
    return d->cap - d->at;
}

void der_put(struct der *d, struct slice s);
void der_byte(struct der *d, unsigned char b);
void der_wrap(struct der *d, unsigned char tag, size_t mark);

/* One value with its tag and length. */
void der_value(struct der *d, unsigned char tag, struct slice s);

/* A time of X.509: UTCTime up to 2049, GeneralizedTime from then on. */
void der_time(struct der *d, int64_t seconds);

#endif
