/* Heads of answers: the first line, and what the fields say of the answer. */
#include "proxy/codec/http1.h"

#include "proxy/codec/http1_internal.h"

/* HTTP/1.x SP 3DIGIT [SP reason]. The space before an absent reason is left out by some servers. */
static enum http_refusal status_line(struct http1_response *resp, struct slice line) {
    if (slice_starts(line, SLICE("HTTP/1.1")))
        resp->minor = 1;
    else if (!slice_starts(line, SLICE("HTTP/1.0")))
        return HTTP_REFUSED_VERSION;
    uint64_t status;
    struct slice digits = slice_sub(line, 9, 3);
    if (line.n < 12 || line.p[8] != ' ' || digits.n != 3 || !slice_u64(digits, 999, &status) || status < 100)
        return HTTP_REFUSED_STATUS_LINE;
    if (line.n > 12 && line.p[12] != ' ')
        return HTTP_REFUSED_STATUS_LINE;
    resp->status = (int)status;
    resp->reason = slice_from(line, 13);
    return http_is_value(resp->reason) ? HTTP_REFUSED_NOT : HTTP_REFUSED_CONTROL;
}

/* RFC 9112 6.3, in its order. */
static enum http_refusal response_framing(struct http1_response *resp, const struct http1_section *s,
                                          struct slice method) {
    enum http_refusal refusal = http1_coding(s, resp->minor);
    if (refusal)
        return refusal;
    bool tunnel = slice_eq(method, SLICE("CONNECT")) && resp->status / 100 == 2;
    if (slice_eq(method, SLICE("HEAD")) || resp->status < 200 || resp->status == 204 || resp->status == 304 ||
        tunnel) {
        resp->framing = HTTP_BODY_NONE;
    } else if (s->codings) {
        resp->framing = HTTP_BODY_CHUNKED;
    } else if (s->lengths) {
        resp->framing = HTTP_BODY_LENGTH;
        resp->length = s->length;
    } else {
        resp->framing = HTTP_BODY_CLOSE;
    }
    return HTTP_REFUSED_NOT;
}

static enum http_refusal response_parse(struct http1_response *resp, struct slice head, struct slice method,
                                        bool upgrade_asked) {
    struct slice rest = head, line;
    if (head.n > HTTP1_HEAD_MAX)
        return HTTP_REFUSED_TOO_LONG;
    enum http_refusal refusal = http1_line(&rest, &line);
    if (!refusal)
        refusal = status_line(resp, line);
    if (refusal)
        return refusal;

    struct http1_section section = {.fields = resp->fields};
    refusal = http1_fields(rest, &section, false);
    resp->nfields = section.n;
    if (!refusal)
        refusal = response_framing(resp, &section, method);
    if (refusal)
        return refusal;
    if (resp->status == 101) {
        if (!upgrade_asked)
            return HTTP_REFUSED_UPGRADED;
        if (!section.upgrade)
            return HTTP_REFUSED_UPGRADE_MISSING;
        resp->upgrade = section.upgrade->value;
    }
    resp->interim = resp->status < 200 && resp->status != 101;
    resp->keep_alive = resp->minor == 1 ? !section.close : section.keep_alive && !section.close;
    if (resp->framing == HTTP_BODY_CLOSE || resp->status == 101)
        resp->keep_alive = false;

    struct http1_opinion ours = {.head = head,
                                 .minor = resp->minor,
                                 .status = resp->status,
                                 .fields = resp->fields,
                                 .nfields = resp->nfields,
                                 .chunked = section.codings > 0,
                                 .has_length = section.lengths > 0,
                                 .length = section.length};
    return http1_second_opinion(&ours) ? HTTP_REFUSED_NOT : HTTP_REFUSED_SECOND_OPINION;
}

int http1_response_parse(struct http1_response *resp, struct slice head, struct slice method,
                         bool upgrade_asked) {
    memset(resp, 0, offsetof(struct http1_response, fields));
    resp->refusal = response_parse(resp, head, method, upgrade_asked);
    return http1_refusal_err(resp->refusal);
}
