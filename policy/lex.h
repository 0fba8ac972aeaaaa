/*
 * The lexer: the text of one file to words, one logical line at a time. Internal to policy/.
 *
 * A word runs to the next space or tab. A word that begins with '"' is a string, in which \" and \\ stand for the
 * character. '#' at the start of a word begins a comment that runs to the end of the physical line; '\' as the last
 * character of a line joins the next line to it, but never in a comment: a comment can't swallow a rule.
 */
#ifndef POLICY_LEX_H
#define POLICY_LEX_H

#include "base/slice.h"
#include "policy/arena.h"
#include "policy/policy.h"

/* One file, in the arena of the policy. */
struct source {
    const char *name;
    struct slice text;
    unsigned index; /* among the policy's files */
};

enum token_kind {
    TOKEN_WORD,
    TOKEN_STRING,
    TOKEN_END, /* of the logical line; its place is behind the last word */
};

/* A word and where it stands, so that an error found much later can still point at it. */
struct token {
    enum token_kind kind;
    struct slice text; /* of a string: what it means */
    struct slice raw;  /* as it stands in the source, with quotes */
    const struct source *source;
    unsigned line;
};

struct lexer {
    const struct source *source;
    struct arena *arena;
    struct policy_diags *diags;
    size_t at;
    unsigned line;
    bool list;    /* '(', ')' and ',' are words of their own */
    bool bad;     /* an error was reported on this line */
    size_t begin; /* where the logical line began */
    size_t end;   /* behind its last word */
    unsigned end_line;
};

void lex_init(struct lexer *lx, const struct source *source, struct arena *arena, struct policy_diags *diags);

/* Moves to the next logical line that holds a word. False at the end of the file. */
bool lex_line(struct lexer *lx);

/* The next word of the line; TOKEN_END again and again at its end. */
void lex_next(struct lexer *lx, struct token *out);

/* Passes over the rest of the line; the words it jumps over are still checked for their form. */
void lex_skip(struct lexer *lx);

#endif
