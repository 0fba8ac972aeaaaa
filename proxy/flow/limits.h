/*
 * How often rules may permit: a token bucket for each rule with a `limit`, of one sandbox, in one worker. A bucket
 * holds as many requests as the limit names, and fills up evenly.
 */
#ifndef PROXY_FLOW_LIMITS_H
#define PROXY_FLOW_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limits_bucket {
    uint64_t level; /* of requests, times seconds of the limit, in ms */
    uint64_t at;    /* when the level was that */
    bool used;
};

struct limits {
    struct limits_bucket *buckets; /* made when the first is asked for */
    size_t n;
};

/* Takes one request out of the bucket `id` (1…count). False: it is empty; *wait_s: seconds until it is not. When
 * memory is short nothing is permitted. */
bool limits_take(struct limits *l, size_t count, unsigned id, uint32_t limit, uint32_t seconds,
                 uint64_t now_ms, unsigned *wait_s);

void limits_release(struct limits *l);

#endif
