/*
 * Patterns: `*` (any characters within a segment, also none) and `**` (any characters). Internal to policy/.
 *
 * Matching takes time proportional to text times pattern, whatever the two hold: all ways of matching are followed
 * at once, none is tried and taken back.
 *
 * An allow reads a text strictly. A deny reads it generously (GLOB_LOOSE), as the most forgiving server would:
 * letter case, percent encoding and a final slash make no difference, and a wildcard takes an encoded slash. So a
 * request that is spelled oddly finds no allow and every deny.
 */
#ifndef POLICY_GLOB_H
#define POLICY_GLOB_H

#include "policy/arena.h"

#define GLOB_MAX 2048 /* units of one pattern */

#define GLOB_STAR     0x200u
#define GLOB_STARSTAR 0x201u
/* A unit below that is a character: a byte, or URL_UNIT_ENCODED + byte (base/url.h). */

struct glob {
    const uint16_t *units;
    size_t n;
    size_t literal; /* leading units that are characters */
};

#define GLOB_PATH     (1u << 0) /* the text is a canonical path that holds '%': "%XX" is one character */
#define GLOB_NOCASE   (1u << 1) /* ASCII case makes no difference */
#define GLOB_LOOSE    (1u << 2) /* see above */
#define GLOB_COLLAPSE (1u << 3) /* a row of '/' in the text counts as one */

/* Copies `n` units into the arena; false when memory is short or the pattern is too long. */
bool glob_make(struct glob *g, const uint16_t *units, size_t n, struct arena *arena);

bool glob_match(const struct glob *g, struct slice text, unsigned flags);

/* Could the pattern match something below the directory `text`? GLOB_NOCASE is looked at. */
bool glob_below(const struct glob *g, struct slice text, unsigned flags);

#endif
