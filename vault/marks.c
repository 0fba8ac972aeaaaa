#include "vault/marks_memory.h"

#include <openssl/crypto.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/base64.h"
#include "base/secret.h"

#define MARKS_MAX      (1u << 20)
#define MARKS_DISTINCT 5    /* different ones among the eight bytes of a fingerprint */
#define MARKS_HALVED   24   /* bytes of what has a mark of its second half */
#define MARKS_MESSAGE  3500 /* in one message */

int marks_new(struct marks **out) {
    *out = calloc(1, sizeof **out);
    if (!*out)
        return ERR_NOMEM;
    int r = watch_key_make(&(*out)->key);
    if (r) {
        marks_free(*out);
        *out = NULL;
    }
    return r;
}

/* --- making --------------------------------------------------------------------------------------------- */

static unsigned distinct(const char *p) {
    unsigned n = 0;
    for (unsigned i = 0; i < WATCH_GRAM; i++)
        n += memchr(p, p[i], i) == NULL;
    return n;
}

/* The bytes that a fingerprint tells most by: where they differ most, the last of such places. ERR_UNSUPPORTED: nowhere. */
static int choose(struct slice bytes, size_t *at) {
    unsigned best = 0;
    for (size_t i = 0; i + WATCH_GRAM <= bytes.n; i++) {
        unsigned n = distinct(bytes.p + i);
        if (n >= best) {
            best = n;
            *at = i;
        }
    }
    return best < MARKS_DISTINCT ? ERR_UNSUPPORTED : 0;
}

static int add_one(struct marks *marks, struct slice bytes, bool part, const struct mark *like) {
    size_t at = 0;
    int r = bytes.n < WATCH_LEAST ? ERR_UNSUPPORTED : choose(bytes, &at);
    if (r)
        return r;
    if (marks->n == MARKS_MAX)
        return ERR_LIMIT;
    struct mark *list = array_room(marks->list, marks->n, &marks->room, sizeof *list);
    if (!list)
        return ERR_NOMEM;
    marks->list = list;
    struct mark *mark = &marks->list[marks->n];
    *mark = *like;
    mark->watch = (struct watchmark){
        .print = watch_print(watch_product(marks->key.factor, bytes.p + at)),
        .after = (uint32_t)(bytes.n - at - WATCH_GRAM),
        .length = (uint32_t)bytes.n,
        .part = part,
    };
    r = watch_digest(&marks->key, bytes, mark->digest);
    marks->n += r == 0;
    return r;
}

/* The whole, and its second half if that is enough to go by. */
static int add_both(struct marks *marks, struct slice bytes, const struct mark *like) {
    int r = add_one(marks, bytes, false, like);
    if (r || bytes.n < MARKS_HALVED)
        return r;
    r = add_one(marks, slice_from(bytes, bytes.n - bytes.n / 2), true, like);
    return r == ERR_UNSUPPORTED ? 0 : r;
}

/* What stands in base64 whatever is before the secret (`skip` bytes, and groups of three) and behind it: the digits that
 * are made of its bits alone. */
static int add_base64(struct marks *marks, struct slice secret, size_t skip, const struct mark *like) {
    struct secret plain = {0}, coded = {0};
    size_t n = skip + secret.n, first = (8 * skip + 5) / 6, digits = 8 * n / 6;
    int r = secret_reserve(&plain, n);
    if (r == 0)
        r = secret_reserve(&coded, base64_length(n));
    if (r == 0) {
        bool other = false;
        memset(plain.bytes, 0, skip);
        memcpy(plain.bytes + skip, secret.p, secret.n);
        base64_encode(slice_make(plain.bytes, n), coded.bytes);
        struct slice stable = slice_make(coded.bytes + first, digits - first);
        r = add_both(marks, stable, like);
        for (size_t i = first; i < digits; i++) {
            char c = coded.bytes[i];
            coded.bytes[i] = c == '+' ? '-' : c == '/' ? '_' : c;
            other |= coded.bytes[i] != c;
        }
        if (other && (r == 0 || r == ERR_UNSUPPORTED))
            r = add_both(marks, stable, like);
    }
    secret_release(&plain);
    secret_release(&coded);
    return r == ERR_UNSUPPORTED ? 0 : r;
}

int marks_add(struct marks *marks, uint32_t number, struct slice secret) {
    struct mark like = {.number = number, .form = MARKS_PLAIN};
    int r = add_both(marks, secret, &like);
    like.form = MARKS_BASE64;
    for (size_t skip = 0; r == 0 && skip < 3; skip++)
        r = add_base64(marks, secret, skip, &like);
    return r;
}

bool marks_confirm(const struct marks *marks, uint32_t mark, struct slice digest, uint32_t *number,
                   enum marks_form *form) {
    if (!marks || mark >= marks->n || digest.n != WATCH_DIGEST_SIZE ||
        CRYPTO_memcmp(marks->list[mark].digest, digest.p, digest.n) != 0)
        return false;
    *number = marks->list[mark].number;
    *form = (enum marks_form)marks->list[mark].form;
    return true;
}

/* --- telling -------------------------------------------------------------------------------------------- */

void marks_put(const struct marks *marks, uint32_t from, struct msg_out *m) {
    static const struct watch_key none;
    const struct watch_key *key = marks ? &marks->key : &none;
    size_t total = marks ? marks->n : 0, n = from < total ? total - from : 0;
    if (n > MARKS_MESSAGE)
        n = MARKS_MESSAGE;
    msg_put_u64(m, key->factor);
    msg_put_slice(m, slice_make((const char *)key->mac, sizeof key->mac));
    msg_put_u32(m, (uint32_t)total);
    msg_put_u32(m, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        const struct watchmark *mark = &marks->list[from + i].watch;
        msg_put_u64(m, mark->print);
        msg_put_u32(m, mark->after);
        msg_put_u32(m, mark->length);
        msg_put_u8(m, mark->part);
    }
}

/* One mark; a keeper would not send it if it were none. */
static bool get_mark(struct msg_in *m, struct watchmark *mark) {
    mark->print = msg_get_u64(m);
    mark->after = msg_get_u32(m);
    mark->length = msg_get_u32(m);
    mark->part = msg_get_u8(m);
    return !m->err && mark->print >> WATCH_PRINT_BITS == 0 && mark->length >= WATCH_LEAST &&
           mark->length <= SECRET_MAX && mark->after <= mark->length - WATCH_GRAM;
}

int marks_get(struct msg_in *m, struct marks_told *told) {
    told->key.factor = msg_get_u64(m);
    struct slice mac = msg_get_slice(m);
    uint32_t total = msg_get_u32(m), n = msg_get_u32(m);
    if (m->err || mac.n != sizeof told->key.mac || total > MARKS_MAX || n > total - told->n ||
        (told->n && total != told->total) || (n == 0 && told->n < total))
        return ERR_PEER;
    memcpy(told->key.mac, mac.p, mac.n);
    told->total = total;
    struct watchmark *list = realloc(told->list, ((size_t)told->n + n + 1) * sizeof *list);
    if (!list)
        return ERR_NOMEM;
    told->list = list;
    for (uint32_t i = 0; i < n; i++)
        if (!get_mark(m, &list[told->n + i]))
            return ERR_PEER;
    told->n += n;
    return msg_end(m);
}

void marks_told_release(struct marks_told *told) {
    secret_wipe(&told->key, sizeof told->key);
    free(told->list);
    *told = (struct marks_told){.list = NULL};
}
