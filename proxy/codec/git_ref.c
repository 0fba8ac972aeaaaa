/*
 * Names of refs, by git's check-ref-format, and ids of objects.
 */
#include "proxy/codec/git.h"

/* Length of the well-formed UTF-8 sequence at `i`, or 0. Surrogates, overlong forms and what lies beyond U+10FFFF are
 * not well-formed. */
static size_t utf8_length(struct slice s, size_t i) {
    unsigned char c = (unsigned char)s.p[i];
    size_t n = c < 0x80                ? 1
               : c >= 0xc2 && c < 0xe0 ? 2
               : c >= 0xe0 && c < 0xf0 ? 3
               : c >= 0xf0 && c < 0xf5 ? 4
                                       : 0;
    if (n == 0 || n > s.n - i)
        return 0;
    for (size_t k = 1; k < n; k++)
        if (((unsigned char)s.p[i + k] & 0xc0) != 0x80)
            return 0;
    unsigned char second = n > 1 ? (unsigned char)s.p[i + 1] : 0;
    if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) || (c == 0xf0 && second < 0x90) ||
        (c == 0xf4 && second > 0x8f))
        return 0;
    return n;
}

static bool is_ref_text(struct slice s) {
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= 0x20 || c == 0x7f || strchr("~^:?*[\\", c))
            return false;
        char next = i + 1 < s.n ? s.p[i + 1] : 0;
        if ((c == '.' && next == '.') || (c == '@' && next == '{'))
            return false;
        size_t n = utf8_length(s, i);
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
