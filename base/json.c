#include "base/json.h"

#define JSON_DEPTH 16
#define BYTES(b)   (~(uint64_t)0 / 0xff * (b)) /* a word of them */

void json_init(struct json *j, struct buf *out) {
    *j = (struct json){.out = out};
}

static void json_before_value(struct json *j) {
    if (j->after_key) {
        j->after_key = false;
        return;
    }
    if (j->depth == 0)
        return;
    uint32_t bit = 1u << j->depth;
    if (j->filled & bit)
        buf_putc(j->out, ',');
    j->filled |= bit;
}

static void json_open(struct json *j, char bracket, bool array) {
    json_before_value(j);
    if (j->depth == JSON_DEPTH) {
        j->out->failed = true;
        return;
    }
    buf_putc(j->out, bracket);
    j->depth++;
    uint32_t bit = 1u << j->depth;
    j->filled &= ~bit;
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

/* The bytes at the front that go into a string as they are, whatever comes behind them. */
static size_t json_plain(struct slice s) {
    size_t i = 0;
    while (s.n - i >= sizeof(uint64_t)) { /* a word at a time */
        uint64_t w;
        memcpy(&w, s.p + i, sizeof w);
        /* the top bit of each byte that may be one of them; one above a true one may be set too, which does no harm */
        uint64_t quote = w ^ BYTES(0x22), slash = w ^ BYTES(0x5c), del = w ^ BYTES(0x7f);
        uint64_t odd = (w - BYTES(0x20)) | (quote - BYTES(1)) | (slash - BYTES(1)) | (del - BYTES(1)) | w;
        if (odd & BYTES(0x80))
            break;
        i += sizeof w;
    }
    while (i < s.n) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            break;
        i++;
    }
    return i;
}

static void json_escape(struct json *j, struct slice s) {
    size_t plain = 0; /* start of the run that needs no change */
    size_t i = json_plain(s);
    char *room;
    if (i == s.n && buf_reserve(j->out, s.n + 2, &room) == 0) { /* as nearly all are: one piece */
        room[0] = '"';
        if (s.n)
            memcpy(room + 1, s.p, s.n);
        room[s.n + 1] = '"';
        buf_commit(j->out, s.n + 2);
        return;
    }
    buf_putc(j->out, '"');
    while (i < s.n) {
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
    buf_putc(j->out, '"');
}

void json_key(struct json *j, const char *key) {
    struct slice name = slice_str(key);
    char *room;
    json_before_value(j);
    if (buf_reserve(j->out, name.n + 3, &room))
        return;
    room[0] = '"';
    memcpy(room + 1, name.p, name.n);
    memcpy(room + 1 + name.n, "\":", 2);
    buf_commit(j->out, name.n + 3);
    j->after_key = true;
}

void json_put_string(struct json *j, struct slice s) {
    json_before_value(j);
    json_escape(j, s);
}

void json_cstring(struct json *j, const char *s) {
    json_put_string(j, slice_str(s));
}

void json_u64(struct json *j, uint64_t v) {
    char digits[SLICE_DECIMAL_MAX];
    json_before_value(j);
    buf_put(j->out, slice_decimal(v, digits));
}

void json_bool(struct json *j, bool v) {
    json_before_value(j);
    buf_puts(j->out, v ? "true" : "false");
}

void json_put_null(struct json *j) {
    json_before_value(j);
    buf_puts(j->out, "null");
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
