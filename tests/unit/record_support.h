/* A recorder and what the scribe has of it, for the tests of what is recorded. */
#ifndef TESTS_UNIT_RECORD_SUPPORT_H
#define TESTS_UNIT_RECORD_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <unistd.h>

#include "base/msg.h"
#include "proxy/record/recorder.h"
#include "proxy/record/ring.h"

struct recording {
    struct recorder *recorder;
    struct ring *ring; /* the scribe's end of it … */
    int scribe;        /* … and of the socket */
};

/* `gone` and `arg` are the recorder's. */
static inline void recording_open(struct recording *g, struct event_base *base, void (*gone)(void *arg),
                                  void *arg) {
    int fds[2];
    assert_int_equal(ring_new(&g->ring, NULL), 0);
    assert_int_equal(msg_pair(fds), 0);
    g->scribe = fds[1];
    g->recorder = recorder_new(base, fds[0], dup(ring_fd(g->ring)), gone, arg);
    assert_non_null(g->recorder);
}

/* Ends what a test has not ended by itself (NULL, -1). */
static inline void recording_close(struct recording *g) {
    recorder_free(g->recorder);
    ring_free(g->ring);
    if (g->scribe >= 0)
        close(g->scribe);
}

/* The next message, or false; good until the next call. */
static inline bool recording_take(struct recording *g, struct msg_in *in) {
    static uint8_t memory[MSG_MAX];
    struct slice bytes;
    int r = ring_take(g->ring, memory, sizeof memory, &bytes);
    if (r == ERR_AGAIN)
        return false;
    assert_int_equal(r, 0);
    assert_int_equal(msg_parse(in, bytes.p, bytes.n), 0);
    return true;
}

#endif
