/*
 * The second opinion. Our parser takes the grammar literally and refuses the rest, which makes it right and might
 * still leave it with a mistake of its own. llhttp is what a great many clients and servers read HTTP with: it is fed
 * the same bytes, and must put every name, value and length in the same place. Where it doesn't, the head means two
 * things, and that is refused.
 */
#include "proxy/codec/http1_internal.h"

#include <llhttp.h>

struct second {
    const struct http1_opinion *ours;
    size_t names, values; /* fields met so far */
    bool differs, complete;
};

static struct second *second_of(llhttp_t *parser) {
    return parser->data;
}

static int on_url(llhttp_t *parser, const char *at, size_t n) {
    struct second *s = second_of(parser);
    if (at != s->ours->target.p || n != s->ours->target.n)
        s->differs = true;
    return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t n) {
    struct second *s = second_of(parser);
    size_t i = s->names++;
    if (i >= s->ours->nfields || at != s->ours->fields[i].name.p || n != s->ours->fields[i].name.n)
        s->differs = true;
    return 0;
}

/* Spaces behind a value are in llhttp's span and not in ours; an empty value has no place. */
static int on_value(llhttp_t *parser, const char *at, size_t n) {
    struct second *s = second_of(parser);
    struct slice theirs = slice_trim(slice_make(at, n));
    if (s->values >= s->ours->nfields) {
        s->differs = true;
        return 0;
    }
    struct slice value = s->ours->fields[s->values].value;
    if (theirs.n != value.n || (value.n && theirs.p != value.p))
        s->differs = true;
    return 0;
}

static int on_value_complete(llhttp_t *parser) {
    second_of(parser)->values++;
    return 0;
}

static int on_complete(llhttp_t *parser) {
    struct second *s = second_of(parser);
    const struct http1_opinion *ours = s->ours;
    bool same = s->names == ours->nfields && s->values == ours->nfields && parser->http_major == 1 &&
                parser->http_minor == ours->minor && ours->chunked == ((parser->flags & F_CHUNKED) != 0) &&
                ours->has_length == ((parser->flags & F_CONTENT_LENGTH) != 0);
    if (ours->has_length && parser->content_length != ours->length)
        same = false;
    if (!ours->method.n && parser->status_code != ours->status)
        same = false;
    s->differs = s->differs || !same;
    s->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_complete,
};

bool http1_second_opinion(const struct http1_opinion *ours) {
    llhttp_t parser;
    struct second second = {.ours = ours};
    struct slice rest = ours->head;
    llhttp_init(&parser, ours->method.n ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    parser.data = &second;
    if (ours->method.n) {
        /* llhttp knows a list of methods, of which only CONNECT changes how the target is read: any other is shown
         * to it as POST, so that a method it has not heard of is no reason to refuse. */
        struct slice shown = slice_eq(ours->method, SLICE("CONNECT")) ? ours->method : SLICE("POST");
        if (llhttp_execute(&parser, shown.p, shown.n) != HPE_OK)
            return false;
        rest = slice_from(rest, ours->method.n);
    }
    if (llhttp_execute(&parser, rest.p, rest.n) != HPE_PAUSED || !second.complete || second.differs)
        return false;
    /* it stops on the final LF or right behind it */
    const char *end = rest.p + rest.n, *at = llhttp_get_error_pos(&parser);
    return at == end || at == end - 1;
}
