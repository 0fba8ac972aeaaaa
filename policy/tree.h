/*
 * The tree: what a policy file says, word by word, before anything is looked up or expanded. It holds the whole
 * language. Internal to policy/.
 *
 * Everything lies in the arena that tree_parse is given. Every node keeps its tokens, for errors that are found later.
 */
#ifndef POLICY_TREE_H
#define POLICY_TREE_H

#include "policy/lex.h"

struct tree_words {
    struct token *list;
    size_t n;
};

enum tree_verb {
    TREE_ALLOW,
    TREE_DENY,
    TREE_ASK,
    TREE_TUNNEL,
};

enum tree_action {
    TREE_HTTP, /* methods, or '*' */
    TREE_FETCH,
    TREE_PUSH,
    TREE_LFS,
    TREE_CONNECT, /* what `tunnel` is about: it names no action */
};

enum tree_subject {
    TREE_JSON,
    TREE_HEADER,
    TREE_QUERY,
    TREE_GRAPHQL,
};

enum tree_test {
    TREE_EQUAL,
    TREE_UNEQUAL,
    TREE_IN,
    TREE_MATCHES,
};

/* json base == "main", header accept ~ text/.*, query ref in (a, b), graphql operation == query */
struct tree_condition {
    enum tree_subject subject;
    enum tree_test test;
    struct token name;
    struct tree_words values;
    struct slice text; /* as written, one physical line */
    struct tree_condition *next;
};

/* Options of a rule, each at most once (`where` may be repeated: all must hold). */
enum tree_option {
    TREE_WITH,
    TREE_WHERE,
    TREE_LIMIT,
    TREE_MAX_BODY,
    TREE_PATHS,
    TREE_MAX_SIZE,
    TREE_MAX_BLOB,
    TREE_MAX_COMMITS,
    TREE_AUTHOR,
    TREE_COMMITTER,
    TREE_SIGNED,
    TREE_NOTE,
    TREE_TO,        /* private addresses that the host may resolve to */
    TREE_ALSO,      /* of a fetch: what it may bring beside refs */
    TREE_SEND,      /* expectations: a header of the request */
    TREE_SEND_BODY, /* … its body */
    TREE_PUSH_OPTIONS,
    TREE_OPTIONS,
};

#define TREE_CREATE (1u << 0)
#define TREE_UPDATE (1u << 1)
#define TREE_DELETE (1u << 2)
#define TREE_FORCE  (1u << 3)

/* Of `lfs`: bits of enum facts_lfs, in rules and trees alike. */
#define TREE_LFS_WORDS (1u << FACTS_LFS_DOWNLOAD | 1u << FACTS_LFS_UPLOAD | 1u << FACTS_LFS_LOCK)

struct tree_rule {
    struct token keyword; /* allow, deny, ask, tunnel; for an expectation the one behind `expect` */
    enum tree_verb verb;
    enum tree_action action;
    struct token action_word;
    struct token target;
    struct tree_words refs;
    unsigned ops;                            /* TREE_CREATE…, or of TREE_LFS_WORDS; 0: none was named */
    struct token first_op;                   /* if ops */
    unsigned options;                        /* bit 1 << enum tree_option: it is there */
    struct token option_words[TREE_OPTIONS]; /* the keyword of each that is there */
    struct token with, limit, max_body, max_size, max_blob, max_commits, note;
    struct tree_words paths, to, authors, committers, push_options;
    unsigned also;             /* bits 1 << enum facts_extra */
    struct tree_words headers; /* expectations: name and value in turn */
    struct token body;
    struct tree_condition *where;
    struct slice text; /* the rule as written, its first physical line */
};

enum tree_kind {
    TREE_RULE,
    TREE_EXPECT,
    TREE_INCLUDE,
    TREE_LET,
};

struct tree_statement {
    enum tree_kind kind;
    struct tree_statement *next;
    struct token name;  /* include: the file; let: the variable */
    struct token value; /* let; TOKEN_END if it only declares that --set must give one */
    struct tree_rule rule;
};

/*
 * Parses one file. Errors are added to `diags` and parsing goes on at the next line; the list holds the statements
 * that are whole. Returns NULL for a file without any. Memory running short shows in arena->failed.
 */
struct tree_statement *tree_parse(const struct source *source, struct arena *arena,
                                  struct policy_diags *diags);

#endif
