#include "policy/words.h"

#include <stdio.h>

#include "policy/spelling.h"

/* A word from elsewhere, and ours, as it is shown. */
struct other {
    const char *word, *meant;
};

static const struct other statements[] = {
    {"accept", "allow"},   {"grant", "allow"},   {"pass", "allow"},  {"permit", "allow"},
    {"block", "deny"},     {"disallow", "deny"}, {"drop", "deny"},   {"forbid", "deny"},
    {"refuse", "deny"},    {"reject", "deny"},   {"confirm", "ask"}, {"prompt", "ask"},
    {"connect", "tunnel"}, {"assert", "expect"}, {"test", "expect"}, {"import", "include"},
    {"source", "include"}, {"set", "let"},       {"var", "let"},     {NULL, NULL},
};

static const struct other actions[] = {
    {"clone", "fetch"},
    {"pull", "fetch"},
    {"commit", "push"},
    {"git", "fetch or push"},
    {"connect", "tunnel"},
    {"git-lfs", "lfs"},
    {"all", "*"},
    {"any", "*"},
    {"read", "GET, or fetch for git"},
    {"write", "POST, or push for git"},
    {NULL, NULL},
};

static const struct other operations[] = {
    {"add", "create"},    {"new", "create"},    {"fast-forward", "update"},
    {"ff", "update"},     {"modify", "update"}, {"write", "update"},
    {"remove", "delete"}, {"rm", "delete"},     {"rewrite", "force"},
    {"files", "paths"},   {NULL, NULL},
};

/* Behind any target. */
static const struct other options[] = {
    {"credential", "with"}, {"using", "with"},  {"quota", "limit"}, {"rate", "limit"},
    {"comment", "note"},    {"reason", "note"}, {NULL, NULL},
};

static const struct other http_options[] = {
    {"if", "where"}, {"when", "where"}, {"size", "max-body"}, {"max-size", "max-body"}, {NULL, NULL},
};

static const struct other tests[] = {
    {"=", "=="},  {"===", "=="}, {"is", "=="}, {"eq", "=="},     {"<>", "!="},
    {"ne", "!="}, {"=~", "~"},   {"~=", "~"},  {"matches", "~"}, {NULL, NULL},
};

static const struct other none[] = {{NULL, NULL}};

static const struct other *const others[][2] = {
    [WORDS_STATEMENT] = {statements, none},
    [WORDS_ACTION] = {actions, none},
    [WORDS_PUSHED] = {operations, options},
    [WORDS_FETCHED] = {options, none},
    [WORDS_OPTION] = {http_options, options},
    [WORDS_TEST] = {tests, none},
    [WORDS_OTHER] = {none, none},
};
_Static_assert(sizeof others / sizeof *others == WORDS_PLACES, "each place has its words");

static const char *called(struct slice word, const struct other *table) {
    for (; table->word; table++)
        if (slice_caseeq(word, slice_str(table->word)))
            return table->meant;
    return NULL;
}

/* What others call so comes first: no edit makes fetch of pull. */
static const char *meant_by(enum words_place place, struct slice word, const char *const *known, size_t n) {
    const char *meant = called(word, others[place][0]);
    if (!meant)
        meant = called(word, others[place][1]);
    return meant ? meant : spelling_meant(word, known, n);
}

const char *words_hint(enum words_place place, struct slice word, const char *const *known, size_t n,
                       char hint[WORDS_HINT]) {
    const char *meant = meant_by(place, word, known, n);
    if (!meant)
        return NULL;
    snprintf(hint, WORDS_HINT, "did you mean %s?", meant);
    return hint;
}

/* Registered ones, and a few that are in use. */
static const char *const methods[] = {
    "GET",      "HEAD",      "POST",        "PUT",        "PATCH",   "DELETE", "OPTIONS", "TRACE",
    "PROPFIND", "MKCOL",     "COPY",        "MOVE",       "LOCK",    "UNLOCK", "REPORT",  "SEARCH",
    "MERGE",    "PROPPATCH", "CHECKOUT",    "MKACTIVITY", "CHECKIN", "LINK",   "UNLINK",  "BIND",
    "UNBIND",   "REBIND",    "ACL",         "LABEL",      "UPDATE",  "QUERY",  "PURGE",   "BAN",
    "NOTIFY",   "SUBSCRIBE", "UNSUBSCRIBE", "MKCALENDAR",
};

const char *words_method(struct slice word) {
    return spelling_meant(word, methods, sizeof methods / sizeof *methods);
}

static const char *method_hint(struct slice word, char hint[WORDS_HINT]) {
    const char *meant = words_method(word);
    if (!meant)
        return "methods are written in capitals";
    snprintf(hint, WORDS_HINT, "did you mean %s?%s", meant,
             slice_caseeq(word, slice_str(meant)) ? " Methods are written in capitals" : "");
    return hint;
}

const char *policy_action_hint(struct slice word, char hint[WORDS_HINT]) {
    static const char *const known[] = {"push", "fetch", "lfs", "tunnel"};
    const char *meant = words_method(word);
    /* `delete` and `checkout` are methods in small letters, before anything else */
    if (meant && slice_caseeq(word, slice_str(meant)))
        return method_hint(word, hint);
    const char *said = words_hint(WORDS_ACTION, word, known, sizeof known / sizeof *known, hint);
    return said ? said : method_hint(word, hint);
}
