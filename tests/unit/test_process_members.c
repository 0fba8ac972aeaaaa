/* A service's members: what each is told, what the roles are told of it, and that nothing of it is left whichever way it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "tests/unit/members_world.h"

static uint8_t memory[MSG_MAX];

static void say(struct members_world *w, int fd, struct msg_out *m) {
    assert_int_equal(msg_send(fd, m), 0);
    world_turn(w);
}

static void join_by(struct members_world *w, int fd, const char *name, const char *build, int namespace) {
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, SERVICE_JOIN);
    msg_put_str(&m, build);
    msg_put_fd(&m, namespace);
    msg_put_str(&m, name);
    msg_put_u32(&m, 2);
    msg_put_str(&m, "one");
    msg_put_str(&m, "two");
    say(w, fd, &m);
}

static void join(struct members_world *w, int fd, const char *name) {
    join_by(w, fd, name, version_build, w->namespace);
}

static void hand_over(struct members_world *w, int fd) {
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, SERVICE_SANDBOX);
    for (size_t i = 0; i < HANDOVER_FDS + 1; i++)
        msg_put_fd(&m, w->nowhere);
    msg_put_u32(&m, 1);
    msg_put_u8(&m, IPC_LISTEN_TCP);
    say(w, fd, &m);
}

static void leave(struct members_world *w, int fd) {
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, SERVICE_LEAVE);
    say(w, fd, &m);
}

/* The next message for who joins, of that type. */
static struct msg_in *hear(int fd, uint16_t type) {
    static struct msg_in m;
    static uint8_t room[MSG_MAX];
    assert_int_equal(msg_recv(fd, &m, room, sizeof room), 0);
    assert_int_equal(m.type, type);
    return &m;
}

static void hear_refusal(int fd, const char *why) {
    char text[512];
    struct msg_in *m = hear(fd, SERVICE_REFUSED);
    struct slice told = msg_get_slice(m);
    assert_int_equal(msg_end(m), 0);
    snprintf(text, sizeof text, "%.*s", SLICE_ARG(told));
    if (!strstr(text, why))
        fail_msg("'%s' does not say '%s'", text, why);
}

static bool is_over(int fd) {
    struct msg_in m;
    static uint8_t room[MSG_MAX];
    return msg_recv(fd, &m, room, sizeof room) == ERR_EOF;
}

static void one_comes_and_goes(void **state) {
    struct members_world w;
    struct hidden hidden = {.files = NULL};
    (void)state;
    world_open(&w);
    int fd = world_connect(&w);
    join(&w, fd, "s");
    struct msg_in *m = hear(fd, SERVICE_JOINED);
    assert_true(slice_eq(msg_get_slice(m), SLICE("PEM")));
    assert_int_equal(msg_get_u32(m), 7);
    struct slice warning = msg_get_slice(m);
    assert_non_null(memmem(warning.p, warning.n, "--vault", 7));
    assert_int_equal(hidden_get(&hidden, m), 0);
    assert_int_equal(msg_end(m), 0);
    hidden_release(&hidden);
    assert_int_equal(w.grants, 1);
    hand_over(&w, fd);
    assert_int_equal(w.opened, WORLD_WORKERS);
    leave(&w, fd);
    assert_int_equal(w.ended, WORLD_WORKERS);
    assert_int_equal(w.revokes, 1);
    assert_int_equal(w.flushes, 1);
    assert_int_equal(msg_end(hear(fd, SERVICE_LEFT)), 0);
    assert_true(is_over(fd));
    assert_int_equal(w.all.n, 0);
    close(fd);
    world_close(&w);
}

/* Whoever runs it is killed at any moment. */
static void one_whose_socket_ends_leaves_nothing(void **state) {
    struct members_world w;
    (void)state;
    world_open(&w);
    for (unsigned said = 0; said < 3; said++) {
        int fd = world_connect(&w);
        if (said > 0)
            join(&w, fd, "s");
        if (said > 1)
            hand_over(&w, fd);
        assert_int_equal(w.all.n, 1);
        close(fd);
        world_turn(&w);
        assert_int_equal(w.all.n, 0);
        assert_int_equal(w.revokes, w.grants);
        assert_int_equal(w.ended, w.opened);
    }
    assert_int_equal(w.grants, 2);
    assert_int_equal(w.opened, WORLD_WORKERS);
    world_close(&w);
}

/* What it is told comes once, though all workers say so; the others stay. */
static void one_that_workers_refuse_is_told_why(void **state) {
    struct members_world w;
    (void)state;
    world_open(&w);
    int other = world_connect(&w), fd = world_connect(&w);
    join(&w, other, "other");
    hand_over(&w, other);
    hear(other, SERVICE_JOINED);
    w.refuses = "policy: malformed";
    join(&w, fd, "s");
    hear(fd, SERVICE_JOINED);
    hand_over(&w, fd);
    hear_refusal(fd, "exeat: the sandbox gets no way out: policy: malformed");
    hear(fd, SERVICE_LEFT);
    assert_true(is_over(fd));
    assert_int_equal(w.all.n, 1);
    w.refuses = NULL;
    leave(&w, other);
    hear(other, SERVICE_LEFT);
    assert_int_equal(w.all.n, 0);
    close(fd);
    close(other);
    world_close(&w);
}

/* Messages that wait for a worker take descriptors of the service's, of which there may be none. */
static void one_that_cannot_be_handed_over_is_told_why(void **state) {
    struct members_world w;
    struct rlimit before, few;
    uint8_t filler[16];
    struct msg_out m;
    (void)state;
    world_open(&w);
    int fd = world_connect(&w);
    join(&w, fd, "s");
    hear(fd, SERVICE_JOINED);
    w.deaf = true;
    msg_begin(&m, filler, sizeof filler, IPC_SANDBOX_END);
    msg_put_u64(&m, 1u << 20);
    while (msg_send(w.children.list[WORLD_ROLES - 1].ctl.fd, &m) == 0)
        continue;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int last = dup(w.nowhere); /* what comes from who joins has room, what is to wait has none */
    few = (struct rlimit){(rlim_t)last + HANDOVER_FDS + 1, before.rlim_max};
    close(last);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    hand_over(&w, fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    hear_refusal(fd, "exeat: the sandbox gets no way out: ");
    w.deaf = false;
    world_turn(&w);
    hear(fd, SERVICE_LEFT);
    assert_int_equal(w.all.n, 0);
    close(fd);
    world_close(&w);
}

/* Who has no business here can't stay, and ask again for ever. */
static void one_that_is_turned_away_is_gone(void **state) {
    struct members_world w;
    (void)state;
    world_open(&w);
    int other = world_connect(&w), old = world_connect(&w);
    join_by(&w, other, "s", version_build, w.nowhere);
    hear_refusal(other, "another user namespace");
    assert_true(is_over(other));
    join_by(&w, old, "s", "0.0", w.namespace);
    hear_refusal(old, "another build");
    assert_true(is_over(old));
    assert_int_equal(w.all.n, 0);
    assert_int_equal(w.grants, 0);
    close(other);
    close(old);
    world_close(&w);
}

static void join_as_any(struct members_world *w, int fd) {
    join(w, fd, "s");
}

/* What the last of these has no move for; and what roles say of nobody who is there, or who has not come so far. */
static void what_comes_out_of_turn_ends_one_alone(void **state) {
    static const char *const said[] = {"h", "l", "jj", "jl", "jhj", "jhh", "jhl"};
    static void (*const steps[])(struct members_world *, int) = {join_as_any, hand_over, leave};
    struct members_world w;
    (void)state;
    world_open(&w);
    int stays = world_connect(&w);
    join(&w, stays, "stays");
    hand_over(&w, stays);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        int fd = world_connect(&w);
        for (const char *one = said[i]; *one; one++)
            steps[*one == 'j' ? 0 : *one == 'h' ? 1 : 2](&w, fd);
        assert_int_equal(w.all.n, 1);
        close(fd);
    }
    members_refused(&w.all, 12345, SLICE("x"));
    members_ended(&w.all, 12345);
    members_flushed(&w.all, 12345);
    members_ended(&w.all, 1);
    members_flushed(&w.all, 1);
    assert_int_equal(w.all.n, 1);
    leave(&w, stays);
    assert_int_equal(w.all.n, 0);
    assert_int_equal(w.revokes, w.grants);
    close(stays);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_comes_and_goes),
        cmocka_unit_test(one_whose_socket_ends_leaves_nothing),
        cmocka_unit_test(one_that_workers_refuse_is_told_why),
        cmocka_unit_test(one_that_cannot_be_handed_over_is_told_why),
        cmocka_unit_test(one_that_is_turned_away_is_gone),
        cmocka_unit_test(what_comes_out_of_turn_ends_one_alone),
    };
    log_setup(NULL, LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
