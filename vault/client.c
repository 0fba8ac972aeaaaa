#include "vault/client.h"

#include <stdlib.h>

#include "base/clock.h"

#define BUCKETS 256 /* a power of two */

struct vault_client {
    int (*send)(void *arg, const struct msg_out *m);
    void *arg;
    uint32_t last; /* number given out last */
    struct vault_request *pending[BUCKETS];
    struct leases leases;
};

static char
    question[MSG_MAX]; /* that is being sent: one loop, one at a time; wiped where a secret was in it */

int vault_client_new(int (*send)(void *arg, const struct msg_out *m), void *arg, struct vault_client **out) {
    *out = calloc(1, sizeof **out);
    if (!*out)
        return ERR_NOMEM;
    (*out)->send = send;
    (*out)->arg = arg;
    return 0;
}

void vault_cancel(struct vault_request *r) {
    if (r->link) {
        *r->link = r->next;
        if (r->next)
            r->next->link = r->link;
    }
    r->next = NULL;
    r->link = NULL;
    r->number = 0;
}

void vault_client_free(struct vault_client *c) {
    if (!c)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (c->pending[i])
            vault_cancel(c->pending[i]);
    leases_release(&c->leases);
    free(c);
}

static struct vault_request *find(struct vault_client *c, uint32_t number) {
    struct vault_request *r = c->pending[number % BUCKETS];
    while (r && r->number != number)
        r = r->next;
    return r;
}

/* Gives a number that nobody waits on, and begins the message. */
static void begin(struct vault_client *c, struct vault_request *r, struct msg_out *m, uint16_t type) {
    do
        c->last++;
    while (c->last == 0 || find(c, c->last));
    r->number = c->last;
    msg_begin(m, question, sizeof question, type);
    msg_put_u32(m, r->number);
}

static int finish(struct vault_client *c, struct vault_request *r, const struct msg_out *m, uint16_t answer) {
    int err = m->err ? m->err : c->send(c->arg, m);
    if (err) {
        r->number = 0;
        return err;
    }
    struct vault_request **head = &c->pending[r->number % BUCKETS];
    r->type = answer;
    r->next = *head;
    r->link = head;
    if (r->next)
        r->next->link = &r->next;
    *head = r;
    return 0;
}

int vault_ask_mint(struct vault_client *c, struct vault_request *r, struct slice name, struct slice spki) {
    struct msg_out m;
    begin(c, r, &m, VAULT_MINT);
    msg_put_slice(&m, name);
    msg_put_slice(&m, spki);
    return finish(c, r, &m, VAULT_MINTED);
}

int vault_ask_render(struct vault_client *c, struct vault_request *r, uint64_t sandbox,
                     struct slice credential, const struct vault_origin *origin, struct slice path) {
    struct msg_out m;
    begin(c, r, &m, VAULT_RENDER);
    r->key = (struct lease_key){sandbox, credential, *origin};
    msg_put_u64(&m, sandbox);
    msg_put_slice(&m, credential);
    msg_put_u8(&m, origin->scheme == URL_HTTPS);
    msg_put_slice(&m, origin->host);
    msg_put_u16(&m, origin->port);
    msg_put_slice(&m, path);
    return finish(c, r, &m, VAULT_RENDERED);
}

bool vault_lease(const struct vault_client *c, uint64_t sandbox, struct slice credential,
                 const struct vault_origin *origin, struct slice *header, struct slice *value) {
    struct lease_key key = {sandbox, credential, *origin};
    const struct lease *e = leases_find(&c->leases, &key, clock_coarse_ms());
    if (!e)
        return false;
    *header = slice_make(e->header, e->header_n);
    *value = secret_slice(&e->value);
    return true;
}

bool vault_expire(struct vault_client *c) {
    return leases_expire(&c->leases, clock_coarse_ms()) > 0;
}

int vault_ask_keep(struct vault_client *c, struct vault_request *r, uint64_t sandbox,
                   const struct vault_keep *list, size_t n, size_t *taken) {
    struct msg_out m;
    size_t room = sizeof question - 64, count = 0;
    while (count < n && list[count].value.n + sizeof list->key + 12 <= room) {
        room -= list[count].value.n + sizeof list->key + 12;
        count++;
    }
    if (count == 0)
        return ERR_LIMIT;
    begin(c, r, &m, VAULT_KEEP);
    msg_put_u64(&m, sandbox);
    msg_put_u32(&m, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        msg_put_slice(&m, slice_make(list[i].key, sizeof list[i].key));
        msg_put_u32(&m, list[i].seconds);
        msg_put_slice(&m, secret_slice(&list[i].value));
    }
    int err = finish(c, r, &m, VAULT_KEPT);
    secret_wipe(question, m.n);
    *taken = err ? 0 : count;
    return err;
}

int vault_ask_recall(struct vault_client *c, struct vault_request *r, uint64_t sandbox, struct slice key) {
    struct msg_out m;
    begin(c, r, &m, VAULT_RECALL);
    msg_put_u64(&m, sandbox);
    msg_put_slice(&m, key);
    return finish(c, r, &m, VAULT_RECALLED);
}

int vault_ask_bindings(struct vault_client *c) {
    struct msg_out m;
    msg_begin(&m, question, sizeof question, VAULT_ASK_BINDINGS);
    return m.err ? m.err : c->send(c->arg, &m);
}

int vault_ask_marks(struct vault_client *c, uint32_t from) {
    struct msg_out m;
    msg_begin(&m, question, sizeof question, VAULT_ASK_MARKS);
    msg_put_u32(&m, from);
    return m.err ? m.err : c->send(c->arg, &m);
}

int vault_ask_spot(struct vault_client *c, struct vault_request *r, uint64_t sandbox, uint32_t mark,
                   struct slice digest) {
    struct msg_out m;
    begin(c, r, &m, VAULT_SPOT);
    msg_put_u64(&m, sandbox);
    msg_put_u32(&m, mark);
    msg_put_slice(&m, digest);
    return finish(c, r, &m, VAULT_SPOTTED);
}

/* The answer's fields behind its number. 0, ERR_PEER, or ERR_NOMEM. */
static int read_answer(struct msg_in *m, struct vault_answer *a, uint32_t *keep_ms) {
    uint8_t ok = msg_get_u8(m);
    int r = 0;
    if (ok > 1)
        return ERR_PEER;
    if (!ok) {
        a->err = -(int)msg_get_u8(m);
        a->why = msg_get_slice(m);
        return msg_end(m) || a->err == 0 ? ERR_PEER : 0;
    }
    if (m->type == VAULT_MINTED) {
        a->der = msg_get_slice(m);
    } else if (m->type == VAULT_SPOTTED) {
        uint8_t form = msg_get_u8(m);
        a->credential = msg_get_slice(m);
        a->form = (enum marks_form)form;
        r = form < MARKS_FORMS && a->credential.n && a->credential.n <= VAULT_NAME_MAX ? 0 : ERR_PEER;
    } else if (m->type != VAULT_KEPT) {
        if (m->type == VAULT_RENDERED)
            a->header = msg_get_slice(m);
        struct slice value = msg_get_slice(m);
        if (m->type == VAULT_RENDERED)
            *keep_ms = msg_get_u32(m);
        if (!m->err && (m->type == VAULT_RECALLED || (a->header.n && value.n)))
            r = secret_set(&a->value, value);
        else
            r = ERR_PEER;
    }
    return msg_end(m) ? ERR_PEER : r;
}

int vault_client_feed(struct vault_client *c, struct msg_in *m) {
    struct vault_answer a = {0};
    uint32_t keep_ms = 0;
    int r = ERR_PEER;
    if (m->type != VAULT_MINTED && m->type != VAULT_RENDERED && m->type != VAULT_KEPT &&
        m->type != VAULT_RECALLED && m->type != VAULT_SPOTTED)
        return r;
    uint32_t number = msg_get_u32(m);
    struct vault_request *q = m->err ? NULL : find(c, number);
    if (!m->err)
        r = read_answer(m, &a, &keep_ms);
    if (r == ERR_NOMEM) { /* that is no fault of the keeper's: this one request fails */
        a = (struct vault_answer){.err = r, .why = SLICE("out of memory")};
        r = 0;
    }
    if (r == 0 && q && q->type != m->type)
        r = ERR_PEER;
    if (r == 0 && q) {
        vault_cancel(q);
        if (keep_ms)
            leases_put(&c->leases, &q->key, a.header, secret_slice(&a.value), clock_coarse_ms(), keep_ms);
        q->done(q, &a);
    }
    secret_release(&a.value);
    if (m->type == VAULT_RENDERED || m->type == VAULT_RECALLED)
        secret_wipe((void *)(uintptr_t)m->p, m->n);
    return r;
}

/* --- the supervisor's messages -------------------------------------------------------------------------- */

void vault_put_grant(struct msg_out *m, void *memory, size_t cap, uint64_t sandbox,
                     const char *const *credentials, size_t n) {
    msg_begin(m, memory, cap, VAULT_GRANT);
    msg_put_u64(m, sandbox);
    msg_put_u32(m, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        msg_put_str(m, credentials[i]);
    if (n > VAULT_GRANT_MAX)
        m->err = ERR_LIMIT;
}

void vault_put_revoke(struct msg_out *m, void *memory, size_t cap, uint64_t sandbox) {
    msg_begin(m, memory, cap, VAULT_REVOKE);
    msg_put_u64(m, sandbox);
}
