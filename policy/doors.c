/*
 * Theory of operation. forge_read tells what a request writes; each write becomes the facts of a push to the forge's
 * host, and is judged as one. A ref or a repository that stays unknown is permitted only by rules about every one, and
 * may be denied by any.
 */
#include "policy/doors.h"

#include <stdio.h>

/* --- hosts ------------------------------------------------------------------------------------------------- */

/* The forges that everybody knows. Others are known by the fetch and push rules about them. */
static const struct {
    const char *host, *git;
    bool root;
    unsigned forges;
} known[] = {
    {"api.github.com", "github.com", true, FORGE_GITHUB},
    {"uploads.github.com", "github.com", true, FORGE_GITHUB},
    {"github.com", "github.com", false, FORGE_GITHUB},
    {"gitlab.com", "gitlab.com", false, FORGE_GITLAB},
    {"codeberg.org", "codeberg.org", false, FORGE_GITEA},
};

const char *doors_known(size_t i) {
    return i < sizeof known / sizeof *known ? known[i].host : NULL;
}

enum speaks {
    SPEAKS_NOT,
    SPEAKS_WILD,  /* a rule whose host is a wildcard */
    SPEAKS_NAMED, /* … spelled out */
};

/* Whether rules about git speak of a host. A bare `*` in a fetch rule makes no host a forge. */
static enum speaks git_rules(const struct policy *p, struct slice host, bool is_address) {
    const struct index_slot *lists[INDEX_LISTS_MAX];
    size_t n = index_find(&p->index, host, is_address, lists);
    enum speaks best = SPEAKS_NOT;
    for (size_t l = 0; l < n; l++) {
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            const struct rule *r = &p->rules[lists[l]->rules[k]];
            bool wide = r->target.host_kind == RULE_HOST_ANY;
            if (r->action != TREE_PUSH && (r->action != TREE_FETCH || wide))
                continue;
            if (r->target.host_kind == RULE_HOST_EXACT)
                return SPEAKS_NAMED;
            best = SPEAKS_WILD;
        }
    }
    return best;
}

/* "api.git.corp" is the API of git.corp. */
static bool api_of(const struct policy *p, const struct facts *f, struct slice *git) {
    static const char *const fronts[] = {"api.", "uploads."};
    for (size_t i = 0; i < 2; i++) {
        *git = slice_from(f->host, strlen(fronts[i]));
        if (!f->host_is_address && slice_starts(f->host, slice_str(fronts[i])) && git->n &&
            git_rules(p, *git, false) != SPEAKS_NOT)
            return true;
    }
    return false;
}

bool doors_place(const struct policy *p, const struct facts *f, struct door_host *out) {
    struct slice git;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (slice_eq(f->host, slice_str(known[i].host))) {
            *out = (struct door_host){slice_str(known[i].git), known[i].root, known[i].forges};
            return true;
        }
    }
    unsigned all = FORGE_GITHUB | FORGE_GITLAB | FORGE_GITEA;
    enum speaks own = git_rules(p, f->host, f->host_is_address);
    *out = (struct door_host){f->host, false, all};
    if (own != SPEAKS_NAMED && api_of(p, f, &git))
        *out = (struct door_host){git, true, all};
    return own != SPEAKS_NOT || out->root;
}

/* --- whom rules speak of ------------------------------------------------------------------------------------ */

/* The push that a write amounts to, without its ref. */
static struct facts push_of(const struct facts *f, struct slice host, struct slice repository) {
    return (struct facts){
        .kind = FACTS_GIT_PUSH,
        .scheme = f->scheme,
        .host = host,
        .host_is_address = f->host_is_address && slice_eq(host, f->host),
        .port = f->port,
        .method = SLICE("POST"),
        .path = repository,
        .repository_unknown = repository.n == 0,
        .size_known = f->body_state == FACTS_BODY_WHOLE,
        .size = f->body.n,
        .blob_known = f->body_state == FACTS_BODY_WHOLE, /* no file in it is larger than the request */
        .blob = f->body.n,
    };
}

/* Whether a push rule is about the repository; empty: about any of the host. */
static bool speaks_of(const struct policy *p, const struct facts *f, const bool *reach, struct slice host,
                      struct slice repository) {
    const struct index_slot *lists[INDEX_LISTS_MAX];
    struct facts push = push_of(f, host, repository);
    size_t n = index_find(&p->index, host, push.host_is_address, lists);
    for (size_t l = 0; l < n; l++) {
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            uint32_t i = lists[l]->rules[k];
            const struct rule *r = &p->rules[i];
            if (r->action != TREE_PUSH || (reach && !reach[r->source->index]))
                continue;
            if (repository.n == 0)
                return true;
            enum stage s = judge_rule(p, &push, NULL, i, NULL);
            if (s == STAGE_SCHEME || s == STAGE_PORT || s >= STAGE_REF)
                return true;
        }
    }
    return false;
}

/* --- what is not known ---------------------------------------------------------------------------------- */

/* Whether a pattern takes every name that begins so. */
static bool takes_all(const struct glob *g, struct slice begin) {
    if (g->n == 0 || g->units[g->n - 1] != GLOB_STARSTAR || g->n - 1 > begin.n)
        return false;
    for (size_t i = 0; i + 1 < g->n; i++)
        if (g->units[i] != (unsigned char)begin.p[i])
            return false;
    return true;
}

bool doors_unknown_ref(const struct rule *r, bool loose) {
    for (size_t i = 0; i < r->nrefs && !loose; i++)
        if (takes_all(&r->refs[i], SLICE("refs/")))
            return true;
    return loose || r->nrefs == 0;
}

bool doors_unknown_repository(const struct rule *r, bool loose) {
    for (size_t i = 0; i < r->target.npaths && !loose; i++)
        if (takes_all(&r->target.paths[i], SLICE("/")))
            return true;
    return loose || (r->target.npaths == 0 && !r->target.regex);
}

/* --- whom a rule names exactly ------------------------------------------------------------------------------ */

static bool exact_path(const struct rule *r, struct slice path) {
    for (size_t i = 0; i < r->target.npaths; i++) {
        const struct glob *g = &r->target.paths[i];
        if (g->literal == g->n && glob_match(g, path, GLOB_PATH))
            return true;
    }
    return false;
}

static bool exact_field(const struct rule *r, struct slice mutation) {
    for (const struct condition *c = r->conditions; c; c = c->next)
        for (size_t i = 0; c->subject == TREE_GRAPHQL && c->field && i < c->noperands; i++)
            if ((c->test == TREE_EQUAL || c->test == TREE_IN) && slice_eq(c->operands[i].text, mutation))
                return true;
    return mutation.n == 0;
}

static bool named_exactly(const struct policy *p, const struct facts *f, const bool *reach,
                          struct slice mutation) {
    const struct index_slot *lists[INDEX_LISTS_MAX];
    size_t n = index_find(&p->index, f->host, f->host_is_address, lists);
    for (size_t l = 0; l < n; l++) {
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            uint32_t i = lists[l]->rules[k];
            const struct rule *r = &p->rules[i];
            if (r->deny || r->action != TREE_HTTP || r->any_method || (reach && !reach[r->source->index]))
                continue;
            if (exact_path(r, f->path) && exact_field(r, mutation) &&
                judge_rule(p, f, NULL, i, NULL) == STAGE_MATCH)
                return true;
        }
    }
    return false;
}

/* --- judging ----------------------------------------------------------------------------------------------- */

bool doors_concern(const struct facts *f) {
    struct slice path = f->path;
    if (f->kind != FACTS_HTTP || !forge_reads_only(f->method))
        return f->kind == FACTS_HTTP;
    while (path.n && path.p[path.n - 1] == '/')
        path.n--;
    size_t last = path.n;
    while (last && path.p[last - 1] != '/')
        last--;
    return last && forge_is_graphql(slice_from(path, last));
}

bool doors_read(const struct policy *p, const struct facts *f, struct body_view *view, struct forge *out,
                struct slice *host) {
    struct door_host at;
    if (!doors_place(p, f, &at))
        return false;
    forge_read(out, f, view, at.root, at.forges);
    *host = at.git;
    if (out->row && (out->row->flags & FORGE_GIST)) {
        char *text = arena_alloc(&out->arena, at.git.n + 5);
        if (text) {
            memcpy(text, "gist.", 5);
            memcpy(text + 5, at.git.p, at.git.n);
            *host = slice_make(text, at.git.n + 5);
        }
    }
    return true;
}

bool doors_has_push_rules(const struct policy *p, struct slice host, bool is_address) {
    struct facts f = {.kind = FACTS_HTTP, .host = host, .host_is_address = is_address, .path = SLICE("/")};
    struct door_host at;
    return doors_place(p, &f, &at) && speaks_of(p, &f, NULL, at.git, SLICE_NONE);
}

static bool need_body(const struct policy *p, const struct facts *f) {
    struct door_host at;
    return doors_place(p, f, &at) && forge_wants_body(f, at.root, at.forges);
}

static void refuse(struct verdict *v, enum verdict_reason reason, const char *why) {
    *v = (struct verdict){.action = VERDICT_DENY, .reason = reason, .failed_why = why};
}

/* The push that one write amounts to. `path` is memory for its path. */
static struct facts push_facts(const struct facts *f, const struct forge_write *w, struct slice host,
                               struct buf *path) {
    struct facts push = push_of(f, host, w->repository);
    if (w->repository.n) {
        bool dotted = w->repository.n > 4 &&
                      slice_caseeq(slice_from(w->repository, w->repository.n - 4), SLICE(".git"));
        buf_clear(path);
        buf_put(path, w->repository);
        buf_puts(path, dotted ? "/git-receive-pack" : ".git/git-receive-pack");
        push.path = buf_slice(path);
    }
    push.refs = &w->ref;
    push.nrefs = 1;
    return push;
}

/* Each write as a push; the first that is denied decides, then the first that is asked for. */
static void judge_writes(const struct policy *p, const struct facts *f, const bool *reach,
                         const struct forge *forge, struct slice host, struct verdict *v) {
    struct verdict one, asked = {.action = VERDICT_DENY};
    struct buf path;
    buf_init(&path, 1 << 16);
    for (size_t i = 0; i < forge->n; i++) {
        struct facts push = push_facts(f, &forge->writes[i], host, &path);
        if (path.failed)
            refuse(&one, REASON_WRITE_UNREADABLE, "out of memory");
        else
            judge_ref(p, &push, reach, 0, &one);
        one.door = i + 1;
        if (one.action == VERDICT_DENY) {
            one.bad_refs = 0;
            *v = one;
            buf_release(&path);
            return;
        }
        if (one.action == VERDICT_ASK && asked.action == VERDICT_DENY)
            asked = one;
        if (i == 0)
            v->push = one.rule;
    }
    if (asked.action == VERDICT_ASK && v->action == VERDICT_ALLOW) {
        v->action = VERDICT_ASK;
        v->reason = REASON_ASKED;
        v->rule = asked.rule;
        v->note = asked.note;
        v->door = asked.door;
    }
    buf_release(&path);
}

/* Whether push rules permit whatever a request may do: everything to every ref of the repository; empty: of every one. */
static bool permits_all(const struct policy *p, const struct facts *f, const bool *reach, struct slice host,
                        struct slice repository) {
    struct buf path;
    bool all = true;
    buf_init(&path, 1 << 16);
    for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE && all; op++) {
        struct forge_write write = {.repository = repository, .ref = {.op = (enum facts_op)op}};
        struct facts push = push_facts(f, &write, host, &path);
        struct verdict v;
        judge_ref(p, &push, reach, 0, &v);
        all = !path.failed && v.action == VERDICT_ALLOW;
    }
    buf_release(&path);
    return all;
}

/* … of a request that can't be read, which may be about a gist as well. */
static bool permits_anything(const struct policy *p, const struct facts *f, const bool *reach,
                             struct slice host) {
    char gist[sizeof "gist." + URL_HOST_MAX];
    int n = snprintf(gist, sizeof gist, "gist.%.*s", SLICE_ARG(host));
    if (n < 0 || (size_t)n >= sizeof gist || !permits_all(p, f, reach, host, SLICE_NONE))
        return false;
    struct slice gists = slice_make(gist, (size_t)n);
    return f->host_is_address || !speaks_of(p, f, reach, gists, SLICE_NONE) ||
           permits_all(p, f, reach, gists, SLICE_NONE);
}

void doors_judge(const struct policy *p, const struct facts *f, const bool *reach, struct body_view *view,
                 struct verdict *v) {
    struct forge forge;
    struct slice host;
    if (!doors_read(p, f, view, &forge, &host))
        return;
    bool strange = forge.strange && speaks_of(p, f, reach, host, forge.repository);
    if (forge.state == FORGE_DARK) {
        if (!permits_anything(p, f, reach, host))
            refuse(v, REASON_WRITE_UNREADABLE, forge.why);
    } else if (strange && !named_exactly(p, f, reach, forge.mutation) &&
               !permits_all(p, f, reach, host, forge.repository)) {
        refuse(v, REASON_WRITE_UNKNOWN, NULL);
    } else {
        judge_writes(p, f, reach, &forge, host, v);
    }
    forge_release(&forge);
}

/* --- bodies ---------------------------------------------------------------------------------------------- */

size_t policy_needs_body(const struct policy *p, const struct facts *f) {
    bool denied = false;
    if (f->kind != FACTS_HTTP)
        return 0;
    size_t most = judge_needs_body(p, f, &denied);
    if (denied || most >= POLICY_BODY_MOST || !doors_concern(f) || !need_body(p, f))
        return most;
    /* held for a verdict that hangs on it, not for one that is a denial by the rules about HTTP already */
    struct verdict v;
    struct body_view view = {.read = false};
    judge_rules(p, f, NULL, &view, &v);
    body_view_release(&view);
    return v.action == VERDICT_DENY && most == 0 ? 0 : POLICY_BODY_MOST;
}

/* --- what may be asked for --------------------------------------------------------------------------------- */

bool policy_question(const struct policy *p, const struct facts *f, struct verdict *permitted,
                     struct buf *target, struct buf *body) {
    struct body_view view = {.read = false};
    struct forge forge;
    struct slice host;
    bool asks = false;
    if (!doors_concern(f))
        return false;
    judge_rules(p, f, NULL, &view, permitted);
    if (permitted->action == VERDICT_ALLOW && doors_read(p, f, &view, &forge, &host)) {
        struct verdict v = *permitted;
        judge_writes(p, f, NULL, &forge, host, &v);
        asks = forge.state == FORGE_WRITES && forge.asks && v.action == VERDICT_DENY &&
               forge.writes[v.door - 1].unknown && buf_put(target, forge.question.target) == 0 &&
               buf_put(body, forge.question.body) == 0;
        forge_release(&forge);
    }
    body_view_release(&view);
    return asks;
}

/* --- for the record ------------------------------------------------------------------------------------------ */

size_t policy_writes(const struct policy *p, const struct facts *f, struct facts_ref *refs, size_t max,
                     struct buf *memory) {
    struct body_view view = {.read = false};
    struct forge forge;
    struct slice host;
    size_t n = 0;
    if (!doors_concern(f) || !doors_read(p, f, &view, &forge, &host))
        return 0;
    while (forge.state == FORGE_WRITES && n < forge.n && n < max &&
           buf_put(memory, forge.writes[n].ref.name) == 0)
        n++;
    struct slice names = buf_slice(memory);
    for (size_t i = 0, at = 0; i < n; at += refs[i++].name.n) {
        refs[i] = forge.writes[i].ref;
        refs[i].name = slice_sub(names, at, forge.writes[i].ref.name.n);
        refs[i].brought = NULL;
    }
    forge_release(&forge);
    body_view_release(&view);
    return n;
}

/* --- words ------------------------------------------------------------------------------------------------- */

static void put_write(const struct facts *f, const struct forge_write *w, struct slice host,
                      struct buf *out) {
    static const char *const does[] = {"creates", "updates", "deletes", "may throw away commits of"};
    buf_printf(out, "the request %s ", does[w->ref.op]);
    if (w->ref.name.n)
        buf_put(out, w->ref.name);
    else
        buf_puts(out, "a ref");
    buf_puts(out, " of ");
    if (w->repository.n) {
        url_put_origin(out, f->scheme, host, f->port);
        buf_put(out, w->repository);
    } else {
        buf_puts(out, "a repository");
    }
    if (w->unknown)
        buf_printf(out, " (%s)", w->unknown);
    buf_puts(out, ": ");
}

/* The write that v->door is about, for a moment: put_door gives it back. */
struct door {
    struct body_view view;
    struct forge forge;
    struct slice host;
    struct buf path;
    const struct forge_write *write; /* NULL: it is none */
    struct facts push;               /* … and the push that it amounts to */
};

static void take_door(const struct policy *p, const struct facts *f, const struct verdict *v,
                      struct door *d) {
    *d = (struct door){.write = NULL};
    buf_init(&d->path, 1 << 16);
    if (!doors_read(p, f, &d->view, &d->forge, &d->host))
        return;
    if (v->door && v->door <= d->forge.n) {
        d->write = &d->forge.writes[v->door - 1];
        d->push = push_facts(f, d->write, d->host, &d->path);
    }
}

static void put_door(struct door *d) {
    buf_release(&d->path);
    forge_release(&d->forge);
    body_view_release(&d->view);
}

void doors_explain(const struct policy *p, const struct facts *f, const struct verdict *v, struct buf *out) {
    struct door d;
    take_door(p, f, v, &d);
    if (d.write) {
        struct verdict one = *v;
        one.door = 0;
        one.ref = 0;
        put_write(f, d.write, d.host, out);
        policy_explain_ref(p, &d.push, &one, out);
    }
    put_door(&d);
}

void doors_as_push(const struct policy *p, const struct facts *f, const struct verdict *v,
                   void (*each)(void *arg, const struct facts *push), void *arg) {
    struct door d;
    take_door(p, f, v, &d);
    if (d.write)
        each(arg, &d.push);
    put_door(&d);
}
