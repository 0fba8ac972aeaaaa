/* Connections of HTTP/2 to upstreams: how long one has an id for another stream; what waits until it is listened to. */
#include "tests/unit/upstream_http2_support.h"

#include <netinet/tcp.h>
#include <poll.h>

static void each_id_is_used_and_then_a_new_connection(void **state) {
    struct server s;
    struct answer answer;
    struct rig g;
    (void)state;
    open_both(&g, &s);
    for (int i = 0; i < 5; i++) {
        struct upstream_link *link = get_http2(&g);
        if (i == 0)
            leave_ids(link, 3);
        ask(link, &answer);
        must_be_answered(&g, &answer);
        assert_int_equal(link->http2->id, i < 3 ? LAST_ID - 2 * (2 - i) : 1 + 2 * (i - 3));
        assert_int_equal(link->reused, i != 0 && i != 3);
        upstream_release(link, true, 0);
        assert_true(i < 2 || loop_until(g.base, one_open, &g, LOOP_PATIENCE));
    }
    assert_int_equal(s.count->accepted, 2);
    assert_int_equal(s.count->requests, 5);
    close_both(&g, &s);
}

/* A link that has sent nothing has its id, too. */
static void who_has_a_link_has_an_id(void **state) {
    struct upstream_link *link[3];
    struct answer answer[3];
    struct server s;
    struct rig g;
    (void)state;
    open_both(&g, &s);
    link[0] = get_http2(&g);
    leave_ids(link[0], 2);
    link[1] = get_http2(&g);
    assert_ptr_equal(up_of(link[1]), up_of(link[0]));
    link[2] = get_http2(&g);
    assert_ptr_not_equal(up_of(link[2]), up_of(link[0]));
    for (int i = 2; i >= 0; i--)
        ask(link[i], &answer[i]);
    for (int i = 0; i < 3; i++)
        must_be_answered(&g, &answer[i]);
    assert_int_equal(link[0]->http2->id, LAST_ID);
    assert_int_equal(upstream_pool_open(g.pool), 2);
    for (int i = 0; i < 3; i++)
        upstream_release(link[i], true, 0);
    assert_true(loop_until(g.base, one_open, &g,
                           LOOP_PATIENCE)); /* at once, and not when it has been idle for long */
    assert_int_equal(s.count->accepted, 2);
    close_both(&g, &s);
}

/* What can't be repeated is not begun on a connection whose end lies in the socket, though the loop has not read it. */
static void an_end_that_is_there_is_seen(void **state) {
    struct answer answer;
    struct server s;
    struct rig g;
    (void)state;
    open_with(&g, &s, serve_impatiently);
    struct upstream_link *link = get_http2(&g);
    struct pollfd end = {.fd = dup(up_of(link)->io->fd), .events = POLLIN};
    ask(link, &answer);
    must_be_answered(&g, &answer);
    upstream_release(link, true, 0);
    loop_for(g.base, 20);
    assert_int_equal(poll(&end, 1, 10000), 1);
    close(end.fd);
    link = get_with(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){.http2 = true, .once = true});
    assert_false(link->reused);
    ask(link, &answer);
    must_be_answered(&g, &answer);
    upstream_release(link, true, 0);
    close_both(&g, &s);
}

static bool has_come(void *arg) {
    const struct upstream_link *link = arg;
    return link->http2->phase == UP2A_WHOLE;
}

/* As that to a push is, which waits for the verdict. */
static void trailers_do_not_take_the_head_away_that_waits(void **state) {
    struct answer answer;
    struct server s;
    struct rig g;
    (void)state;
    open_with(&g, &s, serve_trailers);
    struct upstream_link *link = get_http2(&g);
    ask_listening(link, &answer, false);
    assert_true(loop_until(g.base, has_come, link, LOOP_PATIENCE));
    assert_int_equal(answer.heads, 0);
    up2_listen(link, true);
    must_be_answered(&g, &answer);
    assert_int_equal(answer.heads, 1);
    assert_int_equal(answer.trailers, 1);
    upstream_release(link, true, 0);
    close_both(&g, &s);
}

/* Whether it is listened to or waits, nothing of it stays behind, where it came in or where it waited. */
static void what_may_be_secret_is_wiped(void **state) {
    struct answer answer;
    struct server s;
    struct rig g;
    (void)state;
    open_with(&g, &s, serve_body);
    for (int waits = 0; waits < 2; waits++) {
        struct upstream_link *link = get_http2(&g);
        begin(link, &answer, !waits, GET);
        up2_sensitive(link);
        memset(io_scratch(), 0, IO_SCRATCH);
        up2_flush(link);
        if (waits) {
            assert_true(loop_until(g.base, has_come, link, LOOP_PATIENCE));
            assert_int_equal(buf_len(&link->http2->in), sizeof SERVED - 1);
            assert_true(link->http2->in.cap >= UP2_WINDOW); /* it will not be moved */
            up2_listen(link, true);
        }
        must_be_answered(&g, &answer);
        assert_int_equal(answer.nbody, sizeof SERVED - 1);
        assert_memory_equal(answer.body, SERVED, sizeof SERVED - 1);
        assert_null(memmem(io_scratch(), IO_SCRATCH, "SECRET", 6));
        assert_int_equal(up_of(link)->sensitive, 1);
        upstream_release(link, true, 0);
        assert_true(loop_until(g.base, one_open, &g, LOOP_PATIENCE));
    }
    close_both(&g, &s);
}

/* A server that says nothing, on a way that may have gone, is asked no more there; one that speaks again is. */
static void silence_is_left_to_who_waits_already(void **state) {
    struct upstream_link *link[3];
    struct answer answer[3];
    struct server s;
    struct rig g;
    (void)state;
    open_both(&g, &s);
    link[0] = get_http2(&g);
    ask_listening(link[0], &answer[0], false);
    assert_true(loop_until(g.base, has_come, link[0], LOOP_PATIENCE));
    up_of(link[0])->heard -= UPSTREAM_SILENT_MS;
    link[1] = get_http2(&g);
    assert_ptr_not_equal(up_of(link[1]), up_of(link[0]));
    ask(link[1], &answer[1]);
    must_be_answered(&g, &answer[1]);
    up2_listen(link[0], true);
    must_be_answered(&g, &answer[0]);
    upstream_release(link[0], true, 0);
    loop_for(g.base, 20);
    /* nothing is asked of the first any more: its silence means nothing */
    link[0] = get_http2(&g);
    assert_true(link[0]->reused);
    ask(link[0], &answer[0]);
    must_be_answered(&g, &answer[0]);
    link[2] = get_http2(&g);
    assert_ptr_equal(up_of(link[2]), up_of(link[0]));
    for (int i = 0; i < 3; i++)
        upstream_release(link[i], true, 0);
    assert_int_equal(s.count->accepted, 2);
    close_both(&g, &s);
}

static bool is_settled(void *arg) {
    return up_of(arg)->state == UP2_OPEN;
}

/* A request whose body has begun, and waits: memory is short, and its server takes nothing. */
static struct upstream_link *wait_for_room(struct rig *g, struct server *s, struct io_memory *memory,
                                           struct answer *answer) {
    open_with(g, s, serve_shut);
    upstream_pool_free(g->pool);
    g->pool = upstream_pool_new(g->upstream, memory);
    struct upstream_link *link = get_http2(g);
    ask_by(link, answer, true, SLICE("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\n"));
    assert_true(loop_until(g->base, is_settled, link, LOOP_PATIENCE));
    assert_int_equal(up2_data(link, SLICE("a body")), 0);
    assert_true(up2_full(link));
    return link;
}

/* Where memory is short a source waits until all of what it gave has gone. While the server takes nothing there is nothing to do
 * either: a turn of the loop that asks for the next one would be the last thing that the worker does. */
static void what_is_not_taken_under_pressure_gives_the_loop_no_work(void **state) {
    struct answer answer;
    struct server s;
    struct rig g;
    (void)state;
    struct io_memory *memory = io_memory_new(0);
    struct upstream_link *link = wait_for_room(&g, &s, memory, &answer);
    up2_flush(link);
    assert_int_equal(event_base_get_num_events(g.base, EVENT_BASE_COUNT_ACTIVE), 0);
    assert_true(up2_full(link));
    upstream_release(link, true, 0);
    close_both(&g, &s);
    io_memory_drop(memory);
}

#define LEFT_MOST 1000

static void leave_loop(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    event_base_loopbreak(arg);
}

/* Nor does a stream that nobody has any more, and whose reset can't go out as long as the server's kernel takes nothing. */
static void who_has_left_gives_the_loop_no_work(void **state) {
    static char much[IO_HIGH];
    struct answer answer;
    struct event end;
    struct server s;
    struct rig g;
    (void)state;
    struct io_memory *memory = io_memory_new(0);
    struct upstream_link *link = wait_for_room(&g, &s, memory, &answer);
    struct io *io = up_of(link)->io;
    memory->limit = SIZE_MAX; /* there would be room for more, if somebody had it */
    assert_int_equal(buf_put(io_queue(io), slice_make(much, sizeof much)), 0);
    io->blocked = true;
    upstream_release(link, true, 0);
    event_assign(&end, g.base, -1, 0, leave_loop, g.base);
    for (int i = 0; i < LEFT_MOST && (i == 0 || event_base_get_num_events(g.base, EVENT_BASE_COUNT_ACTIVE));
         i++) {
        event_active(&end, EV_TIMEOUT, 0); /* beside it something may come, which is left for the next turn */
        event_base_dispatch(g.base);
    }
    assert_int_equal(event_base_get_num_events(g.base, EVENT_BASE_COUNT_ACTIVE), 0);
    buf_clear(io_queue(io));
    io->blocked = false;
    close_both(&g, &s);
    io_memory_drop(memory);
}

static uint64_t asked_since = 1;

static bool was_asked(void *arg) {
    const struct up2 *up = arg;
    return up->pinged >= asked_since && up->heard >= up->pinged;
}

/* As long as something is asked of it, and not again for some minutes, though the silence goes on. */
static void whether_a_silent_server_is_there_is_asked_seldom(void **state) {
    struct answer answer;
    struct server s;
    struct rig g;
    (void)state;
    open_both(&g, &s);
    struct upstream_link *link = get_http2(&g);
    struct up2 *up = up_of(link);
    ask_listening(link, &answer, false);
    assert_true(loop_until(g.base, has_come, link, LOOP_PATIENCE));
    loop_for(g.base, 50);
    assert_int_equal(up->pinged, 0);
    up->silent_ms = 10;
    io_deadline(up->io, 1);
    assert_true(loop_until(g.base, was_asked, up, LOOP_PATIENCE));
    uint64_t first = asked_since = up->pinged;
    io_deadline(up->io, 1);
    loop_for(g.base, 100);
    assert_int_equal(up->pinged, first);
    up->pinged -= UP2_PING_SOON_MS; /* the second may come soon, the third may not */
    asked_since = up->pinged + 1;
    io_deadline(up->io, 1);
    assert_true(loop_until(g.base, was_asked, up, LOOP_PATIENCE));
    first = up->pinged -= UP2_PING_SOON_MS;
    io_deadline(up->io, 1);
    loop_for(g.base, 100);
    assert_int_equal(up->pinged, first);
    up->pinged -= UP2_PING_MS;
    asked_since = up->pinged + 1;
    io_deadline(up->io, 1);
    assert_true(loop_until(g.base, was_asked, up, LOOP_PATIENCE));
    up2_listen(link, true);
    must_be_answered(&g, &answer);
    assert_false(up->soon);
    upstream_release(link, true, 0);
    link = get_http2(&g);
    begin(link, &answer, true, GET);
    up2_flush(link);
    must_be_answered(&g, &answer);
    assert_true(up_of(link) == up && up->soon); /* something of an answer has come since */
    upstream_release(link, true, 0);
    loop_for(g.base, 50); /* idle: its own time counts */
    assert_int_equal(upstream_pool_open(g.pool), 1);
    close_both(&g, &s);
}

/* Whose server owes the answer to a PING is asked nothing, though nobody waits for anything else of it any more. */
static void who_owes_a_word_is_asked_nothing(void **state) {
    struct answer answer;
    struct server s;
    struct rig g;
    (void)state;
    open_both(&g, &s);
    struct upstream_link *link = get_http2(&g);
    struct up2 *up = up_of(link);
    ask(link, &answer);
    must_be_answered(&g, &answer);
    upstream_release(link, true, 0);
    loop_for(g.base, 20);
    up->pinged = up->heard + 1;
    link = get_http2(&g);
    assert_ptr_not_equal(up_of(link), up);
    upstream_release(link, true, 0);
    up->heard = up->pinged;
    link = get_http2(&g);
    assert_ptr_equal(up_of(link), up);
    upstream_release(link, true, 0);
    close_both(&g, &s);
}

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t n = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &n), 0);
    return value;
}

static void the_kernel_asks_as_well(void **state) {
    struct server s;
    struct rig g;
    (void)state;
    open_both(&g, &s);
    struct upstream_link *link = get_http2(&g);
    int fd = up_of(link)->io->fd;
    assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 60);
    upstream_release(link, true, 0);
    close_both(&g, &s);
}

#define TURNS 10

static bool is_told(void *arg) {
    return ((const struct up2 *)arg)->told == 0;
}

/* However often pressure comes and goes while requests begin, a server has no more settings to follow than it acknowledges. */
static void a_window_that_changes_often_is_told_as_often_as_it_is_heard(void **state) {
    struct upstream_link *link[TURNS];
    struct answer answer[TURNS];
    struct io_share other;
    struct server s;
    struct rig g;
    (void)state;
    open_both(&g, &s);
    struct io_memory *memory = io_memory_new(SIZE_MAX);
    io_share_begin(&other, memory);
    io_share_set(&other, 1);
    upstream_pool_free(g.pool);
    g.pool = upstream_pool_new(g.upstream, memory);
    for (int i = 0; i < TURNS; i++)
        link[i] = get_http2(&g);
    struct up2 *up = up_of(link[0]);
    up2_flush(link[0]);
    assert_true(loop_until(g.base, is_told, up, LOOP_PATIENCE));
    for (int i = 0; i < TURNS; i++) {
        memory->limit = i % 2 ? SIZE_MAX : 0;
        begin(link[i], &answer[i], true, GET);
    }
    assert_int_equal(up->told, 2);
    assert_int_equal(nghttp2_session_get_outbound_queue_size(up->session), TURNS + 2);
    up2_flush(link[0]);
    for (int i = 0; i < TURNS; i++) {
        must_be_answered(&g, &answer[i]);
        upstream_release(link[i], true, 0);
    }
    memory->limit = 0;
    link[0] = get_http2(&g);
    assert_true(loop_until(g.base, is_told, up, LOOP_PATIENCE));
    begin(link[0], &answer[0], true, GET);
    assert_true(up->narrow);
    up2_flush(link[0]);
    must_be_answered(&g, &answer[0]);
    upstream_release(link[0], true, 0);
    close_both(&g, &s);
    io_share_end(&other);
    io_memory_drop(memory);
}

static bool is_empty(void *arg) {
    return buf_len(&((struct upstream_link *)arg)->http2->out.bytes) == 0;
}

/* A thousand bytes that come one by one in a turn are one frame. What is more than that goes at once. */
static void crumbs_go_together(void **state) {
    static char much[30000];
    struct answer answer;
    struct server s;
    struct rig g;
    (void)state;
    open_both(&g, &s);
    struct upstream_link *link = get_http2(&g);
    ask_by(link, &answer, false, SLICE("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 40000\r\n\r\n"));
    assert_true(loop_until(g.base, is_settled, link, LOOP_PATIENCE));
    uint64_t before = up_of(link)->io->sent;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(up2_data(link, SLICE("x")), 0);
        up2_flush_late(link);
    }
    assert_true(loop_until(g.base, is_empty, link, LOOP_PATIENCE));
    assert_in_range(up_of(link)->io->sent - before, 1000, 1100);
    assert_int_equal(up2_data(link, slice_make(much, sizeof much)), 0);
    up2_flush_late(link);
    assert_true(is_empty(link));
    upstream_release(link, true, 0);
    close_both(&g, &s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_id_is_used_and_then_a_new_connection),
        cmocka_unit_test(who_has_a_link_has_an_id),
        cmocka_unit_test(an_end_that_is_there_is_seen),
        cmocka_unit_test(trailers_do_not_take_the_head_away_that_waits),
        cmocka_unit_test(what_may_be_secret_is_wiped),
        cmocka_unit_test(silence_is_left_to_who_waits_already),
        cmocka_unit_test(what_is_not_taken_under_pressure_gives_the_loop_no_work),
        cmocka_unit_test(who_has_left_gives_the_loop_no_work),
        cmocka_unit_test(whether_a_silent_server_is_there_is_asked_seldom),
        cmocka_unit_test(who_owes_a_word_is_asked_nothing),
        cmocka_unit_test(the_kernel_asks_as_well),
        cmocka_unit_test(a_window_that_changes_often_is_told_as_often_as_it_is_heard),
        cmocka_unit_test(crumbs_go_together),
    };
    return cmocka_run_group_tests(tests, make_roots, free_roots);
}
