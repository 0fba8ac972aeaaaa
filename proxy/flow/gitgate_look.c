/*
 * What a push brings, ref by ref: which commits, whose, and which paths they change (proxy/codec/git_changes.h).
 *
 * Settled are, ref by ref, its old id and, once it matters, the tips of those of the server's branches that the sandbox may
 * push nothing to: their history is the server's own. (The old id is the sandbox's word, but a server takes no push that
 * names another than the ref has. So it counts for that ref alone: the rest of the push might be taken all the same.)
 * What a push brings counts, too, if a server's branch holds it already and git sends it once more, as it does where it has
 * not the branch's tip; so before a refusal the history from those tips down to what was pushed is asked for, and all is looked
 * at anew. What the answer needs beyond that is asked for, kind
 * after kind, and the ref is looked at anew; all of it within the limits of gitask.h. What does not depend on the
 * old id of one ref is put off until all refs have been looked at, and asked for at once: trees, merge bases' history, and
 * which of the commits that created branches stand upon are the server's own. Long work is done a slice in each turn of the
 * loop.
 */
#include <event2/event.h>
#include <stdlib.h>

#include "proxy/codec/git_changes.h"
#include "proxy/flow/gitask.h"
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define LOOK_PURPOSE  "to see what a push changes"
#define LOOK_SLICE    20000                  /* entries compared, or commits looked at, in one turn … */
#define LOOK_WORK     (4 * GIT_CHANGES_WORK) /* … and for all refs of one push */
#define LOOK_ROUNDS   128 /* looks at the refs of one push, each after an answer of the server's */
#define LOOK_HAVES    4096
#define LOOK_BACK     256        /* refs before one that may have been brought the same */
#define LOOK_BASE_MAX (1u << 20) /* bytes of what a pushed commit or tree may be a delta of */

/* What one ref is brought. */
struct look_ref {
    struct facts_brought brought;
    struct facts_text *texts; /* paths, authors, committers */
    char *ids;                /* hexadecimal, of their commits */
    struct git_changes changes;
};

enum look_ask {
    LOOK_COMMITS,
    LOOK_TREES_OF,
    LOOK_TREES,
    LOOK_HISTORY,
    LOOK_NEEDS, /* how many kinds a ref can need */
    LOOK_BRANCHES,
    LOOK_BASES,
    LOOK_TIPS
};

struct gate_look {
    struct xchg *x;
    struct git_objects *objects;
    struct look_ref *refs; /* as many as the push has */
    size_t at, nrefs;      /* the one that is being looked at */
    bool begun, again;     /* … its changes are, for another time */
    bool bases;            /* merge bases are looked for */
    bool branches;         /* the server's branches are known: tips */
    bool asked_tips;       /* the way from there to what was pushed was asked for */
    bool asked_bases;      /* what deltas of the pack are made of was asked for */
    struct git_ids tips;
    struct git_ids own; /* part of their history, as the server says */
    enum look_ask asked;
    struct git_ids asked_ids;
    bool of_all;                      /* the question is not about one ref alone */
    struct git_ids later[LOOK_NEEDS]; /* of refs that were put off: what is to be asked for */
    unsigned rounds;
    size_t budget; /* what is left of this turn's LOOK_SLICE */
    uint64_t work; /* done for all refs so far */
    size_t texts;  /* bytes of what was found, in the push's memory */
    struct event *turn;
    struct errmsg unknown;
};

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

static int look_fails(struct gate_look *look, int err, const char *why) {
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

/* ---- asking ---- */

static void look_done(void *arg);

static int look_fetch(struct gate_look *look, enum look_ask what, const struct git_ids *wants,
                      const struct git_ids *haves) {
    struct gitask_wish wish = {
        .wants = wants,
        .haves = haves,
        .alone = what == LOOK_TREES_OF || what == LOOK_BASES,
        .filter = what == LOOK_TREES_OF || what == LOOK_TREES ? GITASK_ALL_TREES : GITASK_COMMITS,
        .purpose = LOOK_PURPOSE,
        .into = look->objects,
    };
    look->asked = what;
    look->objects->context = what != LOOK_COMMITS;
    git_ids_release(&look->asked_ids);
    git_ids_init_in(&look->asked_ids, look->objects->id_size, look->objects->memory);
    for (size_t i = 0; i < wants->n; i++)
        if (git_ids_add(&look->asked_ids, git_ids_at(wants, i)) == GIT_IDS_NONE)
            return ERR_NOMEM;
    return gitask_fetch(look->x->gate->ask, &wish, look_done, look);
}

/* What the sandbox could do anything to is not taken on trust. */
static void look_branch(void *arg, struct slice name, struct slice id) {
    struct gate_look *look = arg;
    uint8_t tip[GIT_ID_MAX];
    if (slice_starts(name, SLICE("refs/heads/")) && look->tips.n < LOOK_HAVES &&
        git_id_from_hex(id, look->objects->id_size, tip) &&
        !policy_may_push_to(look->x->box->policy, &look->x->facts, name))
        (void)git_ids_add(&look->tips, tip); /* out of memory: then what it holds counts as brought */
}

/* Does it matter which branches the server has? Where all that the ref is brought came in the pack, upon its old id, it
 * does not. */
static bool look_wants_branches(const struct gate_look *look) {
    const struct git_changes *c = &look->refs[look->at].changes;
    if (look->branches)
        return false;
    for (size_t i = 0; i < c->ncommits; i++)
        if (!look->objects->list[c->commits[i]].pushed)
            return true;
    return c->needs.commits.n || c->needs.history.n;
}

/* One question more. */
static int look_round(struct gate_look *look) {
    struct gitgate *gate = look->x->gate;
    if (++look->rounds > LOOK_ROUNDS)
        return errmsg_set(&look->unknown, ERR_LIMIT, "the server would have to be asked too often");
    if (!gate->ask)
        gate->ask = gitask_new(look->x, gate->proof);
    return gate->ask ? 0 : errmsg_set(&look->unknown, ERR_NOMEM, "out of memory");
}

static int look_ask_branches(struct gate_look *look) {
    look->asked = LOOK_BRANCHES;
    look->branches = true;
    return gitask_refs(look->x->gate->ask, "refs/heads/", LOOK_PURPOSE, look_branch, look_done, look);
}

/* What can't be known without one more answer. */
static int look_asked(struct gate_look *look, int r) {
    const char *failed = r ? gitask_failed(look->x->gate->ask) : NULL;
    if (failed)
        errmsg_set(&look->unknown, r, "the server was asked in vain: %.900s", failed);
    return r;
}

static const struct git_ids *look_need(const struct gate_look *look, size_t kind) {
    const struct git_needs *needs = &look->refs[look->at].changes.needs;
    const struct git_ids *kinds[LOOK_NEEDS] = {&needs->commits, &needs->trees_of, &needs->trees,
                                               &needs->history};
    return kinds[kind];
}

/* Asks for what the ref's answer needs first. 0: look_done will be called. */
static int look_ask(struct gate_look *look) {
    size_t kind = LOOK_COMMITS;
    int r = look_round(look);
    if (r)
        return r;
    if (look_wants_branches(look))
        return look_asked(look, look_ask_branches(look));
    while (kind + 1 < LOOK_NEEDS && look_need(look, kind)->n == 0)
        kind++;
    return look_asked(look, look_fetch(look, (enum look_ask)kind, look_need(look, kind),
                                       kind == LOOK_COMMITS ? &look->objects->settled : NULL));
}

/* Does what the ref needs hang on nothing that is settled for it alone? */
static bool look_may_wait(const struct gate_look *look) {
    bool create = look->x->gate->refs[look->at].op == FACTS_CREATE;
    return !look->again && !look_wants_branches(look) && (create || look_need(look, LOOK_COMMITS)->n == 0);
}

/* The ref comes again when what it needs has been asked for, with what others need. */
static int look_put_off(struct gate_look *look) {
    for (size_t kind = 0; kind < LOOK_NEEDS; kind++)
        for (size_t i = 0; i < look_need(look, kind)->n; i++)
            if (git_ids_add(&look->later[kind], git_ids_at(look_need(look, kind), i)) == GIT_IDS_NONE)
                return look_fails(look, ERR_NOMEM, "out of memory");
    git_changes_release(&look->refs[look->at].changes);
    look->at++;
    look->begun = false;
    return 0;
}

static int look_settle(struct gate_look *look, const uint8_t *old) {
    git_objects_unsettle(look->objects);
    int r = old ? git_objects_settle(look->objects, old) : 0;
    for (size_t i = 0; r == 0 && i < look->tips.n; i++)
        r = git_objects_settle(look->objects, git_ids_at(&look->tips, i));
    for (size_t i = 0; r == 0 && i < look->own.n; i++)
        r = git_objects_settle(look->objects, git_ids_at(&look->own, i));
    return r;
}

/* All refs have been looked at: asks for the first kind of what those need that were put off. 0: look_done will be called. */
static int look_ask_later(struct gate_look *look) {
    size_t kind = 0;
    while (kind < LOOK_NEEDS && look->later[kind].n == 0)
        kind++;
    if (kind == LOOK_NEEDS)
        return ERR_EOF;
    int r = look_round(look);
    if (r == 0)
        r = look_settle(look, NULL);
    if (r == 0)
        r = look_asked(look, look_fetch(look, (enum look_ask)kind, &look->later[kind],
                                        kind == LOOK_COMMITS ? &look->objects->settled : NULL));
    for (kind = 0; kind < LOOK_NEEDS; kind++)
        git_ids_release(&look->later[kind]);
    look->at = 0;
    look->of_all = true;
    return r;
}

/* The server has not all that was wanted: what it has not may be in the pack, as a delta of something that the server
 * has. */
static int look_ask_bases(struct gate_look *look) {
    struct git_ids bases;
    if (look->asked_bases)
        return ERR_NOTFOUND;
    look->asked_bases = true;
    git_ids_init_in(&bases, look->objects->id_size, look->objects->memory);
    int r = git_objects_bases(look->objects, LOOK_BASE_MAX, &bases);
    if (r == 0)
        r = bases.n ? look_fetch(look, LOOK_BASES, &bases, NULL) : ERR_NOTFOUND;
    git_ids_release(&bases);
    return r;
}

/* The tips that are not known, and the pushed commits that they may lead to. */
static int look_ask_tips(struct gate_look *look) {
    const struct git_objects *o = look->objects;
    struct git_ids wants, haves;
    int r = 0;
    look->asked_tips = true;
    git_ids_init_in(&wants, o->id_size, o->memory);
    git_ids_init_in(&haves, o->id_size, o->memory);
    for (size_t i = 0; i < look->tips.n; i++)
        if (!git_objects_find(o, git_ids_at(&look->tips, i)) &&
            git_ids_add(&wants, git_ids_at(&look->tips, i)) == GIT_IDS_NONE)
            r = ERR_NOMEM;
    for (size_t i = 0; i < o->ids.n && haves.n < LOOK_HAVES; i++)
        if (o->list[i].pushed && o->list[i].type == GIT_TYPE_COMMIT &&
            git_ids_add(&haves, git_ids_at(&o->ids, i)) == GIT_IDS_NONE)
            r = ERR_NOMEM;
    if (r == 0)
        r = wants.n && haves.n ? look_fetch(look, LOOK_TIPS, &wants, &haves) : ERR_NOTFOUND;
    git_ids_release(&wants);
    git_ids_release(&haves);
    return r;
}

/* All is found out. Would it be refused, and may that be for what a server's branch holds? 0: look_done will be called. */
static int look_doubt(struct gate_look *look) {
    struct verdict v;
    if (look->asked_tips)
        return ERR_NOTFOUND;
    policy_judge(look->x->box->policy, &look->x->facts, &v);
    if (v.action == VERDICT_ALLOW || look_round(look))
        return ERR_NOTFOUND;
    return look->branches ? look_ask_tips(look) : look_ask_branches(look);
}

/* Forgets what was found out. */
static void look_anew(struct gate_look *look) {
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

/* What the server did not send of what it was asked for is history of what it was told that we have. */
static void look_settle_rest(struct gate_look *look) {
    for (size_t i = 0; i < look->asked_ids.n; i++) {
        const uint8_t *id = git_ids_at(&look->asked_ids, i);
        const struct git_object *object = git_objects_find(look->objects, id);
        if (object && !object->context)
            continue;
        if (look->of_all)
            (void)git_ids_add(&look->own, id);
        else
            (void)git_objects_settle(look->objects, id);
    }
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

static void look_turn(evutil_socket_t fd, short what, void *arg) {
    struct gate_look *look = arg;
    (void)fd;
    (void)what;
    engine_reap(look->x->box->engine);
    if (!look_go(look))
        gitgate_conclude(look->x);
}

/* Is something of what was asked for not there, though the answer was a whole one? It would be asked for again and again. */
static bool look_withheld(const struct gate_look *look) {
    if (look->asked != LOOK_TREES_OF && look->asked != LOOK_TREES)
        return false;
    for (size_t i = 0; i < look->asked_ids.n; i++) {
        const struct git_object *object = git_objects_find(look->objects, git_ids_at(&look->asked_ids, i));
        uint8_t tree[GIT_ID_MAX];
        size_t at = 0;
        if (!object)
            return true;
        if (look->asked == LOOK_TREES_OF && object->type == GIT_TYPE_COMMIT &&
            git_commit_next(slice_make(object->data, object->size), look->objects->id_size, &at, tree) == 0 &&
            !git_objects_find(look->objects, tree))
            return true;
    }
    return false;
}

static void look_done(void *arg) {
    struct gate_look *look = arg;
    struct xchg *x = look->x;
    const char *failed = gitask_failed(x->gate->ask);
    if (!gitproof_whole(x->gate->proof))
        failed = gitproof_failed(x->gate->proof);
    else if (!failed && look_withheld(look))
        failed = "it did not send all that it was asked for";
    if (look->asked == LOOK_TIPS) {
        if (!failed)
            look_anew(look);
    } else if (failed && look->asked == LOOK_HISTORY) {
        look->bases = false; /* then no path is excused by them */
    } else if (failed && look->asked != LOOK_BRANCHES) {
        if (gitask_refused(x->gate->ask) && look->asked != LOOK_BASES && look_ask_bases(look) == 0)
            return;
        errmsg_set(&look->unknown, ERR_NOTFOUND, "the server was asked in vain: %.900s", failed);
        x->facts.unknown = look->unknown.text;
        x->gate->looked = true;
        gitgate_conclude(x);
        return;
    } else if (look->asked == LOOK_COMMITS) {
        look_settle_rest(look);
    }
    look_again(look);
    if (!look_go(look))
        gitgate_conclude(x);
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
