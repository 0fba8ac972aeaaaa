/* vault/marks, with the keeper's and the worker's side: whatever a secret of the vault's is written into is told by its marks,
 * and nothing else is; whoever has the marks has no secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include <openssl/evp.h>

#include "proxy/codec/watch.h"
#include "tests/unit/keeper_support.h"
#include "tests/unit/chance.h"

static const char text[] =
    "credential one\n  for https://a.test\n  from env EXEAT_TEST_1\n  inject bearer\n"
    "credential two\n  for https://b.test\n  from env EXEAT_TEST_2\n  inject basic u\n"
    "credential short\n  for https://b.test\n  from env EXEAT_TEST_3\n  inject bearer\n"
    "credential simple\n  for https://b.test\n  from env EXEAT_TEST_4\n  inject bearer\n";

#define ONE "SECRET-1-q8Zk2Lw9Xv3Nm7Rt"
#define TWO "SECRET-2\xff\xfe\xfb\xef\xbe~~~?>?>?>" /* in base64 with '+' and '/' */

struct told {
    struct state s; /* first: as keeper_support.h has it */
    struct marks_told marks;
    struct watch_table *table;
};

static void receive(struct state *s, struct marks_told *marks) {
    struct msg_out out;
    struct msg_in in;
    do {
        struct errmsg msg = {""};
        assert_int_equal(vault_ask_marks(s->client, marks->n), 0);
        if (handle(s, KEEPER_WORKER, s->sent, s->sent_n, &out, &msg))
            fail_msg("%s", msg.text);
        assert_int_equal(msg_parse(&in, out.p, out.n), 0);
        assert_int_equal(in.type, VAULT_MARKS);
        for (size_t i = 0; i + 4 <= out.n; i++) /* no four bytes of a secret are in it */
            assert_null(memmem(ONE, sizeof ONE - 1, out.p + i, 4));
        assert_int_equal(marks_get(&in, marks), 0);
    } while (marks->n < marks->total);
}

static int begin(void **state) {
    struct told *t = calloc(1, sizeof *t);
    setenv("EXEAT_TEST_1", ONE, 1);
    setenv("EXEAT_TEST_2", TWO, 1);
    setenv("EXEAT_TEST_3", "SECRET-3", 1);
    setenv("EXEAT_TEST_4", "aaaabbbbaaaabbbbaaaabbbb", 1);
    t->s.vault = open_vault(NULL, text);
    assert_int_equal(keeper_new(t->s.vault, mint, &t->s, &t->s.keeper, NULL), 0);
    assert_int_equal(vault_client_new(send_question, &t->s, &t->s.client), 0);
    receive(&t->s, &t->marks);
    assert_int_equal(watch_table_new(&t->marks.key, t->marks.list, t->marks.n, &t->table), 0);
    grant(&t->s, 7, NULL, 0); /* nothing is lent to it */
    *state = t;
    return 0;
}

static int end(void **state) {
    struct told *t = *state;
    watch_table_free(t->table);
    marks_told_release(&t->marks);
    return tear_down(state);
}

struct spotted {
    struct vault_request r; /* first */
    int told, err;
    char credential[VAULT_NAME_MAX + 1];
    enum marks_form form;
};

static void on_spotted(struct vault_request *r, struct vault_answer *answer) {
    struct spotted *a = (struct spotted *)r;
    a->told++;
    a->err = answer->err;
    a->form = answer->form;
    copy(a->credential, answer->credential);
}

static void spot(struct state *s, uint64_t sandbox, uint32_t mark, struct slice digest, struct spotted *a) {
    *a = (struct spotted){.r = {.done = on_spotted}};
    assert_int_equal(vault_ask_spot(s->client, &a->r, sandbox, mark, digest), 0);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a->told, 1);
}

/* Whose secret is in these bytes? NULL: nobody's. */
static const char *whose(struct told *t, struct slice bytes, enum marks_form *form) {
    static struct spotted a;
    struct watch w;
    const char *name = NULL;
    assert_int_equal(watch_init(&w, t->table, NULL), 0);
    assert_int_equal(watch_whole(&w, bytes), 0);
    for (size_t i = 0; i < w.nhits && !name; i++) {
        spot(&t->s, 7, w.hits[i].mark, slice_make((const char *)w.hits[i].digest, WATCH_DIGEST_SIZE), &a);
        if (a.err == 0)
            name = a.credential;
        else
            assert_int_equal(a.err, ERR_NOTFOUND);
    }
    *form = a.form;
    watch_release(&w);
    return name;
}

/* Within `before` and `behind` bytes of something else, plain (0), in base64 (1), in that for URLs (2). */
static struct slice write_in(const char *secret, size_t before, size_t behind, int how) {
    static char plain[200], coded[300];
    size_t n = strlen(secret);
    for (size_t i = 0; i < before + n + behind; i++)
        plain[i] = (char)(chance(255) + 1);
    memcpy(plain + before, secret, n);
    n += before + behind;
    if (how == 0)
        return slice_make(plain, n);
    int digits = EVP_EncodeBlock((unsigned char *)coded, (unsigned char *)plain, (int)n);
    for (int i = 0; how == 2 && i < digits; i++)
        coded[i] = coded[i] == '+' ? '-' : coded[i] == '/' ? '_' : coded[i];
    return slice_make(coded, (size_t)digits);
}

static void test_found_in_everything(void **state) {
    struct told *t = *state;
    static const char *const secrets[] = {ONE, TWO}, *const names[] = {"one", "two"};
    for (int round = 0; round < 1200; round++) {
        int which = round % 2, how = round / 2 % 3;
        enum marks_form form;
        struct slice bytes = write_in(secrets[which], (size_t)(round / 6 % 20), (size_t)(round / 120), how);
        const char *name = whose(t, bytes, &form);
        if (!name || strcmp(name, names[which]))
            fail_msg("%s, %d: %s", secrets[which], how, name ? name : "not found");
        assert_int_equal(form, how ? MARKS_BASE64 : MARKS_PLAIN);
    }
}

static void test_nothing_else(void **state) {
    struct told *t = *state;
    enum marks_form form;
    char other[] = ONE;
    for (size_t i = 0; i < sizeof other - 1; i++) {
        other[i] ^= 4;
        assert_null(whose(t, slice_str(other), &form));
        assert_null(whose(t, write_in(other, i, 3, 1), &form));
        other[i] ^= 4;
    }
    assert_null(whose(t, SLICE("SECRET-3 aaaabbbbaaaabbbbaaaabbbb"), &form));
    assert_true(vault_watched(t->s.vault, 0) && vault_watched(t->s.vault, 1));
    assert_false(vault_watched(t->s.vault, 2) || vault_watched(t->s.vault, 3));
}

/* Who guesses has a thousand tries, and a sandbox that is not there has none. */
static void test_guessing(void **state) {
    struct told *t = *state;
    struct spotted a;
    uint8_t digest[WATCH_DIGEST_SIZE] = {0};
    struct slice wrong = slice_make((const char *)digest, sizeof digest);
    spot(&t->s, 8, 0, wrong, &a);
    assert_int_equal(a.err, ERR_DENIED);
    spot(&t->s, 7, 1u << 30, wrong, &a);
    assert_int_equal(a.err, ERR_NOTFOUND);
    spot(&t->s, 7, 0, SLICE(""), &a);
    assert_int_equal(a.err, ERR_NOTFOUND);
    for (unsigned i = 2; i < VAULT_MISSES_MAX; i++) {
        spot(&t->s, 7, i % 8, wrong, &a);
        assert_int_equal(a.err, ERR_NOTFOUND);
    }
    grant(&t->s, 7, NULL, 0); /* gives no new tries */
    assert_int_equal(watch_digest(&t->marks.key, SLICE(ONE), digest), 0);
    spot(&t->s, 7, 0, wrong, &a);
    assert_int_equal(a.err, ERR_LIMIT);
    grant(&t->s, 9, NULL, 0);
    spot(&t->s, 9, 0, wrong, &a);
    assert_int_equal(a.err, 0);
    assert_string_equal(a.credential, "one");
}

/* Any byte of the messages changed, any cut: no more than an error. */
static void test_malformed(void **state) {
    struct told *t = *state;
    struct state *s = &t->s;
    struct msg_out out;
    struct msg_in in;
    struct errmsg msg;
    assert_int_equal(vault_ask_marks(s->client, 0), 0);
    for (size_t n = 4; n < s->sent_n; n++)
        assert_int_equal(handle(s, KEEPER_WORKER, s->sent, n, &out, &msg), ERR_PEER);
    assert_int_equal(handle(s, KEEPER_SUPERVISOR, s->sent, s->sent_n, &out, &msg), ERR_PEER);
    assert_int_equal(handle(s, KEEPER_WORKER, s->sent, s->sent_n, &out, &msg), 0);
    uint8_t *bytes = out.p;
    for (size_t i = 4; i < out.n; i++) {
        struct marks_told marks = {.n = 0};
        assert_int_equal(msg_parse(&in, bytes, i), 0);
        assert_true(marks_get(&in, &marks) < 0);
        marks_told_release(&marks);
        bytes[i] ^= 0x80;
        marks = (struct marks_told){.n = 0};
        assert_int_equal(msg_parse(&in, bytes, out.n), 0);
        if (marks_get(&in, &marks) == 0) {
            struct watch_table *table;
            struct watch w;
            assert_int_equal(watch_table_new(&marks.key, marks.list, marks.n, &table), 0);
            assert_int_equal(watch_init(&w, table, NULL), 0);
            assert_int_equal(watch_whole(&w, slice_make((const char *)bytes, out.n)), 0);
            watch_release(&w);
            watch_table_free(table);
        }
        marks_told_release(&marks);
        bytes[i] ^= 0x80;
    }
}

/* More than one message holds; and a vault without secrets. */
static void test_many(void **state) {
    (void)state;
    struct state s = {0};
    struct marks_told marks = {.n = 0};
    struct buf credentials;
    buf_init(&credentials, 1 << 20);
    setenv("EXEAT_TEST_1", ONE, 1);
    for (int i = 0; i < 900; i++)
        buf_printf(&credentials,
                   "credential c%d\n  for https://a.test\n  from env EXEAT_TEST_1\n  inject bearer\n", i);
    s.vault = open_vault(NULL, buf_cstr(&credentials));
    assert_int_equal(keeper_new(s.vault, mint, &s, &s.keeper, NULL), 0);
    assert_int_equal(vault_client_new(send_question, &s, &s.client), 0);
    receive(&s, &marks);
    assert_true(marks.total >= 900 * 5);
    assert_int_equal(marks.n, marks.total);
    marks_told_release(&marks);
    keeper_free(s.keeper);
    assert_int_equal(keeper_new(NULL, mint, &s, &s.keeper, NULL), 0);
    receive(&s, &marks);
    assert_int_equal(marks.total, 0);
    marks_told_release(&marks);
    vault_client_free(s.client);
    keeper_free(s.keeper);
    vault_free(s.vault);
    buf_release(&credentials);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found_in_everything, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_else, begin, end),
        cmocka_unit_test_setup_teardown(test_guessing, begin, end),
        cmocka_unit_test_setup_teardown(test_malformed, begin, end),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
