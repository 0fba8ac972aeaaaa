/*
 * Which of many updates are fast-forwards: each commit's parents are read once for all of them, and 64 are followed at a
 * time. Ten thousand updates upon a hundred thousand commits are a fraction of a second.
 */
#ifndef PROXY_CODEC_GIT_ANCESTRY_H
#define PROXY_CODEC_GIT_ANCESTRY_H

#include "proxy/codec/git_objects.h"

struct git_update {
    uint8_t old[GIT_ID_MAX], young[GIT_ID_MAX];
    enum git_answer answer;
};

/* Answers each: is `old` an ancestor of `young`, or the same? Where history leaves `o`, or a commit there can't be read, it
 * goes on in `beyond` (may be NULL), and the answer is not GIT_NO. 0, or ERR_NOMEM: then all answers are GIT_UNKNOWN.
 * What it takes meanwhile is of o's account. */
int git_ancestry(const struct git_objects *o, const struct git_objects *beyond, struct git_update *updates,
                 size_t n);

#endif
