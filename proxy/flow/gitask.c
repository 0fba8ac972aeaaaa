#include "proxy/flow/gitask.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "proxy/codec/git.h"
#include "proxy/codec/git_fetch.h"
#include "proxy/flow/errand.h"
#include "proxy/flow/gitproof.h"
#include "proxy/flow/xchg.h"

#define ASK_BODY_MAX (2u << 20)
#define ASK_OBJECTS  4000000      /* in one pack of the server's */
#define ASK_INFLATE  (256u << 20) /* bytes that may come out of it, whatever went in */

struct gitask {
    struct xchg *x;
    struct gitproof *proof;
    struct errand *errand; /* under way */
    uint64_t deadline;     /* monotonic ms; 0: nothing was asked yet */
    uint64_t left;         /* bytes that may still come */

    bool known; /* what the server offers is */
    struct git_advert advert;

    /* the question under way */
    struct gitask_wish wish; /* but its ids: */
    struct git_ids wants, haves;
    struct git_fetch fetch;
    const char *prefix; /* of a list of refs; NULL: it is a fetch */
    struct git_refs refs;
    void (*ref)(void *arg, struct slice name, struct slice id);
    struct pack pack;
    bool pack_whole, answered;
    void (*done)(void *arg);
    void *arg;

    bool failed, refused;
    struct errmsg why;
};

struct gitask *gitask_new(struct xchg *x, struct gitproof *proof) {
    struct gitask *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->x = x;
    a->proof = proof;
    a->left = GITASK_BYTES;
    return a;
}

static void ask_release(struct gitask *a) {
    git_ids_release(&a->wants);
    git_ids_release(&a->haves);
    git_fetch_release(&a->fetch);
    git_refs_release(&a->refs);
    pack_release(&a->pack);
    git_advert_release(&a->advert);
}

void gitask_free(struct gitask *a) {
    if (!a)
        return;
    errand_cancel(a->errand);
    ask_release(a);
    free(a);
}

const char *gitask_failed(const struct gitask *a) {
    return a->failed ? a->why.text : NULL;
}

bool gitask_refused(const struct gitask *a) {
    return a->failed && a->refused;
}

/* ---- the end of a fetch ---- */

static void ask_set_failed(struct gitask *a, const char *why) {
    a->failed = true;
    a->refused = false;
    snprintf(a->why.text, sizeof a->why.text, "%s", why);
}

void gitask_give_up(struct gitask *a, const char *why) {
    ask_set_failed(a, why);
}

static void ask_over(struct gitask *a) {
    errand_cancel(a->errand);
    a->errand = NULL;
    ask_release(a);
    a->done(a->arg);
}

static void ask_fail(struct gitask *a, const char *why) {
    ask_set_failed(a, why);
    ask_over(a);
}

static void ask_status(struct gitask *a, int status) {
    char why[64];
    snprintf(why, sizeof why, "the server answers with status %d", status);
    ask_fail(a, why);
}

static void ask_head(void *arg, const struct http1_response *resp) {
    struct gitask *a = arg;
    if (resp->status != 200)
        ask_status(a, resp->status);
}

/* ---- errands ---- */

static int ask_errand(struct gitask *a, struct errand_ask *ask, const char *endpoint,
                      const struct errand_events *events) {
    uint64_t now = clock_monotonic_ms();
    struct buf target;
    if (now >= a->deadline) {
        ask_set_failed(a, "the time for asking the server is used up");
        return ERR_TIMEOUT;
    }
    buf_init(&target, HTTP1_TARGET_MAX);
    buf_put(&target, a->x->git.repository);
    buf_puts(&target, endpoint);
    ask->target = buf_slice(&target);
    ask->purpose = a->wish.purpose;
    ask->ms = (unsigned)(a->deadline - now);
    ask->answer_max = a->left;
    a->errand = target.failed ? NULL : errand_start(a->x, ask, events, a);
    buf_release(&target);
    if (a->errand)
        return 0;
    ask_set_failed(a, a->x->errand_why ? a->x->errand_why : "no request to the server can be made");
    return ERR_IO;
}

/* ---- the fetch itself ---- */

static bool ask_pack(struct gitask *a, struct slice bytes) {
    size_t used = 0;
    int r = a->pack_whole ? 0 : pack_feed(&a->pack, bytes, &used);
    a->pack_whole = r == 0;
    if (r && r != ERR_INCOMPLETE)
        ask_fail(a, gitproof_reason(a->proof, a->pack.error.text[0] ? a->pack.error.text : err_text(r)));
    else if (r == 0 && used < bytes.n)
        ask_fail(a, "there are bytes behind the server's pack");
    else
        return true;
    return false;
}

static void ask_fetch_data(void *arg, struct slice bytes) {
    struct gitask *a = arg;
    a->left -= bytes.n < a->left ? bytes.n : a->left;
    for (;;) {
        size_t used;
        struct slice pack;
        enum git_fetch_step step = git_fetch_next(&a->fetch, bytes, &used, &pack);
        bytes = slice_from(bytes, used);
        switch (step) {
        case GIT_FETCH_MORE: return;
        case GIT_FETCH_DATA:
            if (!ask_pack(a, pack))
                return;
            break;
        case GIT_FETCH_DONE:
            a->answered = true;
            if (bytes.n)
                ask_fail(a, "there are bytes behind the server's answer");
            return;
        case GIT_FETCH_BAD:
            ask_set_failed(a, a->fetch.error.text);
            a->refused = true;
            ask_over(a);
            return;
        }
    }
}

static void ask_fetch_over(void *arg, const struct errand_answer *answer) {
    struct gitask *a = arg;
    a->errand = NULL;
    if (answer->err)
        ask_fail(a, answer->why);
    else if (!a->answered || !a->pack_whole)
        ask_fail(a, "the server's answer ends too early");
    else
        ask_over(a);
}

static const struct errand_events ask_fetch_events = {ask_head, ask_fetch_data, ask_fetch_over};

static void ask_put_ids(const struct git_ids *ids, void (*put)(struct buf *out, struct slice id),
                        struct buf *out) {
    char hex[2 * GIT_ID_MAX + 1];
    for (size_t i = 0; i < ids->n; i++) {
        git_id_to_hex(git_ids_at(ids, i), ids->id_size, hex);
        put(out, slice_str(hex));
    }
}

/* Sends a question; ERR_LIMIT if it did not fit. */
static int ask_post(struct gitask *a, const struct buf *body, const struct errand_events *events) {
    struct http_field fields[] = {
        {.name = SLICE("Git-Protocol"), .value = SLICE(GIT_FETCH_PROTOCOL)},
        {.name = SLICE("Content-Type"), .value = SLICE(GIT_FETCH_REQUEST)},
        {.name = SLICE("Accept"), .value = SLICE(GIT_FETCH_RESULT)},
    };
    struct errand_ask ask = {.method = SLICE("POST"),
                             .fields = fields,
                             .nfields = sizeof fields / sizeof *fields,
                             .body = buf_slice(body)};
    if (!body->failed)
        return ask_errand(a, &ask, "/git-upload-pack", events);
    ask_set_failed(a, "too much would have to be asked for");
    return ERR_LIMIT;
}

static int ask_post_fetch(struct gitask *a) {
    struct pack_limits limits;
    struct buf body;
    pack_limits_default(&limits);
    limits.objects = ASK_OBJECTS;
    limits.inflate_free = ASK_INFLATE;
    git_fetch_init(&a->fetch);
    if (pack_init(&a->pack, a->wish.into, false, &limits)) {
        ask_set_failed(a, "out of memory");
        return ERR_NOMEM;
    }
    buf_init(&body, ASK_BODY_MAX);
    git_fetch_begin(&body, a->advert.id_digits, a->advert.filter ? a->wish.filter : NULL);
    if (a->wish.alone)
        git_fetch_alone(&body);
    ask_put_ids(&a->wants, git_fetch_want, &body);
    ask_put_ids(&a->haves, git_fetch_have, &body);
    git_fetch_end(&body);
    int r = ask_post(a, &body, &ask_fetch_events);
    buf_release(&body);
    return r;
}

/* ---- a list of refs ---- */

static void ask_refs_data(void *arg, struct slice bytes) {
    struct gitask *a = arg;
    a->left -= bytes.n < a->left ? bytes.n : a->left;
    for (;;) {
        size_t used;
        struct git_listed_ref ref;
        enum git_refs_step step = git_refs_next(&a->refs, bytes, &used, &ref);
        bytes = slice_from(bytes, used);
        switch (step) {
        case GIT_REFS_MORE: return;
        case GIT_REFS_REF: a->ref(a->arg, ref.name, ref.id); break;
        case GIT_REFS_DONE: a->answered = true; return;
        case GIT_REFS_BAD: ask_fail(a, a->refs.error.text); return;
        }
    }
}

static void ask_refs_over(void *arg, const struct errand_answer *answer) {
    struct gitask *a = arg;
    a->errand = NULL;
    if (answer->err)
        ask_fail(a, answer->why);
    else if (!a->answered)
        ask_fail(a, "the server's list of refs ends too early");
    else
        ask_over(a);
}

static const struct errand_events ask_refs_events = {ask_head, ask_refs_data, ask_refs_over};

static int ask_post_refs(struct gitask *a) {
    struct buf body;
    git_refs_init(&a->refs, a->advert.id_digits);
    buf_init(&body, ASK_BODY_MAX);
    git_refs_ask(&body, a->advert.id_digits, slice_str(a->prefix));
    int r = ask_post(a, &body, &ask_refs_events);
    buf_release(&body);
    return r;
}

/* ---- what the server offers ---- */

/* What the server offers is known: puts the question. */
static int ask_put(struct gitask *a) {
    const struct git_advert *offer = &a->advert;
    const char *why = NULL;
    if (a->prefix ? !offer->ls_refs : !offer->fetch)
        why = "the server offers no fetching";
    else if (offer->id_digits != 2 * (int)gitproof_objects(a->proof)->id_size)
        why = "the server's object format is not the push's";
    else if (a->wish.alone && !offer->shallow)
        why = "the server can't send objects without their history";
    if (why) {
        ask_set_failed(a, why);
        return ERR_UNSUPPORTED;
    }
    return a->prefix ? ask_post_refs(a) : ask_post_fetch(a);
}

static void ask_advert_data(void *arg, struct slice bytes) {
    struct gitask *a = arg;
    a->left -= bytes.n < a->left ? bytes.n : a->left;
    int r = git_advert_feed(&a->advert, bytes);
    if (r && r != ERR_INCOMPLETE)
        ask_fail(a, a->advert.error.text);
    else
        a->known = r == 0;
}

static void ask_advert_over(void *arg, const struct errand_answer *answer) {
    struct gitask *a = arg;
    a->errand = NULL;
    if (answer->err)
        ask_fail(a, answer->why);
    else if (!a->known)
        ask_fail(a, "the server's list of capabilities ends too early");
    else if (ask_put(a))
        ask_over(a);
}

static const struct errand_events ask_advert_events = {ask_head, ask_advert_data, ask_advert_over};

static int ask_discover(struct gitask *a) {
    struct http_field fields[] = {
        {.name = SLICE("Git-Protocol"), .value = SLICE(GIT_FETCH_PROTOCOL)},
        {.name = SLICE("Accept"), .value = SLICE(GIT_FETCH_REFS)},
    };
    struct errand_ask ask = {
        .method = SLICE("GET"), .fields = fields, .nfields = sizeof fields / sizeof *fields};
    git_advert_init(&a->advert);
    return ask_errand(a, &ask, "/info/refs?service=git-upload-pack", &ask_advert_events);
}

/* ---- the beginning ---- */

static int ask_copy(struct git_ids *to, const struct git_ids *from, unsigned id_size) {
    git_ids_init(to, id_size);
    for (size_t i = 0; from && i < from->n; i++)
        if (git_ids_add(to, git_ids_at(from, i)) == GIT_IDS_NONE)
            return ERR_NOMEM;
    return 0;
}

static int ask_begin(struct gitask *a, void (*done)(void *arg), void *arg) {
    a->failed = a->refused = false;
    a->pack_whole = a->answered = false;
    a->done = done;
    a->arg = arg;
    if (a->deadline == 0)
        a->deadline = clock_monotonic_ms() + GITASK_MS;
    int r = a->known ? ask_put(a) : ask_discover(a);
    if (r)
        ask_release(a);
    return r;
}

int gitask_refs(struct gitask *a, const char *prefix, const char *purpose,
                void (*ref)(void *arg, struct slice name, struct slice id), void (*done)(void *arg),
                void *arg) {
    a->wish = (struct gitask_wish){.purpose = purpose};
    a->prefix = prefix;
    a->ref = ref;
    return ask_begin(a, done, arg);
}

int gitask_fetch(struct gitask *a, const struct gitask_wish *wish, void (*done)(void *arg), void *arg) {
    size_t n = wish->wants->n + (wish->haves ? wish->haves->n : 0);
    a->wish = *wish;
    a->prefix = NULL;
    if (n > GITASK_IDS_MAX) {
        ask_set_failed(a, "too much would have to be asked for");
        return ERR_LIMIT;
    }
    int r = ask_copy(&a->wants, wish->wants, wish->wants->id_size);
    if (r == 0)
        r = ask_copy(&a->haves, wish->haves, wish->wants->id_size);
    if (r) {
        ask_set_failed(a, "out of memory");
        ask_release(a);
        return r;
    }
    return ask_begin(a, done, arg);
}
