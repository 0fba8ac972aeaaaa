#include "base/array.h"

#include <stdlib.h>

#define ROOM_FIRST 16

void *array_room(void *array, size_t n, size_t *room, size_t size) {
    if (n < *room)
        return array;
    size_t more = *room ? 2 * *room : ROOM_FIRST;
    void *grown = reallocarray(array, more, size);
    if (grown)
        *room = more;
    return grown;
}
