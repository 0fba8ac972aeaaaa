#include "proxy/codec/http1_body.h"

#include "proxy/codec/http1_internal.h"

/* Of the chunked decoder: what the next byte must be. Extensions are read to the letter and thrown away; white space
 * around them (RFC 9112's "bad white space") is refused, since parsers differ on it. */
enum {
    CHUNK_SIZE,        /* a hex digit; after one also ';' or CR */
    CHUNK_EXT_NAME,    /* after ';': tchar; after one also '=', ';' or CR */
    CHUNK_EXT_VALUE,   /* after '=': '"' or tchar */
    CHUNK_EXT_TOKEN,   /* tchar, ';' or CR */
    CHUNK_EXT_QUOTED,  /* inside quotes */
    CHUNK_EXT_ESCAPED, /* after a backslash inside quotes */
    CHUNK_EXT_END,     /* after the closing quote: ';' or CR */
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_LAST,    /* behind the last chunk's line: CR of the end, or a trailer field */
    CHUNK_LAST_LF, /* LF of the end, no trailer */
    CHUNK_TRAILER,
    CHUNK_TRAILER_LF,
};

#define SIZE_DIGITS 16

void http1_body_init(struct http1_body *body, enum http_framing framing, uint64_t length) {
    *body = (struct http1_body){.framing = framing, .left = framing == HTTP_BODY_LENGTH ? length : 0};
    buf_init(&body->trailer, HTTP1_TRAILER_MAX);
    body->done = framing == HTTP_BODY_NONE || (framing == HTTP_BODY_LENGTH && length == 0);
}

void http1_body_release(struct http1_body *body) {
    buf_release(&body->trailer);
}

static bool chunk_fail(struct http1_body *body, enum http_refusal refusal) {
    body->refusal = refusal;
    return false;
}

static bool is_tchar(char c) {
    return http_is_token(slice_make(&c, 1));
}

/* A byte of the size. */
static bool chunk_size(struct http1_body *body, char c) {
    int digit = ascii_hex(c);
    if (digit >= 0) {
        if (body->digits == SIZE_DIGITS || body->left > INT64_MAX >> 4)
            return chunk_fail(body, HTTP_REFUSED_CHUNK);
        body->digits++;
        body->left = body->left << 4 | (uint64_t)digit;
        return true;
    }
    if (body->digits == 0)
        return chunk_fail(body, HTTP_REFUSED_CHUNK);
    body->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXT_NAME;
    body->extension = 0;
    return c == '\r' || c == ';' || chunk_fail(body, HTTP_REFUSED_CHUNK);
}

/* A byte of an extension. `extension` counts them from the ';' on; in CHUNK_EXT_NAME `digits` counts the name. */
static bool chunk_extension(struct http1_body *body, char c) {
    struct slice byte = slice_make(&c, 1);
    if (++body->extension > HTTP1_CHUNK_EXTENSION_MAX || ++body->overhead > HTTP1_CHUNK_OVERHEAD_MAX)
        return chunk_fail(body, HTTP_REFUSED_CHUNK_EXTENSION);
    switch (body->state) {
    case CHUNK_EXT_QUOTED:
        if (c == '"')
            body->state = CHUNK_EXT_END;
        else if (c == '\\')
            body->state = CHUNK_EXT_ESCAPED;
        return http_is_value(byte) || chunk_fail(body, HTTP_REFUSED_CHUNK_EXTENSION);
    case CHUNK_EXT_ESCAPED:
        body->state = CHUNK_EXT_QUOTED;
        return http_is_value(byte) || chunk_fail(body, HTTP_REFUSED_CHUNK_EXTENSION);
    case CHUNK_EXT_VALUE:
        body->state = c == '"' ? CHUNK_EXT_QUOTED : CHUNK_EXT_TOKEN;
        return c == '"' || is_tchar(c) || chunk_fail(body, HTTP_REFUSED_CHUNK_EXTENSION);
    case CHUNK_EXT_NAME:
        if (is_tchar(c)) {
            body->digits = 1;
            return true;
        }
        if (body->digits == 0)
            return chunk_fail(body, HTTP_REFUSED_CHUNK_EXTENSION);
        if (c == '=') {
            body->state = CHUNK_EXT_VALUE;
            return true;
        }
        break;
    case CHUNK_EXT_TOKEN:
        if (is_tchar(c))
            return true;
        break;
    default: break;
    }
    body->digits = 0;
    body->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXT_NAME;
    return c == '\r' || c == ';' || chunk_fail(body, HTTP_REFUSED_CHUNK_EXTENSION);
}

/* The section is complete: every line must be a field. */
static bool trailer_check(struct http1_body *body) {
    struct slice rest = buf_slice(&body->trailer), line;
    for (size_t n = 0;; n++) {
        struct http_field field;
        if (http1_line(&rest, &line))
            return chunk_fail(body, HTTP_REFUSED_TRAILER);
        if (line.n == 0)
            break;
        enum http_refusal refusal = http1_field_line(line, &field);
        if ((refusal && refusal != HTTP_REFUSED_NAME_ALIKE) || n == HTTP1_TRAILER_FIELDS)
            return chunk_fail(body, HTTP_REFUSED_TRAILER);
    }
    body->done = true;
    return rest.n == 0 || chunk_fail(body, HTTP_REFUSED_TRAILER);
}

static bool chunk_trailer(struct http1_body *body, char c) {
    if (c == 0 || c == '\n' || buf_putc(&body->trailer, c))
        return chunk_fail(body, HTTP_REFUSED_TRAILER);
    body->state = c == '\r' ? CHUNK_TRAILER_LF : CHUNK_TRAILER;
    return true;
}

static bool chunk_trailer_lf(struct http1_body *body, char c) {
    if (c != '\n' || buf_putc(&body->trailer, c))
        return chunk_fail(body, HTTP_REFUSED_TRAILER);
    body->state = CHUNK_TRAILER;
    if (slice_ends(buf_slice(&body->trailer), SLICE("\r\n\r\n")))
        return trailer_check(body);
    return true;
}

/* One byte that is not content. False: body->refusal is set. */
static bool chunk_byte(struct http1_body *body, char c) {
    switch (body->state) {
    case CHUNK_SIZE: return chunk_size(body, c);
    case CHUNK_SIZE_LF:
        body->state = body->left ? CHUNK_DATA : CHUNK_LAST;
        return c == '\n' || chunk_fail(body, HTTP_REFUSED_CHUNK);
    case CHUNK_DATA_CR: body->state = CHUNK_DATA_LF; return c == '\r' || chunk_fail(body, HTTP_REFUSED_CHUNK);
    case CHUNK_DATA_LF:
        body->state = CHUNK_SIZE;
        body->digits = 0;
        return c == '\n' || chunk_fail(body, HTTP_REFUSED_CHUNK);
    case CHUNK_LAST:
        if (c != '\r')
            return chunk_trailer(body, c);
        body->state = CHUNK_LAST_LF;
        return true;
    case CHUNK_LAST_LF: body->done = c == '\n'; return body->done || chunk_fail(body, HTTP_REFUSED_CHUNK);
    case CHUNK_TRAILER: return chunk_trailer(body, c);
    case CHUNK_TRAILER_LF: return chunk_trailer_lf(body, c);
    default:
        if (body->state == CHUNK_EXT_NAME && body->extension == 0)
            body->digits = 0; /* from here on they count the extension's name */
        return chunk_extension(body, c);
    }
}

/* Hands out content: at most what is left and what is there. */
static enum http1_step body_data(struct http1_body *body, struct slice in, size_t *used, struct slice *data) {
    size_t n = in.n - *used;
    if (body->framing != HTTP_BODY_CLOSE && body->left < n)
        n = (size_t)body->left;
    *data = slice_sub(in, *used, n);
    *used += n;
    body->received += n;
    if (body->framing != HTTP_BODY_CLOSE)
        body->left -= n;
    return HTTP1_STEP_DATA;
}

enum http1_step http1_body_next(struct http1_body *body, struct slice in, size_t *used, struct slice *data) {
    *used = 0;
    *data = SLICE_NONE;
    if (body->refusal)
        return HTTP1_STEP_BAD;
    if (body->done)
        return HTTP1_STEP_DONE;
    if (in.n == 0)
        return HTTP1_STEP_MORE;
    if (body->framing != HTTP_BODY_CHUNKED) {
        enum http1_step step = body_data(body, in, used, data);
        body->done = body->framing == HTTP_BODY_LENGTH && body->left == 0;
        return step;
    }
    while (*used < in.n) {
        if (body->state == CHUNK_DATA) {
            enum http1_step step = body_data(body, in, used, data);
            if (body->left == 0)
                body->state = CHUNK_DATA_CR;
            return step;
        }
        if (!chunk_byte(body, in.p[(*used)++]))
            return HTTP1_STEP_BAD;
        if (body->done)
            return HTTP1_STEP_DONE;
    }
    return HTTP1_STEP_MORE;
}

int http1_body_eof(struct http1_body *body) {
    if (body->framing == HTTP_BODY_CLOSE)
        body->done = true;
    return body->done && !body->refusal ? 0 : ERR_EOF;
}

size_t http1_body_trailers(const struct http1_body *body, struct http_field *fields, size_t max) {
    struct slice rest = buf_slice(&body->trailer), line;
    size_t n = 0;
    while (body->done && n < max && !http1_line(&rest, &line) && line.n) {
        http1_field_line(line, &fields[n]);
        fields[n].hop = !http_trailer_allowed(&fields[n]);
        n++;
    }
    return n;
}

size_t http1_chunk_head(char out[HTTP1_CHUNK_HEAD_MAX], uint64_t n) {
    static const char hex[] = "0123456789ABCDEF";
    size_t len = 1;
    while (len < SIZE_DIGITS && n >> (4 * len))
        len++;
    for (size_t i = 0; i < len; i++)
        out[i] = hex[n >> (4 * (len - 1 - i)) & 15];
    out[len] = '\r';
    out[len + 1] = '\n';
    return len + 2;
}

static bool dropped(struct slice name, const struct slice *drop, size_t ndrop) {
    for (size_t i = 0; i < ndrop; i++)
        if (http_name_alike(name, drop[i]))
            return true;
    return false;
}

int http1_chunk_end(struct buf *out, const struct http_field *trailers, size_t n, const struct slice *drop,
                    size_t ndrop) {
    size_t before = buf_len(out);
    int r = buf_puts(out, "0\r\n");
    for (size_t i = 0; i < n && !r; i++) {
        const struct http_field *f = &trailers[i];
        if (f->hop || dropped(f->name, drop, ndrop) || !http_is_token(f->name) || !http_is_value(f->value))
            continue;
        r = buf_put(out, f->name);
        if (!r)
            r = buf_puts(out, ": ");
        if (!r)
            r = buf_put(out, f->value);
        if (!r)
            r = buf_puts(out, "\r\n");
    }
    if (!r)
        r = buf_puts(out, "\r\n");
    if (r) /* a half-written end must never go out */
        out->end = out->start + before;
    return r;
}
