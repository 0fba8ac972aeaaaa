#include "proxy/io/io_memory.h"

#include <stdlib.h>

struct io_memory *io_memory_new(size_t limit) {
    struct io_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->limit = limit;
    memory->users = 1;
    return memory;
}

void io_memory_drop(struct io_memory *memory) {
    if (memory && --memory->users == 0)
        free(memory);
}

void io_share_begin(struct io_share *share, struct io_memory *memory) {
    *share = (struct io_share){.memory = memory};
    if (memory)
        memory->users++;
}

void io_share_end(struct io_share *share) {
    io_share_set(share, 0);
    io_memory_drop(share->memory);
    share->memory = NULL;
}
