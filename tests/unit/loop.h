/* For tests on an event loop: turn it until something is so, or time is up. */
#ifndef TESTS_UNIT_LOOP_H
#define TESTS_UNIT_LOOP_H

#include <event2/event.h>
#include <stdbool.h>

#include "base/clock.h"

#define LOOP_PATIENCE 60000 /* ms to wait for what comes at once, but on a busy machine */

static inline void loop_tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    (void)arg;
}

/* Turns the loop until `is(arg)` or `ms` have passed. Returns the last word of `is`. */
static inline bool loop_until(struct event_base *base, bool (*is)(void *arg), void *arg, unsigned ms) {
    const struct timeval tick = {.tv_usec = 5000};
    struct event *timer = event_new(base, -1, EV_PERSIST, loop_tick, NULL);
    uint64_t end = clock_monotonic_ms() + ms;
    event_add(timer, &tick);
    bool done = is(arg);
    while (!done && clock_monotonic_ms() < end) {
        event_base_loop(base, EVLOOP_ONCE);
        done = is(arg);
    }
    event_free(timer);
    return done;
}

static inline bool loop_never(void *arg) {
    (void)arg;
    return false;
}

/* Turns the loop for `ms`. */
static inline void loop_for(struct event_base *base, unsigned ms) {
    (void)loop_until(base, loop_never, NULL, ms);
}

#endif
