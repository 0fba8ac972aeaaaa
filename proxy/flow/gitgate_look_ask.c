/*
 * What the server is asked for to see what a push brings, within the limits of gitask.h, and what its answers mean. What does not
 * depend on the old id of one ref is put off until all refs have been looked at, and asked for at once: trees, merge bases' history,
 * and which of the commits that created branches stand upon are the server's own.
 */
#include "proxy/flow/gitask.h"
#include "proxy/flow/gitgate_look_state.h"

#define LOOK_PURPOSE  "to see what a push changes"
#define LOOK_ROUNDS   128 /* looks at the refs of one push, each after an answer of the server's */
#define LOOK_HAVES    4096
#define LOOK_BASE_MAX (1u << 20) /* bytes of what a pushed commit or tree may be a delta of */

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

bool look_wants_branches(const struct gate_look *look) {
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

int look_ask(struct gate_look *look) {
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

bool look_may_wait(const struct gate_look *look) {
    bool create = look->x->gate->refs[look->at].op == FACTS_CREATE;
    return !look->again && !look_wants_branches(look) && (create || look_need(look, LOOK_COMMITS)->n == 0);
}

int look_put_off(struct gate_look *look) {
    for (size_t kind = 0; kind < LOOK_NEEDS; kind++)
        for (size_t i = 0; i < look_need(look, kind)->n; i++)
            if (git_ids_add(&look->later[kind], git_ids_at(look_need(look, kind), i)) == GIT_IDS_NONE)
                return look_fails(look, ERR_NOMEM, "out of memory");
    git_changes_release(&look->refs[look->at].changes);
    look->at++;
    look->begun = false;
    return 0;
}

int look_settle(struct gate_look *look, const uint8_t *old) {
    git_objects_unsettle(look->objects);
    int r = old ? git_objects_settle(look->objects, old) : 0;
    for (size_t i = 0; r == 0 && i < look->tips.n; i++)
        r = git_objects_settle(look->objects, git_ids_at(&look->tips, i));
    for (size_t i = 0; r == 0 && i < look->own.n; i++)
        r = git_objects_settle(look->objects, git_ids_at(&look->own, i));
    return r;
}

int look_ask_later(struct gate_look *look) {
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

int look_doubt(struct gate_look *look) {
    struct verdict v;
    if (look->asked_tips)
        return ERR_NOTFOUND;
    policy_judge(look->x->box->policy, &look->x->facts, &v);
    if (v.action == VERDICT_ALLOW || look_round(look))
        return ERR_NOTFOUND;
    return look->branches ? look_ask_tips(look) : look_ask_branches(look);
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
        look_give_up(look);
        return;
    } else if (look->asked == LOOK_COMMITS) {
        look_settle_rest(look);
    }
    look_resume(look);
}
