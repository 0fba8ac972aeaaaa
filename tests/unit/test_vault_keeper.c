/* vault: the keeper's table against the worker's side of it, and against a worker that lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/keeper_support.h"
#include "vault/bindings.h"

static void ask(struct state *s, struct asked *a, uint64_t sandbox, const char *name, const char *url) {
    struct vault_origin o = origin_of(url);
    secret_release(&a->value);
    *a = (struct asked){.r = {.done = on_done}};
    assert_int_equal(vault_ask_render(s->client, &a->r, sandbox, slice_str(name), &o, SLICE("/acme/app")), 0);
    assert_int_equal(a->told, 0);
}

static void lends(struct state *s, uint64_t sandbox, const char *name, const char *url, const char *header,
                  const char *value) {
    struct asked a = {.told = 0};
    ask(s, &a, sandbox, name, url);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.told, 1);
    if (a.err)
        fail_msg("%s", a.why);
    assert_string_equal(a.header, header);
    assert_true(slice_eq(secret_slice(&a.value), slice_str(value)));
    secret_release(&a.value);
    /* the answer's bytes are gone on both ends: they are the same here */
    for (size_t i = 0; i + 6 < sizeof s->answer; i++)
        assert_memory_not_equal(s->answer + i, "SECRET", 6);
}

static void keeps(struct state *s, uint64_t sandbox, const char *name, const char *url, int err,
                  const char *says) {
    struct asked a = {.told = 0};
    ask(s, &a, sandbox, name, url);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.told, 1);
    assert_int_equal(a.err, err);
    assert_null(a.value.bytes);
    if (!strstr(a.why, says))
        fail_msg("'%s' does not say '%s'", a.why, says);
    assert_null(strstr(a.why, "SECRET"));
}

static void test_lending(void **state) {
    struct state *s = *state;
    static const char *const one[] = {"github"}, *const two[] = {"other", "ghost", "github"};
    keeps(s, 7, "github", "https://github.com", ERR_DENIED,
          "credential 'github' is not granted to this sandbox");
    grant(s, 7, one, 1);
    lends(s, 7, "github", "https://github.com", "Authorization", "Basic eC1hY2Nlc3MtdG9rZW46U0VDUkVULUE=");
    lends(s, 7, "github", "https://api.github.com", "Authorization", "Bearer SECRET-A");
    keeps(s, 7, "github", "https://evil.test", ERR_DENIED, "is not for https://evil.test");
    keeps(s, 7, "github", "http://github.com", ERR_DENIED, "is not for http://github.com");
    keeps(s, 7, "github", "https://github.com:444", ERR_DENIED, "is not for https://github.com:444");
    keeps(s, 7, "other", "https://github.com", ERR_DENIED, "not granted");
    keeps(s, 8, "github", "https://github.com", ERR_DENIED, "not granted");
    grant(s, 7, two, 3);
    lends(s, 7, "other", "https://github.com", "X-Other_Key", "SECRET-B");
    lends(s, 7, "other", "https://[2001:db8::1]:8443", "X-Other_Key", "SECRET-B");
    keeps(s, 7, "ghost", "https://github.com", ERR_NOTFOUND, "no credential 'ghost'");
    grant(s, 7, NULL, 0);
    keeps(s, 7, "github", "https://github.com", ERR_DENIED, "not granted");
}

static void test_revoke(void **state) {
    struct state *s = *state;
    static const char *const one[] = {"github"};
    char memory[64];
    struct msg_out m, out;
    for (uint64_t i = 0; i < 3000; i++)
        grant(s, i << 32 | i, one, 1);
    for (uint64_t i = 0; i < 3000; i += 2) {
        vault_put_revoke(&m, memory, sizeof memory, i << 32 | i);
        assert_int_equal(handle(s, KEEPER_SUPERVISOR, m.p, m.n, &out, NULL), 0);
    }
    lends(s, (uint64_t)2999 << 32 | 2999, "github", "https://api.github.com", "Authorization",
          "Bearer SECRET-A");
    keeps(s, (uint64_t)2998 << 32 | 2998, "github", "https://api.github.com", ERR_DENIED, "not granted");
}

static void test_minting(void **state) {
    struct state *s = *state;
    struct asked a = {.r = {.done = on_done}};
    assert_int_equal(vault_ask_mint(s->client, &a.r, SLICE("a.test"), SLICE("KEY")), 0);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.told, 1);
    assert_string_equal(a.der, "DER of a.test for KEY");
    s->mint_fails = ERR_PARSE;
    assert_int_equal(vault_ask_mint(s->client, &a.r, SLICE("b test"), SLICE("KEY")), 0);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.told, 2);
    assert_int_equal(a.err, ERR_PARSE);
    assert_string_equal(a.why, "no leaf for b test");
}

/* --- the worker's side ---------------------------------------------------------------------------------- */

static void test_numbers(void **state) {
    struct state *s = *state;
    static const char *const one[] = {"github"};
    static struct asked many[1000];
    static char questions[1000][128];
    static size_t n[1000];
    grant(s, 7, one, 1);
    memset(many, 0, sizeof many);
    for (size_t i = 0; i < 1000; i++) {
        ask(s, &many[i], 7, i % 2 ? "github" : "nobody", "https://api.github.com");
        memcpy(questions[i], s->sent, s->sent_n);
        n[i] = s->sent_n;
    }
    /* one that is given up, and answers in another order */
    vault_cancel(&many[501].r);
    vault_cancel(&many[501].r);
    for (size_t i = 1000; i-- > 0;) {
        memcpy(s->sent, questions[i], n[i]);
        s->sent_n = n[i];
        assert_int_equal(deliver(s), 0);
    }
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(many[i].told, i == 501 ? 0 : 1);
        assert_int_equal(many[i].err, i == 501 || i % 2 ? 0 : ERR_DENIED);
        assert_int_equal(many[i].value.n, i == 501 || i % 2 == 0 ? 0 : 15);
        secret_release(&many[i].value);
    }
    /* the same answer once more: nobody waits, nothing happens */
    assert_int_equal(deliver(s), 0);
    assert_int_equal(many[0].told, 1);
}

static void test_send_fails(void **state) {
    struct state *s = *state;
    struct asked a = {.r = {.done = on_done}};
    s->send_fails = ERR_EOF;
    assert_int_equal(vault_ask_mint(s->client, &a.r, SLICE("a.test"), SLICE("KEY")), ERR_EOF);
    assert_null(a.r.link);
    static char big[MSG_MAX];
    s->send_fails = 0;
    assert_int_equal(vault_ask_mint(s->client, &a.r, slice_make(big, sizeof big), SLICE("KEY")), ERR_LIMIT);
    assert_int_equal(vault_ask_mint(s->client, &a.r, SLICE("a.test"), SLICE("KEY")), 0);
    vault_client_free(s->client);
    s->client = NULL;
    assert_int_equal(a.told, 0);
    assert_null(a.r.link);
}

static int feed(struct state *s, const void *bytes, size_t n) {
    struct msg_in in;
    char *own = malloc(n ? n : 1);
    memcpy(own, bytes, n);
    int r = msg_parse(&in, own, n);
    if (r == 0)
        r = vault_client_feed(s->client, &in);
    free(own);
    return r;
}

/* A keeper's answer, cut off anywhere or of the wrong kind, is no answer. */
static void test_malformed_answers(void **state) {
    struct state *s = *state;
    static const char *const one[] = {"github"};
    struct asked a = {.told = 0};
    struct msg_out out;
    char bytes[512];
    grant(s, 7, one, 1);
    for (int refused = 0; refused < 2; refused++) {
        ask(s, &a, 7, refused ? "other" : "github", "https://github.com");
        assert_int_equal(handle(s, KEEPER_WORKER, s->sent, s->sent_n, &out, NULL), 0);
        size_t n = out.n;
        memcpy(bytes, out.p, n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(feed(s, bytes, i), ERR_PEER);
        bytes[n] = 0;
        assert_int_equal(feed(s, bytes, n + 1), ERR_PEER);
        bytes[2] = (char)(VAULT_MINTED & 0xff); /* the answer to another kind of question */
        assert_int_equal(feed(s, bytes, n), ERR_PEER);
        bytes[2] = (char)(VAULT_GRANT & 0xff);
        assert_int_equal(feed(s, bytes, n), ERR_PEER);
        assert_int_equal(a.told, 0);
        bytes[2] = (char)(VAULT_RENDERED & 0xff);
        assert_int_equal(feed(s, bytes, n), 0);
        assert_int_equal(a.told, 1);
        secret_release(&a.value);
    }
}

/* --- the table ------------------------------------------------------------------------------------------ */

static void peer_error(struct state *s, enum keeper_peer peer, const void *bytes, size_t n) {
    struct msg_out out = {.n = 1};
    struct errmsg msg = {""};
    /* exactly as large as the message, for the sanitizer */
    char *own = malloc(n ? n : 1);
    memcpy(own, bytes, n);
    int r = handle(s, peer, own, n, &out, &msg);
    free(own);
    if (r != ERR_PEER)
        fail_msg("type %02x%02x of %zu bytes: %d", ((const uint8_t *)bytes)[3], ((const uint8_t *)bytes)[2],
                 n, r);
}

static void test_table(void **state) {
    struct state *s = *state;
    static const uint16_t by_supervisor[] = {VAULT_GRANT, VAULT_REVOKE};
    static const uint16_t by_worker[] = {VAULT_MINT, VAULT_RENDER, VAULT_ASK_BINDINGS};
    static const char zeros[16] = {0};
    char memory[64];
    struct msg_out m;
    for (unsigned type = 0; type < 65536; type++) {
        bool supervisor = type == by_supervisor[0] || type == by_supervisor[1];
        bool worker = type == by_worker[0] || type == by_worker[1] || type == by_worker[2];
        msg_begin(&m, memory, sizeof memory, (uint16_t)type);
        msg_put_slice(&m, slice_make(zeros, sizeof zeros));
        msg_put_u8(&m, 0); /* fits none of them */
        if (!supervisor || !worker)
            peer_error(s, worker ? KEEPER_SUPERVISOR : KEEPER_WORKER, memory, m.n);
        if (!supervisor && !worker)
            peer_error(s, KEEPER_SUPERVISOR, memory, m.n);
    }
}

/* Each request, cut off anywhere and with something behind it. */
static void test_malformed_questions(void **state) {
    struct state *s = *state;
    static const char *const names[] = {"github", "other"};
    char memory[512];
    struct msg_out m;
    struct asked a = {.r = {.done = on_done}};
    struct vault_origin o = origin_of("https://github.com");
    vault_put_grant(&m, memory, sizeof memory, 7, names, 2);
    for (size_t i = 0; i < m.n; i++)
        peer_error(s, KEEPER_SUPERVISOR, memory, i);
    peer_error(s, KEEPER_SUPERVISOR, memory, m.n + 1);
    keeps(s, 7, "github", "https://github.com", ERR_DENIED, "not granted");
    vault_put_revoke(&m, memory, sizeof memory, 7);
    for (size_t i = 0; i < m.n; i++)
        peer_error(s, KEEPER_SUPERVISOR, memory, i);
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 0)
            assert_int_equal(vault_ask_mint(s->client, &a.r, SLICE("a.test"), SLICE("KEY")), 0);
        else if (kind == 1)
            assert_int_equal(vault_ask_render(s->client, &a.r, 7, SLICE("github"), &o, SLICE("/")), 0);
        else
            assert_int_equal(vault_ask_bindings(s->client), 0);
        for (size_t i = 0; i < s->sent_n; i++)
            peer_error(s, KEEPER_WORKER, s->sent, i);
        peer_error(s, KEEPER_WORKER, s->sent, s->sent_n + 1);
        vault_cancel(&a.r);
    }
    /* a scheme that there is not, and a grant that says more than it holds */
    assert_int_equal(vault_ask_render(s->client, &a.r, 7, SLICE("github"), &o, SLICE("/")), 0);
    vault_cancel(&a.r);
    char *scheme = memmem(s->sent, s->sent_n, "github\1", 7);
    assert_non_null(scheme);
    scheme[6] = 2;
    peer_error(s, KEEPER_WORKER, s->sent, s->sent_n);
    msg_begin(&m, memory, sizeof memory, VAULT_GRANT);
    msg_put_u64(&m, 7);
    msg_put_u32(&m, 0xffffffff);
    peer_error(s, KEEPER_SUPERVISOR, memory, m.n);
    msg_begin(&m, memory, sizeof memory, VAULT_GRANT);
    msg_put_u64(&m, 7);
    msg_put_u32(&m, 1);
    msg_put_slice(&m, slice_make("a\0b", 3));
    peer_error(s, KEEPER_SUPERVISOR, memory, m.n);
}

/* What was lent a moment ago is lent again without a question, unless the path has a say in it. */
static void test_leases(void **state) {
    struct state *s = *state;
    static const char *const names[] = {"github", "paths"};
    const struct vault_origin o = {URL_HTTPS, SLICE("github.com"), 443};
    const struct vault_origin api = {URL_HTTPS, SLICE("api.github.com"), 443};
    struct slice header, value;
    struct asked a = {.told = 0};
    grant(s, 7, names, 2);
    assert_false(vault_lease(s->client, 7, SLICE("github"), &o, &header, &value));
    lends(s, 7, "github", "https://github.com", "Authorization", "Basic eC1hY2Nlc3MtdG9rZW46U0VDUkVULUE=");
    assert_true(vault_lease(s->client, 7, SLICE("github"), &o, &header, &value));
    assert_true(slice_eq(header, SLICE("Authorization")));
    assert_true(slice_eq(value, SLICE("Basic eC1hY2Nlc3MtdG9rZW46U0VDUkVULUE=")));
    assert_false(vault_lease(s->client, 8, SLICE("github"), &o, &header, &value));
    assert_false(vault_lease(s->client, 7, SLICE("github"), &api, &header, &value));
    lends(s, 7, "paths", "https://github.com", "Authorization", "Bearer SECRET-B");
    assert_true(vault_lease(s->client, 7, SLICE("paths"), &o, &header, &value));
    a = (struct asked){.r = {.done = on_done}};
    assert_int_equal(vault_ask_render(s->client, &a.r, 7, SLICE("paths"), &api, SLICE("/repos/x")), 0);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.err, 0);
    secret_release(&a.value);
    assert_false(vault_lease(s->client, 7, SLICE("paths"), &api, &header, &value));
    /* a refusal leaves nothing */
    keeps(s, 7, "other", "https://github.com", ERR_DENIED, "not granted");
    assert_false(vault_lease(s->client, 7, SLICE("other"), &o, &header, &value));
}

static void test_no_vault(void **state) {
    struct state *s = *state;
    struct keeper *k;
    static const char *const one[] = {"github"};
    (void)state;
    assert_int_equal(keeper_new(NULL, mint, s, &k, NULL), 0);
    keeper_free(s->keeper);
    s->keeper = k;
    grant(s, 7, one, 1);
    keeps(s, 7, "github", "https://github.com", ERR_NOTFOUND, "the vault has no credential");
    /* one whose secrets were never read */
    keeper_free(s->keeper);
    struct vault *v = vault_of(NULL, vault_text);
    assert_int_equal(keeper_new(v, mint, s, &s->keeper, NULL), 0);
    grant(s, 7, one, 1);
    keeps(s, 7, "github", "https://github.com", ERR_INTERNAL, "has not been opened");
    keeper_free(s->keeper);
    s->keeper = NULL;
    vault_free(v);
}

/* --- bindings ------------------------------------------------------------------------------------------- */

static struct bindings *bindings_of(struct state *s) {
    struct msg_out out;
    struct msg_in in;
    struct bindings *b = NULL;
    assert_int_equal(vault_ask_bindings(s->client), 0);
    assert_int_equal(handle(s, KEEPER_WORKER, s->sent, s->sent_n, &out, NULL), 0);
    for (size_t i = 0; i + 6 <= out.n; i++)
        assert_memory_not_equal(out.p + i, "SECRET", 6);
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    assert_int_equal(bindings_get(&in, &b), 0);
    /* cut off anywhere it is none */
    for (size_t i = 0; i < out.n; i++) {
        struct bindings *none = NULL;
        if (msg_parse(&in, out.p, i) == 0)
            assert_int_equal(bindings_get(&in, &none), ERR_PEER);
        assert_null(none);
    }
    return b;
}

static void test_bindings(void **state) {
    static const char *const taken[] = {
        "Authorization",  "AUTHORIZATION", "authorization", "Proxy-Authorization",
        "X-Api-Key",      "x_api_key",     "Private-Token", "X-Other-Key",
        "x_other-KEY",    "Cookie",        "Access-Token",  "http_authorization",
        "Authentication", "X-Token"};
    static const char *const left[] = {"Accept", "Authorizatio", "Authorization2", "Host", "", "X-Other"};
    struct state *s = *state;
    struct bindings *b = bindings_of(s);
    const struct binding *github = bindings_find(b, SLICE("github.com")),
                         *api = bindings_find(b, SLICE("api.github.com"));
    assert_non_null(github);
    assert_non_null(api);
    assert_non_null(bindings_find(b, SLICE("[2001:db8::1]")));
    assert_null(bindings_find(b, SLICE("evil.test")));
    assert_null(bindings_find(b, SLICE("x.github.com")));
    assert_null(bindings_find(b, SLICE("")));
    assert_null(bindings_find(NULL, SLICE("github.com")));
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!binding_removes(github, slice_str(taken[i])))
            fail_msg("%s stays", taken[i]);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (binding_removes(github, slice_str(left[i])))
            fail_msg("%s is taken off", left[i]);
    /* what one host's credentials take off stays for another host */
    assert_true(binding_removes(api, SLICE("Authorization")));
    assert_false(binding_removes(api, SLICE("Cookie")));
    assert_false(binding_removes(NULL, SLICE("Authorization")));
    bindings_free(b);
}

static void test_queries(void **state) {
    static const char *const refused[] = {"access_token=x",   "a=1&private_token=x", "a=1;Access-Token=x",
                                          "access%5ftoken=x", "%61ccess_token",      "a&api_key",
                                          "=&&APIKEY=x"};
    static const char *const passed[] = {
        "",
        "a=access_token",
        "access_tokens=x",
        "page_token=x",
        "token=x",
        "key=x",
        "access_token%00=x",
        "%",
        "access%token=x",
        "&;=",
        "a-name-that-is-longer-than-any-of-those-that-are-known-access_token=1"};
    struct state *s = *state;
    struct bindings *b = bindings_of(s);
    const struct binding *github = bindings_find(b, SLICE("github.com"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (!binding_refuses_query(github, slice_str(refused[i])))
            fail_msg("%s passes", refused[i]);
        assert_false(binding_refuses_query(NULL, slice_str(refused[i])));
    }
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (binding_refuses_query(github, slice_str(passed[i])))
            fail_msg("%s is refused", passed[i]);
    bindings_free(b);
}

static void test_many_bindings(void **state) {
    struct state *s = *state;
    struct buf many;
    char host[64];
    buf_init(&many, VAULT_FILE_MAX);
    for (int i = 0; i < 2000; i++)
        buf_printf(&many, "credential c%d\n for https://h%d.test\n from env EXEAT_TEST_A\n inject bearer\n",
                   i, i);
    keeper_free(s->keeper);
    vault_free(s->vault);
    s->vault = vault_of(NULL, buf_cstr(&many));
    assert_int_equal(keeper_new(s->vault, mint, s, &s->keeper, NULL), 0);
    struct bindings *b = bindings_of(s);
    for (int i = 0; i < 2000; i++) {
        snprintf(host, sizeof host, "h%d.test", i);
        assert_non_null(bindings_find(b, slice_str(host)));
    }
    assert_null(bindings_find(b, SLICE("h2000.test")));
    bindings_free(b);
    /* more than a message holds: said at the start, not in the middle of a run */
    for (int i = 2000; i < 4090; i++)
        buf_printf(&many,
                   "credential c%d\n for https://a-rather-long-name-of-a-host-%d.test\n from env "
                   "EXEAT_TEST_A\n inject bearer\n",
                   i, i);
    struct vault *v = vault_of(NULL, buf_cstr(&many));
    struct keeper *k;
    assert_int_equal(keeper_new(v, mint, s, &k, NULL), ERR_LIMIT);
    vault_free(v);
    buf_release(&many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_lending),       TEST(test_revoke),
        TEST(test_minting),       TEST(test_numbers),
        TEST(test_send_fails),    TEST(test_malformed_answers),
        TEST(test_table),         TEST(test_malformed_questions),
        TEST(test_no_vault),      TEST(test_bindings),
        TEST(test_leases),        TEST(test_queries),
        TEST(test_many_bindings),
    };
    return cmocka_run_group_tests_name("vault_keeper", tests, NULL, NULL);
}
