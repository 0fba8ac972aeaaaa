/*
 * Between the two halves of `policy diff`, and what `policy check` asks of it. Internal to policy/.
 */
#ifndef POLICY_DIFF_H
#define POLICY_DIFF_H

#include "policy/classes.h"
#include "policy/print.h"

#define GROUPS_MAX  2000
#define METHODS_MAX 16
#define UNSURE_MAX  32
#define HIDDEN_MAX  256
#define ORDER_MAX   64
#define EXAMPLE_MAX 2048

enum change {
    CHANGE_GAIN,
    CHANGE_LOSS,
    CHANGE_OTHER, /* permitted by both, but differently: another credential */
};

struct group {
    enum change change;
    struct verdict before, after;
    enum facts_kind kind;
    enum facts_extra extra;
    unsigned ops;
    char methods[METHODS_MAX][40];
    size_t nmethods;
    char *example;           /* the request */
    char *was;               /* why the other policy denies it; for CHANGE_OTHER empty */
    bool counts;             /* only what its limit counts differs */
    struct rule const *rule; /* the allow that makes the difference */
};

/* A rule that permits otherwise, as long as no group is about it. */
struct hidden {
    const struct rule *rule;
    enum change change;
};

struct diff {
    const struct policy *p[2];
    const struct policy_print *print;
    struct group *groups;
    size_t n;
    char *unsure[UNSURE_MAX];
    size_t nunsure;
    struct hidden hidden[HIDDEN_MAX];
    size_t nhidden;
    uint32_t *twin[2];                  /* limit_id of one policy -> of the other; 0: not seen yet */
    struct buf path;                    /* of the push at hand, and … */
    struct verdict order[ORDER_MAX][2]; /* … how its refs are permitted */
    size_t norder;
    bool hides; /* something at the origin at hand is hidden */
};

void diff_put_text(struct diff *d);
void diff_put_json(struct diff *d);

/*
 * Whether two policies, of which one lacks rule `about` of the other and nothing else, may differ in a verdict or its terms.
 * `effort`: what may be spent, and is taken from (classes.h). Rules that can't be followed (plain.h) are taken as they judge
 * the requests that are tried: the caller looks after them.
 *
 * 0, or ERR_NOMEM.
 */
int diff_some(const struct policy *a, const struct policy *b, const struct rule *about, uint64_t *effort,
              bool *some);

#endif
