#include "base/clock.h"

#include <string.h>
#include <time.h>

static uint64_t clock_ms(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t clock_monotonic_ms(void) {
    return clock_ms(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ms(void) {
    return clock_ms(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_wall_ms(void) {
    return clock_ms(CLOCK_REALTIME);
}

static void put_digits(char *at, unsigned value, int width) {
    for (int i = width - 1; i >= 0; i--) {
        at[i] = (char)('0' + value % 10);
        value /= 10;
    }
}

static void put_seconds(time_t seconds, char out[CLOCK_RFC3339_SIZE]) {
    struct tm tm;
    gmtime_r(&seconds, &tm);
    memcpy(out, "0000-00-00T00:00:00.000Z", CLOCK_RFC3339_SIZE);
    put_digits(out, (unsigned)(tm.tm_year + 1900), 4);
    put_digits(out + 5, (unsigned)(tm.tm_mon + 1), 2);
    put_digits(out + 8, (unsigned)tm.tm_mday, 2);
    put_digits(out + 11, (unsigned)tm.tm_hour, 2);
    put_digits(out + 14, (unsigned)tm.tm_min, 2);
    put_digits(out + 17, (unsigned)tm.tm_sec, 2);
}

void clock_rfc3339(uint64_t wall_ms, char out[CLOCK_RFC3339_SIZE]) {
    /* the last second asked for: records come by the thousand within one */
    static char text[CLOCK_RFC3339_SIZE];
    static time_t last = -1;
    time_t seconds = (time_t)(wall_ms / 1000);
    if (seconds != last)
        put_seconds(seconds, text);
    last = seconds;
    memcpy(out, text, CLOCK_RFC3339_SIZE);
    put_digits(out + 20, (unsigned)(wall_ms % 1000), 3);
}
