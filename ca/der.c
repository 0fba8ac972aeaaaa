#include "ca/der.h"

#include <stdio.h>
#include <time.h>

void der_put(struct der *d, struct slice s) {
    if (d->failed || s.n > d->at) {
        d->failed = true;
        return;
    }
    d->at -= s.n;
    if (s.n)
        memcpy(d->bytes + d->at, s.p, s.n);
}

void der_byte(struct der *d, unsigned char b) {
    der_put(d, slice_make(&b, 1));
}

void der_wrap(struct der *d, unsigned char tag, size_t mark) {
    size_t n = der_mark(d) - mark;
    if (n < 0x80) {
        der_byte(d, (unsigned char)n);
    } else {
        unsigned char count = 0;
        for (; n; n >>= 8, count++)
            der_byte(d, (unsigned char)n);
        der_byte(d, 0x80 | count);
    }
    der_byte(d, tag);
}

void der_value(struct der *d, unsigned char tag, struct slice s) {
    size_t mark = der_mark(d);
    der_put(d, s);
    der_wrap(d, tag, mark);
}

void der_time(struct der *d, int64_t seconds) {
    char text[64];
    struct tm tm;
    time_t t = (time_t)seconds;
    if (!gmtime_r(&t, &tm) || tm.tm_year < 50 || tm.tm_year > 8099) {
        d->failed = true;
        return;
    }
    bool utc = tm.tm_year < 150;
    int n = utc ? snprintf(text, sizeof text, "%02d", tm.tm_year % 100)
                : snprintf(text, sizeof text, "%04d", tm.tm_year + 1900);
    n += snprintf(text + n, sizeof text - (size_t)n, "%02d%02d%02d%02d%02dZ", tm.tm_mon + 1, tm.tm_mday,
                  tm.tm_hour, tm.tm_min, tm.tm_sec);
    der_value(d, utc ? DER_UTC_TIME : DER_GENERALIZED_TIME, slice_make(text, (size_t)n));
}
