/*
 * The policy: text in, compiled rules out; facts in, verdict out.
 *
 * Pure: no socket, no clock, no secret, and no file of its own; a reader callback hands over the text of each file,
 * so that the supervisor reads from the disk and a confined worker from memory. The language is described in
 * exeat-policy(5).
 *
 * Life cycle: policy_load - policy_judge as often as you like - policy_free. A compiled policy never changes, but
 * for scratch memory of its regular expressions: one thread at a time.
 *
 * Hard limits (beyond them: a diagnostic): POLICY_*_MAX below.
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "policy/facts.h"
#include "policy/verdict.h"

#define POLICY_FILE_MAX  (4u << 20) /* bytes of one file */
#define POLICY_LINE_MAX  8192       /* bytes of one rule, continuation lines together */
#define POLICY_FILES_MAX 256        /* files, included ones too */
#define POLICY_DEPTH_MAX 16         /* includes within includes */
#define POLICY_RULES_MAX 100000
#define POLICY_VARS_MAX  256
#define POLICY_VALUE_MAX 1024 /* bytes of a variable's value */
#define POLICY_NAME_MAX  4096 /* bytes of a file's name */
#define POLICY_DIAGS_MAX 50   /* if nobody asks for more; then: "too many errors" */

struct policy;

/* --- diagnostics ------------------------------------------------------------------------------------------- */

/* One thing wrong with a policy. All strings belong to the list. */
struct policy_diag {
    char *file;     /* "--set" for a command line value; "" if it is about no file */
    unsigned line;  /* from 1; 0: about the file as a whole */
    unsigned col;   /* from 1, in characters */
    unsigned width; /* characters to underline, at least 1 */
    char *source;   /* the line as it stands; NULL if there is none */
    char *message;  /* what is wrong */
    char *expected; /* what could stand here; NULL */
    char *hint;     /* what to do about it; NULL */
};

struct policy_diags {
    struct policy_diag *list;
    size_t n;
    size_t room;    /* of the list */
    size_t most;    /* errors to keep, set behind policy_diags_init; 0: POLICY_DIAGS_MAX */
    size_t dropped; /* errors beyond those */
    size_t proofs;  /* `expect` lines that were proved … */
    size_t failed;  /* … and those of them that failed; each is one of the errors */
};

void policy_diags_init(struct policy_diags *d);
void policy_diags_release(struct policy_diags *d);

/*
 * Appends all diagnostics as text for people (`colour`: a terminal's, as compilers paint theirs):
 *
 *     bugfix.policy:3:14: error: unknown scheme 'htps'
 *       allow  GET   htps://example.com/
 *                    ^~~~
 *       expected: http:// or https://
 *       hint: …
 */
int policy_diags_format(const struct policy_diags *d, bool colour, struct buf *out);

/* --- loading ----------------------------------------------------------------------------------------------- */

/*
 * Hands over one file. `from` is the name of the file that includes it, as an earlier call resolved it, or NULL for
 * a file of the input's own list; `name` is what was asked for. Where presets are looked for is the reader's matter.
 * On success append to `resolved` the name that identifies the file (used in messages, and to notice a file that is
 * included twice) and to `text` its bytes, and return 0. On failure return an error and say why in `msg` ("no such
 * file", "permission denied"). Both buffers have a limit: pass ERR_LIMIT on.
 */
typedef int policy_reader(void *arg, const char *from, const char *name, struct buf *resolved,
                          struct buf *text, struct errmsg *msg);

/* --set NAME=VALUE. */
struct policy_set {
    const char *name;
    const char *value;
    bool *used; /* NULL: it is an error if nothing uses it. Else true is written there when something does */
};

struct policy_input {
    const char *const *files; /* the top files, in order; none: a policy that denies everything */
    size_t nfiles;
    const struct policy_set *sets;
    size_t nsets;
    policy_reader *read;
    void *arg;
};

/*
 * Reads, compiles and proves (`expect`) a policy. Returns 0 and a policy that the caller frees; or ERR_PARSE with at
 * least one diagnostic, *out NULL; or ERR_NOMEM. `diags` must be initialised and is released by the caller in both
 * cases. All errors of all files are reported in one run.
 */
int policy_load(const struct policy_input *in, struct policy **out, struct policy_diags *diags);

/* Splits "NAME=VALUE" of a command line in place and checks the name. Returns 0 or ERR_USAGE. */
int policy_set_parse(char *arg, struct policy_set *out, struct errmsg *msg);

/* A size as rules write it ("64KiB") in bytes; false if it is none. */
bool policy_size_parse(struct slice text, uint64_t *out);

void policy_free(struct policy *p);

/*
 * A loaded policy's input (names, texts, --set values) as one block of bytes, for a process that has no files.
 * policy_load_bundle compiles it again and comes to the same policy; it trusts the block's framing as little as any
 * other input. It does not keep the block.
 */
#define POLICY_BUNDLE_MAX (64u << 20) /* bytes that such a block may have */
int policy_bundle(const struct policy *p, struct buf *out);
int policy_load_bundle(struct slice bundle, struct policy **out, struct policy_diags *diags);

/* --- judging ----------------------------------------------------------------------------------------------- */

/*
 * Judges one request. Formats nothing, and allocates nothing but for conditions on JSON and GraphQL bodies and for
 * regular expressions; its cost does not depend on rules for other hosts. Any `deny` that matches wins, then `ask`;
 * else the first matching `allow` in reading order decides and names credential and limits; else the request is
 * denied. All refs of a push, or of a fetch, stand or fall together.
 *
 * An `ask` permits (once a person agrees) what it matches read strictly, like an allow; and it holds what an allow
 * permits if it matches read generously, like a deny.
 */
void policy_judge(const struct policy *p, const struct facts *f, struct verdict *v);

/*
 * How many bytes of the request's body have to be held until it can be judged; 0: none, its verdict does not depend
 * on it. Ask with facts.body_state == FACTS_BODY_UNREAD, then judge with FACTS_BODY_WHOLE or FACTS_BODY_OVER.
 * Judged without its body, an allow with a condition on it does not match, a deny does.
 */
#define POLICY_BODY_DEFAULT (1u << 20)  /* of a rule that has no max-body */
#define POLICY_BODY_MOST    (16u << 20) /* the most that a rule with a condition on the body may set */
size_t policy_needs_body(const struct policy *p, const struct facts *f);

/*
 * Whether a denial hangs on something that a forge can be asked for: which ref a request to its API writes, or of which
 * repository. True: ask it `target` by GET, or if `body` is not empty by POST, put the answer into facts.answers, and
 * judge again; *permitted is the verdict by the rules about HTTP, whose credential is good for asking. Asking tells
 * nothing new, and false comes, once all is known that can be.
 */
bool policy_question(const struct policy *p, const struct facts *f, struct verdict *permitted,
                     struct buf *target, struct buf *body);

/*
 * Whether a fetch from this repository is to be kept to some of its refs: a deny names refs of it, or no rule permits
 * all of them with the credential that the request gets. Then each ref is judged (facts.refs), and one that is permitted
 * with another credential is not to be shown either.
 */
bool policy_limits_fetch(const struct policy *p, const struct facts *f);

/* Whether anything at all might be done to this ref by a push to the repository, whatever it brings, and whatever its options
 * are. `f` is about a push. */
bool policy_may_push_to(const struct policy *p, const struct facts *f, struct slice ref);

/* Whether a rule about the request's origin has a condition on a header field of this name, in whatever spelling. */
bool policy_asks_header(const struct policy *p, const struct facts *f, struct slice name);

/* What rules there are about an origin (facts' scheme, host and port), whatever they say of it. */
struct policy_about {
    bool tunnels; /* some pass its TLS through unread */
    bool reads;   /* some permit to read what goes there (or ask a person) */
};
struct policy_about policy_about(const struct policy *p, const struct facts *f);
/* Whether a rule passes anything through unread, wherever. */
bool policy_tunnels(const struct policy *p);

/*
 * What has to be known of a push's pack for its verdict, as far as the rules about its refs say: bits. Ask when the
 * command list is known, judge with facts.unread to see whether it comes to that; then give what was found.
 */
#define POLICY_PACK_PATHS   (1u << 0) /* facts_brought.paths */
#define POLICY_PACK_SIZES   (1u << 1) /* facts.size, facts.blob */
#define POLICY_PACK_COMMITS (1u << 2) /* the rest of facts_brought */
unsigned policy_needs_pack(const struct policy *p, const struct facts *f);

/* The size of the pack (or of a file in it, `blob`) beyond which no rule permits the push whatever else it brings; 0:
 * there is no such limit. */
uint64_t policy_most(const struct policy *p, const struct facts *f, bool blob);

/*
 * The updates of refs that a request to a forge's API amounts to, for the record: at most `max`, a ref that is not known
 * has an empty name. Names are put into `memory` and are good as long as that does not change. Returns how many.
 */
size_t policy_writes(const struct policy *p, const struct facts *f, struct facts_ref *refs, size_t max,
                     struct buf *memory);

/* The verdict on ref `i` of a push or a fetch by itself (v->ref == i): for `ng <ref> <reason>` and for the record. */
void policy_judge_ref(const struct policy *p, const struct facts *f, size_t i, struct verdict *v);

/* --- words for people -------------------------------------------------------------------------------------- */

/* A stable word for logs and tests: "allowed", "denied-by-rule", "no-rule-for-host", … Never NULL. */
const char *verdict_reason_code(enum verdict_reason reason);
const char *verdict_action_name(enum verdict_action action);

/*
 * Appends why, in one line without a full stop: "no rule allows POST on this host", "denied by bugfix.policy:7".
 * For a push that is refused for its refs it names each, up to `max_refs` (0: all), with its own reason.
 */
int policy_explain(const struct policy *p, const struct facts *f, const struct verdict *v, size_t max_refs,
                   struct buf *out);

/* The same for one ref, short enough for git's `ng` line: "no rule allows create", "denied by bugfix.policy:7",
 * "no rule allows force of this ref, and an update counts as force until it is proved a fast-forward". `v` is policy_judge_ref's. */
int policy_explain_ref(const struct policy *p, const struct facts *f, const struct verdict *v,
                       struct buf *out);

/*
 * Appends the smallest rule that would have permitted the request ("allow POST https://api.example.com/v1/x"), several
 * if it takes several, a line each: they were added to the policy, and the request judged again. Appends nothing if no
 * rule could: a `deny` or an `ask` stands in the way, the request is refused for its form, more than eight refs of a
 * push are denied. Where the body of a write to a forge was not kept, a comment behind the rule says what was not judged.
 */
int policy_hint(const struct policy *p, const struct facts *f, const struct verdict *v, struct buf *out);

/* What a sandbox may do, for `exeat.internal/policy`: every rule in its expanded form, credentials by name only. */
enum policy_format {
    POLICY_TEXT,
    POLICY_JSON,
};
int policy_describe(const struct policy *p, enum policy_format format, struct buf *out);

/* --- what is in it ----------------------------------------------------------------------------------------- */

size_t policy_rule_count(const struct policy *p);

/* Does it permit any push? */
bool policy_may_push(const struct policy *p);

/* The credentials that rules name, each once, sorted: what the keeper is to grant this sandbox. */
size_t policy_credential_count(const struct policy *p);
const char *policy_credential(const struct policy *p, size_t i);

#endif
