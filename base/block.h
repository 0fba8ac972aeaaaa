/*
 * Memory for what is taken and given back several times a request: the buffers of heads and answers, and OpenSSL's of
 * records. Those are of sizes that malloc splits off and joins again each time. Here some blocks are kept apart, the one
 * that was given back last is taken first, and it is in the cache still.
 *
 * Smaller ones are malloc's. A handshake of TLS takes and gives back some two thousand, many of the same few sizes, where malloc
 * has but a few of each at hand: of those that are given back, 8 KiB of each size are kept, at most 0.5 MiB.
 *
 * What is larger, or comes when all are taken, is malloc's too: nothing depends on there being one, and a crowd's memory
 * goes back. For one thread, as all of exeat's processes are.
 */
#ifndef BASE_BLOCK_H
#define BASE_BLOCK_H

#include <stddef.h>

/* Like malloc, realloc and free, each for what came from one of these alone. The bytes are as somebody left them. */
void *block_take(size_t n);
void *block_resize(void *p, size_t n);
void block_give(void *p);

/* What is kept of malloc's goes back to it; the pages of blocks that nobody has, to the system. */
void block_settle(void);

#endif
