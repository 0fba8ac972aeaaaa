/*
 * The lexical rules that the operator's files share (policies, credentials): what a blank, a line break, a continuation and a
 * comment are. How words are made of the rest is each language's own matter.
 *
 * '#' at the start of a word begins a comment that runs to the end of the physical line; '\' as the last character of a line
 * joins the next line to it, but never in a comment: a comment can't swallow a line.
 */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include "base/slice.h"

static inline bool lines_blank(int c) {
    return c == ' ' || c == '\t';
}

/* The byte `ahead` bytes on, -1 behind the end. */
static inline int lines_peek(struct slice rest, size_t ahead) {
    return ahead < rest.n ? (unsigned char)rest.p[ahead] : -1;
}

/* Length of the line break `ahead` bytes on: 0 if there is none. The end of the text is not one. */
static inline size_t lines_break(struct slice rest, size_t ahead) {
    int c = lines_peek(rest, ahead);
    if (c == '\n')
        return 1;
    return c == '\r' && lines_peek(rest, ahead + 1) == '\n' ? 2 : 0;
}

struct lines_skip {
    size_t n;        /* bytes passed over */
    unsigned joined; /* continuations among them: physical lines that the logical one goes on over */
    /* the first '\' that was to join lines but has blanks behind it; NULL if there is none */
    const char *bad;
};

/* Over blanks, continuations and a comment, up to a word or the end of the logical line. */
struct lines_skip lines_skip_blanks(struct slice rest);

/* Characters of UTF-8, not bytes, as columns are counted. */
unsigned lines_characters(const char *from, const char *to);

#endif
