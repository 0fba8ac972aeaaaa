/* Who gets a connection of the worker's, how much room the kernel has for it, and whose a sandbox's listeners are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/mman.h>

#include "policy/policy.h"
#include "proxy/flow/conn.h"
#include "proxy/flow/engine.h"
#include "proxy/flow/state.h"
#include "tests/unit/policy_support.h"
#include "tests/unit/record_support.h"
#include "tests/unit/upstream_rig.h"
#include "vault/bindings.h"
#include "vault/wire.h"

#define CLIENTS 200

struct world {
    struct rig rig;
    struct recording records;
    struct engine *engine;
    struct policy *policy;
    struct sockaddr_in at[4]; /* each sandbox's listener */
    int clients[CLIENTS];
    unsigned n;
};

/* What the keeper says of a vault without anything in it. */
static struct bindings *no_bindings(void) {
    struct msg_out out;
    struct msg_in in;
    struct bindings *b;
    char memory[64];
    msg_begin(&out, memory, sizeof memory, VAULT_BINDINGS);
    assert_int_equal(bindings_put(NULL, &out), 0);
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    assert_int_equal(bindings_get(&in, &b), 0);
    return b;
}

static void add_sandbox(struct world *w, uint64_t id) {
    struct engine_sandbox sandbox = {.id = id, .name = SLICE("s"), .policy = w->policy, .nlisteners = 1};
    struct sockaddr_in *a = &w->at[id];
    socklen_t n = sizeof *a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)a, sizeof *a), 0);
    assert_int_equal(listen(fd, 64), 0);
    getsockname(fd, (struct sockaddr *)a, &n);
    sandbox.listeners[0].fd = fd;
    assert_int_equal(engine_add_sandbox(w->engine, &sandbox, NULL), 0);
}

static void world_open(struct world *w, unsigned connections) {
    struct engine_config config = {0};
    memset(w, 0, sizeof *w);
    rig_open(&w->rig, "", NULL, NULL);
    recording_open(&w->records, w->rig.base, NULL, NULL);
    config.base = w->rig.base;
    config.upstream = w->rig.upstream;
    config.recorder = w->records.recorder;
    engine_limits_default(&config.limits);
    config.limits.connections = connections;
    assert_int_equal(engine_new(&config, &w->engine, NULL), 0);
    engine_set_bindings(w->engine, no_bindings());
    w->policy = load_set("allow * http://a.test\n", NULL, NULL);
}

static void world_close(struct world *w) {
    while (w->n)
        close(w->clients[--w->n]);
    engine_free(w->engine);
    policy_free(w->policy);
    recording_close(&w->records);
    rig_close(&w->rig);
}

/* One more client of that sandbox; is it let in? */
static bool comes_in(struct world *w, uint64_t id) {
    size_t before = w->engine->nconns;
    char byte;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(w->n < CLIENTS);
    w->clients[w->n++] = fd;
    assert_int_equal(connect(fd, (struct sockaddr *)&w->at[id], sizeof w->at[id]), 0);
    do
        event_base_loop(w->rig.base, EVLOOP_NONBLOCK);
    while (w->engine->nconns == before && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN);
    return w->engine->nconns > before;
}

static unsigned all_that_come_in(struct world *w, uint64_t id) {
    unsigned n = 0;
    while (comes_in(w, id))
        n++;
    return n;
}

/* ---- the tests ---- */

/* However many hold on to all that they get, the next one gets some. */
static void each_leaves_as_much_as_it_takes(void **state) {
    struct world w;
    (void)state;
    world_open(&w, 64);
    add_sandbox(&w, 0);
    add_sandbox(&w, 1);
    assert_int_equal(all_that_come_in(&w, 0), 32);
    assert_int_equal(all_that_come_in(&w, 1), 16);
    add_sandbox(&w, 2);
    assert_int_equal(all_that_come_in(&w, 2), 8);
    add_sandbox(&w, 3);
    assert_int_equal(all_that_come_in(&w, 3), 4);
    world_close(&w);
}

static void alone_it_gets_all(void **state) {
    struct world w;
    (void)state;
    world_open(&w, 64);
    add_sandbox(&w, 0);
    assert_int_equal(all_that_come_in(&w, 0), 64);
    add_sandbox(&w, 1);
    assert_false(comes_in(&w, 1));
    world_close(&w);
}

static int option(const struct conn *conn, int level, int name) {
    int value = 0;
    socklen_t n = sizeof value;
    assert_int_equal(getsockopt(conn->io->fd, level, name, &value, &n), 0);
    return value;
}

/* The newest is the first of the list. */
static void a_crowd_gets_less_of_the_kernel(void **state) {
    struct world w;
    (void)state;
    world_open(&w, 1000);
    add_sandbox(&w, 0);
    for (unsigned i = 0; i < IO_CROWD; i++)
        assert_true(comes_in(&w, 0));
    const struct conn *conn = w.engine->boxes->conns;
    assert_int_not_equal(option(conn, IPPROTO_TCP, TCP_NOTSENT_LOWAT), IO_CROWDED);
    assert_true(comes_in(&w, 0));
    conn = w.engine->boxes->conns;
    assert_int_equal(option(conn, IPPROTO_TCP, TCP_NOTSENT_LOWAT), IO_CROWDED);
    assert_int_equal(option(conn, SOL_SOCKET, SO_RCVBUF), 2 * IO_CROWDED);
    world_close(&w);
}

/* The library has a word for it, too. */
static void say_nothing(int severity, const char *text) {
    (void)severity;
    (void)text;
}

/* Whoever made a listener may have it still. One that is shut down is readable for ever: it is not looked at any more, and another
 * sandbox's is. */
static void one_that_is_shut_down(void **state) {
    struct world w;
    (void)state;
    world_open(&w, 64);
    add_sandbox(&w, 0);
    add_sandbox(&w, 1);
    int before = event_base_get_num_events(w.rig.base, EVENT_BASE_COUNT_ADDED);
    assert_int_equal(shutdown(w.engine->boxes->next->listeners[0].fd, SHUT_RDWR), 0);
    event_base_loop(w.rig.base, EVLOOP_NONBLOCK);
    assert_int_equal(event_base_get_num_events(w.rig.base, EVENT_BASE_COUNT_ADDED), before - 1);
    assert_true(comes_in(&w, 1));
    world_close(&w);
}

static bool unwatched; /* the kernel has no more for this user */

int __real_event_add(struct event *event, const struct timeval *limit);
int __wrap_event_add(struct event *event, const struct timeval *limit);
int __wrap_event_add(struct event *event, const struct timeval *limit) {
    return unwatched && event_get_events(event) & EV_READ ? -1 : __real_event_add(event, limit);
}

/* It is turned away at once, and that is recorded. */
static void one_that_cannot_be_watched(void **state) {
    struct world w;
    struct msg_in in;
    struct record r;
    static struct record_ref refs[RECORD_REFS_MAX];
    (void)state;
    world_open(&w, 64);
    add_sandbox(&w, 0);
    unwatched = true;
    assert_false(comes_in(&w, 0));
    unwatched = false;
    assert_true(recording_take(&w.records, &in));
    assert_int_equal(record_decode(&in, &r, refs), 0);
    assert_true(slice_eq(r.code, SLICE("memory")));
    assert_true(comes_in(&w, 0));
    world_close(&w);
}

/* A file can't be watched: the listeners behind it are closed all the same. */
static void listeners_are_taken_in_failure_too(void **state) {
    struct world w;
    (void)state;
    world_open(&w, 64);
    int good = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), last = dup(good),
        bad = memfd_create("f", MFD_CLOEXEC);
    struct engine_sandbox sandbox = {
        .name = SLICE("s"), .policy = w.policy, .listeners = {{good}, {bad}, {last}}, .nlisteners = 3};
    event_set_log_callback(say_nothing);
    assert_int_equal(engine_add_sandbox(w.engine, &sandbox, NULL), ERR_IO);
    event_set_log_callback(NULL);
    assert_int_equal(fcntl(good, F_GETFD), -1);
    assert_int_equal(fcntl(bad, F_GETFD), -1);
    assert_int_equal(fcntl(last, F_GETFD), -1);
    world_close(&w);
}

static void count(void *arg) {
    ++*(int *)arg;
}

/* Its end waits for a request that is under way; whoever removes it meanwhile is not told of it. */
static void one_that_is_removed_is_not_waited_for(void **state) {
    struct world w;
    int told = 0;
    (void)state;
    world_open(&w, 64);
    add_sandbox(&w, 0);
    assert_true(comes_in(&w, 0));
    assert_int_equal(send(w.clients[0], "GET", 3, 0), 3);
    while (buf_len(&w.engine->boxes->conns->in) == 0)
        event_base_loop(w.rig.base, EVLOOP_NONBLOCK);
    engine_drain_sandbox(w.engine, 0, 60000, count, &told);
    event_base_loop(w.rig.base, EVLOOP_NONBLOCK);
    assert_int_equal(w.engine->nconns, 1);
    engine_remove_sandbox(w.engine, 0);
    event_base_loop(w.rig.base, EVLOOP_NONBLOCK);
    assert_int_equal(told, 0);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_leaves_as_much_as_it_takes),
        cmocka_unit_test(alone_it_gets_all),
        cmocka_unit_test(a_crowd_gets_less_of_the_kernel),
        cmocka_unit_test(one_that_is_shut_down),
        cmocka_unit_test(one_that_cannot_be_watched),
        cmocka_unit_test(listeners_are_taken_in_failure_too),
        cmocka_unit_test(one_that_is_removed_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, make_roots, free_roots);
}
