/* Between forge.c, forge_rest.c and forge_graphql.c, which read one request together. Internal to them. */
#ifndef POLICY_FORGE_READ_H
#define POLICY_FORGE_READ_H

#include <jansson.h>

#include "policy/condition.h"
#include "policy/forge.h"

#define FORGE_CAPTURES_MAX 8

struct forge_capture {
    struct slice name;  /* "path" of {path*} */
    struct slice value; /* decoded */
};

struct forge_reading {
    struct forge *out;
    const struct facts *f;
    struct body_view *view;
    bool graphql;

    /* the path */
    struct slice prefix; /* folder that the forge lies in; empty: none */
    struct slice api;    /* the API's root, as it stands in the path: "/api/v4" */
    struct slice segments[FORGE_SEGMENTS_MAX];
    size_t nsegments;
    struct forge_capture captures[FORGE_CAPTURES_MAX];
    size_t ncaptures;

    /* the repository */
    struct slice repository;  /* "/acme/app"; empty: not known (yet) */
    struct slice repo_target; /* where the API tells about it; empty: nowhere */
    struct slice repo_body;   /* … and what is sent there, if it is GraphQL */

    /* the parameters */
    const json_t *json; /* an object; NULL: none */
    struct facts form;  /* `query` is a form's body; empty: none */
    unsigned forges;    /* of the row */
    bool input;         /* json is a mutation's input: no query, no form */
};

/* It can't be read for certain. The first reason counts. */
void forge_dark(struct forge_reading *r, const char *why);

/* Text made of up to four parts, in the result's memory. Empty, and dark, when memory is short. */
struct slice forge_text(struct forge_reading *r, struct slice a, struct slice b, struct slice c,
                        struct slice d);

/* The value of {name} in the path; empty: there is none. */
struct slice forge_captured(const struct forge_reading *r, struct slice name);

/* A parameter by name, "branch" or "branch.branchName": TRI_UNKNOWN if it can be read in more than one way. */
enum tri forge_param(struct forge_reading *r, const char *name, struct slice *out);
/* A switch; absent is TRI_NO. */
enum tri forge_switch(struct forge_reading *r, const char *name);
/* A member of the JSON, NULL if there is none; *doubtful if its name occurs in another spelling as well. */
const json_t *forge_member(const json_t *object, struct slice path, bool *doubtful);

/* What the forge answered: a string in it, copied. False: no answer, or none with it; then `asks` may be set. */
bool forge_answer(struct forge_reading *r, struct slice target, struct slice body, const char *path,
                  struct slice *out);

/* "/acme/app" out of "acme/app", checked. Empty, and dark, if it is none. */
struct slice forge_repository(struct forge_reading *r, struct slice name);

/* A ref's full name, checked: `space` before `name`. Empty, and dark, if it is none for certain. */
struct slice forge_ref(struct forge_reading *r, enum forge_space space, struct slice name);

/* Adds the updates that `does` stands for. An empty `ref` is one that is not known: `unknown` says what it would be. */
void forge_add_all(struct forge_reading *r, enum forge_does does, struct slice ref, const char *unknown);
const char *forge_absent_text(enum forge_absent absent);

/* Files that a list of changes names ("path", "file_path", "previous_path" …). False: it can't be read. */
bool forge_files(struct forge_reading *r, const json_t *list, const struct facts_text **paths, size_t *n);
bool forge_file(struct forge_reading *r, struct slice name, const struct facts_text **paths, size_t *n);

/* Whether a text holds a line that is a command to GitLab which writes refs. */
bool forge_commands(struct forge_reading *r);

/* Branches of the pull request whose description is at `target`. */
void forge_add_base(struct forge_reading *r, struct slice target, enum forge_does does);
void forge_add_head(struct forge_reading *r, struct slice target, enum forge_does does);

void forge_rest_read(struct forge_reading *r, const struct forge_row *row);
void forge_graphql_read(struct forge_reading *r);

#endif
