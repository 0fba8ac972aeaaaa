/*
 * What the connections of one sandbox hold of bytes on their way, all of them together, whatever their protocol: read
 * from one side, and not taken by the other yet. Each connection keeps to a limit of its own (IO_HIGH, and what one read
 * brings), which is for speed; thousands of them, whose clients take nothing, would come to gigabytes.
 *
 * Beyond the sum's limit the sandbox is under pressure, as the kernel's TCP has it: nothing is ended, but each connection is
 * read in small steps, and not at all while the side that its bytes go to has not taken the last one. So every one of
 * them still goes on as fast as its own receiver does, none waits for another, and those that take nothing hold a step
 * each. Their time limits end them, as ever.
 *
 * What the kernel holds is not counted; where there are many connections, it is made to hold little for each (io_crowded).
 *
 * What is counted: what waits for a socket, or for TLS; requests that came before their turn, and heads in pieces; bodies that the
 * other side takes no more of, or that are kept for a second try; HTTP/2's frames. Some of it, a body's window that was granted, or
 * what a second try needs, is held under pressure as well, and makes that for all that can wait. Not counted are the heads that
 * requests and answers under way consist of, which no pressure makes less: their sizes and numbers have limits.
 *
 * Each holder has a share, which says how much of the sum it is. The memory lives as long as anyone has a share.
 */
#ifndef PROXY_IO_IO_MEMORY_H
#define PROXY_IO_IO_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct io_memory {
    size_t held;  /* bytes, of all shares */
    size_t limit; /* … from which there is pressure */
    unsigned users;
};

struct io_share {
    struct io_memory *memory; /* NULL: nobody counts */
    size_t held;
};

/* The caller is its first user. NULL: no memory for it. */
struct io_memory *io_memory_new(size_t limit);
/* A user goes. NULL is fine. */
void io_memory_drop(struct io_memory *memory);

/* For an empty share, or one that was ended. `memory` may be NULL. */
void io_share_begin(struct io_share *share, struct io_memory *memory);
/* What it held is held no more, and nobody counts. */
void io_share_end(struct io_share *share);

static inline void io_share_set(struct io_share *share, size_t held) {
    if (!share->memory)
        return;
    share->memory->held += held - share->held;
    share->held = held;
}

static inline bool io_share_pressed(const struct io_share *share) {
    return share->memory && share->memory->held > share->memory->limit;
}

#endif
