/*
 * What the commands under `exeat policy` share: their options, loading a policy, printing what is wrong with it.
 */
#ifndef PROXY_COMMAND_TOOL_H
#define PROXY_COMMAND_TOOL_H

#include <stdio.h>

#include "policy/tools.h"
#include "proxy/command/commands.h"
#include "proxy/command/options.h"

#define TOOL_OUTPUT_MAX  (64u << 20)
#define TOOL_HEADERS_MAX 64

/* Exit status beside 0 and EXIT_FINDINGS. A policy that does not load is trouble; where `expect` lines are what is looked at, one
 * that fails is a finding. */
enum { TOOL_TROUBLE = 2 };

/* What the options say. */
struct tool {
    bool json, help, check;
    bool unproved; /* tool_load: all that was wrong with the policy are expectations that failed */
    struct policy_set sets[POLICY_VARS_MAX];
    size_t nsets;
    const char *vault, *body;
    const char *headers[TOOL_HEADERS_MAX];
    size_t nheaders;
    struct buf out;
    struct policy_print print;
};

/* Rows for options_parse on a struct tool. */
#define TOOL_ROW_JSON                                                                                        \
    { 0, "json", NULL, tool_take_json, "one JSON object, for programs" }
#define TOOL_ROW_HELP                                                                                        \
    { 'h', "help", NULL, tool_take_help, "this text" }
#define TOOL_ROW_SET                                                                                         \
    {                                                                                                        \
        0, "set", "NAME=VALUE", tool_take_set,                                                               \
            "a variable of the policy, in place of its 'let NAME'; may be repeated"                          \
    }

/* What a noun takes behind its number, and what its verb does. */
static inline const char *tool_s(size_t n) {
    return n == 1 ? "" : "s";
}
static inline const char *tool_verb_s(size_t n) {
    return n == 1 ? "s" : "";
}

int tool_take_json(void *target, char *value, struct errmsg *msg);
int tool_take_help(void *target, char *value, struct errmsg *msg);
int tool_take_set(void *target, char *value, struct errmsg *msg);

/*
 * Parses the options, and prints the help if that was asked for. -1: go on with argv[*first]; else the exit status.
 * There must be `least` arguments behind the options at least. `text` is the help's: usage and what it is for.
 */
int tool_begin(struct tool *t, const char *name, const char *text, const struct option_row *rows,
               size_t nrows, size_t least, int argc, char **argv, int *first);

/* Prints what stands in t->out and gives its memory back. `status`, or TOOL_TROUBLE if it can't be printed. */
int tool_end(struct tool *t, int status);

/* Loads a policy of the files, with t->sets. On failure prints why and returns NULL; with t->json, the errors go to t->out as an array
 * under the key "errors" of an object of their own. */
struct policy *tool_load(struct tool *t, const char *const *files, size_t nfiles);

/* The same, into `diags` that the caller has initialised, printing nothing. Returns policy_load's result. */
int tool_load_quietly(const struct tool *t, const char *const *files, size_t nfiles, struct policy **out,
                      struct policy_diags *diags);

/* The errors as a JSON array. */
struct json;
void tool_diags_json(const struct policy_diags *d, struct json *j);

/* Reads a whole file, "-" standard input. 0, or an error with a message. */
int tool_read_file(const char *path, size_t limit, struct buf *out, struct errmsg *msg);

/* --- requests ---------------------------------------------------------------------------------------------- */

/* A request as a person writes it. Owns what its facts point at. */
struct request {
    struct facts f;
    struct url_host host;
    struct buf path;
    struct facts_ref ref;
};

void request_release(struct request *r);

/* From an absolute URL; for git the repository's. 0, or ERR_USAGE and a message. */
int request_url(struct request *r, enum facts_kind kind, struct slice method, struct slice url,
                struct errmsg *msg);

/* Of a request_url for HTTP, whose path is a repository: the request to its Git LFS that asks for this. */
int request_lfs(struct request *r, enum facts_lfs operation, struct errmsg *msg);

#endif
