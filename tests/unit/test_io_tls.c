/* io with TLS: records, ends, garbage, refusals. */
#include "tests/unit/io_support.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>

/* What the io's sends are: so many of them are refused first, as by a socket that has no room. */
static int refusals;

static bool refused(void) {
    if (refusals == 0)
        return false;
    refusals--;
    errno = EAGAIN;
    return true;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
    return refused() ? -1 : syscall(SYS_sendmsg, fd, m, flags);
}

ssize_t send(int fd, const void *p, size_t n, int flags) {
    return refused() ? -1 : syscall(SYS_sendto, fd, p, n, flags, NULL, 0);
}

static void test_tls(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_write(a.io, SLICE("head "), true);
    io_write(a.io, SLICE("body"), false);
    turn(5);
    assert_got(&b, "head body");
    io_write(b.io, SLICE("answer"), false);
    turn(5);
    assert_got(&a, "answer");
    buf_clear(&a.got);
    big(&b, &a);
    close_pair(&a, &b);
}

static void test_tls_ends(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_shutdown(a.io); /* close_notify and FIN, and reading goes on */
    turn(5);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_CLEAN);
    assert_int_equal(io_write(b.io, SLICE("still"), false), 0);
    turn(5);
    assert_got(&a, "still");
    close_pair(&a, &b);

    open_tls(&a, &b);
    shutdown(a.io->fd, SHUT_WR); /* FIN alone */
    turn(5);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_UNCLEAN);
    assert_int_equal(io_write(b.io, SLICE("still"), false), 0); /* the session is not broken by it */
    turn(5);
    assert_got(&a, "still");
    close_pair(&a, &b);

    open_tls(&a, &b);
    io_free(a.io);
    a.io = NULL;
    turn(5);
    assert_int_equal(b.how, IO_END_CLEAN);
    close_pair(&a, &b);
}

/* Room was told of, and then there was none all the same: the end waits for the next time. */
static void test_end_without_room(void **state) {
    (void)state;
    for (int times = 1; times < 4; times++) {
        struct end a, b;
        open_tls(&a, &b);
        refusals = times;
        io_shutdown(a.io);
        turn(10);
        assert_int_equal(refusals, 0);
        assert_true(b.ended);
        assert_int_equal(b.how, IO_END_CLEAN);
        close_pair(&a, &b);
    }
}

/* Bytes and the end behind them, all there when reading goes on: first the one, then the other. */
static void test_end_behind(void **state) {
    static char bytes[40000];
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        struct end a, b;
        open_tls(&a, &b);
        io_pause(b.io);
        assert_int_equal(io_write(a.io, slice_make(bytes, sizeof bytes), false), 0);
        if (reset)
            io_cut(a.io, true);
        else
            io_shutdown(a.io);
        turn(5);
        assert_false(b.ended);
        io_resume(b.io);
        turn(5);
        assert_int_equal(buf_len(&b.got), sizeof bytes);
        assert_true(b.ended);
        assert_int_equal(b.how, reset ? IO_END_RESET : IO_END_CLEAN);
        a.io = reset ? NULL : a.io;
        close_pair(&a, &b);
    }
}

static unsigned segments(const struct end *e) {
    struct tcp_info info;
    socklen_t len = sizeof info;
    assert_int_equal(getsockopt(e->io->fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_data_segs_out;
}

/* The records of one write share packets; what `more` keeps in the kernel goes with the flush; what comes behind a head
 * fills its record. */
static void test_gathers(void **state) {
    static char bytes[3 * IO_RECORD];
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    assert_int_equal(io_write(b.io, SLICE("and a wider window"), false), 0);
    turn(5);
    unsigned before = segments(&a);
    assert_int_equal(io_write(a.io, slice_make(bytes, sizeof bytes), false), 0);
    assert_true(segments(&a) - before < sizeof bytes / IO_RECORD);
    turn(5);
    assert_int_equal(buf_len(&b.got), sizeof bytes);
    assert_int_equal(io_write(a.io, slice_make(bytes, IO_RECORD), true), 0);
    assert_int_equal(io_flush(a.io), 0);
    turn(5);
    assert_int_equal(buf_len(&b.got), sizeof bytes + IO_RECORD);
    buf_clear(&b.got);
    assert_int_equal(io_write(a.io, SLICE("head"), true), 0);
    assert_int_equal(io_write(a.io, slice_make(bytes, sizeof bytes), true), 0);
    assert_int_equal(io_write(a.io, SLICE("tail"), false), 0);
    turn(5);
    assert_int_equal(buf_len(&b.got), sizeof bytes + 8);
    assert_memory_equal(buf_slice(&b.got).p + sizeof bytes + 4, "tail", 4);
    close_pair(&a, &b);
}

static bool has_ticket(const struct end *e) {
    return SSL_SESSION_is_resumable(SSL_get_session(e->io->ssl)) == 1;
}

/* The server's tickets are no packet of their own: they come with its first bytes, or with its end. */
static void test_tickets_go_along(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    turn(5);
    assert_int_equal(segments(&b), 1);
    assert_false(has_ticket(&a));
    assert_int_equal(io_write(b.io, SLICE("answer"), false), 0);
    turn(5);
    assert_got(&a, "answer");
    assert_int_equal(segments(&b), 2);
    assert_true(has_ticket(&a));
    close_pair(&a, &b);

    open_tls(&a, &b);
    io_free(b.io);
    b.io = NULL;
    turn(5);
    assert_true(has_ticket(&a));
    assert_true(a.ended);
    assert_int_equal(a.how, IO_END_CLEAN);
    close_pair(&a, &b);
}

/* … which who has reset the connection does not get: the loop does not try for ever. */
static void test_tickets_for_nobody(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_pause(b.io);
    io_cut(a.io, true);
    a.io = NULL;
    turn(5);
    assert_int_equal(io_flush(b.io), 0);
    turn(5);
    assert_false(event_pending(&b.io->wr, EV_WRITE, NULL));
    io_resume(b.io);
    turn(5);
    assert_true(b.ended);
    close_pair(&a, &b);
}

static void test_tls_garbage(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    assert_int_equal(send(a.io->fd, "not a record", 12, 0), 12);
    turn(5);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_BROKEN);
    assert_true(strlen(io_error_text(b.io)) > 3);
    close_pair(&a, &b);
}

static void test_tls_refused(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    SSL *s = SSL_new(server_ctx);
    SSL_set_accept_state(s);
    assert_int_equal(io_tls(b.io, s), 0);
    io_handshake(b.io);
    io_write(a.io, SLICE("GET / HTTP/1.1\r\n\r\n"), false);
    turn(5);
    assert_int_equal(b.ready, 1);
    assert_int_equal(b.err, ERR_CRYPTO);
    close_pair(&a, &b);
}

static void send_all(struct end *e, BIO *bio) {
    char *p;
    long n = BIO_get_mem_data(bio, &p);
    assert_int_equal(send(e->io->fd, p, (size_t)n, 0), n);
    BIO_reset(bio);
}

static void take_all(struct end *e, size_t from, BIO *bio) {
    struct slice bytes = slice_from(buf_slice(&e->got), from);
    assert_int_equal(BIO_write(bio, bytes.p, (int)bytes.n), bytes.n);
    buf_clear(&e->got);
}

/* What was queued in clear when TLS begins reaches a peer that reads late as a whole, and before the first byte of TLS. */
static void test_clear_before_tls(void **state) {
    static char bytes[1u << 20];
    char text[16];
    struct end a, b;
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL *s = SSL_new(server_ctx), *c = SSL_new(client_ctx);
    (void)state;
    open_pair(&a, &b);
    io_pause(a.io);
    memset(bytes, 'c', sizeof bytes);
    assert_int_equal(io_write(b.io, slice_make(bytes, sizeof bytes), false), 0);
    assert_true(io_queued(b.io) > 0);
    SSL_set_accept_state(s);
    assert_int_equal(io_tls(b.io, s), 0);
    io_handshake(b.io);
    assert_int_equal(io_write(b.io, SLICE("inside"), false), 0);

    SSL_set_connect_state(c);
    SSL_set_bio(c, in, out);
    assert_int_equal(SSL_do_handshake(c), -1);
    send_all(&a, out); /* the hello, before a byte is read */
    turn(20);
    assert_int_equal(b.ready, 0);
    io_resume(a.io);
    for (int i = 0; i < 10000 && buf_len(&a.got) <= sizeof bytes; i++)
        turn(1);
    turn(20);
    assert_true(buf_len(&a.got) > sizeof bytes);
    assert_memory_equal(buf_slice(&a.got).p, bytes, sizeof bytes);
    take_all(&a, sizeof bytes, in);
    assert_int_equal(SSL_do_handshake(c), 1);
    send_all(&a, out);
    turn(20);
    assert_int_equal(b.ready, 1);
    assert_int_equal(b.err, 0);
    take_all(&a, 0, in);
    assert_int_equal(SSL_read(c, text, sizeof text), 6);
    assert_memory_equal(text, "inside", 6);
    SSL_free(c);
    close_pair(&a, &b);
}

/* ---- what one recv() brought is read ahead into memory that all share ---- */

/* Owners that read a hundred bytes at a time, and so leave something behind each time. */
static void read_little(struct io *io) {
    struct end *e = io->arg;
    char some[100];
    size_t got;
    if (io_read(io, some, sizeof some, &got) == 0)
        assert_int_equal(buf_put(&e->got, slice_make(some, got)), 0);
}

#define RECORDS 50   /* together more than OpenSSL takes at once */
#define LENGTH  1000 /* of one */

static struct slice record_of(char mark, int number) {
    static char text[LENGTH];
    memset(text, mark, sizeof text);
    snprintf(text, sizeof text, "%d", number);
    return slice_make(text, sizeof text);
}

static void write_records(struct end *e, char mark) {
    for (int i = 0; i < RECORDS; i++)
        assert_int_equal(io_write(e->io, record_of(mark, i), false), 0);
}

static void assert_records(const struct end *e, char mark) {
    assert_int_equal(buf_len(&e->got), RECORDS * LENGTH);
    for (int i = 0; i < RECORDS; i++)
        assert_memory_equal(buf_slice(&e->got).p + (size_t)i * LENGTH, record_of(mark, i).p, LENGTH);
}

/* Two connections whose records come at once, each read a little at a time, and one from within the other's turn. */
static struct end *other;

static void read_little_of_both(struct io *io) {
    read_little(io);
    read_little(other->io);
}

static const struct io_events little = {.readable = read_little};

struct two {
    struct end a, b, c, d;
};

/* Records of 'a' have come to b, who reads as said, and of 'c' to d, who reads a little at a time. */
static void open_two(struct two *t, const struct io_events *reads) {
    open_tls(&t->a, &t->b);
    open_tls(&t->c, &t->d);
    other = &t->d;
    io_own(t->b.io, reads, &t->b);
    io_own(t->d.io, &little, &t->d);
    write_records(&t->a, 'a');
    write_records(&t->c, 'c');
    turn(200);
    assert_records(&t->d, 'c');
}

static void close_two(struct two *t) {
    close_pair(&t->a, &t->b);
    close_pair(&t->c, &t->d);
}

static void test_left_over(void **state) {
    static const struct io_events both = {.readable = read_little_of_both};
    (void)state;
    for (int within = 0; within < 2; within++) {
        struct two t;
        open_two(&t, within ? &both : &little);
        assert_records(&t.b, 'a');
        close_two(&t);
    }
}

/* One that is freed, or stops reading, with something left behind: nobody else gets that. */
static void read_little_and_go(struct io *io) {
    struct end *e = io->arg;
    read_little(io);
    e->io = NULL;
    io_free(io);
}

static void read_little_and_pause(struct io *io) {
    read_little(io);
    io_pause(io);
}

static void test_left_by_one_that_stops(void **state) {
    static const struct io_events goes = {.readable = read_little_and_go},
                                  pauses = {.readable = read_little_and_pause};
    (void)state;
    for (int pause = 0; pause < 2; pause++) {
        struct two t;
        open_two(&t, pause ? &pauses : &goes);
        assert_int_equal(buf_len(&t.b.got), 100);
        if (pause) {
            io_own(t.b.io, &little, &t.b);
            io_resume(t.b.io);
            turn(200);
            assert_records(&t.b, 'a');
        }
        close_two(&t);
    }
}

/* ---- a connection that has something to read all the time ---- */

struct hoard {
    struct end from, to;
    unsigned turns, seen; /* of `to`; when the other socket had its turn */
    int other;            /* its peer, who speaks in the first */
};

static void read_hoard(struct io *io) {
    struct hoard *h = io->arg;
    char some[100];
    size_t got;
    assert_int_not_equal(io_read(io, some, sizeof some, &got), ERR_EOF);
    if (h->turns++ == 0)
        assert_int_equal(write(h->other, "x", 1), 1);
}

static void on_other(evutil_socket_t fd, short what, void *arg) {
    struct hoard *h = arg;
    (void)fd;
    (void)what;
    h->seen = h->turns;
}

static void test_others_have_turns(void **state) {
    static const struct io_events hoards = {.readable = read_hoard};
    struct hoard h = {.turns = 0};
    int pair[2];
    (void)state;
    open_tls(&h.from, &h.to);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    h.other = pair[1];
    struct event *byte = event_new(base, pair[0], EV_READ, on_other, &h);
    event_add(byte, NULL);
    io_own(h.to.io, &hoards, &h);
    write_records(&h.from, 'a');
    turn(1000);
    assert_true(h.turns >= RECORDS * LENGTH / 100);
    assert_in_range(h.seen, 1, 20);
    event_free(byte);
    close(pair[0]);
    close(pair[1]);
    close_pair(&h.from, &h.to);
}

/* The client is ready: the server hears of it when all that is sent lies in its socket. */
static void ready_and_hold(struct io *io, int err) {
    on_ready(io, err);
    event_del(&other->io->rd);
}

/* A handshake's last flight, and records right behind it, in one recv(): two such connections in one turn. */
static void test_left_by_a_handshake(void **state) {
    static const struct io_events holds = {.ready = ready_and_hold};
    struct end a[2], b[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        open_pair(&a[i], &b[i]);
        other = &b[i];
        io_own(a[i].io, &holds, &a[i]);
        SSL *c = SSL_new(client_ctx), *s = SSL_new(server_ctx);
        SSL_set_connect_state(c);
        SSL_set_accept_state(s);
        assert_int_equal(io_tls(a[i].io, c), 0);
        assert_int_equal(io_tls(b[i].io, s), 0);
        io_handshake(a[i].io);
        io_handshake(b[i].io);
        write_records(&a[i], i ? 'c' : 'a');
        turn(5);
        assert_int_equal(a[i].ready, 1);
        assert_int_equal(b[i].ready, 0);
    }
    for (int i = 0; i < 2; i++)
        event_add(&b[i].io->rd, NULL);
    turn(200);
    assert_records(&b[0], 'a');
    assert_records(&b[1], 'c');
    close_pair(&a[0], &b[0]);
    close_pair(&a[1], &b[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_tls_ends),
        cmocka_unit_test(test_end_without_room),
        cmocka_unit_test(test_end_behind),
        cmocka_unit_test(test_gathers),
        cmocka_unit_test(test_tickets_go_along),
        cmocka_unit_test(test_tickets_for_nobody),
        cmocka_unit_test(test_tls_garbage),
        cmocka_unit_test(test_tls_refused),
        cmocka_unit_test(test_clear_before_tls),
        cmocka_unit_test(test_left_over),
        cmocka_unit_test(test_left_by_one_that_stops),
        cmocka_unit_test(test_left_by_a_handshake),
        cmocka_unit_test(test_others_have_turns),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
