/*
 * Rules in compiled form, and the policy that holds them. Internal to policy/.
 */
#ifndef POLICY_RULE_H
#define POLICY_RULE_H

#include "policy/arena.h"
#include "policy/glob.h"
#include "policy/lex.h"
#include "policy/policy.h"
#include "policy/tree.h"

struct condition;
struct regex;
struct regex_memory;

/* What is known of a part of a request. In this order: the least of them counts for an allow, the greatest for a
 * deny. */
enum tri {
    TRI_NO,
    TRI_UNKNOWN,
    TRI_YES,
};

enum rule_host {
    RULE_HOST_EXACT,  /* a name or an address */
    RULE_HOST_SUFFIX, /* *.example.com: `host` is what stands behind "*." */
    RULE_HOST_ANY,    /* *: every name; in a deny every address too */
};

/* What a rule is about, as its target says. */
struct target {
    enum url_scheme scheme;
    enum rule_host host_kind;
    bool host_is_address;
    bool any_port; /* :* */
    uint16_t port;
    struct glob *paths; /* alternatives; none: every path */
    size_t npaths;
    const struct regex *regex; /* instead of paths */
    bool regex_slash;          /* … and it spells an encoded slash */
    struct slice host;
    struct slice text; /* variables filled in */
};

/* Methods that have a bit; others are compared as text. */
#define RULE_OTHER_METHODS (1u << 15)
unsigned rule_method_bit(struct slice method);

/* The first members are those that judging looks at in every rule of a host, so that one line of the processor's
 * cache holds them. */
struct rule {
    bool deny;
    bool any_method;
    uint16_t method_bits; /* RULE_OTHER_METHODS: `methods` has to be read */
    enum tree_action action;
    enum tree_verb verb; /* `deny` is verb == TREE_DENY */
    struct target target;
    const struct source *source;
    struct glob *refs; /* none: every ref */
    size_t nrefs;
    unsigned ops;  /* 1 << enum facts_op (of LFS: enum facts_lfs): those that the rule is about */
    unsigned also; /* 1 << enum facts_extra: those that a fetch rule permits */
    bool ops_named;
    bool proved; /* an `expect allow` came out by this rule */
    /* an `expect deny` of what it permits came out by the push rules: a write to a forge's API */
    bool refusal_proved;
    struct slice methods; /* as written, "GET,HEAD" */
    struct verdict_rule where;
    struct slice refs_text; /* as written, variables filled in, for people */
    struct slice credential;
    struct slice note;
    const struct condition *conditions;
    size_t body; /* bytes of the request's body that conditions look at; 0: none does */
    bool brings; /* something of what follows, about what a push brings (push.h), is there */
    bool wants_signed;
    struct glob *changes, *authors, *committers;
    size_t nchanges, nauthors, ncommitters;
    uint64_t max_size, max_blob, max_commits; /* 0: none */
    struct glob *push_options;                /* `options` of a push */
    size_t npush_options;
    struct slice options_text; /* conditions, paths and limits as written, for people */
    uint64_t max_body;         /* 0: none */
    uint32_t limit, limit_seconds, limit_id;
    struct verdict_net *nets;
    size_t nnets;
    bool to_private;
} __attribute__((aligned(64)));

/* Rules by host. One table for exact hosts and suffixes; the keys of a policy come from its author, not from a
 * sandbox, so that no one can choose them to collide. */
struct index_slot {
    struct slice key; /* p NULL: free */
    bool suffix;
    uint32_t n;
    uint32_t *rules; /* numbers of rules, ascending */
};

struct index {
    struct index_slot *slots;
    size_t mask;
    struct index_slot any;
};

/* How one file asked for another, for the bundle. */
struct asked {
    const char *from; /* that file's name, the very pointer; NULL: a top file */
    const char *name;
    const struct source *source;
    struct asked *next;
};

struct policy {
    struct arena arena;
    struct source **files; /* in the order of their first reading */
    size_t nfiles;
    bool *tops;  /* per file: named by the user, not (only) included */
    bool *reach; /* reach[a * nfiles + b]: a is b or includes it, directly or not */
    struct asked *asked, **asked_last;
    struct policy_set *sets;
    size_t nsets;
    struct rule *rules;
    size_t nrules, rules_room;
    struct index index;
    struct regex_memory *regexes;
    bool looks_at_bodies; /* a rule has a condition on one */
    bool limits_fetches;  /* a fetch rule names refs */
    bool tunnels;         /* a rule is a tunnel: see policy_tunnels */
    const char **credentials;
    size_t ncredentials;
};

/* Fills p->index from p->rules. False when memory is short. */
bool index_build(struct policy *p);

/* The lists of rules that may be about a host: exact, each suffix of it, any. Writes at most INDEX_LISTS_MAX and
 * returns how many. An address has no suffixes. */
#define INDEX_LISTS_MAX 130
size_t index_find(const struct index *ix, struct slice host, bool is_address,
                  const struct index_slot *lists[INDEX_LISTS_MAX]);

/* Whether a rule is about a ref of this name. */
bool rule_takes_ref(const struct rule *r, struct slice name, bool loose);

/* policy_judge on a part of the policy: the rules of files that reach[i] tells. NULL: all. */
void judge(const struct policy *p, const struct facts *f, const bool *reach, struct verdict *v);

/* … by the rules alone, whatever the request may do at a forge's API: what tools look at that compare rules. */
struct body_view;
void judge_rules(const struct policy *p, const struct facts *f, const bool *reach, struct body_view *view,
                 struct verdict *v);

/* policy_needs_body, for the rules alone. *denied: whatever the body says. */
size_t judge_needs_body(const struct policy *p, const struct facts *f, bool *denied);

void judge_ref(const struct policy *p, const struct facts *f, const bool *reach, size_t i, struct verdict *v);

/* How far a rule came with a request, the further the greater. */
enum stage {
    STAGE_NONE,
    STAGE_ADDRESS, /* a wildcard would take the host if it were no address */
    STAGE_SCHEME,  /* the host matches, the scheme does not */
    STAGE_PORT,
    STAGE_TUNNEL, /* … it is a tunnel, and the request was read */
    STAGE_ACTION, /* … the method does not; or it is a rule about something else */
    STAGE_PATH,
    STAGE_SLASH, /* … the path does but for the encoded slash */
    STAGE_EXTRA, /* … a fetch rule does not permit what is asked for beside refs */
    STAGE_REF,
    STAGE_OP,
    STAGE_OPTIONS,   /* … `options` does not */
    STAGE_SIZE,      /* … `max-size` does not */
    STAGE_BLOB,      /* … `max-blob` does not */
    STAGE_COMMITS,   /* … `max-commits` does not */
    STAGE_AUTHOR,    /* … `author` does not */
    STAGE_COMMITTER, /* … `committer` does not */
    STAGE_SIGNED,    /* … `signed` does not */
    STAGE_CHANGES,   /* … `paths` does not */
    STAGE_CONDITION, /* … a condition does not */
    STAGE_MATCH,
};

/* The condition that stands in a rule's way. */
struct judge_part {
    struct slice text; /* as written */
    const char *why;   /* why it can't be told; NULL: it does not hold */
};

/* How far one rule comes with a request, or with one ref of a push, taken by itself: what the tools look at. `part` is
 * set for STAGE_CONDITION; it may be NULL. */
enum stage judge_rule(const struct policy *p, const struct facts *f, const struct facts_ref *ref, size_t rule,
                      struct judge_part *part);

/* Whether one rule is about a request (or one ref of a push) but for its conditions, and for what a body or a pack
 * tells, read strictly or generously. */
bool judge_reaches(const struct policy *p, const struct facts *f, const struct facts_ref *ref, size_t rule);

/* A verdict's reason as policy_explain puts it, on that same part. */
int explain(const struct policy *p, const struct facts *f, const bool *reach, const struct verdict *v,
            size_t max_refs, struct buf *out);

#endif
