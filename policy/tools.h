/*
 * What the policy tools say about policies: pure, like all of policy/. Each appends what it found to `out`, as text
 * for people or as one JSON object for programs, and counts the findings.
 *
 * All return 0, ERR_NOMEM, or ERR_LIMIT when `out` is full.
 */
#ifndef POLICY_TOOLS_H
#define POLICY_TOOLS_H

#include "policy/policy.h"

#define POLICY_HINT_MAX 128

/* What somebody may have meant by a word that is no action: "did you mean fetch?", a text of its own or in `hint`. */
const char *policy_action_hint(struct slice word, char hint[POLICY_HINT_MAX]);

struct policy_print {
    enum policy_format format;
    bool colour; /* text only: with a terminal's colours */
    struct buf *out;
};

/*
 * What `to` permits that `from` does not, and the other way round, with an example of each, and requests that both
 * permit on different terms. Worked out on the rules: nothing is missing, but for what `out` says could not be
 * decided. *findings counts the differences, and *unsure what was not decided.
 */
int policy_diff(const struct policy *from, const struct policy *to, const struct policy_print *print,
                size_t *findings, size_t *unsure);

/*
 * Warnings about a policy that loads: rules that never match, that others cover or always decide, denies that never
 * bite, credentials in wrong places, proofs that are missing. Each rule of the first three kinds can be taken out, and
 * nothing is judged otherwise. `has_credential` says whether the vault defines one; NULL: not looked at.
 */
int policy_check(const struct policy *p, bool (*has_credential)(void *arg, struct slice name), void *arg,
                 const struct policy_print *print, size_t *findings);

/*
 * All about one request: verdict, deciding rule, the rules that came close and which part of each failed, and the
 * smallest rule that would have permitted it, or which rule stands in its way. Where the verdict on a push hangs on what
 * is not known of what it brings, that is said instead, with the rules. *permitted: it is permitted, for certain.
 */
int policy_show(const struct policy *p, const struct facts *f, const struct policy_print *print,
                bool *permitted);

/*
 * Judges a request of which a log tells neither body nor header fields, nor values of the query that are "*". *told:
 * whatever they were, it is permitted or denied, with the same credential. If not, `v` is the verdict without them, and
 * *on the first rule that it hangs on.
 */
int policy_judge_logged(const struct policy *p, const struct facts *f, struct verdict *v, bool *told,
                        struct verdict_rule *on);

/* A file's text in the usual layout: the same statements and comments, blanks put right. Errors go to `diags` (then
 * ERR_PARSE). To format what was formatted changes nothing. */
int policy_format_text(const char *name, struct slice text, struct buf *out, struct policy_diags *diags);

#endif
