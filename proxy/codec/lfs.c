#include "proxy/codec/lfs.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/secret.h"

#define LFS_DEEP       16
#define LFS_VALUES_MAX 200000

/* ---- memory ---- */

static void lfs_free(void *p) {
    if (p)
        secret_wipe(p, malloc_usable_size(p));
    free(p);
}

void lfs_prepare(void) {
    json_set_alloc_funcs(malloc, lfs_free);
}

static json_t *lfs_load(struct slice text, const char **why) {
    json_error_t error;
    *why = "it nests too deep, or has too many values";
    if (!json_bounded(text, LFS_DEEP, LFS_VALUES_MAX))
        return NULL;
    json_t *root = json_loadb(text.n ? text.p : "", text.n, JSON_REJECT_DUPLICATES, &error);
    *why = !root && json_error_code(&error) == json_error_duplicate_key ? "it has a key twice"
                                                                        : "it is not a JSON object";
    if (json_is_object(root))
        return root;
    json_decref(root);
    return NULL;
}

static struct slice lfs_text(const json_t *string) {
    return json_is_string(string) ? slice_make(json_string_value(string), json_string_length(string))
                                  : SLICE_NONE;
}

/* ---- requests ---- */

bool lfs_is_batch(struct slice method, struct slice path, struct slice accept) {
    const struct slice below = SLICE("/info/lfs/objects/batch"), type = SLICE(LFS_MEDIA_TYPE);
    if (!slice_eq(method, SLICE("POST")) || !slice_ends(path, SLICE("/objects/batch")))
        return false;
    return slice_ends(path, below) || (accept.n && memmem(accept.p, accept.n, type.p, type.n));
}

bool lfs_read(struct slice body, struct lfs_batch *out) {
    static const char *const operations[] = {"download", "upload"};
    const char *why;
    json_t *root = lfs_load(body, &why), *object;
    size_t i;
    if (!root)
        return false;
    struct slice operation = lfs_text(json_object_get(root, "operation"));
    *out = (struct lfs_batch){.objects = 0};
    for (size_t k = 0; k < sizeof operations / sizeof *operations; k++)
        if (slice_eq(operation, slice_str(operations[k])))
            out->operation = slice_str(operations[k]);
    json_array_foreach(json_object_get(root, "objects"), i, object) {
        json_int_t size = json_integer_value(json_object_get(object, "size"));
        out->objects++;
        if (size > 0 && (uint64_t)size <= UINT64_MAX - out->bytes)
            out->bytes += (uint64_t)size;
    }
    json_decref(root);
    return true;
}

/* ---- times ---- */

static bool lfs_number(struct slice text, size_t at, size_t n, unsigned least, unsigned most, unsigned *out) {
    uint64_t value;
    struct slice part = slice_sub(text, at, n);
    if (part.n != n || !slice_u64(part, most, &value) || value < least)
        return false;
    *out = (unsigned)value;
    return true;
}

/* "Z", "+02:00": seconds east of UTC. */
static bool lfs_offset(struct slice text, int64_t *out) {
    unsigned hours, minutes;
    *out = 0;
    if (slice_eq(text, SLICE("Z")) || slice_eq(text, SLICE("z")))
        return true;
    if (text.n != 6 || (text.p[0] != '+' && text.p[0] != '-') || text.p[3] != ':' ||
        !lfs_number(text, 1, 2, 0, 23, &hours) || !lfs_number(text, 4, 2, 0, 59, &minutes))
        return false;
    *out = (int64_t)(hours * 3600 + minutes * 60) * (text.p[0] == '-' ? -1 : 1);
    return true;
}

bool lfs_time(struct slice text, int64_t *seconds) {
    static const unsigned before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    unsigned year, month, day, hour, minute, second;
    int64_t offset;
    if (text.n < 20 || text.p[4] != '-' || text.p[7] != '-' || (text.p[10] != 'T' && text.p[10] != 't') ||
        text.p[13] != ':' || text.p[16] != ':' || !lfs_number(text, 0, 4, 1970, 9999, &year) ||
        !lfs_number(text, 5, 2, 1, 12, &month) || !lfs_number(text, 8, 2, 1, 31, &day) ||
        !lfs_number(text, 11, 2, 0, 23, &hour) || !lfs_number(text, 14, 2, 0, 59, &minute) ||
        !lfs_number(text, 17, 2, 0, 60, &second))
        return false;
    size_t at = 19;
    if (text.p[at] == '.')
        for (at++; at < text.n && ascii_digit(text.p[at]); at++)
            ;
    if (!lfs_offset(slice_from(text, at), &offset))
        return false;
    unsigned leaps = (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 - 477; /* up to 1969 */
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    int64_t days = (int64_t)(year - 1970) * 365 + leaps + before[month - 1] + (leap && month > 2) + (day - 1);
    *seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset;
    return true;
}

/* ---- answers ---- */

struct rewrite {
    lfs_permit *permit;
    void *arg;
    size_t refused;
    struct errmsg *msg;
};

/* May a field be put on a request because a server says so? Framing and what leads elsewhere is exeat's own to say. */
static bool field_travels(enum http_field_id id) {
    switch (id) {
    case HTTP_F_CONTENT_LENGTH:
    case HTTP_F_EXPECT:
    case HTTP_F_HOST:
    case HTTP_F_TRAILER:
    case HTTP_F_METHOD_OVERRIDE:
    case HTTP_F_TARGET_OVERRIDE: return false;
    default: return !http_is_hop(id);
    }
}

/* Takes the fields out of `header` into `list`, and returns what the sandbox sees of them. NULL: memory, or too many. */
static json_t *take_fields(const json_t *header, struct http_field list[LFS_FIELDS_MAX], size_t *n) {
    json_t *seen = json_object(), *value;
    const char *key;
    *n = 0;
    json_object_foreach((json_t *)header, key, value) {
        struct slice name = slice_str(key), text = slice_trim(lfs_text(value));
        enum http_field_id id = http_field_lookup(name, NULL);
        if (id == HTTP_F_TRANSFER_ENCODING && slice_caseeq(text, SLICE("chunked")))
            json_object_set_new(seen, key, json_string("chunked"));
        if (!json_is_string(value) || !http_is_token(name) || !http_is_value(text) || !field_travels(id))
            continue;
        for (size_t i = 0; i < *n; i++)
            if (http_name_alike(list[i].name, name))
                text = SLICE_NONE; /* two parsers could take either */
        if (!text.p || *n == LFS_FIELDS_MAX || json_object_set_new(seen, key, json_string(LFS_STAND_IN))) {
            json_decref(seen);
            return NULL;
        }
        list[(*n)++] = (struct http_field){.name = name, .value = text, .id = id};
    }
    return seen;
}

static struct slice action_method(const char *name) {
    return strcmp(name, "download") == 0 ? SLICE("GET")
           : strcmp(name, "upload") == 0 ? SLICE("PUT")
           : strcmp(name, "verify") == 0 ? SLICE("POST")
                                         : SLICE_NONE;
}

static void take_expiry(const json_t *action, json_t *out, struct lfs_action *a) {
    json_t *in = json_object_get(action, "expires_in"), *at = json_object_get(action, "expires_at");
    if (json_is_integer(in)) {
        a->expires = true;
        a->expires_in = json_integer_value(in);
        json_object_set(out, "expires_in", in);
    }
    if (lfs_time(lfs_text(at), &a->expires_at)) {
        a->expires = true;
        json_object_set(out, "expires_at", at);
    }
}

/* One action, as the sandbox sees it. NULL: not permitted, `why` says it. */
static json_t *rewrite_action(struct rewrite *w, struct slice method, const json_t *action, char *why) {
    struct http_field fields[LFS_FIELDS_MAX];
    struct lfs_action a = {
        .method = method, .href = lfs_text(json_object_get(action, "href")), .fields = fields};
    json_t *header = take_fields(json_object_get(action, "header"), fields, &a.nfields);
    json_t *out = json_object();
    bool good = header && out && a.href.p;
    if (good)
        take_expiry(action, out, &a);
    else
        snprintf(why, LFS_WHY_MAX, "%s",
                 a.href.p ? "the server's header fields for it are too many, or one is there twice"
                          : "the server does not say where it lies");
    if (!good || !w->permit(w->arg, &a, why)) {
        json_decref(header);
        json_decref(out);
        return NULL;
    }
    json_object_set(out, "href", json_object_get(action, "href"));
    if (a.nfields == 0 && slice_eq(method, SLICE("PUT")))
        json_object_set_new(header, LFS_NO_FIELD, json_string(LFS_STAND_IN));
    if (json_object_size(header))
        json_object_set(out, "header", header);
    json_decref(header);
    return out;
}

/* NULL: one is not permitted. */
static json_t *rewrite_actions(struct rewrite *w, json_t *actions, char *why) {
    json_t *out = json_object(), *action;
    const char *key;
    json_object_foreach(actions, key, action) {
        struct slice method = action_method(key);
        if (method.n == 0)
            continue;
        json_t *one = rewrite_action(w, method, action, why);
        if (!one) {
            json_decref(out);
            return NULL;
        }
        json_object_set_new(out, key, one);
    }
    return out;
}

static void copy_members(const json_t *from, json_t *to, const char *const *names) {
    for (; *names; names++) {
        json_t *value = json_object_get(from, *names);
        if (json_is_string(value) || json_is_integer(value) || json_is_boolean(value))
            json_object_set(to, *names, value);
    }
}

static json_t *rewrite_error(json_int_t code, const char *message) {
    return json_pack("{s:I,s:s}", "code", code, "message", message);
}

static json_t *rewrite_object(struct rewrite *w, const json_t *object) {
    static const char *const members[] = {"oid", "size", "authenticated", NULL};
    static const char *const of_error[] = {"code", "message", NULL};
    char why[LFS_WHY_MAX] = "";
    json_t *out = json_object(), *error = json_object_get(object, "error");
    json_t *actions = json_object_get(object, "actions");
    copy_members(object, out, members);
    if (json_is_object(error)) {
        json_t *copy = json_object();
        copy_members(error, copy, of_error);
        json_object_set_new(out, "error", copy);
    } else if (json_is_object(actions)) {
        json_t *copy = rewrite_actions(w, actions, why);
        if (copy) {
            json_object_set_new(out, "actions", copy);
        } else {
            w->refused++;
            json_object_set_new(out, "error", rewrite_error(403, why));
        }
    }
    return out;
}

static int rewrite_dump(const char *bytes, size_t n, void *arg) {
    return buf_put(arg, slice_make(bytes, n)) ? -1 : 0;
}

static int rewrite_root(struct rewrite *w, const json_t *root, struct buf *out) {
    static const char *const members[] = {"transfer", "hash_algo", NULL};
    json_t *objects = json_object_get(root, "objects"), *object, *copy, *list;
    struct slice transfer = lfs_text(json_object_get(root, "transfer"));
    size_t i;
    if (!json_is_array(objects))
        return errmsg_set(w->msg, ERR_PARSE, "it has no list of objects");
    if (transfer.n && !slice_eq(transfer, SLICE("basic")))
        return errmsg_set(w->msg, ERR_PARSE,
                          "it wants the transfer '%.*s', and what passes through is 'basic'",
                          (int)(transfer.n < 64 ? transfer.n : 64), transfer.p);
    copy = json_object();
    list = json_array();
    copy_members(root, copy, members);
    json_array_foreach(objects, i, object) {
        json_array_append_new(list, rewrite_object(w, object));
    }
    json_object_set_new(copy, "objects", list);
    int r = json_dump_callback(copy, rewrite_dump, out, JSON_COMPACT);
    json_decref(copy);
    if (r)
        return errmsg_set(w->msg, out->failed ? ERR_LIMIT : ERR_NOMEM, "it is too long");
    return buf_putc(out, '\n');
}

int lfs_rewrite(struct slice body, lfs_permit *permit, void *arg, struct buf *out, size_t *refused,
                struct errmsg *msg) {
    struct rewrite w = {.permit = permit, .arg = arg, .msg = msg};
    const char *why;
    json_t *root = lfs_load(body, &why);
    if (!root)
        return errmsg_set(msg, ERR_PARSE, "%s", why);
    int r = rewrite_root(&w, root, out);
    json_decref(root);
    *refused = w.refused;
    return r;
}
