#include "proxy/codec/git_changes.h"

#include <stdlib.h>

#include "proxy/codec/git_changes_internal.h"

enum { CHANGES_BEGIN, CHANGES_COMMITS, CHANGES_UPDATE, CHANGES_DONE };

#define TAGS_MAX    16 /* of one another */
#define PARENTS_MAX 64 /* of one merge; git's own octopus stops long before */

int git_changes_init(struct git_changes *c, const struct git_objects *o, const uint8_t *old,
                     const uint8_t *young, unsigned flags) {
    *c = (struct git_changes){.o = o,
                              .update = old && !(flags & GIT_CHANGES_FF),
                              .excuse = flags & GIT_CHANGES_EXCUSE,
                              .trees = !(flags & GIT_CHANGES_COMMITS)};
    if (old)
        memcpy(c->old, old, o->id_size);
    memcpy(c->young, young, o->id_size);
    git_texts_init(&c->paths, o->memory);
    git_texts_init(&c->authors, o->memory);
    git_texts_init(&c->committers, o->memory);
    git_ids_init_in(&c->needs.commits, o->id_size, o->memory);
    git_ids_init_in(&c->needs.trees_of, o->id_size, o->memory);
    git_ids_init_in(&c->needs.trees, o->id_size, o->memory);
    git_ids_init_in(&c->needs.history, o->id_size, o->memory);
    c->md = EVP_MD_fetch(NULL, "SHA256", NULL);
    c->hash = EVP_MD_CTX_new();
    c->diff = git_diff_new();
    if (c->md && c->hash && c->diff)
        return 0;
    git_changes_release(c);
    return ERR_NOMEM;
}

/* What only running takes, which would add up where the results of many are kept. */
static void changes_rest(struct git_changes *c) {
    EVP_MD_CTX_free(c->hash);
    EVP_MD_free(c->md);
    c->hash = NULL;
    c->md = NULL;
    git_diff_free(c);
}

void git_changes_release(struct git_changes *c) {
    git_texts_release(&c->paths);
    git_texts_release(&c->authors);
    git_texts_release(&c->committers);
    git_ids_release(&c->needs.commits);
    git_ids_release(&c->needs.trees_of);
    git_ids_release(&c->needs.trees);
    git_ids_release(&c->needs.history);
    free(c->commits);
    if (c->o)
        git_memory_give(c->o->memory, c->commits_room * sizeof *c->commits);
    c->commits = NULL;
    c->ncommits = c->commits_room = 0;
    changes_rest(c);
}

bool git_changes_complete(const struct git_changes *c) {
    const struct git_needs *n = &c->needs;
    return !n->commits.n && !n->trees_of.n && !n->trees.n && !n->history.n;
}

/* Notes that an id is needed. */
static int changes_need(struct git_ids *set, const uint8_t *id) {
    return git_ids_add(set, id) == GIT_IDS_NONE ? ERR_NOMEM : 0;
}

static struct slice contents(const struct git_object *object) {
    return slice_make(object->data, object->size);
}

/* ---- which commits ---- */

static int changes_read_commit(struct git_changes *c, uint32_t number) {
    struct slice data = contents(&c->o->list[number]), who;
    int r = 0;
    c->nsigned += git_commit_signed(data);
    if (!git_commit_identity(data, SLICE("author "), &who))
        who = SLICE_NONE;
    r = git_texts_add(c, &c->authors, who, number, false);
    if (!git_commit_identity(data, SLICE("committer "), &who))
        who = SLICE_NONE;
    if (r == 0)
        r = git_texts_add(c, &c->committers, who, number, false);
    return r == ERR_LIMIT ? errmsg_set(&c->error, r, "it has too many authors") : r;
}

/* What the new id reaches. */
static int changes_collect(struct git_changes *c, struct git_ids *settled, struct git_ids *seen) {
    int r = git_history_settled(c->o, settled);
    c->work += settled->n;
    if (r == 0)
        r = changes_need(seen, c->young);
    for (size_t i = 0; r == 0 && i < seen->n; i++) {
        const uint8_t *id = git_ids_at(seen, i);
        size_t number = git_ids_find(&c->o->ids, id);
        if (git_ids_find(settled, id) != GIT_IDS_NONE)
            continue;
        if (number == GIT_IDS_NONE || c->o->list[number].context) {
            r = changes_need(&c->needs.commits, id);
            continue;
        }
        void *commits =
            git_memory_list(c->o->memory, c->commits, sizeof *c->commits, c->ncommits, &c->commits_room);
        if (!commits)
            return ERR_NOMEM;
        c->commits = commits;
        if (c->o->list[number].type == GIT_TYPE_COMMIT) {
            c->commits[c->ncommits++] = (uint32_t)number;
            r = changes_read_commit(c, (uint32_t)number);
        }
        c->work++;
        if (r == 0)
            r = git_history_names(c->o, &c->o->list[number], seen);
    }
    if (r == ERR_PARSE && !c->error.text[0])
        errmsg_set(&c->error, r, "it brings something else than commits, or a malformed one");
    return r;
}

/* A ref may name a tag: what counts is the commit behind it. */
static void changes_peel(const struct git_objects *o, uint8_t *id) {
    const struct git_object *object;
    enum git_type type;
    for (unsigned i = 0; i < TAGS_MAX && (object = git_objects_find(o, id)) && object->type == GIT_TYPE_TAG;
         i++)
        if (git_tag_target(contents(object), o->id_size, id, &type))
            return;
}

static int changes_begin(struct git_changes *c) {
    struct git_ids settled, seen;
    changes_peel(c->o, c->old);
    changes_peel(c->o, c->young);
    git_ids_init_in(&settled, c->o->id_size, c->o->memory);
    git_ids_init_in(&seen, c->o->id_size, c->o->memory);
    int r = changes_collect(c, &settled, &seen);
    git_ids_release(&settled);
    git_ids_release(&seen);
    return r;
}

/* ---- what is compared ---- */

/* A commit's root. `known`: it is not a pushed one. 0; ERR_EOF: it is missing, and is noted. */
static int changes_root(struct git_changes *c, const uint8_t *id, uint8_t *root) {
    const struct git_object *object = git_objects_find(c->o, id);
    size_t at = 0;
    if (!object) {
        int r = changes_need(&c->needs.trees_of, id);
        return r ? r : ERR_EOF;
    }
    if (object->type != GIT_TYPE_COMMIT || git_commit_next(contents(object), c->o->id_size, &at, root))
        return errmsg_set(&c->error, ERR_PARSE, "a parent that is no commit");
    if (!git_objects_find(c->o, root) && !object->pushed) {
        int r = changes_need(&c->needs.trees_of, id);
        return r ? r : ERR_EOF;
    }
    return 0;
}

struct roots {
    uint8_t tree[GIT_SIDES_MAX][GIT_ID_MAX];
};

/* Compares `n` commits' trees, the first of which is the new one. */
static int changes_compare(struct git_changes *c, const uint8_t *const *ids, unsigned n, uint32_t commit) {
    struct git_sides sides = {.n = n, .commit = commit};
    struct roots roots = {.tree = {{0}}};
    bool missing = false;
    for (unsigned i = 0; i < n; i++) {
        sides.root[i] = NULL;
        if (!ids[i])
            continue;
        int r = changes_root(c, ids[i], roots.tree[i]);
        if (r && r != ERR_EOF)
            return r;
        missing |= r == ERR_EOF;
        sides.root[i] = roots.tree[i];
    }
    for (unsigned i = 0; !missing && i < n; i++) {
        bool differs = !sides.root[i] || memcmp(roots.tree[i], roots.tree[0], c->o->id_size) != 0;
        if (differs && (i == 1 || i == 2))
            return git_diff_begin(c, &sides);
    }
    return 0;
}

/* A merge of `a` and `b` that is `made`. 0: it is being compared, or something is missing for that; ERR_EOF: their bases
 * are not known, and are not to be. */
static int changes_merge(struct git_changes *c, const uint8_t *made, const uint8_t *a, const uint8_t *b,
                         uint32_t commit) {
    const uint8_t *ids[GIT_SIDES_MAX] = {made, a, b};
    enum git_answer answer;
    struct git_ids bases, missing;
    unsigned n = 3;
    if (!c->excuse)
        return ERR_EOF;
    git_ids_init_in(&bases, c->o->id_size, c->o->memory);
    git_ids_init_in(&missing, c->o->id_size, c->o->memory);
    int r = git_bases(c->o, a, b, &bases, &answer, &missing, &c->work);
    if (r == 0 && answer == GIT_UNKNOWN) {
        for (size_t i = 0; r == 0 && i < missing.n; i++)
            r = changes_need(&c->needs.history, git_ids_at(&missing, i));
    } else if (r == 0 && bases.n > GIT_BASES_MAX) {
        r = ERR_EOF;
    } else if (r == 0) {
        for (size_t i = 0; i < bases.n; i++)
            ids[n++] = git_ids_at(&bases, i);
        if (answer == GIT_NO)
            ids[n++] = NULL; /* they have nothing in common: all that either has it added */
        r = changes_compare(c, ids, n, commit);
    }
    git_ids_release(&bases);
    git_ids_release(&missing);
    if (r == ERR_PARSE && !c->error.text[0])
        errmsg_set(&c->error, r, "a malformed commit in its history");
    return r;
}

/* The next comparison for one commit. ERR_EOF: there is none. */
static int changes_commit(struct git_changes *c, uint32_t number) {
    uint8_t parents[PARENTS_MAX][GIT_ID_MAX], tree[GIT_ID_MAX];
    const uint8_t *id = git_ids_at(&c->o->ids, number);
    struct slice data = contents(&c->o->list[number]);
    size_t n = 0, at = 0, job = c->job++;
    int r = git_commit_next(data, c->o->id_size, &at, tree);
    while (r == 0 && n < PARENTS_MAX && (r = git_commit_next(data, c->o->id_size, &at, parents[n])) == 0)
        n++;
    if (r == 0)
        return errmsg_set(&c->error, ERR_LIMIT, "a merge of %d commits or more", PARENTS_MAX);
    if (n == 2 && job == 0) {
        r = changes_merge(c, id, parents[0], parents[1], number);
        if (r != ERR_EOF) {
            c->job = SIZE_MAX;
            return r;
        }
    }
    if (job >= (n ? n : 1))
        return ERR_EOF;
    const uint8_t *ids[] = {id, n ? parents[job] : NULL};
    return changes_compare(c, ids, 2, number);
}

/* What an update that is no fast-forward takes back. */
static int changes_update(struct git_changes *c) {
    enum git_answer answer = GIT_UNKNOWN;
    if (c->job++ || !c->update)
        return ERR_EOF;
    int r = git_objects_is_ancestor(c->o, c->old, c->young, &answer);
    if (r || answer == GIT_YES)
        return r == ERR_PARSE ? errmsg_set(&c->error, r, "a malformed commit in its history") : r;
    r = changes_merge(c, c->young, c->old, c->young, GIT_NO_COMMIT);
    const uint8_t *ids[] = {c->young, c->old};
    return r == ERR_EOF ? changes_compare(c, ids, 2, GIT_NO_COMMIT) : r;
}

/* ---- running ---- */

static int changes_step(struct git_changes *c) {
    int r = 0;
    switch (c->phase) {
    case CHANGES_BEGIN:
        r = changes_begin(c);
        c->phase = c->trees ? CHANGES_COMMITS : CHANGES_DONE;
        return r;
    case CHANGES_COMMITS:
        if (c->at == c->ncommits) {
            c->job = 0;
            c->phase++;
            return 0;
        }
        r = c->job == SIZE_MAX ? ERR_EOF : changes_commit(c, c->commits[c->at]);
        if (r != ERR_EOF)
            return r;
        c->at++;
        c->job = 0;
        return 0;
    case CHANGES_UPDATE:
        r = changes_update(c);
        if (r != ERR_EOF)
            return r;
        c->phase++;
        return 0;
    }
    return 0;
}

int git_changes_run(struct git_changes *c, size_t budget) {
    while (c->err == 0 && c->phase != CHANGES_DONE) {
        uint64_t before = c->work;
        c->err = git_diff_run(c, &budget);
        if (c->err == ERR_INCOMPLETE) {
            c->err = 0;
            return ERR_INCOMPLETE;
        }
        if (c->err == 0)
            c->err = changes_step(c);
        if (c->err == 0 && c->work > GIT_CHANGES_WORK)
            c->err = errmsg_set(&c->error, ERR_LIMIT, "there is too much to be compared");
        uint64_t did = c->work - before + 1;
        budget = did < budget ? budget - (size_t)did : 0;
        if (c->err == 0 && budget == 0 && c->phase != CHANGES_DONE)
            return ERR_INCOMPLETE;
    }
    if (c->err && !c->error.text[0])
        errmsg_set(&c->error, c->err, "%s", err_text(c->err));
    changes_rest(c);
    return c->err;
}
