/*
 * Names of refs, by git's check-ref-format, and ids of objects.
 */
#include "base/json.h"
#include "proxy/codec/git.h"

static bool is_ref_text(struct slice s) {
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= 0x20 || c == 0x7f || strchr("~^:?*[\\", c))
            return false;
        char next = i + 1 < s.n ? s.p[i + 1] : 0;
        if ((c == '.' && next == '.') || (c == '@' && next == '{'))
            return false;
        size_t n = utf8_sequence(slice_from(s, i));
        if (n == 0)
            return false;
        i += n;
    }
    return s.n > 0 && s.p[s.n - 1] != '.';
}

bool git_ref_valid(struct slice ref, bool one_level) {
    if (ref.n > GIT_REF_MAX || !slice_starts(ref, SLICE("refs/")) || !is_ref_text(ref))
        return false;
    struct slice rest = slice_from(ref, 5), part;
    bool more = true;
    size_t parts = 0;
    while (more) {
        more = slice_cut(rest, '/', &part, &rest);
        if (part.n == 0 || part.p[0] == '.' || slice_ends(part, SLICE(".lock")))
            return false;
        parts++;
    }
    return parts > 1 || one_level;
}

bool git_id_valid(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_digit(s.p[i]) && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
            return false;
    return s.n == 40 || s.n == 64;
}
