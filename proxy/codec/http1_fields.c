/*
 * The field section: RFC 9112 section 5, to the letter.
 */
#include "proxy/codec/http1_internal.h"

/* More elements than this in Connection are no honest client's; it also bounds the work of looking them up. */
#define CONNECTION_NAMES_MAX 32

enum http_refusal http1_line(struct slice *rest, struct slice *line) {
    const char *lf = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    if (!lf || lf == rest->p || lf[-1] != '\r')
        return HTTP_REFUSED_LINE_END;
    struct slice text = slice_sub(*rest, 0, (size_t)(lf - rest->p) - 1);
    *line = text;
    *rest = slice_from(*rest, text.n + 2);
    return HTTP_REFUSED_NOT;
}

/* "content_length" is a field like any other to one server and Content-Length to another. Where that changes what is
 * served, it is refused. Elsewhere ("api_key") it goes through, and counts as the field it looks like. */
static bool must_be_exact(enum http_field_id id) {
    switch (id) {
    case HTTP_F_CONTENT_LENGTH:
    case HTTP_F_TRANSFER_ENCODING:
    case HTTP_F_CONTENT_TYPE:
    case HTTP_F_CONTENT_ENCODING:
    case HTTP_F_METHOD_OVERRIDE:
    case HTTP_F_TARGET_OVERRIDE: return true;
    default: return false;
    }
}

enum http_refusal http1_field_line(struct slice line, struct http_field *field) {
    if (line.n && (line.p[0] == ' ' || line.p[0] == '\t'))
        return HTTP_REFUSED_FOLD;
    struct slice name, value;
    if (!slice_cut(line, ':', &name, &value))
        return HTTP_REFUSED_NAME;
    if (name.n && (name.p[name.n - 1] == ' ' || name.p[name.n - 1] == '\t'))
        return HTTP_REFUSED_NAME_SPACE;
    if (!http_is_token(name))
        return HTTP_REFUSED_NAME;
    if (!http_is_value(value))
        return slice_find(value, '\r') >= 0 ? HTTP_REFUSED_LINE_END : HTTP_REFUSED_CONTROL;
    bool alike;
    field->name = name;
    field->value = slice_trim(value);
    field->id = http_field_lookup(name, &alike);
    field->hop = field->never = false;
    return alike && must_be_exact(field->id) ? HTTP_REFUSED_NAME_ALIKE : HTTP_REFUSED_NOT;
}

/* Counts and keeps what framing hangs on. */
static enum http_refusal section_note(struct http1_section *s, struct http_field *field, bool strict) {
    field->hop = http_is_hop(field->id);
    switch (field->id) {
    case HTTP_F_HOST:
        s->host = field;
        s->hosts++;
        break;
    case HTTP_F_TRANSFER_ENCODING:
        s->transfer_encoding = field;
        s->codings++;
        break;
    case HTTP_F_CONTENT_LENGTH:
        s->content_length = field;
        if (s->lengths++)
            return HTTP_REFUSED_LENGTH_REPEATED;
        if (!slice_u64(field->value, INT64_MAX, &s->length) || field->value.n > 19)
            return HTTP_REFUSED_LENGTH_BAD;
        break;
    case HTTP_F_UPGRADE: s->upgrade = s->upgrade ? s->upgrade : field; break;
    case HTTP_F_CONTENT_TYPE:
        if (s->types++ && strict)
            return HTTP_REFUSED_REPEATED;
        break;
    case HTTP_F_CONTENT_ENCODING:
        if (s->encodings++ && strict)
            return HTTP_REFUSED_REPEATED;
        break;
    case HTTP_F_METHOD_OVERRIDE: return strict ? HTTP_REFUSED_METHOD_OVERRIDE : HTTP_REFUSED_NOT;
    case HTTP_F_TARGET_OVERRIDE: return strict ? HTTP_REFUSED_TARGET_OVERRIDE : HTTP_REFUSED_NOT;
    default: break;
    }
    return HTTP_REFUSED_NOT;
}

/* One element of Connection. A field unknown to us that is named becomes hop-by-hop: not judged, not served. One that
 * is known and end-to-end (Host, Authorization, Content-Length ...) must not be spirited away after it was judged. */
static enum http_refusal section_named(struct http1_section *s, struct slice name, bool strict) {
    if (!http_is_token(name))
        return HTTP_REFUSED_CONNECTION;
    if (slice_caseeq(name, SLICE("close"))) {
        s->close = true;
        return HTTP_REFUSED_NOT;
    }
    enum http_field_id id = http_field_lookup(name, NULL);
    if (id == HTTP_F_KEEP_ALIVE)
        s->keep_alive = true;
    if (id == HTTP_F_UPGRADE)
        s->upgrade_named = true;
    if (id != HTTP_F_OTHER)
        return http_is_hop(id) || !strict ? HTTP_REFUSED_NOT : HTTP_REFUSED_CONNECTION;
    for (size_t i = 0; i < s->n; i++)
        if (http_name_alike(s->fields[i].name, name))
            s->fields[i].hop = true;
    return HTTP_REFUSED_NOT;
}

static enum http_refusal section_connection(struct http1_section *s, bool strict) {
    unsigned names = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->fields[i].id != HTTP_F_CONNECTION)
            continue;
        struct slice list = s->fields[i].value, name;
        while (http_list_next(&list, &name)) {
            if (++names > CONNECTION_NAMES_MAX)
                return HTTP_REFUSED_CONNECTION;
            enum http_refusal refusal = section_named(s, name, strict);
            if (refusal)
                return refusal;
        }
    }
    return HTTP_REFUSED_NOT;
}

enum http_refusal http1_fields(struct slice rest, struct http1_section *s, bool strict) {
    for (;;) {
        struct slice line;
        enum http_refusal refusal = http1_line(&rest, &line);
        if (refusal)
            return refusal;
        if (line.n == 0)
            break;
        if (s->n == HTTP_FIELDS_MAX)
            return HTTP_REFUSED_TOO_MANY;
        struct http_field *field = &s->fields[s->n];
        refusal = http1_field_line(line, field);
        if (refusal == HTTP_REFUSED_NAME_ALIKE && !strict && field->id != HTTP_F_CONTENT_LENGTH &&
            field->id != HTTP_F_TRANSFER_ENCODING) { /* in an answer only framing matters to us */
            field->id = HTTP_F_OTHER;
            refusal = HTTP_REFUSED_NOT;
        }
        if (!refusal)
            refusal = section_note(s, field, strict);
        if (refusal)
            return refusal;
        s->n++;
    }
    /* http1_scan ended the head at the first empty line: nothing can be left */
    if (rest.n)
        return HTTP_REFUSED_LINE_END;
    return section_connection(s, strict);
}

enum http_refusal http1_coding(const struct http1_section *s, int minor) {
    if (s->codings == 0)
        return HTTP_REFUSED_NOT;
    if (s->lengths)
        return HTTP_REFUSED_LENGTH_AND_CODING;
    if (minor == 0)
        return HTTP_REFUSED_CODING_1_0;
    bool chunked = s->codings == 1 && slice_caseeq(s->transfer_encoding->value, SLICE("chunked"));
    return chunked ? HTTP_REFUSED_NOT : HTTP_REFUSED_CODING;
}
