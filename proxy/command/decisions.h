/*
 * Reading a decision log (decisions.jsonl) back: each verdict as the request that it was about. For `policy replay` and `learn`.
 */
#ifndef PROXY_COMMAND_DECISIONS_H
#define PROXY_COMMAND_DECISIONS_H

#include <jansson.h>

#include "proxy/command/tool.h"

#define DECISIONS_REFS_MAX 5000

/* One verdict. Everything belongs to the reader and is good until the callback returns, but for what `json` holds while a reference to
 * it is kept. */
struct decision_line {
    unsigned line;
    struct request request;
    struct facts_ref *refs;
    struct slice *options;
    /* what of a push or fetch the log does not tell though a rule may hang on it; NULL: nothing */
    const char *omitted;
    bool denied;
    const char *id, *url, *rule, *reason, *code, *credential; /* "" if there is none */
    json_t *json;
};

struct decisions {
    int (*verdict)(void *arg, struct decision_line *d);
    int (*outcome)(void *arg, const char *id, json_t *json); /* NULL: not looked at */
    void *arg;
    size_t skipped; /* lines that are no request: refused connections, gaps, what can't be read */
    size_t bad;     /* of these, lines that are not such a record at all */
};

/* Reads the text of a log. Returns what a callback returned other than 0, or 0. */
int decisions_read(struct decisions *r, struct slice text);

#endif
