#include "proxy/flow/limits.h"

#include <stdlib.h>

bool limits_take(struct limits *l, size_t count, unsigned id, uint32_t limit, uint32_t seconds,
                 uint64_t now_ms, unsigned *wait_s) {
    *wait_s = seconds;
    if (!l->buckets) {
        l->buckets = calloc(count + 1, sizeof *l->buckets);
        l->n = l->buckets ? count : 0;
    }
    if (id == 0 || id > l->n || limit == 0)
        return false;
    struct limits_bucket *b = &l->buckets[id];
    uint64_t one = (uint64_t)seconds * 1000, full = one * limit;
    uint64_t passed = b->used && now_ms > b->at ? now_ms - b->at : 0;
    if (!b->used || passed >= one)
        b->level = full;
    else
        b->level += passed * limit;
    if (b->level > full)
        b->level = full;
    b->used = true;
    b->at = now_ms;
    if (b->level >= one) {
        b->level -= one;
        return true;
    }
    *wait_s = (unsigned)((one - b->level + (uint64_t)limit * 1000 - 1) / ((uint64_t)limit * 1000));
    if (*wait_s == 0)
        *wait_s = 1;
    return false;
}

void limits_release(struct limits *l) {
    free(l->buckets);
    *l = (struct limits){.n = 0};
}
