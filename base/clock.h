/* Time: one monotonic clock for limits, one wall clock for records. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds since some point in the past; never goes back. */
uint64_t clock_monotonic_ms(void);

/* The same as of the kernel's last tick, some milliseconds ago: for limits, of which many are set and few come true. */
uint64_t clock_coarse_ms(void);

/* Milliseconds since 1970-01-01 00:00 UTC. */
uint64_t clock_wall_ms(void);

#define CLOCK_RFC3339_SIZE 25
/* RFC 3339 in UTC with milliseconds, "2026-01-31T23:59:59.123Z", NUL-terminated. */
void clock_rfc3339(uint64_t wall_ms, char out[CLOCK_RFC3339_SIZE]);

#endif
