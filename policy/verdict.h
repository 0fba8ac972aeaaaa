/*
 * The verdict on one request: what to do, which rule said so, and why. Small, copied freely, owns nothing: rule and
 * credential point into the policy, which must outlive it.
 *
 * Text for people is rendered on demand, by the functions at the end of policy.h, so that judging itself allocates
 * nothing and formats nothing.
 */
#ifndef POLICY_VERDICT_H
#define POLICY_VERDICT_H

#include <stdint.h>

#include "base/slice.h"

enum verdict_action {
    VERDICT_DENY = 0, /* so that a zeroed verdict permits nothing */
    VERDICT_ALLOW,
    VERDICT_ASK,    /* a person has to say so; credential and limits are set as for VERDICT_ALLOW */
    VERDICT_TUNNEL, /* FACTS_TUNNEL only: pass it through unread */
};

enum verdict_reason {
    REASON_NO_RULES = 0,   /* the policy has no rule at all */
    REASON_ALLOWED,        /* `rule` allows it */
    REASON_DENIED_BY_RULE, /* `rule` denies it; for a push it may be about one ref, see `ref` */
    REASON_HOST,           /* no rule names this host */
    REASON_SCHEME,         /* rules name the host, but not over http (or not over https) */
    REASON_PORT,           /* … not on this port */
    REASON_METHOD,         /* … none allows this method */
    REASON_PATH,           /* … none allows this path with this method */
    REASON_ENCODED_SLASH,  /* a rule would match but for the encoded slash, which it does not spell */
    REASON_FETCH,          /* no fetch rule names this repository */
    REASON_PUSH,           /* no push rule names this repository */
    REASON_REFS,           /* push rules name the repository, none this ref */
    REASON_OPERATION,      /* … and the ref, but do not allow what is done to it; or an lfs rule not this */
    REASON_UNPROVED,       /* … and allow an update, but it is not proved a fast-forward */
    REASON_CREDENTIALS,    /* the refs of one push are permitted with different credentials */
    REASON_GIT_AS_HTTP,    /* one of git's endpoints, given as an HTTP request or spelled ambiguously */
    REASON_ADDRESS,        /* the host is an address, and only wildcards match: it must be named */
    REASON_ASKED,          /* `rule` says that a person decides */
    REASON_TUNNELLED,      /* `rule` passes TLS through unread */
    REASON_CONDITION,      /* a rule would match but for one of its conditions: see `near` and `failed` */
    REASON_CHANGES, /* … but for its `paths`: the push changes others, or it is not known what it changes */
    REASON_SIZE,    /* … but for its `max-size` */
    REASON_OPTIONS, /* … but for a push option, `failed`, that its `options` do not name */
    REASON_BLOB,    /* … but for its `max-blob` */
    REASON_COMMITS, /* … but for its `max-commits` */
    REASON_AUTHOR,  /* … but for its `author` */
    REASON_COMMITTER,   /* … but for its `committer` */
    REASON_SIGNED,      /* … but for `signed` */
    REASON_TUNNEL_ONLY, /* only `tunnel` rules name this host, and this is a request that was read */
    REASON_NO_TUNNEL,   /* FACTS_TUNNEL: no rule passes this host through unread */
    REASON_WRITE_UNREADABLE, /* a request to a forge's API: what it writes can't be read for certain, `failed_why` */
    REASON_WRITE_UNKNOWN, /* … it may write to a repository that push rules speak of, and is in no table */
    REASON_EXTRA,         /* fetch rules name the repository, none permits facts.extra */
    REASON_COUNT
};

/* Where a rule stands. Points into the policy. */
struct verdict_rule {
    unsigned index;   /* counting from 1 in reading order; 0: no rule */
    const char *file; /* as the reader called it */
    unsigned line;
    struct slice text; /* the rule as written: its first line, without indentation and comment */
};

/* `to` of a rule: the addresses that its host may resolve to besides public ones. */
struct verdict_net {
    uint8_t address[16]; /* IPv4 in its first four bytes */
    uint8_t bits;        /* length of the prefix */
    bool v6;
};

struct verdict {
    enum verdict_action action;
    enum verdict_reason reason;
    struct verdict_rule rule; /* the rule that decided; index 0 if it is the absence of one */
    struct slice credential;  /* name to ask the keeper for; empty: send none. Set for VERDICT_ALLOW only */
    struct slice note;        /* the deciding rule's `note`; empty if it has none */
    uint64_t max_body;        /* of the deciding rule; 0: none. More than that is not to be passed on */
    uint32_t limit;           /* at most so many requests by this rule (rule.index) in … ; 0: no limit */
    uint32_t limit_seconds;   /* … so many seconds */
    uint32_t limit_id;        /* … whose requests are counted together: 1…policy_rule_count */
    const struct verdict_net *nets; /* private networks that the name may resolve to */
    size_t nnets;
    bool to_private;          /* … any private network */
    struct verdict_rule near; /* REASON_CONDITION, _CHANGES … _SIGNED, _OPTIONS: the rule that came closest */
    /* … and the part of it that failed, as written: json base == "main" (_OPTIONS: of the facts) */
    struct slice failed;
    const char *failed_why; /* … because: "the body is not JSON"; NULL: it just does not hold */
    struct slice brought; /* what a push brings that decided: a path, an identity; it belongs to the facts */
    struct slice brought_by; /* … the commit that does, in hexadecimal; empty: not one commit */
    const char *brought_how; /* … in words: "changes", "has the author"; NULL: nothing of that kind decided */
    bool names_address;      /* the host is an address and the rule spells it out: private ranges are meant */
    /* a request to a forge's API: denied (or asked for) since its write number `door`, from 1, is, as the push that
     * it amounts to; reason, rule and note are about that push */
    size_t door;
    struct verdict_rule push; /* … permitted: the push rule that permits the first of its writes */
    size_t ref;      /* of a push with `bad_refs`: the first offending ref, which gave rule and reason */
    size_t bad_refs; /* how many refs offend; policy_judge_ref tells which and why */
};

#endif
