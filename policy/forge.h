/*
 * Forges (GitHub, GitLab, Forgejo and Gitea) write refs through more doors than git: REST endpoints and GraphQL
 * mutations that commit, merge, create, move and delete. This reads such a request as the updates of refs that it is.
 * Internal to policy/: doors.c has the push rules judge them.
 *
 * What can be asked is told by tables, one row an endpoint (forge_rest.c, forge_gitlab.c, forge_mutations.c). Each was
 * made from the service's public description of its API, which it names. An endpoint that writes no ref has a row as
 * well, so that what is left is what exeat does not know (`strange`).
 *
 * Which API a path belongs to. https://api.HOST and https://uploads.HOST are GitHub's, for https://HOST. On the forge's
 * own host it is /api/v3 (GitHub Enterprise), /api/v4 (GitLab), /api/v1 (Forgejo, Gitea), /api/graphql (GitHub's or
 * GitLab's: both tables are read), below any folder that GitLab was installed in.
 *
 * Pure text in, facts out; hostile input. Limits: FORGE_*_MAX, and those of condition.h for bodies.
 */
#ifndef POLICY_FORGE_H
#define POLICY_FORGE_H

#include "policy/arena.h"
#include "policy/facts.h"

#define FORGE_WRITES_MAX    64
#define FORGE_SEGMENTS_MAX  64
#define FORGE_PATHS_MAX     20000
#define FORGE_MEMORY_MAX    (24u << 20) /* of what is made of a request */
#define FORGE_ARGUMENTS_MAX 32          /* mutations in one request that write */

#define FORGE_GITHUB (1u << 0)
#define FORGE_GITLAB (1u << 1)
#define FORGE_GITEA  (1u << 2) /* and Forgejo */

struct body_view;

/* --- the tables -------------------------------------------------------------------------------------------- */

/* What a request does to the ref that its row names. */
enum forge_does {
    FORGE_NOTHING, /* it writes something else, and no ref */
    FORGE_CREATES,
    FORGE_UPDATES, /* by commits on top of what is there: the server sees to that */
    FORGE_DELETES,
    FORGE_FORCES,   /* moves it anywhere */
    FORGE_SAVES,    /* updates it, or creates it: judged as both */
    FORGE_RENAMES,  /* deletes what the path names, creates what `ref` names */
    FORGE_ANYTHING, /* may do anything to any ref of the repository */
};

/* Which branch is meant where the request does not name one. */
enum forge_absent {
    FORGE_MISSING, /* the server refuses that: it can't be read */
    FORGE_DEFAULT, /* the default branch */
    FORGE_BASE,    /* the one that a pull request (merge request) is to be merged into */
    FORGE_HEAD,    /* the one that a pull request is made of, which may be another repository's */
    FORGE_UNNAMED, /* one that can't be told */
    FORGE_NONE,    /* no ref is written then */
};

/* What else is to be looked at. */
#define FORGE_FORCE       (1u << 0)  /* `force`: true makes it FORGE_FORCES */
#define FORGE_START       (1u << 1)  /* start_branch and the like: the ref may be a new one */
#define FORGE_NEW_BRANCH  (1u << 2)  /* `new_branch`: that one is created instead */
#define FORGE_ACTIONS     (1u << 3)  /* the files are in `actions` (GitLab) or `files` (Forgejo) */
#define FORGE_SOURCE      (1u << 4)  /* a merge may delete the branch that it comes from */
#define FORGE_TEXT        (1u << 5)  /* holds text for people, in which GitLab reads commands ("/merge") */
#define FORGE_UNLESS      (1u << 6)  /* nothing is written if `auto_merge` is false */
#define FORGE_DRAFT       (1u << 7)  /* without a name nothing is written, but for `draft`: false (a tag) */
#define FORGE_WIKI        (1u << 8)  /* of the wiki, a repository of its own */
#define FORGE_MIRROR      (1u << 9)  /* settings; only those of mirroring write refs */
#define FORGE_GIST        (1u << 10) /* {gist} is a repository of its own, below gist.HOST */
#define FORGE_UPDATE_LIST (1u << 11) /* GraphQL: `refUpdates` names refs, one by one */

/* What stands before the name that a request has for the ref. */
enum forge_space {
    FORGE_HEADS, /* "refs/heads/" */
    FORGE_TAGS,  /* "refs/tags/" */
    FORGE_REFS,  /* "refs/" */
    FORGE_WHOLE, /* nothing: the name is whole */
};

/*
 * One endpoint. Texts lie in the row, so that a table is constant as it was linked and all processes have the same pages of it; "" is
 * none. In `path` {repo} is a repository's name (of GitLab: a project, by number or with its slashes encoded),
 * {NAME} a segment, {NAME*} the rest of the path.
 */
struct forge_row {
    unsigned forges;
    char methods[24]; /* "PUT,DELETE" */
    char path[80];    /* below the API's root */
    enum forge_does does;
    enum forge_space space;
    char ref[16]; /* what names the ref: "{NAME}" of the path, or a parameter; "": nothing does */
    enum forge_absent absent;
    char file[8]; /* what names the one file that changes, in the same way; "": files are not known */
    unsigned flags;
};

/* One mutation of a GraphQL API; all take one argument, `input`. Names of members are paths: "branch.branchName". */
struct forge_mutation {
    unsigned forges;
    char name[64];
    enum forge_does does;
    enum forge_space space;
    char ref[24]; /* "": nothing names it */
    enum forge_absent absent;
    char repository[32]; /* the member that names it, "acme/app"; "": none, or an opaque id */
    char id[16];         /* the member that is the opaque id of a repository, ref or pull request */
    unsigned flags;
};

/* As text. */
const char *forge_space(enum forge_space space);

/* All rows, for reading and for the tests. */
const struct forge_row *forge_rows(size_t *n);
const struct forge_row *forge_gitlab_rows(size_t *n);
const struct forge_mutation *forge_mutations(size_t *n);

/* --- reading ----------------------------------------------------------------------------------------------- */

/* Something that exeat can ask the forge itself: GET `target`, or POST `body` (JSON) to it. */
struct forge_question {
    struct slice target;
    struct slice body;
};

struct forge_write {
    struct slice repository;      /* "/acme/app", as in its URL for git; empty: not known */
    struct facts_ref ref;         /* an empty name: not known */
    struct facts_brought brought; /* files that it changes, if they are known; ref.brought is this */
    const char *unknown; /* what is not known, for people: "the default branch, which it does not name" */
};

enum forge_state {
    FORGE_QUIET,  /* no request to a forge's API, or nothing in it that is known to write a ref */
    FORGE_WRITES, /* writes[0…n) */
    FORGE_DARK,   /* it can't be read for certain, and may write anything */
};

struct forge {
    enum forge_state state;
    unsigned forges;
    const char *why;         /* FORGE_DARK: because */
    bool strange;            /* something in it that may write is in no table … */
    struct slice mutation;   /* … if it is GraphQL: this */
    struct slice repository; /* … else about this repository; empty: the path names none */
    struct forge_write writes[FORGE_WRITES_MAX];
    size_t n;
    bool asks; /* `question` would tell more */
    struct forge_question question;
    const struct forge_row *row;          /* for the tests */
    void *arguments[FORGE_ARGUMENTS_MAX]; /* json_t of the mutations, which the rest borrows from */
    size_t narguments;
    struct body_view *own; /* if the caller gave none */
    struct arena arena;
};

/*
 * Reads a request. `root`: the host is the API's own, as api.github.com. `forges`: which ones it may be. `view` reads
 * the body, and is the caller's (NULL: one of its own is made); the result borrows from both. Release it in any case.
 */
void forge_read(struct forge *out, const struct facts *f, struct body_view *view, bool root, unsigned forges);
void forge_release(struct forge *out);

/* GET, HEAD, OPTIONS: no endpoint writes by them (a mutation by GET is looked for all the same). */
bool forge_reads_only(struct slice method);

/* "graphql", and "graphql.json": what is written in Rails takes such an end for the format of the answer. */
bool forge_is_graphql(struct slice segment);

/* Whether forge_read would have to see the body: a superset, told by method and path alone. */
bool forge_wants_body(const struct facts *f, bool root, unsigned forges);

#endif
