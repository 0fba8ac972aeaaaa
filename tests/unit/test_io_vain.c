/* io with TLS that carries nothing, or little, from a peer that is as fast as we are; and one that can't be had. */
#include "tests/unit/io_support.h"

#include <fcntl.h>
#include <sys/mman.h>

/* What a.io's SSL says from here on goes to memory. */
static BIO *divert(struct end *e) {
    BIO *memory = BIO_new(BIO_s_mem());
    assert_int_equal(BIO_up_ref(memory), 1);
    SSL_set0_wbio(e->io->ssl, memory);
    return memory;
}

static void say(struct end *e, const char *text) {
    assert_int_equal(SSL_write(e->io->ssl, text, (int)strlen(text)), (int)strlen(text));
}

static void say_new_keys(struct end *e, int times) {
    for (int i = 0; i < times; i++) {
        assert_int_equal(SSL_key_update(e->io->ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(e->io->ssl), 1);
    }
}

/* All of it, as the other end takes it; or what that end takes until it has ended. */
static void pour(struct end *from, const struct end *to, BIO *memory) {
    char *p;
    long n = BIO_get_mem_data(memory, &p), at = 0;
    for (int i = 0; i < 100000 && at < n && !to->ended; i++) {
        ssize_t sent = send(from->io->fd, p + at, (size_t)(n - at), MSG_NOSIGNAL | MSG_DONTWAIT);
        at += sent > 0 ? sent : 0;
        turn(1);
    }
    turn(20);
}

static void test_new_keys(void **state) {
    static const struct {
        int times, keys; /* so often so many, and a word behind them */
        bool ends;
    } cases[] = {{1, 900, false}, {1, 2000, true}, {20, 100, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct end a, b;
        open_tls(&a, &b);
        BIO *memory = divert(&a);
        for (int k = 0; k < cases[i].times; k++) {
            say_new_keys(&a, cases[i].keys);
            say(&a, "word");
        }
        pour(&a, &b, memory);
        assert_int_equal(b.ended, cases[i].ends);
        assert_int_equal(b.how, cases[i].ends ? IO_END_BROKEN : IO_END_NOT);
        if (cases[i].ends)
            assert_non_null(strstr(io_error_text(b.io), "carry nothing"));
        else
            assert_got(&b, "word");
        BIO_free(memory);
        close_pair(&a, &b);
    }
}

/* Who sends a lot may change his keys as often as he likes. */
static void test_new_keys_of_much(void **state) {
    static char bytes[16384];
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    BIO *memory = divert(&a);
    say_new_keys(&a, 900);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(SSL_write(a.io->ssl, bytes, sizeof bytes), (int)sizeof bytes);
        if (i % 5 == 4)
            say_new_keys(&a, 1);
    }
    pour(&a, &b, memory);
    assert_false(b.ended);
    assert_int_equal(buf_len(&b.got), 1000 * sizeof bytes);
    BIO_free(memory);
    close_pair(&a, &b);
}

/* A hello, each byte of which is a record: 30 kB of it, and 180 of records. */
static void test_crumbs_of_a_hello(void **state) {
    static unsigned char names[30000];
    struct end a, b;
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem()), *crumbs = BIO_new(BIO_s_mem());
    SSL *s = SSL_new(server_ctx), *c = SSL_new(client_ctx);
    char *p;
    (void)state;
    open_pair(&a, &b);
    SSL_set_accept_state(s);
    assert_int_equal(io_tls(b.io, s), 0);
    io_handshake(b.io);
    for (size_t i = 0; i < sizeof names; i += 250)
        names[i] = 249;
    assert_int_equal(SSL_set_alpn_protos(c, names, sizeof names), 0);
    SSL_set_connect_state(c);
    SSL_set_bio(c, in, out);
    assert_int_equal(SSL_do_handshake(c), -1);
    long n = BIO_get_mem_data(out, &p), left = 0;
    for (long i = 0; i < n; i++) {
        if (left == 0) { /* a record's head, of which the type and the version stay */
            left = (unsigned char)p[i + 3] << 8 | (unsigned char)p[i + 4];
            i += 5;
        }
        left--;
        const char record[] = {22, 3, 1, 0, 1, p[i]};
        assert_int_equal(BIO_write(crumbs, record, sizeof record), (int)sizeof record);
    }
    for (long at = 0, all = BIO_get_mem_data(crumbs, &p); at < all && !b.ready;) {
        ssize_t sent = send(a.io->fd, p + at, (size_t)(all - at), MSG_NOSIGNAL | MSG_DONTWAIT);
        at += sent > 0 ? sent : 0;
        turn(1);
    }
    turn(20);
    assert_int_equal(b.ready, 1);
    assert_int_equal(b.err, ERR_CRYPTO);
    assert_non_null(strstr(io_error_text(b.io), "carry nothing"));
    BIO_free(crumbs);
    SSL_free(c);
    close_pair(&a, &b);
}

/* Its socket never runs dry. */
static struct {
    int fd;
    struct slice left;
} spring;

static void on_record(int out, int version, int type, const void *bytes, size_t n, SSL *ssl, void *arg) {
    (void)out, (void)version, (void)type, (void)bytes, (void)n, (void)ssl, (void)arg;
    ssize_t sent = send(spring.fd, spring.left.p, spring.left.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    spring.left = slice_from(spring.left, sent > 0 ? (size_t)sent : 0);
}

static void test_crumbs_end_a_turn(void **state) {
    struct end a, b;
    int large = 200000;
    size_t got;
    char *p;
    (void)state;
    open_tls(&a, &b);
    BIO *memory = divert(&a);
    for (int i = 0; i < 60000; i++)
        say(&a, "x");
    setsockopt(a.io->fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    setsockopt(b.io->fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof large);
    long n = BIO_get_mem_data(memory, &p);
    spring.fd = a.io->fd;
    spring.left = slice_make(p, (size_t)n);
    SSL_set_msg_callback(b.io->ssl, on_record);
    on_record(0, 0, 0, NULL, 0, NULL, NULL);
    b.io->dry = false;
    assert_int_equal(io_read(b.io, io_scratch(), IO_SCRATCH, &got), 0);
    assert_in_range(got, 2, 2 * IO_SCRATCH / 20);
    SSL_set_msg_callback(b.io->ssl, NULL);
    BIO_free(memory);
    close_pair(&a, &b);
}

static void say_nothing(int severity, const char *text) {
    (void)severity;
    (void)text;
}

/* The kernel watches so many for a user; here it is a file, which it never does. Who opened it is told, and it is closed. */
static void test_unwatched(void **state) {
    (void)state;
    static const struct io_events none = {.ready = NULL};
    event_set_log_callback(say_nothing); /* the library has a word for it, too */
    for (int connecting = 0; connecting < 2; connecting++) {
        int fd = memfd_create("f", MFD_CLOEXEC);
        assert_null(io_open(base, fd, connecting, &none, NULL));
        assert_int_equal(fcntl(fd, F_GETFD), -1);
    }
    event_set_log_callback(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_keys),          cmocka_unit_test(test_new_keys_of_much),
        cmocka_unit_test(test_crumbs_of_a_hello), cmocka_unit_test(test_crumbs_end_a_turn),
        cmocka_unit_test(test_unwatched),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
