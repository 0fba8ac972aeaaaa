/*
 * One end of a socket between two of our processes, on the event loop: whole messages in, whole messages out, in order.
 *
 * What the socket does not take at once waits in a queue with a limit; a peer that lets it fill up has failed. Queued messages of a
 * `secret` channel lie in a struct secret each and are wiped.
 *
 * Life cycle: channel_open - channel_send, callbacks - channel_close. Both callbacks may call channel_close on their channel. The
 * descriptor is the channel's from channel_open on, also when that fails.
 */
#ifndef PROXY_PROCESS_CHANNEL_H
#define PROXY_PROCESS_CHANNEL_H

#include <event2/event.h>

#include "base/err.h"
#include "base/msg.h"

#define CHANNEL_QUEUE_MAX (8u << 20) /* bytes */

struct channel;
struct channel_item;

struct channel_ops {
    /* `m` and what it points at are good for the call; descriptors that are not taken are closed after it. An error ends the
     * channel: `closed` follows with it. */
    int (*message)(struct channel *c, struct msg_in *m);
    /* The channel can't be used any more (ERR_EOF: the peer is gone; ERR_PEER: it broke the protocol …). It is not closed yet. */
    void (*closed)(struct channel *c, int err);
};

struct channel {
    int fd; /* -1: closed */
    bool secret;
    bool ended; /* `closed` was called */
    const struct channel_ops *ops;
    void *arg;
    uint32_t number; /* the caller's */
    struct event *in, *out;
    struct event *rest; /* out waits for the kernel; NULL: it never has */
    unsigned rests;     /* in a row */
    struct channel_item *head, **tail;
    size_t queued;
};

int channel_open(struct channel *c, struct event_base *base, int fd, bool secret,
                 const struct channel_ops *ops, void *arg);
void channel_close(struct channel *c);

/* Takes what has come: up to a bound, so that one busy peer doesn't keep the loop from the others. The channel may have ended
 * then, or be closed. */
void channel_take(struct channel *c);

/* 0: sent, or queued (descriptors are duplicated then): until there is room, or fewer of the user's descriptors are on their way. Else it
 * is not: ERR_EOF (`closed` follows from the loop), ERR_LIMIT (too much is queued, or no descriptor is left), ERR_IO, ERR_NOMEM. */
int channel_send(struct channel *c, const struct msg_out *m);

/* A message without fields. */
int channel_send_type(struct channel *c, uint16_t type);

#endif
