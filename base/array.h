/*
 * Arrays on the heap that grow one by one: a pointer, how many there are, and for how many there is room. All three begin as zeros;
 * free() ends it.
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>

/* Where there is room for one more of `size` bytes behind the n that are there: `array` itself, or what takes its place, with twice
 * the room. NULL: out of memory, and all is as it was. */
void *array_room(void *array, size_t n, size_t *room, size_t size);

#endif
