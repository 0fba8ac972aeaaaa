/* A URL as records show it. */
#include "proxy/record/record.h"

#include <stdio.h>

/* What is still to be written of a URL, and where. */
struct url_out {
    struct buf *out;
    size_t left;
    bool cut;
};

static void put_raw(struct url_out *u, struct slice s) {
    if (u->cut || s.n > u->left) {
        u->cut = true;
        return;
    }
    buf_put(u->out, s);
    u->left -= s.n;
}

/* As much of it as there is room for. */
static void put_part(struct url_out *u, struct slice s) {
    struct slice fits = slice_sub(s, 0, u->left);
    if (u->cut)
        return;
    put_raw(u, fits);
    u->cut = fits.n < s.n;
}

static bool is_plain(char c) {
    return c > 0x20 && c < 0x7f;
}

/* What can't stand in a URL, or could draw on a terminal or end a line, is percent-encoded. */
static void put_encoded(struct url_out *u, struct slice s) {
    for (size_t i = 0, n; i < s.n && !u->cut; i += n) {
        for (n = 0; i + n < s.n && is_plain(s.p[i + n]);)
            n++;
        put_part(u, slice_sub(s, i, n));
        if (i + n == s.n)
            break;
        char hex[4];
        snprintf(hex, sizeof hex, "%%%02X", (unsigned char)s.p[i + n++]);
        put_raw(u, slice_make(hex, 3));
    }
}

static void put_query(struct url_out *u, struct slice query, bool values) {
    put_raw(u, SLICE("?"));
    if (values) {
        put_encoded(u, query);
        return;
    }
    struct slice rest = query;
    bool more = query.n > 0;
    while (more && !u->cut) {
        struct slice pair, name, value;
        more = slice_cut(rest, '&', &pair, &rest);
        /* a parameter without '=' may be a value as well as a name (a token behind a bare '?') */
        if (slice_cut(pair, '=', &name, &value)) {
            put_encoded(u, name);
            put_raw(u, SLICE("=*"));
        } else if (pair.n) {
            put_raw(u, SLICE("*"));
        }
        if (more)
            put_raw(u, SLICE("&"));
    }
}

int record_put_url(struct buf *out, enum url_scheme scheme, struct slice authority, struct slice path,
                   struct slice query, unsigned flags) {
    struct url_out u = {.out = out, .left = RECORD_URL_MAX - 3};
    put_raw(&u, slice_str(url_scheme_name(scheme)));
    put_raw(&u, SLICE("://"));
    for (size_t i = authority.n; i > 0; i--)
        if (authority.p[i - 1] == '@') {
            put_raw(&u, SLICE("*@"));
            authority = slice_from(authority, i);
            break;
        }
    put_encoded(&u, authority);
    put_encoded(&u, path);
    if (flags & RECORD_URL_QUERY)
        put_query(&u, query, flags & RECORD_URL_VALUES);
    if (u.cut)
        buf_puts(out, "\xe2\x80\xa6");
    return out->failed ? ERR_LIMIT : 0;
}
