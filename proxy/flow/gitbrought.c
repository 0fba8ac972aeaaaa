#include "proxy/flow/gitbrought.h"

#include <event2/event_struct.h>
#include <stdio.h>
#include <stdlib.h>

#include "proxy/flow/gitask.h"
#include "proxy/flow/gitproof.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define BROUGHT_BUDGET   20000 /* entries and commits that are looked at in one turn of the loop */
#define BROUGHT_TIPS_MAX 10000 /* branches of the server's own that are told to it; of more, more is sent */
#define BROUGHT_BASE_MAX (1u << 20) /* bytes of what a pushed commit or tree may be a delta of */
#define BROUGHT_PURPOSE  "to know what the push changes"

struct gitbrought {
    struct gitbrought_config config;
    struct git_changes *changes;
    uint8_t old[GIT_ID_MAX], new[GIT_ID_MAX];
    bool created, ff;
    bool excuse;      /* history is looked for, by which merges are excused */
    bool asked_bases; /* what deltas of the pack are made of has been asked for */
    bool listed;      /* the server's branches are known */
    struct git_ids tips;
    struct git_ids wants; /* of the question under way */
    struct event turn;
    void (*done)(void *arg);
    void *arg;
    bool failed;
    struct errmsg why;
};

static void brought_on_turn(evutil_socket_t fd, short what, void *arg);

struct gitbrought *gitbrought_new(const struct gitbrought_config *config) {
    struct gitbrought *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->config = *config;
    git_ids_init(&b->tips, gitproof_objects(config->proof)->id_size);
    git_ids_init(&b->wants, b->tips.id_size);
    event_assign(&b->turn, config->x->box->engine->config.base, -1, 0, brought_on_turn, b);
    return b;
}

void gitbrought_free(struct gitbrought *b) {
    if (!b)
        return;
    event_del(&b->turn);
    git_ids_release(&b->tips);
    git_ids_release(&b->wants);
    free(b);
}

const char *gitbrought_failed(const struct gitbrought *b) {
    return b->failed ? b->why.text : NULL;
}

static struct git_objects *brought_store(const struct gitbrought *b) {
    return gitproof_objects(b->config.proof);
}

/* ---- the end ---- */

static void brought_over(struct gitbrought *b) {
    b->done(b->arg);
}

static void brought_fail(struct gitbrought *b, const char *why) {
    b->failed = true;
    snprintf(b->why.text, sizeof b->why.text, "%s", why);
    brought_over(b);
}

/* ---- rounds ---- */

/* Looks through the store from the beginning. */
static void brought_begin(struct gitbrought *b) {
    git_changes_release(b->changes);
    if (git_changes_init(b->changes, brought_store(b), b->created ? NULL : b->old, b->new, b->ff,
                         b->excuse)) {
        brought_fail(b, "out of memory");
        return;
    }
    event_active(&b->turn, EV_TIMEOUT, 0);
}

static int brought_settle_tips(struct gitbrought *b) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < b->tips.n; i++)
        r = git_objects_settle(brought_store(b), git_ids_at(&b->tips, i));
    return r;
}

/* ---- what the server's own is ---- */

static void brought_ref(void *arg, struct slice name, struct slice id) {
    struct gitbrought *b = arg;
    uint8_t tip[GIT_ID_MAX];
    if (b->tips.n < BROUGHT_TIPS_MAX && b->config.own(b->config.arg, name) &&
        git_id_from_hex(id, b->tips.id_size, tip))
        git_ids_add(&b->tips, tip); /* without one more is sent, and counts as brought */
}

static void brought_listed(void *arg) {
    struct gitbrought *b = arg;
    const char *failed = gitask_failed(b->config.ask);
    b->listed = true;
    if (failed)
        brought_fail(b, failed);
    else if (brought_settle_tips(b))
        brought_fail(b, "out of memory");
    else
        brought_begin(b);
}

/* ---- questions ---- */

static bool brought_ask_bases(struct gitbrought *b);

static void brought_put(struct gitbrought *b, struct git_ids *wants, struct gitask_wish *wish,
                        void (*answered)(void *arg)) {
    git_ids_release(&b->wants);
    b->wants = *wants; /* they are looked at again when the answer is there, and `changes` is made anew */
    git_ids_init(wants, b->wants.id_size);
    wish->wants = &b->wants;
    wish->purpose = BROUGHT_PURPOSE;
    wish->into = brought_store(b);
    if (gitask_fetch(b->config.ask, wish, answered, b))
        brought_fail(b, gitask_failed(b->config.ask));
}

/* Not answered in full: is there another way? */
static void brought_refused(struct gitbrought *b) {
    if (!gitask_refused(b->config.ask) || !brought_ask_bases(b))
        brought_fail(b, gitask_failed(b->config.ask));
}

static void brought_got_bases(void *arg) {
    struct gitbrought *b = arg;
    if (gitask_failed(b->config.ask))
        brought_fail(b, gitask_failed(b->config.ask));
    else
        brought_begin(b);
}

/* The server has not all that was wanted: what it has not may be in the pack, as a delta of what the server has. */
static bool brought_ask_bases(struct gitbrought *b) {
    struct gitask_wish wish = {.alone = true, .filter = GITASK_COMMITS};
    struct git_ids bases;
    if (b->asked_bases)
        return false;
    b->asked_bases = true;
    git_ids_init(&bases, b->tips.id_size);
    if (git_objects_bases(brought_store(b), BROUGHT_BASE_MAX, &bases) || bases.n == 0) {
        git_ids_release(&bases);
        return false;
    }
    brought_put(b, &bases, &wish, brought_got_bases);
    return true;
}

/* What the server did not send of what was wanted is part of what it was told to leave out. */
static void brought_got_commits(void *arg) {
    struct gitbrought *b = arg;
    struct git_objects *store = brought_store(b);
    int r = 0;
    if (gitask_failed(b->config.ask)) {
        brought_refused(b);
        return;
    }
    for (size_t i = 0; r == 0 && i < b->wants.n; i++)
        if (!git_objects_find(store, git_ids_at(&b->wants, i)))
            r = git_objects_settle(store, git_ids_at(&b->wants, i));
    if (r)
        brought_fail(b, "out of memory");
    else
        brought_begin(b);
}

static void brought_got_objects(void *arg) {
    struct gitbrought *b = arg;
    if (gitask_failed(b->config.ask)) {
        brought_refused(b);
        return;
    }
    for (size_t i = 0; i < b->wants.n; i++)
        if (!git_objects_find(brought_store(b), git_ids_at(&b->wants, i))) {
            brought_fail(b, "the server does not send all that it is asked for");
            return;
        }
    brought_begin(b);
}

/* Without all of history no merge is excused, which makes more paths count. */
static void brought_got_history(void *arg) {
    struct gitbrought *b = arg;
    if (gitask_failed(b->config.ask))
        b->excuse = false;
    brought_begin(b);
}

static void brought_ask_commits(struct gitbrought *b) {
    struct gitask_wish wish = {.haves = &brought_store(b)->settled, .filter = GITASK_COMMITS};
    if (b->listed)
        brought_put(b, &b->changes->needs.commits, &wish, brought_got_commits);
    else if (gitask_refs(b->config.ask, "refs/heads/", BROUGHT_PURPOSE, brought_ref, brought_listed, b))
        brought_fail(b, gitask_failed(b->config.ask));
}

/* Something is missing. What the push brings at all comes first. */
static void brought_ask(struct gitbrought *b) {
    struct git_needs *needs = &b->changes->needs;
    struct gitask_wish commits = {.filter = GITASK_COMMITS}, trees = {.filter = GITASK_ALL_TREES},
                       trees_of = {.filter = GITASK_ALL_TREES, .alone = true};
    if (needs->commits.n)
        brought_ask_commits(b);
    else if (needs->trees_of.n)
        brought_put(b, &needs->trees_of, &trees_of, brought_got_objects);
    else if (needs->trees.n)
        brought_put(b, &needs->trees, &trees, brought_got_objects);
    else
        brought_put(b, &needs->history, &commits, brought_got_history);
}

static void brought_on_turn(evutil_socket_t fd, short what, void *arg) {
    struct gitbrought *b = arg;
    (void)fd;
    (void)what;
    engine_reap(b->config.x->box->engine);
    int r = git_changes_run(b->changes, BROUGHT_BUDGET);
    if (r == ERR_INCOMPLETE)
        event_active(&b->turn, EV_TIMEOUT, 0);
    else if (r)
        brought_fail(b, b->changes->error.text);
    else if (git_changes_complete(b->changes))
        brought_over(b);
    else
        brought_ask(b);
}

/* ---- the beginning ---- */

int gitbrought_find(struct gitbrought *b, const struct gitbrought_update *update, struct git_changes *changes,
                    void (*done)(void *arg), void *arg) {
    struct git_objects *store = brought_store(b);
    b->created = update->old.n == 0;
    b->ff = update->ff;
    b->excuse = true;
    b->asked_bases = false;
    b->failed = false;
    b->changes = changes;
    b->done = done;
    b->arg = arg;
    if (!git_id_from_hex(update->new, store->id_size, b->new) ||
        (!b->created && !git_id_from_hex(update->old, store->id_size, b->old)))
        return ERR_USAGE;
    git_objects_unsettle(store); /* another ref's old id says nothing about this one */
    if ((!b->created && git_objects_settle(store, b->old)) || (b->listed && brought_settle_tips(b)))
        return ERR_NOMEM;
    if (git_changes_init(changes, store, b->created ? NULL : b->old, b->new, b->ff, b->excuse))
        return ERR_NOMEM;
    event_active(&b->turn, EV_TIMEOUT, 0);
    return 0;
}
