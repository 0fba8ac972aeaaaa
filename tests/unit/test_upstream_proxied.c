/* Connections to upstreams by way of a proxy of the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/upstream_rig.h"

static void proxied(void **state) {
    struct server origin = {.tls = server_context(good_root, "a.test", -60)},
                  wrong = {.tls = server_context(good_root, "b.test", -60)};
    struct server clear = {.kind = SERVER_ORIGIN};
    struct rig g;
    char proxy[128];
    (void)state;
    server_start(&origin);
    server_start(&wrong);
    server_start(&clear);
    struct server p = {.kind = SERVER_PROXY, .behind = origin.port};
    server_start(&p);
    snprintf(proxy, sizeof proxy, "http://joe:SECRET-P@127.0.0.1:%u", p.port);
    /* no name server: the proxy's word is all there is */
    rig_open(&g, "192.0.2.1 b.test\n10.0.0.1 inner.test\n192.0.2.1 half.test\n127.0.0.1 half.test", NULL,
             proxy);
    struct upstream_link *link = get(&g, URL_HTTPS, "a.test", 443);
    assert_true(link->proxied);
    assert_int_equal(addr_port(&link->peer), p.port);
    exchange(&g, link);
    assert_string_equal(p.count->first, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n"
                                        "Proxy-Authorization: Basic am9lOlNFQ1JFVC1Q\r\n\r\n");
    upstream_release(link, true, 0);
    link = get(&g, URL_HTTPS, "a.test", 443);
    assert_true(link->reused && link->proxied);
    upstream_release(link, true, 0);
    assert_int_equal(p.count->accepted, 1);
    /* the certificate counts all the same, and so do the addresses that can be known */
    must_fail(&g, URL_HTTPS, "b.test", 443, UPSTREAM_CERTIFICATE);
    must_fail(&g, URL_HTTPS, "inner.test", 443, UPSTREAM_ADDRESS);
    must_fail(&g, URL_HTTPS, "half.test", 443, UPSTREAM_ADDRESS);
    must_fail(&g, URL_HTTPS, "169.254.169.254", 443, UPSTREAM_ADDRESS);
    must_fail(&g, URL_HTTPS, "[::ffff:10.0.0.1]", 443, UPSTREAM_ADDRESS);
    assert_int_equal(p.count->accepted, 2);
    rig_close(&g);
    server_stop(&p);

    struct server q = {.kind = SERVER_PROXY, .behind = clear.port};
    server_start(&q);
    snprintf(proxy, sizeof proxy, "127.0.0.1:%u", q.port);
    rig_open(&g, "", (const char *[]){"pinned.test:80:10.9.8.7:81", NULL}, proxy);
    link = get(&g, URL_HTTP, "pinned.test", 80);
    exchange(&g, link);
    upstream_release(link, false, 0);
    assert_string_equal(q.count->first, "CONNECT 10.9.8.7:81 HTTP/1.1\r\nHost: 10.9.8.7:81\r\n\r\n");
    rig_close(&g);
    server_stop(&q);
    server_stop(&origin);
    server_stop(&wrong);
    server_stop(&clear);
    SSL_CTX_free(origin.tls);
    SSL_CTX_free(wrong.tls);
}

static void proxies_that_refuse(void **state) {
    static char endless[16384];
    (void)state;
    snprintf(endless, sizeof endless, "HTTP/1.1 200 OK\r\nX: %09999d", 0);
    const struct {
        const char *status, *says;
    } table[] = {
        {"HTTP/1.1 403 Forbidden\r\n\r\n", "status 403"},
        {"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic\r\n\r\n", "user name and a password"},
        {"HTTP/2 200 OK\r\n\r\n", "as a proxy does"},
        {"HTTP/1.1 2000 OK\r\n\r\n", "as a proxy does"},
        {"\x15\x03\x03\r\n\r\n", "as a proxy does"},
        {"HTTP/1.1 200 OK\r\n", "closed the connection"},
        {endless, "over-long head"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct server p = {.kind = SERVER_PROXY_STATUS, .status = table[i].status};
        char proxy[64];
        struct rig g;
        server_start(&p);
        snprintf(proxy, sizeof proxy, "http://joe:SECRET-P@127.0.0.1:%u", p.port);
        rig_open(&g, "192.0.2.1 a.test", NULL, proxy);
        must_fail(&g, URL_HTTPS, "a.test", 443, UPSTREAM_PROXY);
        if (!strstr(g.text, table[i].says))
            fail_msg("'%s' does not say '%s'", g.text, table[i].says);
        assert_null(strstr(g.text, "SECRET"));
        assert_int_equal(upstream_pool_open(g.pool), 0);
        rig_close(&g);
        server_stop(&p);
    }
    struct rig g;
    rig_open(&g, "192.0.2.1 a.test", NULL, "127.0.0.1:1");
    must_fail(&g, URL_HTTPS, "a.test", 443, UPSTREAM_PROXY);
    rig_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proxied),
        cmocka_unit_test(proxies_that_refuse),
    };
    return cmocka_run_group_tests(tests, make_roots, free_roots);
}
