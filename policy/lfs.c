/* Git LFS's API, as far as rules tell its requests apart. */
#include <jansson.h>

#include "policy/condition.h"

/* What stands behind ".../info/lfs/" in *tail. */
static bool lfs_split(struct slice path, struct slice *before, struct slice *tail) {
    const struct slice mark = SLICE("/info/lfs/");
    const char *at = path.n ? memmem(path.p, path.n, mark.p, mark.n) : NULL;
    if (!at)
        return false;
    *before = slice_make(path.p, (size_t)(at - path.p));
    *tail = slice_from(path, before->n + mark.n);
    return true;
}

bool facts_lfs(struct slice path, struct slice *repository) {
    struct slice before, tail;
    if (!lfs_split(path, &before, &tail))
        return false;
    *repository = facts_repository(before);
    return true;
}

bool facts_lfs_batch(const struct facts *f) {
    struct slice before, tail;
    return f->kind == FACTS_HTTP && slice_eq(f->method, SLICE("POST")) &&
           lfs_split(f->path, &before, &tail) && slice_eq(tail, SLICE("objects/batch"));
}

/* `operation` of a batch. Servers in Go take "Operation" for it too. A lock is none of a batch's. */
static enum facts_lfs batch_operation(const json_t *body) {
    bool doubtful = false;
    const char *word = json_string_value(condition_json_member(body, SLICE("operation"), &doubtful));
    enum facts_lfs op;
    return !doubtful && word && facts_lfs_of(slice_str(word), &op) && op != FACTS_LFS_LOCK
               ? op
               : FACTS_LFS_UNKNOWN;
}

/* Of a POST other than the batch. */
static enum facts_lfs post_operation(struct slice tail) {
    if (slice_eq(tail, SLICE("locks")) ||
        (slice_starts(tail, SLICE("locks/")) && slice_ends(tail, SLICE("/unlock"))))
        return FACTS_LFS_LOCK;
    return slice_ends(tail, SLICE("/verify")) ? FACTS_LFS_UPLOAD : FACTS_LFS_UNKNOWN;
}

enum facts_lfs lfs_operation(const struct facts *f, struct body_view *view) {
    struct slice before, tail;
    if (f->kind != FACTS_HTTP || !lfs_split(f->path, &before, &tail))
        return FACTS_LFS_UNKNOWN;
    if (slice_eq(f->method, SLICE("GET")) || slice_eq(f->method, SLICE("HEAD")))
        return FACTS_LFS_DOWNLOAD;
    bool locks = slice_eq(tail, SLICE("locks")) || slice_starts(tail, SLICE("locks/"));
    if (slice_eq(f->method, SLICE("PUT")))
        return locks ? FACTS_LFS_UNKNOWN : FACTS_LFS_UPLOAD;
    if (!slice_eq(f->method, SLICE("POST")))
        return FACTS_LFS_UNKNOWN;
    if (!slice_eq(tail, SLICE("objects/batch")))
        return post_operation(tail);
    if (f->lfs)
        return f->lfs;
    condition_json_read(f, view);
    return view->json ? batch_operation(view->json) : FACTS_LFS_UNKNOWN;
}

enum facts_lfs facts_lfs_operation(const struct facts *f) {
    struct body_view view = {.read = false};
    enum facts_lfs op = lfs_operation(f, &view);
    body_view_release(&view);
    return op;
}

const char *facts_lfs_name(enum facts_lfs operation) {
    static const char *const names[] = {NULL, "download", "upload", "lock"};
    _Static_assert(sizeof names / sizeof *names == FACTS_LFS_COUNT, "each has its word");
    return operation < FACTS_LFS_COUNT ? names[operation] : NULL;
}

bool facts_lfs_of(struct slice word, enum facts_lfs *out) {
    for (unsigned op = FACTS_LFS_DOWNLOAD; op < FACTS_LFS_COUNT; op++)
        if (slice_eq(word, slice_str(facts_lfs_name((enum facts_lfs)op)))) {
            *out = (enum facts_lfs)op;
            return true;
        }
    return false;
}
