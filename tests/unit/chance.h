/* Numbers by chance, the same in every run: those of a test that fails come again. */
#ifndef TESTS_UNIT_CHANCE_H
#define TESTS_UNIT_CHANCE_H

#include <stdint.h>

/* A test of many rounds sets it for each, and tells it when one fails. */
static uint64_t seed = 1;

/* Less than n. */
static inline uint32_t chance(uint32_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* One of an array. */
#define PICK(list) ((list)[chance(sizeof(list) / sizeof *(list))])

#endif
