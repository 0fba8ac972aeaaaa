/*
 * What others call the things that have a word in this language: what a hint says of a word that can't stand where it
 * stands. Internal to policy/; of actions, policy_action_hint in tools.h tells.
 */
#ifndef POLICY_WORDS_H
#define POLICY_WORDS_H

#include "policy/tools.h"

/* Where the word stands. */
enum words_place {
    WORDS_STATEMENT, /* first in its line, or behind `expect` */
    WORDS_ACTION,    /* of a rule */
    WORDS_PUSHED,    /* behind the target of a push rule: an operation or an option */
    WORDS_FETCHED,   /* … of a fetch rule: an option */
    WORDS_OPTION,    /* … of another */
    WORDS_TEST,      /* behind a condition's name */
    WORDS_OTHER,     /* where nobody has other words */
    WORDS_PLACES
};

#define WORDS_HINT POLICY_HINT_MAX

/* "did you mean X?", into `hint`, which is returned; `known` are the words that may stand there. NULL: nothing comes
 * near. */
const char *words_hint(enum words_place place, struct slice word, const char *const *known, size_t n,
                       char hint[WORDS_HINT]);

/* The nearest common method, itself if it is one; NULL: none is near. */
const char *words_method(struct slice word);

#endif
