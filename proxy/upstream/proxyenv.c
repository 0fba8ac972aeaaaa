#include "proxy/upstream/proxyenv.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/base64.h"

#define PROXY_PORT   1080 /* curl's */
#define USERINFO_MAX 512

/* --- the URL of a proxy ------------------------------------------------------------------------------- */

/* "user:password", percent-encoded, into "Basic …". What is plain lives on this stack and is wiped. */
static int set_authorization(struct proxy_server *p, struct slice info) {
    char plain[USERINFO_MAX], value[6 + 4 * (USERINFO_MAX / 3 + 1) + 1] = "Basic ";
    size_t n = 0;
    int r = ERR_USAGE;
    bool colon = false;
    for (size_t i = 0; i < info.n; i++) {
        int c = (unsigned char)info.p[i];
        if (c == '%') {
            c = slice_hex_pair(info, i + 1);
            if (c < 0)
                goto out;
            i += 2;
        } else if (c == ':') {
            colon = true;
        }
        if (c < 0x20 || c == 0x7f || n + 1 >= sizeof plain)
            goto out;
        plain[n++] = (char)c;
    }
    if (!colon)
        plain[n++] = ':';
    size_t length = base64_encode(slice_make(plain, n), value + 6);
    r = secret_set(&p->authorization, slice_make(value, 6 + length));
out:
    secret_wipe(plain, sizeof plain);
    secret_wipe(value, sizeof value);
    return r;
}

static int parse_proxy(struct slice url, const char *variable, struct proxy_server *out, struct errmsg *msg) {
    ptrdiff_t colon = slice_find(url, ':');
    struct slice rest = url;
    if (colon > 0 && slice_starts(slice_from(url, (size_t)colon), SLICE("://"))) {
        if (!slice_caseeq(slice_sub(url, 0, (size_t)colon), SLICE("http")))
            return errmsg_set(msg, ERR_USAGE, "%s: only http:// proxies are supported, not %.*s://", variable,
                              (int)colon, url.p);
        rest = slice_from(url, (size_t)colon + 3);
    }
    struct slice authority, path;
    slice_cut(rest, '/', &authority, &path);
    if (path.n)
        return errmsg_set(msg, ERR_USAGE, "%s: a path behind the proxy's address", variable);
    for (size_t i = authority.n; i > 0; i--) {
        if (authority.p[i - 1] != '@')
            continue;
        int r = set_authorization(out, slice_sub(authority, 0, i - 1));
        if (r)
            return errmsg_set(msg, r,
                              "%s: user or password are too long, hold a control character or a bad '%%'",
                              variable);
        authority = slice_from(authority, i);
        break;
    }
    struct errmsg why;
    if (url_authority_parse(authority, PROXY_PORT, &out->host, &out->port, &why))
        return errmsg_set(msg, ERR_USAGE, "%s: %s; expected [http://][user:password@]HOST[:PORT]", variable,
                          why.text);
    out->set = true;
    return 0;
}

/* --- no_proxy ----------------------------------------------------------------------------------------- */

/* An entry that can't be understood matches nothing, as in curl. */
static bool parse_bypass(struct slice word, struct proxy_bypass *out) {
    struct slice address = word, bits_text = SLICE_NONE;
    bool has_bits = slice_cut(word, '/', &address, &bits_text);
    struct addr addr;
    if (addr_parse(address, 0, &addr)) {
        uint64_t width = addr.sa.sa_family == AF_INET6 ? 128 : 32, bits = width;
        if (has_bits && !slice_u64(bits_text, width, &bits))
            return false;
        *out = (struct proxy_bypass){.network = true, .addr = addr, .bits = (unsigned)bits};
        return true;
    }
    if (word.n && word.p[0] == '.')
        word = slice_from(word, 1);
    *out = (struct proxy_bypass){0};
    return url_host_parse(word, &out->name, NULL) == 0 && out->name.kind == URL_HOST_NAME;
}

static int parse_no_proxy(struct slice list, struct proxyenv *env, struct errmsg *msg) {
    if (slice_eq(slice_trim(list), SLICE("*"))) {
        env->bypass_all = true;
        return 0;
    }
    size_t at = 0;
    while (at < list.n) {
        size_t from = at;
        while (at < list.n && list.p[at] != ',' && list.p[at] != ' ' && list.p[at] != '\t')
            at++;
        struct slice word = slice_sub(list, from, at - from);
        at++;
        if (word.n == 0)
            continue;
        if (env->nbypass == PROXYENV_BYPASS_MAX)
            return errmsg_set(msg, ERR_USAGE, "no_proxy: more than %d entries", PROXYENV_BYPASS_MAX);
        struct proxy_bypass *grown = array_room(env->bypass, env->nbypass, &env->bypass_room, sizeof *grown);
        if (!grown)
            return errmsg_set(msg, ERR_NOMEM, "no_proxy: out of memory");
        env->bypass = grown;
        if (parse_bypass(word, &grown[env->nbypass]))
            env->nbypass++;
    }
    return 0;
}

/* --- the environment ---------------------------------------------------------------------------------- */

/* The first of the two that is there, be it empty. */
static const char *either(const char *(*get)(const char *), const char *lower, const char *upper,
                          const char **which) {
    *which = lower;
    const char *value = get(lower);
    if (value || !upper)
        return value;
    *which = upper;
    return get(upper);
}

static int load_server(struct proxy_server *out, const char *(*get)(const char *), const char *lower,
                       const char *upper, struct errmsg *msg) {
    const char *which;
    const char *value = either(get, lower, upper, &which);
    if (!value)
        value = either(get, "all_proxy", "ALL_PROXY", &which);
    return value && *value ? parse_proxy(slice_str(value), which, out, msg) : 0;
}

int proxyenv_load(struct proxyenv *env, const char *(*get)(const char *name), struct errmsg *msg) {
    const char *which;
    *env = (struct proxyenv){0};
    int r = load_server(&env->https, get, "https_proxy", "HTTPS_PROXY", msg);
    if (r == 0)
        r = load_server(&env->http, get, "http_proxy", get("REQUEST_METHOD") ? NULL : "HTTP_PROXY", msg);
    const char *list = either(get, "no_proxy", "NO_PROXY", &which);
    if (r == 0 && list)
        r = parse_no_proxy(slice_str(list), env, msg);
    if (r)
        proxyenv_release(env);
    return r;
}

void proxyenv_release(struct proxyenv *env) {
    secret_release(&env->https.authorization);
    secret_release(&env->http.authorization);
    free(env->bypass);
    *env = (struct proxyenv){0};
}

/* --- the choice --------------------------------------------------------------------------------------- */

static bool in_network(const struct addr *a, const struct proxy_bypass *b) {
    if (a->sa.sa_family != b->addr.sa.sa_family)
        return false;
    bool six = a->sa.sa_family == AF_INET6;
    const uint8_t *x = six ? a->in6.sin6_addr.s6_addr : (const uint8_t *)&a->in.sin_addr;
    const uint8_t *y = six ? b->addr.in6.sin6_addr.s6_addr : (const uint8_t *)&b->addr.in.sin_addr;
    unsigned whole = b->bits / 8, rest = b->bits % 8;
    if (memcmp(x, y, whole) != 0)
        return false;
    return rest == 0 || (x[whole] ^ y[whole]) >> (8 - rest) == 0;
}

static bool bypassed(const struct proxyenv *env, const struct url_host *host) {
    struct slice name = url_host_slice(host);
    struct addr addr;
    bool literal = host->kind != URL_HOST_NAME && addr_parse(name, 0, &addr);
    if (env->bypass_all)
        return true;
    for (size_t i = 0; i < env->nbypass; i++) {
        const struct proxy_bypass *b = &env->bypass[i];
        struct slice end = url_host_slice(&b->name);
        if (b->network
                ? literal && in_network(&addr, b)
                : !literal && slice_ends(name, end) && (name.n == end.n || name.p[name.n - end.n - 1] == '.'))
            return true;
    }
    return false;
}

const struct proxy_server *proxyenv_for(const struct proxyenv *env, enum url_scheme scheme,
                                        const struct url_host *host) {
    const struct proxy_server *p = scheme == URL_HTTPS ? &env->https : &env->http;
    return p->set && !bypassed(env, host) ? p : NULL;
}
