/* io: both ends of a connection, in the clear, and what they have in common with TLS. */
#include "tests/unit/io_support.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

static void test_clear(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    assert_int_equal(io_write(a.io, SLICE("head "), true), 0);
    turn(2);
    assert_int_equal(buf_len(&b.got), 0); /* waits for more */
    assert_int_equal(io_write(a.io, SLICE("body"), false), 0);
    turn(2);
    assert_got(&b, "head body");
    assert_int_equal(a.io->sent, 9);
    assert_int_equal(b.io->received, 9);
    assert_null(a.io->queue.data); /* memory goes back */
    close_pair(&a, &b);
}

static void nothing(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    (void)arg;
}

/* What is to go soon goes when the turn ends, together, and the owner hears nothing of it; at once if nobody else has a turn. */
static void test_soon(void **state) {
    struct end a, b;
    struct event other;
    (void)state;
    open_pair(&a, &b);
    event_assign(&other, base, -1, 0, nothing, NULL);
    event_active(&other, EV_TIMEOUT, 0);
    assert_int_equal(io_write(a.io, SLICE("one "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    assert_int_equal(io_write(a.io, SLICE("two "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    assert_int_equal(a.io->sent, 0);
    turn(2);
    assert_got(&b, "one two ");
    assert_int_equal(a.io->sent, 8);
    assert_int_equal(a.drained, 0);
    assert_null(a.io->queue.data);
    assert_int_equal(io_write(a.io, SLICE("three "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    assert_int_equal(a.io->sent, 14);
    /* a write at once takes along what waits, in order, and the turn's end finds nothing */
    event_active(&other, EV_TIMEOUT, 0);
    assert_int_equal(io_write(a.io, SLICE("four "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    assert_int_equal(io_write(a.io, SLICE("five"), false), 0);
    assert_int_equal(a.io->sent, 23);
    /* what ends here goes out before the end */
    assert_int_equal(io_write(a.io, SLICE(" six"), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    io_shutdown(a.io);
    assert_int_equal(io_flush_soon(b.io), 0); /* nothing is queued */
    turn(3);
    assert_got(&b, "one two three four five six");
    assert_true(b.ended);
    /* gone before its turn: nothing is left that would fire */
    event_active(&other, EV_TIMEOUT, 0);
    assert_int_equal(io_write(b.io, SLICE("never"), true), 0);
    assert_int_equal(io_flush_soon(b.io), 0);
    close_pair(&a, &b);
    turn(2);
}

/* Answers go before requests, whoever came first: here they meet in one socket. */
static void test_soon_answers_first(void **state) {
    struct end a, b, up = {0};
    struct event other;
    (void)state;
    open_pair(&a, &b);
    buf_init(&up.got, 64);
    up.io = io_open(base, fcntl(a.io->fd, F_DUPFD_CLOEXEC, 0), true, &events, &up);
    assert_non_null(up.io);
    turn(2);
    assert_int_equal(up.ready, 1);
    event_assign(&other, base, -1, 0, nothing, NULL);
    event_active(&other, EV_TIMEOUT, 0);
    assert_int_equal(io_write(up.io, SLICE("request"), true), 0);
    assert_int_equal(io_flush_soon(up.io), 0);
    assert_int_equal(io_write(a.io, SLICE("answer "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    turn(2);
    assert_got(&b, "answer request");
    io_free(up.io);
    buf_release(&up.got);
    close_pair(&a, &b);
}

static struct event other_event;

/* What an owner does who is told that there is room. */
static void write_tail(struct io *io) {
    struct end *e = io->arg;
    if (e->drained++)
        return;
    event_active(&other_event, EV_TIMEOUT, 0);
    assert_int_equal(io_write(io, SLICE("tail"), true), 0);
    assert_int_equal(io_flush_soon(io), 0);
}

/* … also when it is the socket's own event, which nobody waits for any more, that told it. */
static void test_soon_when_there_is_room(void **state) {
    static const struct io_events writer = {.readable = on_readable, .drained = write_tail};
    static char bytes[3u << 20];
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    event_assign(&other_event, base, -1, 0, nothing, NULL);
    io_own(a.io, &writer, &a);
    io_pause(b.io);
    assert_int_equal(io_write(a.io, slice_make(bytes, sizeof bytes), false), 0);
    assert_true(io_full(a.io));
    io_resume(b.io);
    turn(3000);
    assert_true(a.drained > 0);
    assert_int_equal(buf_len(&b.got), sizeof bytes + 4);
    assert_memory_equal(buf_slice(&b.got).p + sizeof bytes, "tail", 4);
    close_pair(&a, &b);
}

static void test_half_close(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    io_write(a.io, SLICE("bye"), false);
    io_shutdown(a.io);
    turn(3);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_CLEAN);
    assert_int_equal(io_write(b.io, SLICE("answer"), false), 0);
    turn(3);
    assert_got(&a, "answer");
    assert_false(a.ended);
    assert_int_equal(io_write(a.io, SLICE("x"), false), ERR_EOF);
    close_pair(&a, &b);
}

static void test_reset(void **state) {
    struct end a, b;
    struct linger now = {.l_onoff = 1};
    (void)state;
    open_pair(&a, &b);
    setsockopt(a.io->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    io_free(a.io);
    a.io = NULL;
    turn(3);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_RESET);
    close_pair(&a, &b);
}

static void test_back_pressure(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    big(&a, &b);
    close_pair(&a, &b);
}

/* Until the socket takes no more: how many bytes then wait. */
static size_t fill(struct io *io) {
    static const char block[4096];
    while (io_queued(io) == 0)
        assert_int_equal(io_write(io, slice_make(block, sizeof block), false), 0);
    return io_queued(io);
}

static void read_a_step(struct io *io) {
    struct end *e = io->arg;
    size_t got;
    if (io_read(io, io_scratch(), IO_SCRATCH, &got) == 0) {
        assert_true(got <= IO_RECORD);
        assert_int_equal(buf_put(&e->got, slice_make(io_scratch(), got)), 0);
    }
}

/* Two connections of one sandbox: when one holds more than both may, the other is full with the first bytes that wait. */
static void test_pressure(void **state) {
    static char much[IO_SCRATCH];
    static const struct io_events stepping = {.readable = read_a_step};
    struct end a, b, c, d;
    struct io_memory *memory = io_memory_new(256u << 10);
    (void)state;
    open_pair(&a, &b);
    open_pair(&c, &d);
    io_share_begin(&a.io->share, memory);
    io_share_begin(&c.io->share, memory);
    io_share_begin(&d.io->share, memory);
    io_pause(b.io);
    io_pause(d.io);
    turn(2);
    fill(c.io);
    assert_false(io_full(c.io)); /* none yet */
    for (int i = 0; i < 4; i++) {
        fill(a.io);
        assert_int_equal(io_write(a.io, slice_make(much, sizeof much), false), 0);
    }
    assert_true(memory->held > memory->limit);
    assert_true(io_full(c.io));
    assert_true(io_queued(c.io) < IO_LOW);

    /* the other side is read in steps; there is room again when nothing waits any more */
    io_own(d.io, &stepping, &d);
    io_resume(d.io);
    for (int i = 0; i < 100 && io_queued(c.io) > 0; i++)
        turn(1);
    assert_true(buf_len(&d.got) > IO_RECORD);
    assert_int_equal(io_queued(c.io), 0);
    assert_int_equal(c.drained, 1);
    assert_false(io_full(c.io));

    /* who holds the most goes: all is as before; the sum stays as long as somebody has a share */
    io_memory_drop(memory);
    io_free(a.io);
    a.io = NULL;
    assert_int_equal(memory->held, 0);
    io_pause(d.io);
    turn(2);
    fill(c.io);
    assert_false(io_full(c.io));
    close_pair(&a, &b);
    close_pair(&c, &d);
}

/* A connected pair that has all the room which the kernel gives; both ends crowded, or not. */
static void open_wide_pair(struct end *a, struct end *b, bool crowded) {
    int fds[2];
    wide_pair(fds);
    for (int i = 0; i < 2 && crowded; i++)
        io_crowded(fds[i]);
    *a = *b = (struct end){0};
    buf_init(&b->got, 64u << 20);
    a->io = io_open(base, fds[0], false, &events, a);
    b->io = io_open(base, fds[1], false, &events, b);
}

/* How much more goes of 8 MiB that nobody reads? */
static uint64_t unread(struct end *a, struct end *b) {
    static char much[8 << 20];
    uint64_t before = a->io->sent;
    io_pause(b->io);
    assert_int_equal(io_write(a->io, slice_make(much, sizeof much), false), 0);
    turn(20);
    return a->io->sent - before;
}

static void test_crowded(void **state) {
    struct end a, b;
    (void)state;
    open_wide_pair(&a, &b, true);
    assert_true(unread(&a, &b) < 4 * IO_CROWDED + IO_RECORD);
    io_resume(b.io);
    for (int i = 0; i < 100000 && buf_len(&b.got) < 8 << 20; i++)
        turn(1);
    assert_int_equal(buf_len(&b.got), 8 << 20);               /* it goes on all the same */
    assert_true(unread(&a, &b) < 4 * IO_CROWDED + IO_RECORD); /* … and nothing has grown by that */
    close_pair(&a, &b);
}

static void test_deadline(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    io_deadline(a.io, 10);
    io_deadline(a.io, 600000); /* moved */
    usleep(20000);
    turn(3);
    assert_int_equal(a.timeout, 0);
    io_deadline(a.io, 10);
    usleep(60000);
    turn(3);
    assert_int_equal(a.timeout, 1);
    io_deadline(a.io, 10);
    io_deadline(a.io, 0);
    usleep(20000);
    turn(3);
    assert_int_equal(a.timeout, 1);
    close_pair(&a, &b);
}

static void test_failed(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    io_free(b.io);
    b.io = NULL;
    int r = 0;
    for (int i = 0; i < 5 && r == 0; i++) {
        r = io_write(a.io, SLICE("into the void"), false);
        turn(2);
    }
    assert_int_equal(r, ERR_EOF);
    close_pair(&a, &b);
}

static void test_idle(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    assert_true(io_idle_ok(a.io));
    io_write(b.io, SLICE("x"), false);
    delivered();
    assert_false(io_idle_ok(a.io));
    turn(2);
    assert_true(io_idle_ok(a.io));
    assert_int_equal(io_unread(a.io, SLICE("x")), 0); /* the socket has nothing, but it has come */
    assert_false(io_idle_ok(a.io));
    turn(2);
    assert_true(io_idle_ok(a.io));
    io_shutdown(b.io);
    delivered();
    assert_false(io_idle_ok(a.io));
    close_pair(&a, &b);
}

static void test_connect(void **state) {
    struct sockaddr_in sin = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(1)};
    struct end a = {0};
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = connect(fd, (struct sockaddr *)&sin, sizeof sin);
    assert_true(r < 0);
    a.io = io_open(base, fd, true, &events, &a);
    for (int i = 0; i < 100 && !a.ready; i++)
        turn(1);
    assert_int_equal(a.ready, 1);
    assert_int_equal(a.err, ERR_IO);
    io_free(a.io);
}

/* The server reads the hello in the clear, looks at it, and gives it back. */
static void test_unread(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    SSL *c = SSL_new(client_ctx), *s = SSL_new(server_ctx);
    SSL_set_connect_state(c);
    SSL_set_accept_state(s);
    assert_int_equal(io_tls(a.io, c), 0);
    io_handshake(a.io);
    turn(5);
    assert_true(buf_len(&b.got) > 50);
    assert_int_equal(buf_slice(&b.got).p[0], 22);
    assert_int_equal(io_unread(b.io, buf_slice(&b.got)), 0);
    buf_clear(&b.got);
    assert_int_equal(io_tls(b.io, s), 0);
    io_handshake(b.io);
    turn(20);
    assert_int_equal(a.err, 0);
    assert_int_equal(b.err, 0);
    assert_int_equal(a.ready + b.ready, 2);
    io_write(a.io, SLICE("hello"), false);
    turn(5);
    assert_got(&b, "hello");
    close_pair(&a, &b);
}

static void test_linger(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_write(b.io, SLICE("refused"), true); /* not even flushed */
    io_linger(b.io, 1000000, 5000);
    b.io = NULL;
    io_write(a.io, SLICE("more of the request"), false);
    turn(10);
    assert_got(&a, "refused");
    assert_true(a.ended);
    assert_int_equal(a.how, IO_END_CLEAN);
    close_pair(&a, &b);
    turn(5);
}

static void test_cut(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_write(b.io, SLICE("half an ans"), false);
    io_cut(b.io, false);
    b.io = NULL;
    turn(10);
    assert_got(&a, "half an ans");
    assert_true(a.ended);
    assert_int_equal(a.how, IO_END_UNCLEAN);
    close_pair(&a, &b);

    open_pair(&a, &b);
    io_cut(b.io, true);
    b.io = NULL;
    turn(10);
    assert_true(a.ended);
    assert_int_equal(a.how, IO_END_RESET);
    close_pair(&a, &b);
}

/* Freed from within its own callback. */
static void free_me(struct io *io) {
    struct end *e = io->arg;
    e->io = NULL;
    io_free(io);
}

static void test_free_within(void **state) {
    static const struct io_events suicidal = {.readable = free_me};
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_own(b.io, &suicidal, &b);
    io_write(a.io, SLICE("die"), false);
    turn(5);
    assert_null(b.io);
    assert_true(a.ended);
    close_pair(&a, &b);
}

/* ---- secrets in a queue ---- */

#ifndef __SANITIZE_ADDRESS__ /* its shadow memory is too large to be searched */

#define WORD "SECRET-in-a-queue"

/* Memory that is not searched: shared pages, where the word may stand and what is read may come. */
static char *apart;

#define APART (4u << 20)

/* How often the word stands in this process's own memory. */
static size_t found(void) {
    char line[512], *page = apart + APART / 2;
    size_t count = 0, n = strlen(WORD);
    FILE *maps = fopen("/proc/self/maps", "re");
    int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    assert_true(maps && mem >= 0);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char mode[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || strcmp(mode, "rw-p") != 0 ||
            strstr(line, "[v"))
            continue;
        for (unsigned long at = from; at + n <= to; at += 65536) {
            size_t want = 65536 + n - 1 < to - at ? 65536 + n - 1 : to - at;
            ssize_t got = pread(mem, page, want, (off_t)at);
            for (const char *p = page; got > 0 && (p = memmem(p, (size_t)(page + got - p), WORD, n)); p++)
                count++;
        }
    }
    fclose(maps);
    close(mem);
    return count;
}

/* A block of this length with the word in its middle, on a page apart. */
static struct slice block(size_t n) {
    memset(apart, 'x', n);
    memcpy(apart + n / 2, WORD, strlen(WORD));
    return slice_make(apart, n);
}

/* Takes what came at an end, without a copy that would be found. */
static size_t take(const struct end *e) {
    size_t all = 0;
    for (ssize_t n; (n = recv(e->io->fd, apart + APART / 2, APART / 2, MSG_DONTWAIT)) > 0;)
        all += (size_t)n;
    return all;
}

static void open_apart(struct end *a, struct end *b, bool tls) {
    if (tls)
        open_tls(a, b);
    else
        open_pair(a, b);
    io_pause(b->io);
    if (!apart)
        apart = mmap(NULL, APART, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(apart != MAP_FAILED);
    assert_int_equal(found(), 0);
}

/* However often it grows, the word stands in the queue once for each write, and nowhere when that has gone. */
static void test_sensitive_grows(void **state) {
    static const size_t lengths[] = {100, 300, 900, 2000, 5000, 7000};
    struct end a, b;
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        size_t all = 0;
        open_apart(&a, &b, tls);
        io_sensitive(a.io);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            assert_int_equal(io_write(a.io, block(lengths[i]), true), 0);
            assert_int_equal(found(), i + 1);
            all += lengths[i];
        }
        assert_int_equal(io_queued(a.io), all);
        assert_int_equal(io_flush(a.io), 0);
        assert_int_equal(io_queued(a.io), 0);
        assert_int_equal(found(), 0);
        assert_false(a.io->sensitive);
        close_pair(&a, &b);
    }
}

/* A full socket: what waits grows, goes out piece by piece, and each piece is wiped. */
static void test_sensitive_waits(void **state) {
    static char filler[3u << 20];
    struct end a, b;
    (void)state;
    open_apart(&a, &b, false);
    assert_int_equal(io_write(a.io, slice_make(filler, sizeof filler), false), 0);
    assert_true(io_full(a.io));
    io_sensitive(a.io);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(io_write(a.io, block(100000), false), 0);
        assert_int_equal(found(), i + 1);
    }
    size_t came = 0, before = 20;
    for (int i = 0; i < 20000 && io_queued(a.io); i++) {
        came += take(&b);
        turn(1);
        size_t left = found();
        assert_true(left <= before && left <= io_queued(a.io) / 100000 + 1);
        before = left;
    }
    came += take(&b);
    assert_int_equal(came, sizeof filler + 20 * 100000);
    assert_int_equal(found(), 0);
    close_pair(&a, &b);
}

/* What will never go is wiped as well: the io is freed, or the peer takes no more. */
static void test_sensitive_dropped(void **state) {
    struct linger now = {.l_onoff = 1};
    struct end a, b;
    (void)state;
    open_apart(&a, &b, false);
    io_sensitive(a.io);
    assert_int_equal(io_write(a.io, block(5000), true), 0);
    assert_int_equal(found(), 1);
    io_free(a.io);
    a.io = NULL;
    assert_int_equal(found(), 0);
    close_pair(&a, &b);

    open_apart(&a, &b, false);
    setsockopt(b.io->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    io_free(b.io);
    b.io = NULL;
    delivered();
    io_sensitive(a.io);
    assert_int_equal(io_write(a.io, block(5000), true), 0);
    assert_int_equal(found(), 1);
    assert_int_equal(io_flush(a.io), ERR_EOF);
    assert_int_equal(found(), 0);
    assert_int_equal(a.io->dropped, 5000);
    assert_int_equal(io_write(a.io, block(7), false), ERR_EOF);
    assert_int_equal(a.io->dropped, 5007);
    close_pair(&a, &b);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_soon),
        cmocka_unit_test(test_soon_answers_first),
        cmocka_unit_test(test_soon_when_there_is_room),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_pressure),
        cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_connect),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_linger),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_free_within),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(test_sensitive_grows),
        cmocka_unit_test(test_sensitive_waits),
        cmocka_unit_test(test_sensitive_dropped),
#endif
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
