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
