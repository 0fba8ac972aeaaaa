/*
 * What a fetch is for, as its record tells it: the command, and the refs that what it wants was shown as (shown.h). Within
 * the bounds of a record (record.h): an object stands there with all its refs or not at all, and what does not is counted.
 *
 * Life cycle: zeroed - fetched_read… - fetched_release. What the struct holds is good until the next call of either.
 */
#ifndef PROXY_FLOW_FETCHED_H
#define PROXY_FLOW_FETCHED_H

#include "proxy/codec/git_ids.h"
#include "proxy/codec/watch.h"
#include "proxy/record/record.h"
#include "proxy/flow/shown.h"

struct fetched {
    struct slice command; /* in the words of version 2, "fetch"; "probe"; empty: not known */
    /* `ref` and, but for what was wanted by its name, `new`; one object's are together. */
    struct record_ref *refs;
    size_t nrefs;
    /* Wants that stand for no ref that is known, that there is no room for, or whose ref's name looks as if a secret of the
     * vault's were in it. */
    uint64_t omitted;

    /* private */
    const struct shown *shown;
    const struct shown_repo *repo;
    size_t room, bytes;
    bool full, secret; /* no room is left; a name looks like a secret */
    bool looks;        /* for secrets, with this */
    struct watch watch;
    struct slice id; /* whose refs are added, … */
    size_t from;     /* … which begin here */
    struct git_ids wanted;
    struct buf text;
};

/* `body` is the fetch, decoded; it need not be well-formed. What looks like a secret is told by `secrets`. */
void fetched_read(struct fetched *f, struct slice body, const struct shown *shown,
                  const struct shown_repo *repo, const struct watch_table *secrets);
void fetched_release(struct fetched *f);

#endif
