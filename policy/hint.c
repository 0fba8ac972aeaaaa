/*
 * Theory of operation. A rule is made for what the verdict lacks: of the request, or of the push that it amounts to.
 * It is compiled, and stands behind the rules of the policy that the index gives for the hosts in question; that small
 * policy judges the request. If the rule brings it on, it is kept, and what the new verdict lacks is looked at, until
 * the request is permitted or nothing helps.
 */
#include "policy/hint.h"

#include <stdlib.h>

#include "policy/doors.h"

#define ROUNDS_MAX 8
#define HOST_MAX   300

struct search {
    const struct policy *p;
    const struct facts *f;
    const bool *reach;
    struct buf lines, next; /* rules that are kept; with the one that is tried */
    struct verdict v;       /* by the policy and those that are kept */
    char forge[HOST_MAX];   /* the host of repositories behind a forge's API; "": none */
};

/* --- trying ------------------------------------------------------------------------------------------------ */

static int read_lines(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                      struct errmsg *msg) {
    const struct search *h = arg;
    (void)from;
    (void)name;
    (void)msg;
    int r = buf_puts(resolved, "the smallest rule");
    return r ? r : buf_put(text, buf_slice((struct buf *)&h->next));
}

static void mark_host(const struct policy *p, struct slice host, bool is_address, bool *marks, size_t *n) {
    const struct index_slot *lists[INDEX_LISTS_MAX];
    size_t nlists = host.n ? index_find(&p->index, host, is_address, lists) : 0;
    for (size_t l = 0; l < nlists; l++)
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            *n += !marks[lists[l]->rules[k]];
            marks[lists[l]->rules[k]] = true;
        }
}

/* Which rules may have a say: those about the host, and about the forge that it may be the API of. */
static size_t mark_rules(const struct search *h, bool *marks) {
    const struct facts *f = h->f;
    struct slice rest;
    size_t n = 0;
    if (h->p->nrules == 0)
        return 0;
    mark_host(h->p, f->host, f->host_is_address, marks, &n);
    if (f->kind == FACTS_HTTP && !f->host_is_address && slice_cut(f->host, '.', &(struct slice){0}, &rest))
        mark_host(h->p, rest, false, marks, &n);
    mark_host(h->p, slice_str(h->forge), false, marks, &n);
    for (size_t i = 0; h->reach && i < h->p->nrules; i++)
        if (marks[i] && !h->reach[h->p->rules[i].source->index]) {
            marks[i] = false;
            n--;
        }
    return n;
}

/* The rules of the policy that matter, and behind them those of `more`. */
static bool join(const struct search *h, const struct policy *more, struct policy *out) {
    const struct policy *p = h->p;
    bool *marks = calloc(p->nrules + 1, sizeof *marks);
    size_t n = marks ? mark_rules(h, marks) : 0;
    *out = (struct policy){.looks_at_bodies = p->looks_at_bodies || more->looks_at_bodies,
                           .limits_fetches = p->limits_fetches || more->limits_fetches,
                           .tunnels = p->tunnels || more->tunnels};
    arena_init(&out->arena, 1u << 30);
    out->rules = arena_alloc(&out->arena, (n + more->nrules + 1) * sizeof *out->rules);
    for (size_t i = 0; marks && out->rules && i < p->nrules; i++)
        if (marks[i])
            out->rules[out->nrules++] = p->rules[i];
    for (size_t i = 0; marks && out->rules && i < more->nrules; i++) {
        out->rules[out->nrules] = more->rules[i];
        out->rules[out->nrules++].where.index = 0; /* none of the policy's */
    }
    bool good = marks && out->rules && index_build(out);
    free(marks);
    return good;
}

/* The verdict by the policy and the lines of h->next. False: they are no rules. */
static bool try_lines(struct search *h, struct verdict *v) {
    static const char *const name = "rule";
    struct policy_input in = {.files = &name, .nfiles = 1, .read = read_lines, .arg = h};
    struct policy *more = NULL, joined;
    struct policy_diags diags;
    policy_diags_init(&diags);
    bool good = policy_load(&in, &more, &diags) == 0;
    policy_diags_release(&diags);
    if (!good)
        return false;
    good = join(h, more, &joined);
    if (good)
        judge(&joined, h->f, NULL, v);
    arena_release(&joined.arena);
    policy_free(more);
    return good;
}

/* --- getting on -------------------------------------------------------------------------------------------- */

/* By how much a request came closer to be permitted. */
static unsigned far(const struct verdict *v) {
    if (v->action != VERDICT_DENY)
        return 4;
    if (v->door)
        return 3;
    return v->reason == REASON_WRITE_UNREADABLE || v->reason == REASON_WRITE_UNKNOWN ? 2 : 1;
}

static bool closer(const struct verdict *now, const struct verdict *then) {
    unsigned a = far(now), b = far(then);
    if (now->reason == REASON_CREDENTIALS) /* then with another one */
        return false;
    if (a != b)
        return a > b;
    return now->door != then->door ? now->door > then->door : now->bad_refs < then->bad_refs;
}

struct door_hint {
    const struct policy *p;
    unsigned level;
    struct buf *out;
    bool some;
};

static void hint_door(void *arg, const struct facts *push) {
    struct door_hint *d = arg;
    d->some = hint_git(d->p, push, d->level, d->out);
}

static bool propose(const struct search *h, unsigned level, struct buf *out) {
    if (h->v.door) {
        struct door_hint d = {.p = h->p, .level = level, .out = out};
        doors_as_push(h->p, h->f, &h->v, hint_door, &d);
        return d.some;
    }
    switch (h->f->kind) {
    case FACTS_HTTP: return hint_http(h->p, h->f, level, out);
    case FACTS_GIT_FETCH:
    case FACTS_GIT_PUSH: return hint_git(h->p, h->f, level, out);
    case FACTS_TUNNEL: return hint_tunnel(h->f, level, out);
    }
    return false;
}

/* The narrowest rule that brings the request on, if one does. */
static bool improve(struct search *h) {
    for (unsigned level = 0; level < HINT_LEVELS; level++) {
        struct verdict v;
        buf_clear(&h->next);
        buf_put(&h->next, buf_slice(&h->lines));
        if (buf_len(&h->next))
            buf_putc(&h->next, '\n');
        if (!propose(h, level, &h->next) || h->next.failed || !try_lines(h, &v) || !closer(&v, &h->v))
            continue;
        h->v = v;
        buf_clear(&h->lines);
        buf_put(&h->lines, buf_slice(&h->next));
        return true;
    }
    return false;
}

/* What no rule that permits changes. */
static bool hopeless(const struct search *h) {
    const struct verdict *v = &h->v;
    const char *why;
    return v->action != VERDICT_DENY || facts_git_as_http(h->f, &why) || v->reason == REASON_DENIED_BY_RULE ||
           v->reason == REASON_WRITE_UNREADABLE || v->reason == REASON_CREDENTIALS;
}

/* A write whose body was not kept: what it writes, and whether push rules permit that, can't be told. */
static bool only_body_missing(const struct search *h) {
    return h->v.reason == REASON_WRITE_UNREADABLE && h->f->body_state != FACTS_BODY_WHOLE &&
           buf_len((struct buf *)&h->lines) > 0;
}

static void find_forge(struct search *h) {
    struct body_view view = {.read = false};
    struct forge forge;
    struct slice host;
    if (!doors_concern(h->f) || !doors_read(h->p, h->f, &view, &forge, &host))
        return;
    if (host.n < sizeof h->forge)
        memcpy(h->forge, host.p, host.n);
    forge_release(&forge);
    body_view_release(&view);
}

int hint(const struct policy *p, const struct facts *f, const bool *reach, const struct verdict *v,
         struct buf *out, struct verdict *left) {
    struct facts known = *f; /* what every round asks of it is found out once */
    struct git_request git;
    known.git = facts_git(f, &git);
    struct search h = {.p = p, .f = &known, .reach = reach, .v = *v};
    buf_init(&h.lines, POLICY_FILE_MAX);
    buf_init(&h.next, POLICY_FILE_MAX);
    if (!hopeless(&h))
        find_forge(&h);
    for (unsigned round = 0; round < ROUNDS_MAX && !hopeless(&h); round++)
        if (!improve(&h))
            break;
    bool permits = h.v.action == VERDICT_ALLOW || h.v.action == VERDICT_TUNNEL;
    if (v->action == VERDICT_DENY && (permits || only_body_missing(&h))) {
        buf_put(out, buf_slice(&h.lines));
        if (!permits)
            buf_puts(out, "  # if push rules permit what it writes");
    }
    if (left)
        *left = h.v;
    buf_release(&h.lines);
    buf_release(&h.next);
    return out->failed ? ERR_LIMIT : 0;
}

int policy_hint(const struct policy *p, const struct facts *f, const struct verdict *v, struct buf *out) {
    return hint(p, f, NULL, v, out, NULL);
}
