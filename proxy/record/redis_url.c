/* What --redis says, in either form, and the addresses of its host. */
#include "proxy/record/sink_redis.h"

#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>

#define USAGE "expected redis://[user:password@]HOST[:PORT][/DB][?maxlen=N] or unix:PATH[?db=N]"

#define REDIS_PORT     6379
#define REDIS_DB_MAX   65535
#define REDIS_TEXT_MAX 512 /* of user and of password */

static bool decode_percent(struct slice s, char *out, size_t cap, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            int byte = slice_hex_pair(s, i + 1);
            if (byte < 0)
                return false;
            c = (char)byte;
            i += 2;
        }
        if (*n == cap)
            return false;
        out[(*n)++] = c;
    }
    return true;
}

/* Percent-decoded into a secret. `what` is named in the message, the value never. */
static int set_secret(struct secret *out, struct slice text, const char *what, struct errmsg *msg) {
    char plain[REDIS_TEXT_MAX];
    size_t n;
    int r = 0;
    if (!decode_percent(text, plain, sizeof plain, &n))
        r = errmsg_set(msg, ERR_USAGE,
                       "--redis: the %s is too long or has a '%%' without two hexadecimal digits", what);
    else if (secret_set(out, slice_make(plain, n)))
        r = errmsg_set(msg, ERR_NOMEM, "--redis: out of memory");
    secret_wipe(plain, sizeof plain);
    return r;
}

static int parse_userinfo(struct slice info, struct redis_url *u, struct errmsg *msg) {
    struct slice user, password;
    if (!slice_cut(info, ':', &user, &password))
        return errmsg_set(msg, ERR_USAGE,
                          "--redis: a user without a password; write user:password@ or :password@");
    int r = set_secret(&u->user, user, "user name", msg);
    if (r == 0)
        r = set_secret(&u->password, password, "password", msg);
    if (r == 0 && u->password.n == 0)
        r = errmsg_set(msg, ERR_USAGE, "--redis: the password is empty");
    return r;
}

static int parse_number(struct slice s, uint64_t max, const char *what, uint64_t *out, struct errmsg *msg) {
    if (slice_u64(s, max, out))
        return 0;
    return errmsg_set(msg, ERR_USAGE, "--redis: %s must be a number up to %llu", what,
                      (unsigned long long)max);
}

static int parse_parameter(struct slice pair, bool local, struct redis_url *u, struct errmsg *msg) {
    struct slice name, value;
    uint64_t v;
    slice_cut(pair, '=', &name, &value);
    if (slice_eq(name, SLICE("maxlen")))
        return parse_number(value, INT64_MAX, "maxlen", &u->maxlen, msg);
    if (local && slice_eq(name, SLICE("db"))) {
        int r = parse_number(value, REDIS_DB_MAX, "db", &v, msg);
        if (r == 0)
            u->db = (unsigned)v;
        return r;
    }
    if (local && slice_eq(name, SLICE("user")))
        return set_secret(&u->user, value, "user name", msg);
    if (local && slice_eq(name, SLICE("password")))
        return set_secret(&u->password, value, "password", msg);
    return errmsg_set(msg, ERR_USAGE, "--redis: unknown parameter behind '?'; known: %s",
                      local ? "maxlen, db, user, password" : "maxlen");
}

static int parse_parameters(struct slice query, bool local, struct redis_url *u, struct errmsg *msg) {
    for (bool more = true; more;) {
        struct slice pair;
        more = slice_cut(query, '&', &pair, &query);
        int r = parse_parameter(pair, local, u, msg);
        if (r)
            return r;
    }
    return 0;
}

static bool host_char(char c) {
    return ascii_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || c == '-' || c == '.' ||
           c == '_';
}

static int parse_host(struct slice host, struct redis_url *u, struct errmsg *msg) {
    if (host.n > 2 && host.p[0] == '[') {
        if (!addr_parse(host, u->port, &u->addrs[0]))
            return errmsg_set(msg, ERR_USAGE, "--redis: no IPv6 address between the brackets");
        host = slice_sub(host, 1, host.n - 2);
    } else {
        for (size_t i = 0; i < host.n; i++)
            if (!host_char(host.p[i]))
                return errmsg_set(msg, ERR_USAGE, "--redis: not a host name; " USAGE);
    }
    if (host.n == 0 || host.n >= sizeof u->host)
        return errmsg_set(msg, ERR_USAGE, "--redis: no host; " USAGE);
    memcpy(u->host, host.p, host.n);
    u->host[host.n] = 0;
    return 0;
}

/* HOST[:PORT], the host an IPv6 address in brackets perhaps. */
static int parse_authority(struct slice s, struct redis_url *u, struct errmsg *msg) {
    struct slice host = s, port = SLICE_NONE;
    ptrdiff_t close = s.n && s.p[0] == '[' ? slice_find(s, ']') : -1;
    bool has_port;
    if (close >= 0) {
        struct slice rest = slice_from(s, (size_t)close + 1);
        host = slice_sub(s, 0, (size_t)close + 1);
        has_port = rest.n > 0;
        if (has_port && rest.p[0] != ':')
            return errmsg_set(msg, ERR_USAGE, "--redis: something behind the address; " USAGE);
        port = slice_from(rest, 1);
    } else {
        has_port = slice_cut(s, ':', &host, &port);
    }
    uint64_t v = REDIS_PORT;
    if (has_port && (!slice_u64(port, 65535, &v) || v == 0))
        return errmsg_set(msg, ERR_USAGE, "--redis: the port must be a number from 1 to 65535");
    u->port = (uint16_t)v;
    return parse_host(host, u, msg);
}

static int parse_tcp(struct slice rest, struct redis_url *u, struct errmsg *msg) {
    struct slice query, path, before;
    bool has_query = slice_cut(rest, '?', &rest, &query);
    bool has_path = slice_cut(rest, '/', &before, &path);
    struct slice authority = has_path ? before : rest;
    uint64_t v = 0;
    int r = 0;
    for (size_t i = authority.n; i > 0; i--)
        if (authority.p[i - 1] == '@') {
            r = parse_userinfo(slice_sub(authority, 0, i - 1), u, msg);
            authority = slice_from(authority, i);
            break;
        }
    if (r == 0)
        r = parse_authority(authority, u, msg);
    if (r == 0 && has_path && path.n)
        r = parse_number(path, REDIS_DB_MAX, "the database", &v, msg);
    u->db = (unsigned)v;
    if (r == 0 && has_query)
        r = parse_parameters(query, false, u, msg);
    return r;
}

static int parse_unix(struct slice rest, struct redis_url *u, struct errmsg *msg) {
    struct slice path, query;
    bool has_query = slice_cut(rest, '?', &path, &query);
    if (path.n == 0 || path.p[0] != '/' || slice_starts(path, SLICE("//")))
        return errmsg_set(msg, ERR_USAGE, "--redis: unix: needs an absolute path");
    if (path.n >= sizeof u->path)
        return errmsg_set(msg, ERR_USAGE, "--redis: the path is longer than %zu bytes", sizeof u->path - 1);
    memcpy(u->path, path.p, path.n);
    u->path[path.n] = 0;
    return has_query ? parse_parameters(query, true, u, msg) : 0;
}

int redis_url_parse(struct slice text, struct redis_url *out, struct errmsg *msg) {
    *out = (struct redis_url){.maxlen = SINK_REDIS_MAXLEN};
    int r;
    bool controls = false;
    for (size_t i = 0; i < text.n; i++)
        controls = controls || (unsigned char)text.p[i] <= 0x20 || text.p[i] == 0x7f;
    if (controls)
        r = errmsg_set(msg, ERR_USAGE, "--redis: a space or control character; " USAGE);
    else if (slice_starts(text, SLICE("redis://")))
        r = parse_tcp(slice_from(text, 8), out, msg);
    else if (slice_starts(text, SLICE("unix:")))
        r = parse_unix(slice_from(text, slice_starts(text, SLICE("unix:///")) ? 7 : 5), out, msg);
    else if (slice_starts(text, SLICE("rediss://")))
        r = errmsg_set(msg, ERR_USAGE,
                       "--redis: TLS to Redis (rediss://) is not supported; use unix: or a tunnel");
    else
        r = errmsg_set(msg, ERR_USAGE, "--redis: " USAGE);
    if (r == 0 && out->user.n && !out->password.n)
        r = errmsg_set(msg, ERR_USAGE, "--redis: a user without a password");
    if (r)
        redis_url_release(out);
    return r;
}

void redis_url_release(struct redis_url *u) {
    secret_release(&u->user);
    secret_release(&u->password);
    *u = (struct redis_url){0};
}

int sink_redis_resolve(struct redis_url *u, struct errmsg *msg) {
    u->naddrs = 0;
    if (u->path[0])
        return 0;
    if (addr_parse(slice_str(u->host), u->port, &u->addrs[0])) {
        u->naddrs = 1;
        return 0;
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int r = getaddrinfo(u->host, NULL, &hints, &list);
    if (r)
        return errmsg_set(msg, ERR_NOTFOUND, "--redis: no address for '%s': %s", u->host, gai_strerror(r));
    for (struct addrinfo *a = list; a && u->naddrs < SINK_REDIS_ADDRS_MAX; a = a->ai_next) {
        struct addr addr = addr_from(a->ai_addr, a->ai_addrlen);
        if (addr.len == 0)
            continue;
        addr_set_port(&addr, u->port);
        u->addrs[u->naddrs++] = addr;
    }
    freeaddrinfo(list);
    return u->naddrs ? 0 : errmsg_set(msg, ERR_NOTFOUND, "--redis: no address for '%s'", u->host);
}
