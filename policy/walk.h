/*
 * All texts that a set of patterns can tell apart: the product of their automata, walked breadth first. Internal to
 * policy/, for the tools that compare rules (classes.h).
 *
 * Two texts are of one class if every pattern takes both or neither. walk() finds one text of every class, the
 * shortest. It does not sample: what it does not hand over does not exist, unless it says that it gave up.
 */
#ifndef POLICY_WALK_H
#define POLICY_WALK_H

#include "policy/glob.h"

#define WALK_PATTERNS_MAX 128
#define WALK_STATES_MAX   60000
#define WALK_CLASSES_MAX  4096
#define WALK_TAILS_MAX    4

struct walk_pattern {
    const struct glob *glob;
    unsigned flags;  /* GLOB_NOCASE, GLOB_LOOSE: as judging would read the text */
    bool with_tails; /* matched against the text and each of the tails behind it */
};

struct walk {
    struct walk_pattern list[WALK_PATTERNS_MAX];
    size_t n;
    struct slice start;                 /* all texts begin so: "/", "refs/" */
    struct slice tails[WALK_TAILS_MAX]; /* for patterns `with_tails` */
    size_t ntails;
    bool path; /* a canonical path: codes are characters, rows of slashes are read twice, no dot segments */
    bool repository; /* … and does not end in a slash */
    uint64_t left;  /* steps that may be made, of one pattern by one character each; what is not used stays */
    bool full;      /* set by walk_add when there were too many patterns */
    bool truncated; /* set by walk(): limits were reached, classes may be missing */
};

/* Adds a pattern unless the same is there. */
void walk_add(struct walk *w, const struct glob *glob, unsigned flags, bool with_tails);

/* Hands over one text of every class. Stops when `found` returns other than 0, and returns that; else 0 or ERR_NOMEM. */
int walk(struct walk *w, int (*found)(void *arg, struct slice text), void *arg);

#endif
