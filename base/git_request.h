/*
 * Which HTTP requests are git's. The one reading, for the proxy that lets them through or not and for the policy's tools that say what
 * it would do.
 */
#ifndef BASE_GIT_REQUEST_H
#define BASE_GIT_REQUEST_H

#include "base/slice.h"

enum git_kind {
    GIT_NOT,            /* plain HTTP */
    GIT_DISCOVER_FETCH, /* GET …/info/refs?service=git-upload-pack */
    GIT_DISCOVER_PUSH,  /* GET …/info/refs?service=git-receive-pack */
    GIT_FETCH,          /* POST …/git-upload-pack */
    GIT_PUSH,           /* POST …/git-receive-pack */
    GIT_ARCHIVE,        /* POST …/git-upload-archive */
    GIT_REFUSED,        /* looks like git to some server, and is not one of these to the letter */
};

struct git_request {
    enum git_kind kind;
    /* of the others: the part of `path` before the endpoint ("/acme/app.git"), never empty */
    struct slice repository;
    const char *reason; /* of GIT_REFUSED: a static sentence */
};

/* Judges method, canonical path (as base/url.h makes it) and query as received without its '?'. content_type is the
 * field's value or empty. Anything that a git server could take for an endpoint (other case, doubled or final slash,
 * encoded slash, repeated or unknown service, dumb HTTP) is GIT_REFUSED, never GIT_NOT. */
void git_classify(struct git_request *out, struct slice method, struct slice path, struct slice query,
                  struct slice content_type);

/* The media types of requests. */
#define GIT_PUSH_REQUEST    "application/x-git-receive-pack-request"
#define GIT_FETCH_REQUEST   "application/x-git-upload-pack-request"
#define GIT_ARCHIVE_REQUEST "application/x-git-upload-archive-request"

#endif
