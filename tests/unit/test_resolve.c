/* Names to addresses: --resolve, the hosts file, name servers of a script, and all of it under confinement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/confine.h"
#include "proxy/upstream/hosts_file.h"
#include "proxy/upstream/resolve.h"
#include "tests/unit/loop.h"

/* --- pins --------------------------------------------------------------------------------------------- */

static const struct {
    const char *text, *host;
    unsigned port;
    const char *to; /* addresses with ports, spaces between */
} good_pins[] = {
    {"a.test:443:127.0.0.1", "a.test", 443, "127.0.0.1:443 "},
    {"A.Test.:443:127.0.0.1:8443", "a.test", 443, "127.0.0.1:8443 "},
    {"a.test:80:[::1]", "a.test", 80, "[::1]:80 "},
    {"a.test:80:[2001:db8::1]:81", "a.test", 80, "[2001:db8::1]:81 "},
    {"a.test:80:1.2.3.4,[::1]:9,5.6.7.8:10", "a.test", 80, "1.2.3.4:80 [::1]:9 5.6.7.8:10 "},
    {"192.0.2.1:80:127.0.0.1", "192.0.2.1", 80, "127.0.0.1:80 "},
    {"[2001:DB8::1]:80:[::1]:81", "[2001:db8::1]", 80, "[::1]:81 "},
    {"a.test:443:::1", "a.test", 443, "[::1]:443 "},
    {"a.test:443:127.0.0.1,2001:db8::1,[::1]:2", "a.test", 443, "127.0.0.1:443 [2001:db8::1]:443 [::1]:2 "},
    {"+a.test:443:127.0.0.1", "a.test", 443, "127.0.0.1:443 "},
    {"*:443:127.0.0.1:8443", "", 443, "127.0.0.1:8443 "},
    {"+*:443:127.0.0.1", "", 443, "127.0.0.1:443 "},
    {"-a.test:443", "a.test", 443, ""},
    {"-*:443", "", 443, ""},
};
static const char *const bad_pins[] = {
    "",
    "a.test",
    "a.test:443",
    "a.test:443:",
    ":443:127.0.0.1",
    "a.test::127.0.0.1",
    "a.test:0:127.0.0.1",
    "a.test:65536:127.0.0.1",
    "a.test:443:127.1",
    "a.test:443:0x7f.0.0.1",
    "a.test:443:b.test",
    "a.test:443:127.0.0.1:",
    "a.test:443:127.0.0.1:0",
    "a.test:443:127.0.0.1:99999",
    "a.test:443:::1:::2",
    "-",
    "+",
    "*",
    "-a.test",
    "-a.test:443:127.0.0.1",
    "+-a.test:443",
    "+a.test:443",
    "*.test:443:127.0.0.1",
    "a.test:443:127.0.0.1:1:2",
    "a.test:443:[::1",
    "a.test:443:[::1]x",
    "a.test:443:[127.0.0.1]",
    "a.test:443:127.0.0.1,",
    "a.test:443:,127.0.0.1",
    "a..test:443:127.0.0.1",
    "2130706433:443:127.0.0.1",
    "a b:443:127.0.0.1",
    "[::1]443:127.0.0.1",
    "a:1:1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1,"
    "1.1.1.1,1.1.1.1,"
    "1.1.1.1,1.1.1.1,1.1.1.1",
};

static void pins(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good_pins / sizeof good_pins[0]; i++) {
        struct resolve_pin pin;
        struct errmsg msg = {""};
        char to[512] = "", one[ADDR_TEXT_MAX];
        if (resolve_pin_parse(slice_str(good_pins[i].text), &pin, &msg))
            fail_msg("%s: %s", good_pins[i].text, msg.text);
        for (size_t k = 0; k < pin.n; k++)
            snprintf(to + strlen(to), sizeof to - strlen(to), "%s ", addr_text(&pin.to[k], true, one));
        assert_string_equal(pin.host.text, good_pins[i].host);
        assert_int_equal(pin.port, good_pins[i].port);
        assert_string_equal(to, good_pins[i].to);
    }
    for (size_t i = 0; i < sizeof bad_pins / sizeof bad_pins[0]; i++) {
        struct resolve_pin pin = {.port = 7};
        struct errmsg msg = {""};
        if (resolve_pin_parse(slice_str(bad_pins[i]), &pin, &msg) != ERR_USAGE)
            fail_msg("'%s' was accepted", bad_pins[i]);
        assert_int_equal(pin.port, 7);
        assert_true(strncmp(msg.text, "--resolve ", 10) == 0);
    }
}

/* --- the hosts file ----------------------------------------------------------------------------------- */

static void hosts(void **state) {
    struct hosts_file *h = hosts_file_parse(SLICE(
        "# comment\n127.0.0.1\tlocalhost loop\r\n::1 localhost\n\n10.0.0.1 A.Test. b.test # c.test\n"
        "300.1.1.1 bad.test\n10.0.0.2 a.test\nfe80::1%lo d.test\n10.0.0.3\n10.0.0.4 127.0.0.1 x..y e.test"));
    struct addr found[4];
    char text[ADDR_TEXT_MAX];
    (void)state;
    assert_non_null(h);
    assert_int_equal(hosts_file_find(h, SLICE("a.test"), found, 4), 2);
    assert_string_equal(addr_text(&found[0], false, text), "10.0.0.1");
    assert_string_equal(addr_text(&found[1], false, text), "10.0.0.2");
    assert_int_equal(hosts_file_find(h, SLICE("a.test"), found, 1), 1);
    assert_int_equal(hosts_file_find(h, SLICE("localhost"), found, 4), 2);
    assert_int_equal(hosts_file_find(h, SLICE("loop"), found, 4), 1);
    assert_int_equal(hosts_file_find(h, SLICE("e.test"), found, 4), 1);
    static const char *const absent[] = {"c.test", "bad.test", "d.test", "x..y",   "127.0.0.1",
                                         "",       "zz",       "a.tes",  "a.test2"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        assert_int_equal(hosts_file_find(h, slice_str(absent[i]), found, 4), 0);
    hosts_file_free(h);
    h = hosts_file_load("/nonexistent/hosts");
    assert_non_null(h);
    assert_int_equal(hosts_file_find(h, SLICE("localhost"), found, 4), 0);
    hosts_file_free(h);
}

/* --- a name server from a script, in a process of its own --------------------------------------------- */

struct counters {
    unsigned udp, tcp;
};

static struct counters *asked;
static pid_t server;
static char resolv_conf[] = "/tmp/exeat-resolv-XXXXXX";
static char servers[32];

/* The answer to `q`; its length, 0 for none. */
static size_t dns_reply(const uint8_t *q, size_t n, uint8_t *out, bool tcp) {
    static const uint8_t a[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4};
    static const uint8_t aaaa[] = {0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16, 0x20, 1, 0xd, 0xb8};
    char name[64] = "";
    size_t at = 12, used = 0;
    if (n < 17)
        return 0;
    while (at < n && q[at] && used + q[at] + 1 < sizeof name) {
        memcpy(name + used, q + at + 1, q[at]);
        used += q[at];
        name[used++] = '.';
        at += q[at] + 1u;
    }
    unsigned type = q[at + 2];
    size_t end = at + 5;
    memcpy(out, q, end);
    memset(out + 4, 0, 8);
    out[2] = 0x81;
    out[3] = 0x80;
    out[5] = 1;
    if (strcmp(name, "none.test.") == 0)
        out[3] |= 3;
    if (strcmp(name, "fail.test.") == 0)
        out[3] |= 2;
    if (strcmp(name, "mute.test.") == 0)
        return 0;
    if (strcmp(name, "big.test.") == 0 && !tcp) {
        out[2] |= 2;
        return end;
    }
    bool both = strcmp(name, "both.test.") == 0;
    bool four = both || strcmp(name, "four.test.") == 0 || strcmp(name, "big.test.") == 0;
    if (type == 1 && four)
        for (uint8_t i = 1; i <= 2; i++) {
            memcpy(out + end, a, sizeof a);
            memcpy(out + end + sizeof a, (uint8_t[]){192, 0, 2, i}, 4);
            end += sizeof a + 4;
            out[7]++;
        }
    if (type == 28 && both) {
        memcpy(out + end, aaaa, sizeof aaaa);
        memset(out + end + sizeof aaaa, 0, 12);
        out[end + sizeof aaaa + 11] = 1;
        end += sizeof aaaa + 12;
        out[7]++;
    }
    return end;
}

static void serve_tcp(int listener) {
    uint8_t q[1024], out[1024];
    int fd = accept(listener, NULL, NULL);
    ssize_t n;
    while ((n = recv(fd, q, 2, MSG_WAITALL)) == 2) {
        size_t want = (size_t)q[0] << 8 | q[1];
        if (want > sizeof q || recv(fd, q, want, MSG_WAITALL) != (ssize_t)want)
            break;
        asked->tcp++;
        size_t m = dns_reply(q, want, out + 2, true);
        out[0] = (uint8_t)(m >> 8);
        out[1] = (uint8_t)m;
        (void)!send(fd, out, m + 2, MSG_NOSIGNAL);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 300) <= 0)
            break;
    }
    close(fd);
}

static void serve(int udp, int tcp) {
    uint8_t q[1024], out[1024];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        struct pollfd p[2] = {{.fd = udp, .events = POLLIN}, {.fd = tcp, .events = POLLIN}};
        poll(p, 2, -1);
        if (p[1].revents)
            serve_tcp(tcp);
        if (!p[0].revents)
            continue;
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        ssize_t n = recvfrom(udp, q, sizeof q, 0, (struct sockaddr *)&from, &len);
        asked->udp++;
        size_t m = n > 0 ? dns_reply(q, (size_t)n, out, false) : 0;
        if (m)
            sendto(udp, out, m, 0, (struct sockaddr *)&from, len);
    }
}

static int start_server(void **state) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int udp = -1, tcp = -1, tries = 50;
    (void)state;
    asked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    do {
        a.sin_port = 0;
        close(udp);
        close(tcp);
        udp = socket(AF_INET, SOCK_DGRAM, 0);
        tcp = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(udp, (struct sockaddr *)&a, sizeof a) || getsockname(udp, (struct sockaddr *)&a, &len))
            return -1;
    } while (bind(tcp, (struct sockaddr *)&a, sizeof a) && --tries);
    listen(tcp, 8);
    server = fork();
    if (server == 0) {
        serve(udp, tcp);
        _exit(0);
    }
    close(udp);
    close(tcp);
    int fd = mkstemp(resolv_conf);
    dprintf(fd, "search example.com\noptions ndots:5\nnameserver 192.0.2.53\n");
    snprintf(servers, sizeof servers, "127.0.0.1:%u", ntohs(a.sin_port));
    close(fd);
    return 0;
}

static int stop_server(void **state) {
    (void)state;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    unlink(resolv_conf);
    return 0;
}

/* --- the resolver ------------------------------------------------------------------------------------- */

struct asking {
    struct event_base *base;
    struct resolver *resolver;
    struct resolve_answer answer;
    unsigned answers;
};

static void open_resolver(struct asking *g, const char *const *texts, size_t n) {
    struct resolver_config config = {.resolv_conf = resolv_conf,
                                     .servers = servers,
                                     .hosts = "/nonexistent/hosts",
                                     .pins = texts,
                                     .npins = n};
    struct errmsg msg = {""};
    *g = (struct asking){.base = event_base_new()};
    if (resolver_new(g->base, &config, &g->resolver, &msg))
        fail_msg("%s", msg.text);
}

static void close_resolver(struct asking *g) {
    resolver_free(g->resolver);
    event_base_free(g->base);
}

static void on_answer(void *arg, const struct resolve_answer *answer) {
    struct asking *g = arg;
    g->answer = *answer;
    g->answers++;
}

static struct resolve_query *ask(struct asking *g, const char *name) {
    struct url_host host;
    if (url_host_parse(slice_str(name), &host, NULL)) { /* what is not canonical can come to no harm either */
        host = (struct url_host){.kind = URL_HOST_NAME, .n = strlen(name)};
        memcpy(host.text, name, host.n + 1);
    }
    return resolve_start(g->resolver, &host, 443, on_answer, g);
}

static bool answered(void *arg) {
    return ((struct asking *)arg)->answers > 0;
}

static void look(struct asking *g, const char *name, int err, const char *addrs) {
    char text[512] = "", one[ADDR_TEXT_MAX];
    g->answers = 0;
    assert_non_null(ask(g, name));
    assert_int_equal(g->answers, 0); /* never within the call */
    if (!loop_until(g->base, answered, g, LOOP_PATIENCE))
        fail_msg("%s: no answer", name);
    for (size_t i = 0; i < g->answer.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s ",
                 addr_text(&g->answer.addrs[i], true, one));
    if (g->answer.err != err)
        fail_msg("%s: %s", name, err_text(g->answer.err));
    assert_string_equal(text, addrs);
    assert_int_equal(g->answers, 1);
}

static void by_dns(void **state) {
    struct asking g;
    (void)state;
    open_resolver(&g, NULL, 0);
    look(&g, "both.test", 0, "[2001:db8::1]:443 192.0.2.1:443 192.0.2.2:443 ");
    assert_true(g.answer.served && !g.answer.pinned);
    unsigned before = asked->udp;
    look(&g, "both.test", 0, "[2001:db8::1]:443 192.0.2.1:443 192.0.2.2:443 ");
    assert_int_equal(asked->udp, before); /* from the cache */
    look(&g, "four.test", 0, "192.0.2.1:443 192.0.2.2:443 ");
    look(&g, "none.test", ERR_NOTFOUND, "");
    assert_true(g.answer.served);
    look(&g, "empty.test", ERR_NOTFOUND, "");
    before = asked->udp;
    look(&g, "none.test", ERR_NOTFOUND, "");
    look(&g, "single", ERR_NOTFOUND, ""); /* no search domain makes it single.example.com */
    assert_int_equal(asked->udp, before + 2);
    look(&g, "fail.test", ERR_IO, "");
    assert_false(g.answer.served);
    before = asked->tcp;
    look(&g, "big.test", 0, "192.0.2.1:443 192.0.2.2:443 ");
    assert_true(asked->tcp > before);
    close_resolver(&g);
}

/* M13: what a C library takes for an address is neither one nor looked up. */
static void odd_spellings(void **state) {
    static const char *const odd[] = {
        "2852039166",          "0xA9FEA9FE",    "025177524776", "0251.0376.0251.0376",
        "0xA9.0xFE.0xA9.0xFE", "169.254.43518", "127.1",        "0",
        "1.2.3.4.5",           "256.1.1.1",     "a.0x7f",       "a.1"};
    struct asking g;
    (void)state;
    open_resolver(&g, NULL, 0);
    unsigned before = asked->udp;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        look(&g, odd[i], ERR_NOTFOUND, "");
    look(&g, "169.254.169.254", 0, "169.254.169.254:443 "); /* upstream.c refuses it by what it is */
    look(&g, "[::1]", 0, "[::1]:443 ");
    assert_int_equal(asked->udp, before);
    close_resolver(&g);
}

static void pinned(void **state) {
    static const char *const texts[] = {"both.test:443:127.0.0.1:7", "both.test:80:127.0.0.9",
                                        "both.test:443:[::1]", "[2001:db8::5]:443:127.0.0.1:9"};
    struct asking g;
    (void)state;
    open_resolver(&g, texts, 4);
    look(&g, "both.test", 0, "127.0.0.1:7 [::1]:443 ");
    assert_true(g.answer.pinned && !g.answer.served);
    look(&g, "[2001:db8::5]", 0, "127.0.0.1:9 ");
    assert_true(g.answer.pinned);
    look(&g, "four.test", 0, "192.0.2.1:443 192.0.2.2:443 ");
    assert_false(g.answer.pinned);
    close_resolver(&g);
}

static void pins_for_all_and_taken_back(void **state) {
    static const char *const texts[] = {"*:443:127.0.0.1:7",       "four.test:443:127.0.0.2",
                                        "none.test:443:127.0.0.3", "-none.test:443",
                                        "*:80:127.0.0.4",          "-*:80"};
    struct asking g;
    (void)state;
    open_resolver(&g, texts, 6);
    look(&g, "both.test", 0, "127.0.0.1:7 ");
    assert_true(g.answer.pinned);
    look(&g, "four.test", 0, "127.0.0.2:443 ");
    look(&g, "none.test", 0, "127.0.0.1:7 ");
    close_resolver(&g);
    open_resolver(&g, texts + 4, 2);
    look(&g, "four.test", 0, "192.0.2.1:443 192.0.2.2:443 ");
    assert_false(g.answer.pinned);
    close_resolver(&g);
}

static bool answered_all(void *arg) {
    return ((struct asking *)arg)->answers == 9;
}

static void together(void **state) {
    struct asking g;
    (void)state;
    open_resolver(&g, NULL, 0);
    unsigned before = asked->udp;
    for (int i = 0; i < 9; i++)
        assert_non_null(ask(&g, "four.test"));
    struct resolve_query *not_wanted = ask(&g, "four.test");
    resolve_cancel(not_wanted);
    assert_true(loop_until(g.base, answered_all, &g, LOOP_PATIENCE));
    assert_int_equal(asked->udp, before + 2); /* A and AAAA, once */
    not_wanted = ask(&g, "four.test");
    resolve_cancel(not_wanted); /* while its answer stands ready */
    loop_for(g.base, 30);
    assert_int_equal(g.answers, 9);
    ask(&g, "four.test"); /* and some are left when it is freed */
    ask(&g, "both.test");
    close_resolver(&g);
    assert_int_equal(g.answers, 9);
}

static void nobody_answers(void **state) {
    struct asking g;
    (void)state;
    open_resolver(&g, NULL, 0);
    uint64_t start = clock_monotonic_ms();
    look(&g, "mute.test", ERR_TIMEOUT, "");
    assert_in_range(clock_monotonic_ms() - start, 3000, RESOLVE_TIME_MS + LOOP_PATIENCE);
    close_resolver(&g);
}

/* Files are read at the start alone: the same under the worker's filter. */
static void confined(void **state) {
    int status;
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct asking g;
        struct errmsg msg;
        open_resolver(&g, NULL, 0);
        if (confine_role(CONFINE_WORKER, &msg) == ERR_UNSUPPORTED)
            _exit(77);
        look(&g, "both.test", 0, "[2001:db8::1]:443 192.0.2.1:443 192.0.2.2:443 ");
        look(&g, "big.test", 0, "192.0.2.1:443 192.0.2.2:443 ");
        look(&g, "none.test", ERR_NOTFOUND, "");
        _exit(42);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 42);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pins),     cmocka_unit_test(hosts),
        cmocka_unit_test(by_dns),   cmocka_unit_test(odd_spellings),
        cmocka_unit_test(pinned),   cmocka_unit_test(pins_for_all_and_taken_back),
        cmocka_unit_test(together), cmocka_unit_test(nobody_answers),
        cmocka_unit_test(confined),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
