#include "vault/keeper.h"

#include <stdlib.h>

#include "base/clock.h"
#include "vault/bindings.h"
#include "vault/internal.h"
#include "vault/kept.h"

#define GRANT_BUCKETS 1024 /* a power of two */

#define WHY_MAX 512 /* bytes of a refusal's reason in a message */

/* What one sandbox may be lent. The names lie behind it, each ended by NUL. */
struct grant {
    struct grant *next;
    uint64_t sandbox;
    struct kept kept;
    struct misses {
        uint32_t n;
        uint64_t since_ms;
    } misses; /* of on_spot */
    size_t n;
    char names[];
};

struct keeper {
    const struct vault *vault;
    keeper_mint *mint;
    void *arg;
    struct buf der;
    size_t sandboxes;
    struct grant *grants[GRANT_BUCKETS];
};

/* --- grants --------------------------------------------------------------------------------------------- */

static struct grant **grant_place(struct keeper *k, uint64_t sandbox) {
    struct grant **p = &k->grants[(sandbox * 0x9e3779b97f4a7c15u >> 40) & (GRANT_BUCKETS - 1)];
    while (*p && (*p)->sandbox != sandbox)
        p = &(*p)->next;
    return p;
}

static void grant_remove(struct keeper *k, uint64_t sandbox) {
    struct grant **p = grant_place(k, sandbox), *g = *p;
    if (!g)
        return;
    *p = g->next;
    kept_release(&g->kept);
    free(g);
    k->sandboxes--;
}

static bool granted(struct keeper *k, uint64_t sandbox, struct slice credential) {
    const struct grant *g = *grant_place(k, sandbox);
    const char *name = g ? g->names : NULL;
    for (size_t i = 0; g && i < g->n; i++, name += strlen(name) + 1)
        if (slice_eq(slice_str(name), credential))
            return true;
    return false;
}

static int on_grant(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    (void)out;
    uint64_t sandbox = msg_get_u64(in);
    uint32_t n = msg_get_u32(in);
    if (in->err || n > VAULT_GRANT_MAX)
        return errmsg_set(msg, ERR_PEER, "malformed grant");
    struct grant *g = calloc(1, sizeof *g + in->n);
    if (!g)
        return errmsg_set(msg, ERR_NOMEM, "no memory for a grant");
    char *at = g->names;
    for (g->sandbox = sandbox; g->n < n; g->n++) {
        struct slice name = msg_get_slice(in);
        if (in->err || name.n == 0 || name.n > VAULT_NAME_MAX || memchr(name.p, 0, name.n))
            break;
        memcpy(at, name.p, name.n); /* and its NUL: the message spent four bytes on the length */
        at += name.n + 1;
    }
    struct grant *before = *grant_place(k, sandbox);
    if (before) {
        g->kept = before->kept;
        g->misses = before->misses;
        before->kept = (struct kept){.first = NULL};
    }
    grant_remove(k, sandbox);
    if (g->n < n || msg_end(in) || k->sandboxes >= VAULT_SANDBOX_MAX) {
        kept_release(&g->kept);
        free(g);
        return errmsg_set(msg, ERR_PEER, "malformed grant, or too many sandboxes");
    }
    struct grant **place = grant_place(k, sandbox);
    *place = g;
    k->sandboxes++;
    return 0;
}

static int on_revoke(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    (void)out;
    uint64_t sandbox = msg_get_u64(in);
    if (msg_end(in))
        return errmsg_set(msg, ERR_PEER, "malformed revocation");
    grant_remove(k, sandbox);
    return 0;
}

/* --- requests of workers -------------------------------------------------------------------------------- */

static void put_refusal(struct msg_out *out, uint32_t number, int err, const struct errmsg *why) {
    msg_put_u32(out, number);
    msg_put_u8(out, 0);
    msg_put_u8(out, (uint8_t)-err);
    msg_put_slice(out, slice_sub(slice_str(why->text), 0, WHY_MAX));
}

static int on_mint(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    struct errmsg why = {""};
    uint32_t number = msg_get_u32(in);
    struct slice name = msg_get_slice(in);
    struct slice spki = msg_get_slice(in);
    if (msg_end(in))
        return errmsg_set(msg, ERR_PEER, "malformed question for a certificate");
    buf_clear(&k->der);
    int r = k->mint(k->arg, name, spki, &k->der, &why);
    if (r) {
        put_refusal(out, number, r, &why);
        return 0;
    }
    msg_put_u32(out, number);
    msg_put_u8(out, 1);
    msg_put_slice(out, buf_slice(&k->der));
    return 0;
}

static int on_render(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    struct errmsg why = {""};
    struct vault_origin origin;
    uint32_t number = msg_get_u32(in);
    uint64_t sandbox = msg_get_u64(in);
    struct slice name = msg_get_slice(in);
    uint8_t scheme = msg_get_u8(in);
    origin.scheme = scheme ? URL_HTTPS : URL_HTTP;
    origin.host = msg_get_slice(in);
    origin.port = msg_get_u16(in);
    struct slice path = msg_get_slice(in);
    if (msg_end(in) || scheme > 1 || name.n > VAULT_NAME_MAX || origin.host.n > URL_HOST_MAX)
        return errmsg_set(msg, ERR_PEER, "malformed question for a credential");
    int r = 0;
    const struct form *f = NULL;
    if (granted(k, sandbox, name))
        f = vault_form(k->vault, name, &origin, path, &r, &why);
    else
        r = errmsg_set(&why, ERR_DENIED, "credential '%.*s' is not granted to this sandbox", SLICE_ARG(name));
    if (f && f->value.n == 0)
        r = errmsg_set(&why, ERR_INTERNAL, "the vault has not been opened");
    if (r) {
        put_refusal(out, number, r, &why);
        return 0;
    }
    msg_put_u32(out, number);
    msg_put_u8(out, 1);
    msg_put_str(out, f->header);
    msg_put_slice(out, secret_slice(&f->value));
    msg_put_u32(out, vault_any_path(k->vault, name, &origin) ? VAULT_LEASE_MS : 0);
    return 0;
}

static int on_bindings(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    if (msg_end(in))
        return errmsg_set(msg, ERR_PEER, "malformed question for bindings");
    int r = bindings_put(k->vault, out);
    return r ? errmsg_set(msg, r, "bindings: %s", err_text(r)) : 0;
}

/* Of a sandbox that is there: nothing is kept for one that the supervisor has not spoken of. */
static struct kept *kept_of(struct keeper *k, uint64_t sandbox, struct errmsg *why) {
    struct grant *g = *grant_place(k, sandbox);
    if (!g)
        errmsg_set(why, ERR_DENIED, "there is no such sandbox");
    return g ? &g->kept : NULL;
}

static int on_keep(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    struct errmsg why = {""};
    uint32_t number = msg_get_u32(in);
    uint64_t sandbox = msg_get_u64(in);
    uint32_t n = msg_get_u32(in);
    struct kept *kept = kept_of(k, sandbox, &why);
    uint64_t now = clock_monotonic_ms();
    int r = kept ? 0 : ERR_DENIED;
    for (uint32_t i = 0; i < n && !in->err; i++) {
        struct slice key = msg_get_slice(in);
        uint32_t seconds = msg_get_u32(in);
        struct slice value = msg_get_slice(in);
        if (r == 0 && !in->err && (r = kept_put(kept, key, value, seconds, now)))
            errmsg_set(&why, r, "can't be kept: %s", err_text(r));
    }
    if (msg_end(in))
        return errmsg_set(msg, ERR_PEER, "malformed order to keep something");
    if (r) {
        put_refusal(out, number, r, &why);
        return 0;
    }
    msg_put_u32(out, number);
    msg_put_u8(out, 1);
    return 0;
}

static int on_recall(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    struct errmsg why = {""};
    uint32_t number = msg_get_u32(in);
    uint64_t sandbox = msg_get_u64(in);
    struct slice key = msg_get_slice(in);
    if (msg_end(in))
        return errmsg_set(msg, ERR_PEER, "malformed question for what is kept");
    struct kept *kept = kept_of(k, sandbox, &why);
    struct slice value = kept ? kept_find(kept, key, clock_monotonic_ms()) : SLICE_NONE;
    if (!value.p) {
        if (kept)
            errmsg_set(&why, ERR_NOTFOUND, "nothing is kept for this request, or its time is over");
        put_refusal(out, number, kept ? ERR_NOTFOUND : ERR_DENIED, &why);
        return 0;
    }
    msg_put_u32(out, number);
    msg_put_u8(out, 1);
    msg_put_slice(out, value);
    return 0;
}

static int on_ask_marks(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    uint32_t from = msg_get_u32(in);
    if (msg_end(in))
        return errmsg_set(msg, ERR_PEER, "malformed question for marks");
    marks_put(k->vault ? k->vault->marks : NULL, from, out);
    return 0;
}

/* May the sandbox's worker be told? */
static bool may_miss(struct misses *misses, uint64_t now) {
    if (misses->n && now - misses->since_ms > VAULT_MISSES_MS)
        misses->n = 0;
    if (misses->n == 0)
        misses->since_ms = now;
    return misses->n < VAULT_MISSES_MAX;
}

static int on_spot(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg) {
    struct errmsg why = {""};
    uint32_t number = msg_get_u32(in);
    uint64_t sandbox = msg_get_u64(in);
    uint32_t mark = msg_get_u32(in), credential = 0;
    struct slice digest = msg_get_slice(in);
    enum marks_form form = MARKS_PLAIN;
    if (msg_end(in))
        return errmsg_set(msg, ERR_PEER, "malformed question about a mark");
    struct grant *g = *grant_place(k, sandbox);
    int r = 0;
    if (!g)
        r = errmsg_set(&why, ERR_DENIED, "there is no such sandbox");
    else if (!may_miss(&g->misses, clock_monotonic_ms()))
        r = errmsg_set(&why, ERR_LIMIT, "too much looked like a secret in the last hour and was none");
    else if (!k->vault || !marks_confirm(k->vault->marks, mark, digest, &credential, &form))
        r = errmsg_set(&why, ERR_NOTFOUND, "it is something else");
    if (r) {
        if (r == ERR_NOTFOUND)
            g->misses.n++;
        put_refusal(out, number, r, &why);
        return 0;
    }
    msg_put_u32(out, number);
    msg_put_u8(out, 1);
    msg_put_u8(out, (uint8_t)form);
    msg_put_str(out, k->vault->list[credential].name);
    return 0;
}

/* --- the table ------------------------------------------------------------------------------------------ */

/* All that a keeper does. What is not here it does not do, whoever asks. */
static const struct request {
    uint16_t type, answer; /* answer 0: none */
    enum keeper_peer peer;
    int (*handle)(struct keeper *k, struct msg_in *in, struct msg_out *out, struct errmsg *msg);
} requests[] = {
    {VAULT_GRANT, 0, KEEPER_SUPERVISOR, on_grant},
    {VAULT_REVOKE, 0, KEEPER_SUPERVISOR, on_revoke},
    {VAULT_MINT, VAULT_MINTED, KEEPER_WORKER, on_mint},
    {VAULT_RENDER, VAULT_RENDERED, KEEPER_WORKER, on_render},
    {VAULT_ASK_BINDINGS, VAULT_BINDINGS, KEEPER_WORKER, on_bindings},
    {VAULT_KEEP, VAULT_KEPT, KEEPER_WORKER, on_keep},
    {VAULT_RECALL, VAULT_RECALLED, KEEPER_WORKER, on_recall},
    {VAULT_ASK_MARKS, VAULT_MARKS, KEEPER_WORKER, on_ask_marks},
    {VAULT_SPOT, VAULT_SPOTTED, KEEPER_WORKER, on_spot},
};

int keeper_handle(struct keeper *k, enum keeper_peer peer, struct msg_in *in, struct msg_out *out,
                  void *memory, size_t cap, struct errmsg *msg) {
    const struct request *row = NULL;
    *out = (struct msg_out){0};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (requests[i].type == in->type && requests[i].peer == peer)
            row = &requests[i];
    int r;
    if (!row || in->nfds) {
        r = errmsg_set(msg, ERR_PEER, "a %s sent message %#x, which it may not",
                       peer == KEEPER_WORKER ? "worker" : "supervisor", (unsigned)in->type);
    } else {
        if (row->answer)
            msg_begin(out, memory, cap, row->answer);
        r = row->handle(k, in, out, msg);
        if (r == 0 && row->answer && out->err)
            r = errmsg_set(msg, out->err, "an answer is too long");
    }
    msg_close_fds(in);
    if (r) {
        keeper_wipe(out);
        *out = (struct msg_out){0};
    }
    return r;
}

void keeper_wipe(struct msg_out *out) {
    secret_wipe(out->p, out->n);
    out->n = 0;
}

/* --- life ----------------------------------------------------------------------------------------------- */

int keeper_new(const struct vault *vault, keeper_mint *mint, void *arg, struct keeper **out,
               struct errmsg *msg) {
    struct msg_out m;
    *out = NULL;
    struct keeper *k = calloc(1, sizeof *k);
    void *memory = malloc(MSG_MAX);
    int r = k && memory ? 0 : errmsg_set(msg, ERR_NOMEM, "out of memory");
    if (r == 0) {
        k->vault = vault;
        k->mint = mint;
        k->arg = arg;
        buf_init(&k->der, MSG_MAX / 2);
        msg_begin(&m, memory, MSG_MAX, VAULT_BINDINGS);
        if ((r = bindings_put(vault, &m)))
            errmsg_set(msg, r, "the vault names more hosts than can be told to a worker");
    }
    free(memory);
    if (r)
        keeper_free(k);
    else
        *out = k;
    return r;
}

void keeper_free(struct keeper *k) {
    if (!k)
        return;
    for (size_t i = 0; i < GRANT_BUCKETS; i++)
        while (k->grants[i])
            grant_remove(k, k->grants[i]->sandbox);
    buf_release(&k->der);
    free(k);
}
