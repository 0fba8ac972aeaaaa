/*
 * What the tools print again and again. Internal to policy/.
 */
#ifndef POLICY_PRINT_H
#define POLICY_PRINT_H

#include "base/json.h"
#include "policy/rule.h"
#include "policy/tools.h"

#define PAINT_RED    "31"
#define PAINT_GREEN  "32"
#define PAINT_YELLOW "33"
#define PAINT_BOLD   "1"

/* A word in colour, if colour is asked for. */
void print_painted(const struct policy_print *print, const char *colour, const char *word);

/* "GET https://a.example/x", "push https://a.example/r refs/heads/m create". Of a push the first ref. */
void print_request(struct buf *out, const struct facts *f);

/* The same with what an `expect` would say of headers and body: 'header Accept text/html body {"base":"main"}'. */
void print_request_whole(struct buf *out, const struct facts *f);

/* As a text in quotes, of an expectation or a rule. */
void print_quoted(struct buf *out, struct slice s);

/* "my.policy:3: allow GET https://a.example/x" */
void print_rule(struct buf *out, const struct rule *r);

/* Members "file", "line" and "text" of a rule. */
void print_rule_json(struct json *j, const char *key, const struct rule *r);

/* A member that is text. */
void print_text_json(struct json *j, const char *key, struct slice s);
static inline void print_buf_json(struct json *j, const char *key, struct buf *b) {
    print_text_json(j, key, buf_slice(b));
}

#endif
