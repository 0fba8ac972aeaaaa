#include "proxy/flow/facts.h"

#include "proxy/flow/xchg.h"

static enum facts_kind facts_kind_of(enum git_kind kind) {
    switch (kind) {
    case GIT_DISCOVER_FETCH:
    case GIT_FETCH:
    case GIT_ARCHIVE: return FACTS_GIT_FETCH;
    case GIT_DISCOVER_PUSH:
    case GIT_PUSH: return FACTS_GIT_PUSH;
    case GIT_NOT:
    case GIT_REFUSED: break;
    }
    return FACTS_HTTP;
}

static bool facts_header(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct xchg *x = arg;
    if (i >= x->req.nfields)
        return false;
    *name = x->req.fields[i].hop ? SLICE_NONE : x->req.fields[i].name;
    *value = x->req.fields[i].value;
    return true;
}

void facts_from_request(struct xchg *x) {
    const struct target *t = &x->target;
    const struct http_field *type = http_find(x->req.fields, x->req.nfields, HTTP_F_CONTENT_TYPE, NULL);
    git_classify(&x->git, x->req.method, t->path, t->query, type ? type->value : SLICE_NONE);
    x->facts = (struct facts){
        .kind = facts_kind_of(x->git.kind),
        .scheme = t->scheme,
        .host = url_host_slice(&t->host),
        .host_is_address = t->host.kind != URL_HOST_NAME,
        .port = t->port,
        .method = x->req.method,
        .path = t->path,
        .query = t->query,
        .git = &x->git,
        .extra = x->git.kind == GIT_ARCHIVE ? FACTS_ARCHIVE : FACTS_PLAIN,
        .field = facts_header,
        .field_arg = x,
        .body_state = x->body_done ? FACTS_BODY_WHOLE : FACTS_BODY_UNREAD,
    };
}
