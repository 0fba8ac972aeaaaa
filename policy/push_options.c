#include "policy/push_options.h"

bool push_option_writes(struct slice option) {
    /* GitLab: no pipeline for this push, and no word to outer ones */
    return !slice_eq(option, SLICE("ci.skip")) && !slice_eq(option, SLICE("integrations.skip_ci"));
}

/* Option `i` of the push, then those of the ref's name. False behind the last. */
static bool option_at(const struct facts *f, const struct facts_ref *ref, size_t i, struct slice *out) {
    struct slice rest = SLICE_NONE;
    if (i < f->noptions) {
        *out = f->options[i];
        return true;
    }
    if (!ref || !slice_starts(ref->name, SLICE("refs/for/")) || !slice_cut(ref->name, '%', out, &rest))
        return false;
    bool more = true;
    for (size_t k = f->noptions; more && k <= i; k++)
        more = slice_cut(rest, ',', out, &rest) || k == i;
    return more;
}

/* An option as a log has it: what stands behind the '=' is not known. */
static bool masked(struct slice option) {
    return slice_ends(option, SLICE("=*"));
}

bool push_options_masked(const struct facts *f) {
    for (size_t i = 0; i < f->noptions; i++)
        if (masked(f->options[i]))
            return true;
    return false;
}

/* Whether a pattern matches what begins so, whatever follows. */
static enum tri takes_begun(const struct glob *g, struct slice begin, bool loose) {
    for (size_t i = 0; i < g->n; i++) {
        unsigned u = g->units[i];
        if (u == GLOB_STARSTAR && i + 1 == g->n)
            return TRI_YES;
        if (u == GLOB_STAR || u == GLOB_STARSTAR || i == begin.n)
            return TRI_UNKNOWN;
        if (u != (unsigned char)begin.p[i] &&
            (!loose || u > 0x7f || ascii_lower((char)u) != ascii_lower(begin.p[i])))
            return TRI_NO;
    }
    return g->n == begin.n ? TRI_UNKNOWN : TRI_NO; /* with nothing behind the '=' */
}

bool push_options_told(const struct facts *f, const struct rule *r) {
    bool told = true;
    for (size_t i = 0; r->npush_options && i < f->noptions; i++) {
        struct slice option = f->options[i];
        enum tri best = TRI_NO;
        if (!r->deny && !push_option_writes(option))
            continue;
        for (size_t k = 0; k < r->npush_options; k++) {
            enum tri one = masked(option)
                               ? takes_begun(&r->push_options[k], slice_sub(option, 0, option.n - 1), r->deny)
                           : glob_match(&r->push_options[k], option, r->deny ? GLOB_NOCASE : 0) ? TRI_YES
                                                                                                : TRI_NO;
            best = one > best ? one : best;
        }
        if (best == (r->deny ? TRI_YES : TRI_NO))
            return true; /* a deny of one, or one that an allow does not name, decides */
        told &= best != TRI_UNKNOWN;
    }
    return told;
}

static bool named(const struct rule *r, struct slice option, bool loose) {
    for (size_t i = 0; i < r->npush_options; i++)
        if (glob_match(&r->push_options[i], option, loose ? GLOB_NOCASE : 0))
            return true;
    return false;
}

struct slice push_option_open(const struct facts *f, const struct rule *r, const struct facts_ref *ref) {
    struct slice option;
    for (size_t i = 0; option_at(f, ref, i, &option); i++)
        if (push_option_writes(option) && !named(r, option, false))
            return option.n ? option : SLICE("%");
    return SLICE_NONE;
}

bool push_options_match(const struct facts *f, const struct rule *r, const struct facts_ref *ref,
                        bool loose) {
    struct slice option;
    if (!loose)
        return push_option_open(f, r, ref).n == 0;
    for (size_t i = 0; r->npush_options && option_at(f, ref, i, &option); i++)
        if (named(r, option, true))
            return true;
    return r->npush_options == 0;
}
