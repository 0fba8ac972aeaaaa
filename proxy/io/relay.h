/*
 * Bytes both ways between two ios, unread: what follows a 101 (RFC 6455), and what a tunnel is.
 *
 * Each side is read no faster than the other takes it (io_full, io_pause). The end of one side is passed on as the end
 * of our writing to the other, and the way back stays open. It is over when both have ended and all is sent, when one
 * breaks, or when nothing has come from either for the idle limit.
 *
 * The ios stay their owners'; while the relay is on, their events are the relay's. Who frees an io, or ends the relay
 * for another reason, need not tell it: it holds nothing and has no event of its own.
 */
#ifndef PROXY_IO_RELAY_H
#define PROXY_IO_RELAY_H

#include "proxy/io/io.h"

enum relay_end {
    RELAY_ENDED,  /* both sides have ended, and each has had the other's last byte */
    RELAY_BROKEN, /* `side` was reset or takes nothing any more */
    RELAY_IDLE,
};

struct relay;

struct relay_side {
    struct io *io; /* open */
    /* What came from here and was written on is added to it, also what the other io has still in its queue, or has dropped. */
    uint64_t *moved;

    /* private */
    struct relay *relay;
    bool ended; /* no more comes from here */
};

struct relay {
    struct relay_side sides[2];
    unsigned idle_ms;
    /* Called once, last; the ios may be freed in it. */
    void (*over)(struct relay *r, enum relay_end end, unsigned side);
    void *arg; /* the owner's */

    /* private */
    bool is_over;
};

/* Begins, with the public fields filled and the others zero. `early[i]` was read from side i before; it is copied.
 * What is queued on either io goes out with it. The relay may be over when this returns. */
void relay_begin(struct relay *r, const struct slice early[2]);

#endif
