/* Scheme, host and port of a URL in a policy. */
#include "policy/compile.h"

#include "policy/diag.h"

static bool starts_plain(const struct expanded *e, const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (i >= e->n || e->c[i].code != (unsigned char)text[i])
            return false;
    return true;
}

static bool scheme(struct compiler *c, const struct expanded *e, struct target *out, size_t *at) {
    static const char *const urls = "https://host/path or http://host/path";
    if (starts_plain(e, "https://")) {
        out->scheme = URL_HTTPS;
        *at = 8;
        return true;
    }
    if (starts_plain(e, "http://")) {
        out->scheme = URL_HTTP;
        *at = 7;
        return true;
    }
    size_t n = 0;
    while (n < e->n && e->c[n].code != ':' && e->c[n].code != '/')
        n++;
    if (n + 2 < e->n && e->c[n].code == ':' && e->c[n + 1].code == '/')
        diag_marks(c, e, 0, n, urls, NULL, "unknown scheme");
    else
        diag_marks(c, e, 0, e->n, urls,
                   "write the scheme out: https:// judges nothing in clear text, nor http:// TLS",
                   "a target without a scheme");
    return false;
}

/* Cuts ":*" off the end of the authority. */
static size_t any_port(const struct expanded *e, size_t from, size_t end, struct target *out) {
    if (end - from < 2 || e->c[end - 1].code != '*' || e->c[end - 2].code != ':')
        return end;
    out->any_port = true;
    return end - 2;
}

/* Takes a wildcard off the front of the host. */
static bool wildcard(struct compiler *c, const struct expanded *e, size_t *from, size_t end,
                     struct target *out) {
    static const char *const allowed = "*.example.com (one label or more in front), or * for any host";
    size_t at = *from;
    if (at < end && e->c[at].code == '*') {
        if (at + 1 == end || e->c[at + 1].code == ':') {
            out->host_kind = RULE_HOST_ANY;
            *from = at + 1;
        } else if (e->c[at + 1].code == '.') {
            out->host_kind = RULE_HOST_SUFFIX;
            *from = at + 2;
        }
    }
    for (size_t i = *from; i < end; i++) {
        if (e->c[i].code == '*') {
            diag_marks(c, e, i, 1, allowed, NULL, "'*' stands within a host, where it means nothing");
            return false;
        }
        if (e->c[i].code == '{' || e->c[i].code == '}') {
            diag_marks(c, e, i, 1, "{api,www}.example.com", NULL, "braces that don't pair");
            return false;
        }
    }
    return true;
}

/* A ':' out of a variable would move the line between host and port; within an address's brackets there is none. */
static bool value_has_port(const struct expanded *e, size_t from, size_t end, size_t *at) {
    bool brackets = false;
    for (*at = from; *at < end; ++*at) {
        unsigned code = e->c[*at].code, c = code & ~MARK_LITERAL;
        brackets = c == '[' || (brackets && c != ']');
        if (code == (MARK_LITERAL | ':') && !brackets)
            return true;
    }
    return false;
}

/* What is left of the authority: a host, or nothing behind a bare '*', and a port. */
static bool host_port(struct compiler *c, const struct expanded *e, size_t from, size_t end,
                      struct target *out) {
    struct errmsg msg;
    struct url_host host = {.kind = URL_HOST_NAME};
    struct slice text = expanded_text(c, e->c + from, end - from);
    bool any = out->host_kind == RULE_HOST_ANY;
    /* a bare '*' is judged with a name in its place, so that only its port is looked at */
    struct slice parsed = text;
    if (any) {
        struct mark whole[POLICY_LINE_MAX];
        whole[0].code = 'x';
        if (end - from < POLICY_LINE_MAX - 1)
            memcpy(whole + 1, e->c + from, (end - from) * sizeof *whole);
        parsed = expanded_text(c, whole, end - from + 1);
    }
    out->port = 0;
    if (!parsed.p)
        return false;
    if (url_authority_parse(parsed, url_default_port(out->scheme), &host, &out->port, &msg)) {
        diag_marks(c, e, from, end > from ? end - from : 1, NULL, NULL, "%s", msg.text);
        return false;
    }
    out->host_is_address = host.kind != URL_HOST_NAME && !any;
    if (out->host_kind == RULE_HOST_SUFFIX && out->host_is_address) {
        diag_marks(c, e, from, end - from, NULL, NULL, "an address has no names below it");
        return false;
    }
    out->host = any ? SLICE("*") : arena_copy(&c->p->arena, url_host_slice(&host));
    return out->host.p != NULL;
}

bool target_origin(struct compiler *c, const struct expanded *e, bool pattern, struct target *out,
                   size_t *path) {
    size_t from, end;
    if (!scheme(c, e, out, &from))
        return false;
    /* a '/' out of a variable does not end the host: a value can't move the line between host and path */
    for (end = from; end < e->n && e->c[end].code != '/' && e->c[end].code != '?' && e->c[end].code != '#';
         end++)
        if (e->c[end].code == '~')
            break;
    if (end == from) {
        diag_marks(c, e, 0, e->n, "https://host/path", NULL, "a target without a host");
        return false;
    }
    *path = end;
    if (pattern) {
        end = any_port(e, from, end, out);
        if (!wildcard(c, e, &from, end, out))
            return false;
    }
    size_t colon;
    if (value_has_port(e, from, end, &colon)) {
        diag_marks(c, e, colon, 1, NULL, "give the port a variable of its own: https://$host:$port/",
                   "the value of a variable has a ':' where a host stands");
        return false;
    }
    return host_port(c, e, from, end, out);
}
