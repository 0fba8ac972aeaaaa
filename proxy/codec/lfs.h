/*
 * Git LFS's batch (docs/api/batch.md of git-lfs): what one asks for, and its answer without the secrets in it.
 *
 * The answer names for each object where it lies (`href`) and which header fields its transfer needs: tokens, mostly.
 * lfs_rewrite writes it anew. Only members that the API describes are taken over, so that nothing comes through in a
 * place that nobody looked at. Every action is shown to the caller. One that he refuses makes its object an error of its
 * own, which git-lfs prints; of one that he permits the fields' values are replaced by LFS_STAND_IN, and he puts them
 * on the request when it comes. An upload without a field gets one that holds nothing else, so that it can be told from other
 * requests. `Transfer-Encoding: chunked` stays as it is: it tells the client how to send.
 *
 * An `href` may hold a signature in its query, which is a secret of a kind too: good for one object, for minutes. It
 * stays, as the sandbox has to name what it wants.
 *
 * Pure functions over slices, but for memory of jansson's, which is wiped when it is freed (lfs_prepare).
 */
#ifndef PROXY_CODEC_LFS_H
#define PROXY_CODEC_LFS_H

#include "base/buf.h"
#include "base/err.h"
#include "proxy/codec/http.h"

#define LFS_REQUEST_MAX (1u << 20) /* bytes of a batch; git-lfs asks for 100 objects in 12 KiB */
#define LFS_ANSWER_MAX  (8u << 20)
#define LFS_FIELDS_MAX  32 /* of one action */
#define LFS_WHY_MAX     512
#define LFS_MEDIA_TYPE  "application/vnd.git-lfs+json"

/* What the sandbox gets to see in a value's place, and the field of an upload that needs none. */
#define LFS_STAND_IN "kept-by-exeat"
#define LFS_NO_FIELD "X-Exeat-Upload"

/* From here on jansson wipes what it frees. Once, before the first text is read. */
void lfs_prepare(void);

/* Is this a batch's request? By its end, whatever path a server keeps its API below: `lfs` is what a client says of the
 * answer that it takes (Accept), since other APIs have such a path too. */
bool lfs_is_batch(struct slice method, struct slice path, struct slice accept);

/* What a batch is about. False: it can't be read. */
struct lfs_batch {
    struct slice operation; /* a literal: "download", "upload", or empty for another */
    uint64_t objects, bytes;
};
bool lfs_read(struct slice body, struct lfs_batch *out);

/* One action of an object. All of it is good for the call only. */
struct lfs_action {
    struct slice method; /* GET, PUT or POST: download, upload, verify */
    struct slice href;
    const struct http_field *fields; /* to be put on the request; each one can be written */
    size_t nfields;
    bool expires; /* `expires_in` or `expires_at` is there: */
    int64_t expires_in;
    int64_t expires_at; /* seconds since 1970; 0: not there */
};

/* False: not permitted, with a sentence that says so in `why` (LFS_WHY_MAX). */
typedef bool lfs_permit(void *arg, const struct lfs_action *action, char *why);

/*
 * Appends the answer as the sandbox is to see it. 0; ERR_PARSE (not such an answer), ERR_LIMIT or ERR_NOMEM, and `msg`
 * says why. `refused` counts the objects that became errors. `out` holds no secret.
 */
int lfs_rewrite(struct slice body, lfs_permit *permit, void *arg, struct buf *out, size_t *refused,
                struct errmsg *msg) MUST_CHECK;

/* RFC 3339, "2016-11-10T15:29:07Z", with fractions and offsets. False: it is none. */
bool lfs_time(struct slice text, int64_t *seconds);

#endif
