/*
 * Memory for what is taken and given back several times a request: the buffers of heads and answers, and OpenSSL's of
 * records. Those are of sizes that malloc splits off and joins again each time. Here some blocks are kept apart, the one
 * that was given back last is taken first, and it is in the cache still.
 *
 * What is smaller or larger than they are, or comes when all are taken, is malloc's: nothing depends on there being one,
 * and a crowd's memory goes back. For one thread, as all of exeat's processes are.
 */
#ifndef BASE_BLOCK_H
#define BASE_BLOCK_H

#include <stddef.h>

/* Like malloc, realloc and free, each for what came from one of these alone. The bytes are as somebody left them. */
void *block_take(size_t n);
void *block_resize(void *p, size_t n);
void block_give(void *p);

/* The pages of blocks that nobody has go back to the system. */
void block_settle(void);

#endif
