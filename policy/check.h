/*
 * Between the two halves of `policy check`. Internal to policy/.
 */
#ifndef POLICY_CHECK_H
#define POLICY_CHECK_H

#include "policy/print.h"

struct check {
    const struct policy *p;
    bool (*has_credential)(void *arg, struct slice name);
    void *arg;
    const struct policy_print *print;
    struct json *json; /* NULL: text */
    size_t findings;
};

/* Whether the rule stands in a file that the user named. */
bool check_speaks_of(const struct check *c, const struct rule *r);

/* Writes a warning; `hint` may be NULL. Returns 0. */
int check_warn(struct check *c, const struct rule *r, const char *code, const char *hint, const char *format,
               ...) __attribute__((format(printf, 5, 6)));

/* Writes to a forge's API that the rule permits and the push rules refuse. */
void check_writes(struct check *c, const struct rule *r);

/* Rules that never match, that others cover, denies that never bite. */
int check_classes(struct check *c);

#endif
