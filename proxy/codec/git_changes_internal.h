/*
 * Between the files that find out what an update changes only.
 */
#ifndef PROXY_CODEC_GIT_CHANGES_INTERNAL_H
#define PROXY_CODEC_GIT_CHANGES_INTERNAL_H

#include "proxy/codec/git_changes.h"
#include "proxy/codec/git_tree.h"

#define GIT_BASES_MAX  8 /* merge bases that are compared with; a merge with more is not excused */
#define GIT_SIDES_MAX  (3 + GIT_BASES_MAX)
#define GIT_DIFF_DEPTH (GIT_PATH_MAX / 2) /* directories in one another */

/* Trees compared entry by entry: the new one, one or two parents', and the merge bases' behind two. */
struct git_sides {
    const uint8_t *root[GIT_SIDES_MAX]; /* NULL: nothing is there */
    unsigned n;
    uint32_t commit; /* that the difference is put down to */
};

/* ---- git_diff.c ---- */

struct git_diff *git_diff_new(void);
void git_diff_free(struct git_changes *c); /* c->diff */

/* Begins with the roots; ERR_PARSE, ERR_NOMEM. */
int git_diff_begin(struct git_changes *c, const struct git_sides *sides);

/* Looks at *budget entries at most, and takes those off it. 0: done, ERR_INCOMPLETE, or an error. */
int git_diff_run(struct git_changes *c, size_t *budget);

/* ---- git_bases.c ---- */

/*
 * The merge bases of two commits, as far as the store knows all of their history down to where it meets, and perhaps older
 * common ancestors beside them. GIT_YES: out->n of them. GIT_NO: there is none. GIT_UNKNOWN: the store knows too little, and
 * all that the commits added to `missing` (empty at first) reach would have to be known. *work counts commits looked at. 0,
 * ERR_NOMEM, ERR_PARSE.
 */
int git_bases(const struct git_objects *o, const uint8_t *a, const uint8_t *b, struct git_ids *out,
              enum git_answer *answer, struct git_ids *missing, uint64_t *work);

/* ---- git_history.c ---- */

/* Adds what is settled, and all of its history that is in the store. 0, ERR_NOMEM. */
int git_history_settled(const struct git_objects *o, struct git_ids *set);

/* Adds what an object names: a commit's parents, a tag's target. 0, ERR_PARSE (also for a tree), ERR_NOMEM. */
int git_history_names(const struct git_objects *o, const struct git_object *object, struct git_ids *set);

/* ---- git_texts.c ---- */

/* Adds a text once. 0, ERR_LIMIT, ERR_NOMEM, ERR_CRYPTO. */
int git_texts_add(struct git_changes *c, struct git_texts *texts, struct slice text, uint32_t commit,
                  bool link);
void git_texts_init(struct git_texts *texts, struct git_memory *memory);
void git_texts_release(struct git_texts *texts);

/* "Name <mail>" of a commit's line "author " or "committer "; false: there is none that git would read. */
bool git_commit_identity(struct slice commit, struct slice word, struct slice *out);

/* Does a commit's head have a signature? */
bool git_commit_signed(struct slice commit);

#endif
