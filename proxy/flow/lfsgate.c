#include "proxy/flow/lfsgate.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "proxy/codec/lfs.h"
#include "proxy/flow/bodygate.h"
#include "proxy/flow/internal.h"
#include "proxy/flow/putgate.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"
#include "vault/kept.h"

#define LFSGATE_KEEPS_MAX   KEPT_MAX
#define LFSGATE_SECONDS     3600 /* for what does not say when it ends */
#define LFSGATE_SECONDS_MIN 60   /* clocks differ */

_Static_assert(LFSGATE_FIELDS_MAX == LFS_FIELDS_MAX + 1, "those of an action, and Accept-Encoding");

struct lfsgate {
    struct vault_request ask;

    /* of a transfer */
    struct secret kept; /* name LF value LF … */
    uint32_t nfields;

    /* of a batch's answer */
    char *answer; /* wiped whenever it moves or goes */
    size_t n, cap;
    struct vault_keep *keeps;
    size_t nkeeps, room, sent;
    struct buf out;
};

static struct lfsgate *gate_of(struct xchg *x) {
    if (!x->lfs && (x->lfs = calloc(1, sizeof *x->lfs)))
        buf_init(&x->lfs->out, LFS_ANSWER_MAX);
    return x->lfs;
}

static void gate_forget_answer(struct xchg *x) {
    struct lfsgate *gate = x->lfs;
    x->box->held -= gate->n;
    if (gate->answer)
        secret_wipe(gate->answer, gate->cap);
    free(gate->answer);
    gate->answer = NULL;
    gate->n = gate->cap = 0;
}

static void gate_forget_keeps(struct lfsgate *gate) {
    for (size_t i = 0; i < gate->nkeeps; i++)
        secret_release(&gate->keeps[i].value);
    free(gate->keeps);
    gate->keeps = NULL;
    gate->nkeeps = gate->room = gate->sent = 0;
}

void lfsgate_end(struct xchg *x) {
    struct lfsgate *gate = x->lfs;
    if (!gate)
        return;
    bool held = x->answer_phase == ANSWER_HELD || x->answer_phase == ANSWER_HELD_WHOLE;
    if (held && x->up_in.data)
        secret_wipe(x->up_in.data, x->up_in.cap);
    vault_cancel(&gate->ask);
    secret_release(&gate->kept);
    gate_forget_answer(x);
    gate_forget_keeps(gate);
    buf_release(&gate->out);
    free(gate);
    x->lfs = NULL;
}

/* ---- requests ---- */

bool lfsgate_is_batch(const struct xchg *x) {
    if (x->facts.kind != FACTS_HTTP || !slice_eq(x->req.method, SLICE("POST")))
        return false; /* asked of every request, some times: before its fields are looked through */
    const struct http_field *accept = http_find(x->req.fields, x->req.nfields, HTTP_F_ACCEPT, NULL);
    return lfs_is_batch(x->req.method, x->target.path, accept ? accept->value : SLICE_NONE);
}

void lfsgate_record(const struct xchg *x, struct record *r) {
    struct lfs_batch batch;
    if (x->lfs)
        r->lfs.fields = x->lfs->nfields;
    if (!x->judged || !lfsgate_is_batch(x) || x->facts.body_state != FACTS_BODY_WHOLE ||
        !lfs_read(x->facts.body, &batch))
        return;
    r->lfs.batch = true;
    r->lfs.operation = batch.operation;
    r->lfs.objects = batch.objects;
    r->lfs.bytes = batch.bytes;
}

/* The digest of what is kept for a request. */
static bool gate_key(const struct facts *f, char key[KEPT_KEY_SIZE]) {
    struct buf text;
    unsigned n = 0;
    buf_init(&text, 5 * HTTP1_TARGET_MAX);
    buf_printf(&text, "%.*s ", SLICE_ARG(f->method));
    url_put_origin(&text, f->scheme, f->host, f->port);
    buf_put(&text, f->path);
    buf_printf(&text, "?%.*s", SLICE_ARG(f->query));
    bool good = !text.failed && EVP_Digest(text.data + text.start, buf_len(&text), (unsigned char *)key, &n,
                                           EVP_sha256(), NULL) == 1;
    buf_release(&text);
    return good && n == KEPT_KEY_SIZE;
}

static bool gate_brings_stand_in(const struct xchg *x) {
    for (size_t i = 0; i < x->req.nfields; i++) {
        struct slice value = x->req.fields[i].value, word = SLICE(LFS_STAND_IN);
        if (value.n && memmem(value.p, value.n, word.p, word.n))
            return true;
    }
    return false;
}

/* Takes "name LF value LF" off the front. */
static bool gate_next_field(struct slice *rest, struct http_field *f) {
    *f = (struct http_field){.id = HTTP_F_OTHER};
    return rest->n && slice_cut(*rest, '\n', &f->name, rest) && slice_cut(*rest, '\n', &f->value, rest);
}

/* The kept fields stand in for the sandbox's own of those names; and no stand-in goes on. */
static void gate_put_fields(struct xchg *x) {
    struct slice rest = secret_slice(&x->lfs->kept), word = SLICE(LFS_STAND_IN);
    struct http_field f;
    while (gate_next_field(&rest, &f)) {
        x->lfs->nfields++;
        for (size_t i = 0; i < x->req.nfields; i++)
            if (http_name_alike(x->req.fields[i].name, f.name))
                x->req.fields[i].hop = true;
    }
    for (size_t i = 0; i < x->req.nfields; i++)
        if (x->req.fields[i].value.n &&
            memmem(x->req.fields[i].value.p, x->req.fields[i].value.n, word.p, word.n))
            x->req.fields[i].hop = true;
}

static void gate_recalled(struct vault_request *r, struct vault_answer *answer) {
    struct xchg *x = r->arg;
    engine_reap(x->box->engine);
    if (answer->err) {
        char why[512];
        snprintf(why, sizeof why,
                 "the request brings the stand-in for a token of Git LFS, and %.*s: the batch has to be "
                 "asked for again",
                 SLICE_ARG(answer->why));
        refusal_other(x, "lfs-stand-in", slice_str(why));
        return;
    }
    x->lfs->kept = answer->value;
    answer->value = (struct secret){0};
    x->verdict.credential = SLICE_NONE;
    gate_put_fields(x);
    if (putgate_begin(x))
        xchg_permitted(x);
}

static void gate_recall(struct xchg *x) {
    char key[KEPT_KEY_SIZE];
    struct lfsgate *gate = gate_of(x);
    if (!gate || !gate_key(&x->facts, key)) {
        refusal_trouble(x, 503, "no-memory", "out of memory");
        return;
    }
    xchg_enter(x, XCHG_CREDENTIAL);
    gate->ask.done = gate_recalled;
    gate->ask.arg = x;
    if (vault_ask_recall(x->box->engine->config.vault, &gate->ask, x->box->id, slice_make(key, sizeof key)))
        refusal_other(x, "lfs-stand-in", SLICE("the keeper of tokens can't be asked"));
}

bool lfsgate_go(struct xchg *x) {
    if (lfsgate_is_batch(x)) {
        if (x->facts.body_state != FACTS_BODY_WHOLE) {
            refusal_other(x, "lfs-batch",
                          SLICE("a batch of Git LFS this long is not passed on: it can't be read"));
            return true;
        }
        for (size_t i = 0; i < x->req.nfields; i++)
            if (http_name_alike(x->req.fields[i].name, SLICE("Accept-Encoding")))
                x->req.fields[i].hop = true;
    }
    if (!gate_brings_stand_in(x))
        return false;
    gate_recall(x);
    return true;
}

size_t lfsgate_fields(const struct xchg *x, struct http_field list[LFSGATE_FIELDS_MAX]) {
    size_t n = 0;
    if (lfsgate_is_batch(x))
        list[n++] = (struct http_field){.name = SLICE("Accept-Encoding"), .value = SLICE("identity")};
    if (!x->lfs)
        return n;
    struct slice rest = secret_slice(&x->lfs->kept);
    while (n < LFSGATE_FIELDS_MAX && gate_next_field(&rest, &list[n]))
        n++;
    return n;
}

void lfsgate_sent(struct xchg *x) {
    if (x->lfs)
        secret_release(&x->lfs->kept);
}

/* ---- what an answer leads to ---- */

/* Would the transfer be permitted? What a condition hangs on shows when it comes. */
static bool gate_judges(struct xchg *x, const struct facts *f, char *why) {
    struct verdict v;
    struct buf text;
    policy_judge(x->box->policy, f, &v);
    if (slice_eq(f->host, SLICE(INTERNAL_HOST)) ||
        (v.action == VERDICT_DENY && v.reason != REASON_CONDITION && v.reason != REASON_NO_RULES)) {
        buf_init(&text, 8192);
        buf_printf(&text, "exeat: %.*s ", SLICE_ARG(f->method));
        url_put_origin(&text, f->scheme, f->host, f->port);
        buf_printf(&text, "%.*s: ", SLICE_ARG(f->path));
        policy_explain(x->box->policy, f, &v, 1, &text);
        struct buf hint;
        buf_init(&hint, 8192);
        policy_hint(x->box->policy, f, &v, &hint);
        if (buf_len(&hint))
            buf_printf(&text, "; to permit: %.*s", SLICE_ARG(buf_slice(&hint)));
        buf_release(&hint);
        snprintf(why, LFS_WHY_MAX, "%.*s", SLICE_ARG(buf_slice(&text)));
        buf_release(&text);
        return false;
    }
    return true;
}

/* How long to keep it, in seconds. */
static uint32_t gate_seconds(const struct lfs_action *a) {
    int64_t left = a->expires ? INT64_MAX : LFSGATE_SECONDS;
    int64_t now = (int64_t)(clock_wall_ms() / 1000);
    if (a->expires && a->expires_in)
        left = a->expires_in;
    if (a->expires_at && a->expires_at - now < left)
        left = a->expires_at - now;
    if (left < LFSGATE_SECONDS_MIN)
        left = LFSGATE_SECONDS_MIN;
    return left > KEPT_SECONDS_MAX ? KEPT_SECONDS_MAX : (uint32_t)left;
}

static int gate_room(struct lfsgate *gate) {
    struct vault_keep *list = gate->nkeeps < LFSGATE_KEEPS_MAX
                                  ? array_room(gate->keeps, gate->nkeeps, &gate->room, sizeof *list)
                                  : NULL;
    if (!list)
        return ERR_LIMIT;
    gate->keeps = list;
    return 0;
}

/* Notes the fields of one action for the keeper. */
static int gate_keep(struct xchg *x, const struct facts *f, const struct lfs_action *a) {
    struct lfsgate *gate = x->lfs;
    size_t size = 0;
    for (size_t i = 0; i < a->nfields; i++)
        size += a->fields[i].name.n + a->fields[i].value.n + 2;
    if (size > KEPT_VALUE_MAX || gate_room(gate))
        return ERR_LIMIT;
    struct vault_keep *keep = &gate->keeps[gate->nkeeps];
    *keep = (struct vault_keep){.seconds = gate_seconds(a)};
    if (!gate_key(f, keep->key) || secret_reserve(&keep->value, size))
        return ERR_NOMEM;
    for (size_t i = 0; i < a->nfields; i++) {
        const struct slice parts[] = {a->fields[i].name, SLICE("\n"), a->fields[i].value, SLICE("\n")};
        for (size_t k = 0; k < 4; k++) {
            if (parts[k].n)
                memcpy(keep->value.bytes + keep->value.n, parts[k].p, parts[k].n);
            keep->value.n += parts[k].n;
        }
    }
    gate->nkeeps++;
    return 0;
}

static bool gate_permit(void *arg, const struct lfs_action *a, char *why) {
    struct xchg *x = arg;
    struct url_parts parts;
    struct url_host host;
    struct errmsg msg = {""};
    struct buf path;
    struct facts f = {.kind = FACTS_HTTP, .method = a->method};
    bool good = false;
    buf_init(&path, 4 * HTTP1_TARGET_MAX);
    if (a->href.n > HTTP1_TARGET_MAX || url_split(a->href, &parts, &msg) ||
        url_authority_parse(parts.authority, url_default_port(parts.scheme), &host, &f.port, &msg) ||
        url_path_canonical(parts.path, &path, NULL, &msg) || url_query_check(parts.query, &msg)) {
        snprintf(why, LFS_WHY_MAX, "exeat: the server's URL for this object can't be used: %.300s", msg.text);
    } else {
        f.scheme = parts.scheme;
        f.host = url_host_slice(&host);
        f.host_is_address = host.kind != URL_HOST_NAME;
        f.path = buf_slice(&path);
        f.query = parts.query;
        good = gate_judges(x, &f, why);
        bool stands_in = a->nfields || slice_eq(a->method, SLICE("PUT"));
        if (good && stands_in && gate_keep(x, &f, a)) {
            snprintf(why, LFS_WHY_MAX,
                     "exeat: the tokens for this transfer are too many, or too long, to be kept");
            good = false;
        }
    }
    buf_release(&path);
    return good;
}

/* ---- answers ---- */

static void gate_broken(struct xchg *x, const char *why) {
    char text[300];
    snprintf(text, sizeof text, "the answer to the batch of Git LFS is not passed on: %.200s", why);
    x->up_keep = false;
    refusal_trouble(x, 502, "lfs-answer", text);
}

bool lfsgate_answer_begin(struct xchg *x) {
    const struct http1_response *resp = &x->resp;
    if (!lfsgate_is_batch(x) || resp->status < 200 || resp->status > 299)
        return false;
    xchg_answer_enter(x, ANSWER_HELD);
    if (!gate_of(x))
        refusal_trouble(x, 503, "no-memory", "out of memory");
    else if (http_encoded(resp->fields, resp->nfields))
        gate_broken(x, "it is compressed, which was not asked for");
    return true;
}

/* A buffer that leaves no copy behind when it grows. What is held counts among the sandbox's held bodies. */
void lfsgate_answer_data(struct xchg *x, struct slice bytes) {
    struct lfsgate *gate = x->lfs;
    if (bytes.n > LFS_ANSWER_MAX - gate->n || x->box->held + bytes.n > BODYGATE_BOX_MAX) {
        gate_broken(x, "it is too long");
        return;
    }
    if (gate->n + bytes.n > gate->cap) {
        size_t cap = gate->cap ? 2 * gate->cap : 16384, n = gate->n;
        while (cap < n + bytes.n)
            cap *= 2;
        char *more = malloc(cap);
        if (!more) {
            gate_broken(x, "out of memory");
            return;
        }
        if (n)
            memcpy(more, gate->answer, n);
        gate_forget_answer(x);
        gate->answer = more;
        gate->cap = cap;
        gate->n = n;
        x->box->held += n;
    }
    if (bytes.n)
        memcpy(gate->answer + gate->n, bytes.p, bytes.n);
    gate->n += bytes.n;
    x->box->held += bytes.n;
}

static void gate_keep_more(struct xchg *x);

static void gate_kept(struct vault_request *r, struct vault_answer *answer) {
    struct xchg *x = r->arg;
    engine_reap(x->box->engine);
    if (answer->err)
        gate_broken(x, "its tokens can't be kept");
    else
        gate_keep_more(x);
}

/* Hands the next of what is to be kept to the keeper, or the answer to the sandbox. */
static void gate_keep_more(struct xchg *x) {
    struct lfsgate *gate = x->lfs;
    size_t taken = 0;
    if (gate->sent < gate->nkeeps) {
        gate->ask.done = gate_kept;
        gate->ask.arg = x;
        if (vault_ask_keep(x->box->engine->config.vault, &gate->ask, x->box->id, gate->keeps + gate->sent,
                           gate->nkeeps - gate->sent, &taken))
            gate_broken(x, "the keeper of tokens can't be asked");
        gate->sent += taken;
        return;
    }
    struct http_field fields[] = {{.name = SLICE("Cache-Control"), .value = SLICE("no-store")}};
    int r = x->client->own(x, 200, SLICE(LFS_MEDIA_TYPE), buf_slice(&gate->out), fields, 1);
    xchg_end(x, r == 0);
}

void lfsgate_answer_end(struct xchg *x) {
    struct lfsgate *gate = x->lfs;
    struct errmsg msg = {""};
    size_t refused = 0;
    xchg_unlink(x, x->send_phase == SEND_ALL && x->up_keep && x->server->sent(x));
    int r = lfs_rewrite(slice_make(gate->answer, gate->n), gate_permit, x, &gate->out, &refused, &msg);
    gate_forget_answer(x);
    if (r) {
        gate_broken(x, msg.text);
        return;
    }
    if (refused)
        xchg_trouble(x, "lfs-refused",
                     "%zu objects of the answer lie where no rule permits to get or put them", refused);
    log_debug("xchg %s: %zu actions have fields to keep", x->decision.id.text, gate->nkeeps);
    gate_keep_more(x);
}
