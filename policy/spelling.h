/*
 * What somebody may have meant by a word that nothing is called. Internal.
 */
#ifndef POLICY_SPELLING_H
#define POLICY_SPELLING_H

#include "base/slice.h"

/* The nearest of the words that are known, at most two edits away and less than half of it: a swap of neighbours is one edit, capitals
 * are none. The word itself, if it is known. NULL: nothing comes near. */
const char *spelling_meant(struct slice word, const char *const *known, size_t n);

#endif
