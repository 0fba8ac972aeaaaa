/*
 * The keeper against a worker that was taken over: any messages, in any order. Then the worker's side against
 * the same bytes, as if the keeper had sent them.
 *
 * The input is a row of messages, each behind two bytes of length (little-endian). What is held to here
 * beside "no crash": nothing but a rendered credential carries the secret, and that one only what sandbox 1
 * was granted, to where it is bound.
 */
#include <stdlib.h>
#include <string.h>

#include "vault/bindings.h"
#include "vault/client.h"
#include "vault/keeper.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "credential a\n for https://a.test/x/** http://b.test:8080\n from env EXEAT_FUZZ\n"
                           " inject basic u for https://a.test\n inject header X-Key\n remove Cookie\n"
                           "credential b\n for https://c.test\n from env EXEAT_FUZZ_B\n inject bearer\n";

static struct vault *vault;
static struct keeper *keeper;

static int mint(void *arg, struct slice name, struct slice spki, struct buf *der, struct errmsg *msg) {
    (void)arg;
    if (name.n > 253 || spki.n > 1024)
        return errmsg_set(msg, ERR_PARSE, "too long");
    return buf_printf(der, "%.*s", SLICE_ARG(name));
}

static void check(bool ok) {
    if (!ok)
        abort();
}

static void set_up(void) {
    static const char *const granted[] = {"a"};
    static char answer[MSG_MAX];
    char memory[256];
    struct buf diags;
    struct msg_out m, out;
    struct msg_in in;
    buf_init(&diags, 65536);
    setenv("EXEAT_FUZZ", "SECRET-FUZZ", 1);
    setenv("EXEAT_FUZZ_B", "SECRET-FUZZ-that-is-looked-for", 1);
    check(vault_parse("fuzz", "", slice_str(text), &vault, &diags) == 0);
    check(vault_resolve(vault, 1000, &diags) == 0);
    check(keeper_new(vault, mint, NULL, &keeper, NULL) == 0);
    vault_put_grant(&m, memory, sizeof memory, 1, granted, 1);
    check(msg_parse(&in, m.p, m.n) == 0);
    check(keeper_handle(keeper, KEEPER_SUPERVISOR, &in, &out, answer, sizeof answer, NULL) == 0);
    buf_release(&diags);
}

static bool holds(const void *bytes, size_t n, const char *word) {
    return n && memmem(bytes, n, word, strlen(word)) != NULL;
}

/* Of a question that was answered with a secret: it was for credential a, from sandbox 1, to a place it is
 * bound to. */
static void check_question(const uint8_t *bytes, size_t n) {
    struct msg_in in;
    check(msg_parse(&in, bytes, n) == 0 && in.type == VAULT_RENDER);
    (void)msg_get_u32(&in);
    check(msg_get_u64(&in) == 1);
    check(slice_eq(msg_get_slice(&in), SLICE("a")));
    bool https = msg_get_u8(&in);
    struct slice host = msg_get_slice(&in);
    uint16_t port = msg_get_u16(&in);
    check((https && slice_eq(host, SLICE("a.test")) && port == 443 &&
           slice_starts(msg_get_slice(&in), SLICE("/x/"))) ||
          (!https && slice_eq(host, SLICE("b.test")) && port == 8080));
}

static void worker_says(const uint8_t *bytes, size_t n) {
    static char answer[MSG_MAX];
    struct errmsg msg = {""};
    struct msg_in in;
    struct msg_out out;
    if (msg_parse(&in, bytes, n))
        return;
    int r = keeper_handle(keeper, KEEPER_WORKER, &in, &out, answer, sizeof answer, &msg);
    check(r == 0 ? out.n > 0 : out.n == 0 && msg.text[0]);
    check(!holds(msg.text, strlen(msg.text), "SECRET-FUZZ"));
    /* "u:SECRET-FUZZ" in base64, or as it is: unless the question held it already, it is the secret */
    if ((holds(out.p, out.n, "dTpTRUNSRVQtRlVaWg==") && !holds(bytes, n, "dTpTRUNSRVQtRlVaWg==")) ||
        (holds(out.p, out.n, "SECRET-FUZZ") && !holds(bytes, n, "SECRET-FUZZ")))
        check_question(bytes, n);
    keeper_wipe(&out);
}

static void on_done(struct vault_request *r, struct vault_answer *answer) {
    (void)answer;
    ++*(int *)r->arg;
}

static int swallow(void *arg, const struct msg_out *m) {
    (void)arg;
    (void)m;
    return 0;
}

/* The same bytes as an answer, to a worker that waits for two. */
static void keeper_says(const uint8_t *bytes, size_t n) {
    struct vault_client *client;
    struct bindings *bindings = NULL;
    struct vault_origin o = {URL_HTTPS, SLICE("a.test"), 443};
    struct msg_in in;
    int told = 0;
    struct vault_request mint_one = {.done = on_done, .arg = &told}, render_one = mint_one,
                         keep_one = mint_one, recall_one = mint_one, spot_one = mint_one;
    struct vault_keep keep = {.seconds = 1};
    size_t taken;
    if (msg_parse(&in, bytes, n))
        return;
    if (in.type == VAULT_BINDINGS) {
        if (bindings_get(&in, &bindings) == 0) {
            (void)bindings_find(bindings, SLICE("a.test"));
            bindings_free(bindings);
        }
        return;
    }
    if (in.type == VAULT_MARKS) {
        struct marks_told marks = {.n = 0};
        int r = marks_get(&in, &marks);
        (void)r; /* what came before the fault is released as well */
        marks_told_release(&marks);
        return;
    }
    check(vault_client_new(swallow, NULL, &client) == 0);
    check(vault_ask_spot(client, &spot_one, 1, 0, SLICE("digest")) == 0);
    check(vault_ask_mint(client, &mint_one, SLICE("a.test"), SLICE("k")) == 0);
    check(vault_ask_render(client, &render_one, 1, SLICE("a"), &o, SLICE("/")) == 0);
    check(vault_ask_keep(client, &keep_one, 1, &keep, 1, &taken) == 0 && taken == 1);
    check(vault_ask_recall(client, &recall_one, 1, SLICE("k")) == 0);
    uint8_t *own = malloc(n); /* the client wipes what may have held a secret */
    memcpy(own, bytes, n);
    check(msg_parse(&in, own, n) == 0);
    check(vault_client_feed(client, &in) == 0 ? told <= 1 : told == 0);
    free(own);
    vault_client_free(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!keeper)
        set_up();
    while (size >= 2) {
        size_t n = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (n > size)
            n = size;
        worker_says(data, n);
        keeper_says(data, n);
        data += n;
        size -= n;
    }
    return 0;
}
