#include "base/json.h"

#define JSON_DEPTH 16
#define BYTES(b)   (~(uint64_t)0 / 0xff * (b)) /* a word of them */

void json_init(struct json *j, struct buf *out) {
    *j = (struct json){.out = out};
}

/* Room for `n` bytes behind the comma that is due, or NULL. What is written there ends at json_end. */
static inline char *json_begin(struct json *j, size_t n) {
    char *room;
    if (buf_reserve(j->out, n + 1, &room))
        return NULL;
    *room = ',';
    return room + j->comma;
}

static inline void json_end(struct json *j, const char *end, bool comma) {
    buf_commit(j->out, (size_t)(end - (j->out->data + j->out->end)));
    j->comma = comma;
}

/* A value of our own, as it is. */
static void json_value(struct json *j, struct slice text) {
    char *at = json_begin(j, text.n);
    if (!at)
        return;
    memcpy(at, text.p, text.n);
    json_end(j, at + text.n, j->depth > 0);
}

static void json_open(struct json *j, char bracket, bool array) {
    char *at = json_begin(j, 1);
    if (!at)
        return;
    if (j->depth == JSON_DEPTH) {
        j->out->failed = true;
        return;
    }
    *at = bracket;
    json_end(j, at + 1, false);
    j->depth++;
    uint32_t bit = 1u << j->depth;
    j->arrays = array ? j->arrays | bit : j->arrays & ~bit;
}

void json_open_object(struct json *j) {
    json_open(j, '{', false);
}

void json_open_array(struct json *j) {
    json_open(j, '[', true);
}

void json_close(struct json *j) {
    if (j->depth == 0) {
        j->out->failed = true;
        return;
    }
    buf_putc(j->out, j->arrays & 1u << j->depth ? ']' : '}');
    j->depth--;
    j->comma = j->depth > 0;
}

size_t utf8_sequence(struct slice s) {
    if (s.n == 0)
        return 0;
    const unsigned char *p = (const unsigned char *)s.p;
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || s.n < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* overlong forms, surrogates, and what lies beyond U+10FFFF */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* Whether a byte of the word may be one that does not go into a string as it is. */
static bool json_odd(uint64_t w) {
    /* the top bit of each byte that is one of them; one above a true one may be set too, which does no harm */
    uint64_t quote = w ^ BYTES(0x22), slash = w ^ BYTES(0x5c), del = w ^ BYTES(0x7f);
    uint64_t odd = (w - BYTES(0x20)) | (quote - BYTES(1)) | (slash - BYTES(1)) | (del - BYTES(1)) | w;
    return (odd & BYTES(0x80)) != 0;
}

/* Whether all of it goes into a string as it is. A word at a time: the last one overlaps the one before. */
static bool json_plain(struct slice s) {
    uint64_t w = BYTES('0');
    if (s.n < sizeof w) {
        uint32_t half;
        if (s.n < sizeof half) {
            for (size_t i = 0; i < s.n; i++)
                w = w << 8 | (unsigned char)s.p[i];
            return !json_odd(w);
        }
        memcpy(&half, s.p, sizeof half);
        w = half;
        memcpy(&half, s.p + s.n - sizeof half, sizeof half);
        return !json_odd(w << 32 | half);
    }
    for (size_t i = 0; i + sizeof w < s.n; i += sizeof w) {
        memcpy(&w, s.p + i, sizeof w);
        if (json_odd(w))
            return false;
    }
    memcpy(&w, s.p + s.n - sizeof w, sizeof w);
    return !json_odd(w);
}

static void json_escape(struct json *j, struct slice s) {
    size_t plain = 0; /* start of the run that needs no change */
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        size_t n = c < 0x80 ? 1 : utf8_sequence(slice_from(s, i));
        if (n > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            i += n;
            continue;
        }
        buf_put(j->out, slice_sub(s, plain, i - plain));
        if (n == 0)
            buf_puts(j->out, "\xef\xbf\xbd");
        else if (c == '"' || c == '\\')
            buf_printf(j->out, "\\%c", c);
        else if (c == '\n')
            buf_puts(j->out, "\\n");
        else
            buf_printf(j->out, "\\u%04x", c);
        plain = ++i;
    }
    buf_put(j->out, slice_from(s, plain));
}

static char *put_key(char *at, struct slice key) {
    *at++ = '"';
    memcpy(at, key.p, key.n);
    memcpy(at + key.n, "\":", 2);
    return at + key.n + 2;
}

/* `at` has room for it as it is; if it has to be escaped there will be. */
static void put_string(struct json *j, char *at, struct slice s) {
    bool plain = json_plain(s); /* as nearly all are */
    *at++ = '"';
    if (plain) {
        if (s.n)
            memcpy(at, s.p, s.n);
        at += s.n;
        *at++ = '"';
    }
    json_end(j, at, j->depth > 0);
    if (!plain) {
        json_escape(j, s);
        buf_putc(j->out, '"');
    }
}

void json_member(struct json *j, struct slice key) {
    char *at = json_begin(j, key.n + 3);
    if (at)
        json_end(j, put_key(at, key), false);
}

void json_put_string(struct json *j, struct slice s) {
    char *at = json_begin(j, s.n + 2);
    if (at)
        put_string(j, at, s);
}

void json_pair(struct json *j, struct slice key, struct slice s) {
    char *at = json_begin(j, key.n + 3 + s.n + 2);
    if (at)
        put_string(j, put_key(at, key), s);
}

void json_cstring(struct json *j, const char *s) {
    json_put_string(j, slice_str(s));
}

void json_u64(struct json *j, uint64_t v) {
    char digits[SLICE_DECIMAL_MAX];
    json_value(j, slice_decimal(v, digits));
}

void json_bool(struct json *j, bool v) {
    json_value(j, v ? SLICE("true") : SLICE("false"));
}

void json_put_null(struct json *j) {
    json_value(j, SLICE("null"));
}

bool json_bounded(struct slice text, size_t depth, size_t values) {
    size_t deep = 0, n = 0;
    bool string = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (string) {
            i += c == '\\';
            string = c != '"';
            continue;
        }
        string = c == '"';
        if (c == '[' || c == '{') {
            n++;
            deep++;
        } else if (c == ']' || c == '}') {
            deep -= deep > 0;
        }
        n += c == ',';
        if (deep > depth || n > values)
            return false;
    }
    return true;
}
