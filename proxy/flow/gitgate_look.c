/*
 * What a push brings, ref by ref: which commits, whose, and which paths they change (proxy/codec/git_changes.h).
 *
 * Settled are, ref by ref, its old id and, once it matters, the tips of those of the server's branches that the sandbox may
 * push nothing to: their history is the server's own. (The old id is the sandbox's word, but a server takes no push that
 * names another than the ref has. So it counts for that ref alone: the rest of the push might be taken all the same.)
 * What a push brings counts, too, if a server's branch holds it already and git sends it once more, as it does where it has
 * not the branch's tip; so before a refusal the history from those tips down to what was pushed is asked for, and all is looked
 * at anew. What the answer needs beyond that is asked for (gitgate_look_ask.c), kind after kind, and the ref is looked at anew. Long
 * work is done a slice in each turn of the loop.
 */
#include <event2/event.h>
#include <stdlib.h>

#include "proxy/flow/gitgate_look_state.h"

#define LOOK_SLICE 20000                  /* entries compared, or commits looked at, in one turn … */
#define LOOK_WORK  (4 * GIT_CHANGES_WORK) /* … and for all refs of one push */
#define LOOK_BACK  256                    /* refs before one that may have been brought the same */

void gitgate_look_free(struct gate_look *look) {
    if (!look)
        return;
    for (size_t i = 0; look->refs && i < look->nrefs; i++) {
        git_changes_release(&look->refs[i].changes);
        free(look->refs[i].texts);
        free(look->refs[i].ids);
    }
    free(look->refs);
    git_ids_release(&look->asked_ids);
    git_ids_release(&look->tips);
    git_ids_release(&look->own);
    for (size_t kind = 0; kind < LOOK_NEEDS; kind++)
        git_ids_release(&look->later[kind]);
    git_memory_give(look->objects->memory, look->texts + look->nrefs * sizeof *look->refs);
    if (look->turn)
        event_free(look->turn);
    free(look);
}

/* ---- what was found ---- */

/* Texts as facts; *at says how many of `ref->texts` are used. */
static void look_texts(struct gate_look *look, struct look_ref *ref, const struct git_texts *from, size_t *at,
                       const struct facts_text **list, size_t *n) {
    unsigned id_size = look->objects->id_size;
    *list = ref->texts + *at;
    *n = from->n;
    for (size_t i = 0; i < from->n; i++, (*at)++) {
        struct facts_text *t = &ref->texts[*at];
        char *hex = ref->ids + *at * (2 * GIT_ID_MAX + 1);
        t->text = git_text(from, i);
        t->link = from->list[i].link;
        if (from->list[i].commit == GIT_NO_COMMIT)
            continue;
        git_id_to_hex(git_ids_at(&look->objects->ids, from->list[i].commit), id_size, hex);
        t->commit = slice_make(hex, 2 * (size_t)id_size);
    }
}

int look_fails(struct gate_look *look, int err, const char *why) {
    return errmsg_set(&look->unknown, err, "%.900s", gitproof_reason(look->x->gate->proof, why));
}

/* Keeps what was found out about the ref. */
static int look_keep(struct gate_look *look, struct facts_ref *facts) {
    struct look_ref *ref = &look->refs[look->at];
    const struct git_changes *c = &ref->changes;
    size_t n = c->paths.n + c->authors.n + c->committers.n, at = 0;
    size_t size = (n + 1) * (sizeof *ref->texts + 2 * GIT_ID_MAX + 1);
    if (!git_memory_take(look->objects->memory, size))
        return look_fails(look, ERR_LIMIT, "it changes too much at once");
    look->texts += size;
    ref->texts = calloc(n + 1, sizeof *ref->texts);
    ref->ids = malloc((n + 1) * (2 * GIT_ID_MAX + 1));
    if (!ref->texts || !ref->ids)
        return errmsg_set(&look->unknown, ERR_NOMEM, "out of memory");
    struct facts_brought *b = &ref->brought;
    look_texts(look, ref, &c->paths, &at, &b->paths, &b->npaths);
    look_texts(look, ref, &c->authors, &at, &b->authors, &b->nauthors);
    look_texts(look, ref, &c->committers, &at, &b->committers, &b->ncommitters);
    b->paths_known = look->x->gate->needs & POLICY_PACK_PATHS;
    b->commits_known = b->signed_known = b->authors_known = b->committers_known = true;
    b->ncommits = c->ncommits;
    b->nsigned = c->nsigned;
    facts->brought = b;
    return 0;
}

void look_anew(struct gate_look *look) {
    struct gitgate *gate = look->x->gate;
    for (size_t i = 0; i < look->nrefs; i++) {
        git_changes_release(&look->refs[i].changes);
        free(look->refs[i].texts);
        free(look->refs[i].ids);
        look->refs[i] = (struct look_ref){.texts = NULL};
        gate->refs[i].brought = NULL;
    }
    git_memory_give(look->objects->memory, look->texts);
    look->texts = 0;
    look->at = 0;
    look->begun = look->again = false;
}

/* ---- the way through ---- */

static int look_begin(struct gate_look *look) {
    const struct facts_ref *ref = &look->x->gate->refs[look->at];
    uint8_t old[GIT_ID_MAX], young[GIT_ID_MAX];
    bool create = ref->op == FACTS_CREATE;
    unsigned flags = (ref->op == FACTS_UPDATE ? GIT_CHANGES_FF : 0) | (look->bases ? GIT_CHANGES_EXCUSE : 0) |
                     (look->x->gate->needs & POLICY_PACK_PATHS ? 0 : GIT_CHANGES_COMMITS);
    if (!git_id_from_hex(ref->old, look->objects->id_size, old) ||
        !git_id_from_hex(ref->new, look->objects->id_size, young))
        return ERR_USAGE;
    int r = look->again ? 0 : look_settle(look, create ? NULL : old);
    if (r)
        return r;
    look->begun = true;
    return git_changes_init(&look->refs[look->at].changes, look->objects, create ? NULL : old, young, flags);
}

/*
 * The ref is looked at anew; what is settled for it stays. After a question of all refs there is none: those that were put off
 * have let go of their changes, and those that were not need theirs, which `brought` points into.
 */
static void look_again(struct gate_look *look) {
    if (look->at == look->nrefs || look->of_all)
        return;
    git_changes_release(&look->refs[look->at].changes);
    look->begun = false;
    look->again = look->asked != LOOK_BRANCHES && look->asked != LOOK_TIPS;
}

/* A ref before this one that went the same way, so that it was brought the same. */
static const struct facts_brought *look_same(const struct gate_look *look) {
    const struct facts_ref *refs = look->x->gate->refs, *ref = &refs[look->at];
    for (size_t i = look->at; i > 0 && look->at - i < LOOK_BACK; i--)
        if (refs[i - 1].brought && refs[i - 1].op == ref->op && slice_eq(refs[i - 1].new, ref->new) &&
            slice_eq(refs[i - 1].old, ref->old))
            return refs[i - 1].brought;
    return NULL;
}

/* Goes on with the ref's changes, as long as this turn lasts; the refs of a push share it. */
static int look_run(struct gate_look *look) {
    static const struct timeval now = {0, 0};
    struct git_changes *c = &look->refs[look->at].changes;
    uint64_t before = c->work;
    int r = look->budget ? git_changes_run(c, look->budget) : ERR_INCOMPLETE;
    uint64_t did = c->work - before + 1;
    look->work += did;
    look->budget = did < look->budget ? look->budget - (size_t)did : 0;
    if (look->work > LOOK_WORK)
        return look_fails(look, ERR_LIMIT, "there is too much to be compared");
    if (r == ERR_INCOMPLETE)
        return event_add(look->turn, &now) == 0 ? r : ERR_NOMEM;
    return r ? look_fails(look, r, c->error.text[0] ? c->error.text : err_text(r)) : 0;
}

/* One step. ERR_INCOMPLETE: it goes on by itself. ERR_EOF: all is found out. Else it can't be: look->unknown. */
static int look_step(struct gate_look *look) {
    struct gitgate *gate = look->x->gate;
    if (look->at == gate->nrefs) {
        int r = look_ask_later(look);
        return r ? r : ERR_INCOMPLETE;
    }
    if (gate->refs[look->at].op == FACTS_DELETE || gate->refs[look->at].brought) {
        look->at++;
        return 0;
    }
    if (!look->begun && (gate->refs[look->at].brought = look_same(look)) != NULL) {
        look->at++;
        return 0;
    }
    int r = look->begun ? 0 : look_begin(look);
    if (r == 0)
        r = look_run(look);
    if (r)
        return r;
    if (look_wants_branches(look) || !git_changes_complete(&look->refs[look->at].changes)) {
        if (look_may_wait(look))
            return look_put_off(look);
        look->of_all = false;
        r = look_ask(look);
        return r ? r : ERR_INCOMPLETE;
    }
    r = look_keep(look, &gate->refs[look->at]);
    look->at++;
    look->begun = look->again = false;
    return r;
}

/* True: it goes on. */
static bool look_go(struct gate_look *look) {
    struct xchg *x = look->x;
    int r;
    look->budget = LOOK_SLICE;
    while ((r = look_step(look)) == 0)
        ;
    if (r == ERR_INCOMPLETE || (r == ERR_EOF && look_doubt(look) == 0))
        return true;
    x->gate->looked = true;
    if (r != ERR_EOF) {
        if (!look->unknown.text[0])
            look_fails(look, r, err_text(r));
        x->facts.unknown = look->unknown.text;
    }
    return false;
}

void look_resume(struct gate_look *look) {
    look_again(look);
    if (!look_go(look))
        gitgate_conclude(look->x);
}

void look_give_up(struct gate_look *look) {
    look->x->facts.unknown = look->unknown.text;
    look->x->gate->looked = true;
    gitgate_conclude(look->x);
}

static void look_turn(evutil_socket_t fd, short what, void *arg) {
    struct gate_look *look = arg;
    (void)fd;
    (void)what;
    engine_reap(look->x->box->engine);
    if (!look_go(look))
        gitgate_conclude(look->x);
}

bool gitgate_look(struct xchg *x) {
    struct gitgate *gate = x->gate;
    struct gate_look *look = NULL;
    gate->looked = true;
    if (!gitproof_whole(gate->proof) || !(gate->needs & (POLICY_PACK_PATHS | POLICY_PACK_COMMITS)))
        return false;
    look = calloc(1, sizeof *look);
    if (look) {
        *look = (struct gate_look){.x = x, .objects = gitproof_objects(gate->proof), .bases = true};
        git_ids_init_in(&look->tips, look->objects->id_size, look->objects->memory);
        git_ids_init_in(&look->own, look->objects->id_size, look->objects->memory);
        for (size_t kind = 0; kind < LOOK_NEEDS; kind++)
            git_ids_init_in(&look->later[kind], look->objects->id_size, look->objects->memory);
        if (git_memory_take(look->objects->memory, gate->nrefs * sizeof *look->refs)) {
            look->nrefs = gate->nrefs;
            look->refs = calloc(gate->nrefs, sizeof *look->refs);
        }
        look->turn = evtimer_new(x->box->engine->config.base, look_turn, look);
    }
    gate->look = look;
    if (!look || !look->refs || !look->turn) {
        x->facts.unknown = gitproof_reason(gate->proof, "out of memory");
        return false;
    }
    gate->looked = false;
    gitgate_enter(x, GATE_ASK);
    return look_go(look);
}
