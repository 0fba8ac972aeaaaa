/*
 * Messages between our processes: one datagram of a SOCK_SEQPACKET socket each, encoded field by field.
 *
 *     u8 version (1) | u8 reserved (0) | u16 type | fields in the order the two sides agreed on
 *
 * Numbers are little-endian; a string is u32 length and bytes. No native struct travels. A reader has a sticky error: read all
 * fields, then ask msg_end() once. A malformed message is an error to report (ERR_PEER), never a reason to end the process:
 * whoever receives it closes that peer and says so.
 *
 * Descriptors travel by SCM_RIGHTS; they arrive with CLOEXEC. Of a message whose descriptors were cut off, since the receiver may have no
 * more, none is there, and it is malformed; what is in it can be read all the same, to say so to whom it is about.
 */
#ifndef BASE_MSG_H
#define BASE_MSG_H

#include "base/err.h"
#include "base/slice.h"

#define MSG_VERSION 1
#define MSG_MAX     65536 /* bytes of one message */
#define MSG_FDS_MAX 16    /* descriptors of one message */

/*
 * Room for any message, for all of a process that has one loop: for the one that is being read, and for another one that is being written.
 * Neither is kept from one turn of the loop to the next, so that msg_settle may give back the pages.
 */
extern struct msg_room { uint8_t in[MSG_MAX], out[MSG_MAX]; } msg_room;
void msg_settle(void);

/* Writes into a buffer of the caller's; `err` is sticky. */
struct msg_out {
    uint8_t *p;
    size_t n, cap;
    int err;
    int fds[MSG_FDS_MAX]; /* borrowed; stay the caller's */
    size_t nfds;
};

void msg_begin(struct msg_out *m, void *memory, size_t cap, uint16_t type);
void msg_put_u8(struct msg_out *m, uint8_t v);
void msg_put_u16(struct msg_out *m, uint16_t v);
void msg_put_u32(struct msg_out *m, uint32_t v);
void msg_put_u64(struct msg_out *m, uint64_t v);
void msg_put_slice(struct msg_out *m, struct slice s);
void msg_put_str(struct msg_out *m, const char *s);
void msg_put_fd(struct msg_out *m, int fd);

/* Sends it whole. 0; ERR_AGAIN (socket full: keep it and try again when writable); ERR_EOF (the peer is gone); ERR_LIMIT (a
 * field did not fit, or more of this user's descriptors are on their way than a process may have open); ERR_IO. */
int msg_send(int fd, const struct msg_out *m);
/* What a person is told of its failure. */
const char *msg_send_text(int err);

/* Reads a message that lies in a buffer of the caller's. Strings are slices into it. */
struct msg_in {
    const uint8_t *p;
    size_t n, at;
    uint16_t type;
    int err;
    int fds[MSG_FDS_MAX]; /* the reader's, who closes those it does not take (msg_close_fds) */
    size_t nfds, fds_taken;
    bool cut; /* descriptors are lost: msg_get_fd and msg_end fail */
};

/* Receives one message into `memory` (MSG_MAX bytes serve for all). 0; ERR_AGAIN; ERR_EOF; ERR_PEER (cut off, or of an unknown
 * version; descriptors that came are closed); ERR_IO. */
int msg_recv(int fd, struct msg_in *m, void *memory, size_t cap) MUST_CHECK;

/* Reads a message from bytes at hand, without descriptors (tests, fuzzing, queues). */
int msg_parse(struct msg_in *m, const void *bytes, size_t n) MUST_CHECK;

uint8_t msg_get_u8(struct msg_in *m);
uint16_t msg_get_u16(struct msg_in *m);
uint32_t msg_get_u32(struct msg_in *m);
uint64_t msg_get_u64(struct msg_in *m);
struct slice msg_get_slice(struct msg_in *m);
/* Ownership of the next descriptor passes to the caller; -1 and a sticky error when there is none. */
int msg_get_fd(struct msg_in *m) MUST_CHECK;

/* 0 when every field was there and nothing follows, else ERR_PEER. */
int msg_end(const struct msg_in *m) MUST_CHECK;

/* Closes the descriptors that nobody took. */
void msg_close_fds(struct msg_in *m);

/* A connected pair, CLOEXEC, non-blocking on both ends. 0 or ERR_IO. */
int msg_pair(int fds[2]);

#endif
