/* For tests of the keeper: its table and the worker's side, back to back. */
#ifndef TESTS_UNIT_KEEPER_SUPPORT_H
#define TESTS_UNIT_KEEPER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/vault_support.h"
#include "vault/client.h"
#include "vault/keeper.h"

static const char vault_text[] = "credential github\n"
                                 "  for https://github.com https://api.github.com\n"
                                 "  from env EXEAT_TEST_A\n"
                                 "  inject basic x-access-token for https://github.com\n"
                                 "  inject bearer\n"
                                 "credential other\n"
                                 "  for https://github.com https://[2001:db8::1]:8443\n"
                                 "  from env EXEAT_TEST_B\n"
                                 "  inject header X-Other_Key\n"
                                 "  remove Cookie\n"
                                 "credential paths\n"
                                 "  for https://github.com https://api.github.com/repos/**\n"
                                 "  from env EXEAT_TEST_B\n"
                                 "  inject bearer\n";

struct state {
    struct vault *vault;
    struct keeper *keeper;
    struct vault_client *client;
    char sent[MSG_MAX], answer[MSG_MAX];
    size_t sent_n;
    int send_fails, mint_fails;
};

static inline int mint(void *arg, struct slice name, struct slice spki, struct buf *der, struct errmsg *msg) {
    struct state *s = arg;
    if (s->mint_fails)
        return errmsg_set(msg, s->mint_fails, "no leaf for %.*s", SLICE_ARG(name));
    buf_printf(der, "DER of %.*s for %.*s", SLICE_ARG(name), SLICE_ARG(spki));
    return 0;
}

static inline int send_question(void *arg, const struct msg_out *m) {
    struct state *s = arg;
    memcpy(s->sent, m->p, m->n);
    s->sent_n = m->n;
    return s->send_fails;
}

static inline int set_up(void **state) {
    struct state *s = calloc(1, sizeof *s);
    setenv("EXEAT_TEST_A", "SECRET-A", 1);
    setenv("EXEAT_TEST_B", "SECRET-B", 1);
    s->vault = open_vault(NULL, vault_text);
    assert_int_equal(keeper_new(s->vault, mint, s, &s->keeper, NULL), 0);
    assert_int_equal(vault_client_new(send_question, s, &s->client), 0);
    *state = s;
    return 0;
}

static inline int tear_down(void **state) {
    struct state *s = *state;
    vault_client_free(s->client);
    keeper_free(s->keeper);
    vault_free(s->vault);
    free(s);
    return 0;
}

static inline int handle(struct state *s, enum keeper_peer peer, const void *bytes, size_t n,
                         struct msg_out *out, struct errmsg *msg) {
    struct msg_in in;
    int r = msg_parse(&in, bytes, n);
    return r ? r : keeper_handle(s->keeper, peer, &in, out, s->answer, sizeof s->answer, msg);
}

static inline void grant(struct state *s, uint64_t sandbox, const char *const *names, size_t n) {
    char memory[4096];
    struct msg_out m, out;
    struct errmsg msg = {""};
    vault_put_grant(&m, memory, sizeof memory, sandbox, names, n);
    assert_int_equal(m.err, 0);
    if (handle(s, KEEPER_SUPERVISOR, m.p, m.n, &out, &msg))
        fail_msg("%s", msg.text);
    assert_int_equal(out.n, 0);
}

/* Takes the last question to the keeper and its answer back. */
static inline int deliver(struct state *s) {
    struct msg_out out;
    struct msg_in in;
    struct errmsg msg = {""};
    if (handle(s, KEEPER_WORKER, s->sent, s->sent_n, &out, &msg))
        fail_msg("%s", msg.text);
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    return vault_client_feed(s->client, &in);
}

struct asked {
    struct vault_request r; /* first */
    int told, err;
    char why[600], der[200], header[200];
    struct secret value;
};

static inline void copy(char *to, struct slice s) {
    memcpy(to, s.p ? s.p : "", s.n);
    to[s.n] = 0;
}

static inline void on_done(struct vault_request *r, struct vault_answer *answer) {
    struct asked *a = (struct asked *)r;
    a->told++;
    a->err = answer->err;
    copy(a->why, answer->why);
    copy(a->der, answer->der);
    copy(a->header, answer->header);
    a->value = answer->value;
    answer->value = (struct secret){0};
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
