/*
 * Texts that are kept once each, and those that a commit's head holds.
 */
#include <stdlib.h>

#include "proxy/codec/git_changes_internal.h"

#define TEXTS_ROOM 64

void git_texts_init(struct git_texts *texts, unsigned id_size) {
    *texts = (struct git_texts){.n = 0};
    buf_init(&texts->arena, GIT_CHANGES_MEMORY / 2);
    git_ids_init(&texts->seen, id_size);
}

void git_texts_release(struct git_texts *texts) {
    free(texts->list);
    texts->list = NULL;
    texts->n = texts->room = 0;
    buf_release(&texts->arena);
    git_ids_release(&texts->seen);
}

/* By hash, which nobody can choose to collide. */
static int texts_hash(struct git_changes *c, struct slice text, uint8_t *id) {
    unsigned got;
    if (EVP_DigestInit_ex2(c->hash, c->o->md, NULL) != 1 || EVP_DigestUpdate(c->hash, text.p, text.n) != 1 ||
        EVP_DigestFinal_ex(c->hash, id, &got) != 1)
        return ERR_CRYPTO;
    return 0;
}

static int texts_append(struct git_texts *texts, struct slice text, uint32_t commit) {
    if (texts->n == texts->room) {
        size_t room = texts->room ? texts->room * 2 : TEXTS_ROOM;
        if (room * (sizeof *texts->list + 2 * GIT_ID_MAX) > GIT_CHANGES_MEMORY / 2)
            return ERR_LIMIT;
        struct git_text *list = reallocarray(texts->list, room, sizeof *list);
        if (!list)
            return ERR_NOMEM;
        texts->list = list;
        texts->room = room;
    }
    size_t at = buf_len(&texts->arena);
    int r = buf_put(&texts->arena, text);
    if (r)
        return r;
    texts->list[texts->n++] = (struct git_text){.at = (uint32_t)at, .n = (uint32_t)text.n, .commit = commit};
    return 0;
}

int git_texts_add(struct git_changes *c, struct git_texts *texts, struct slice text, uint32_t commit,
                  bool link) {
    uint8_t id[GIT_ID_MAX * 2];
    int r = texts_hash(c, text, id);
    if (r)
        return r;
    size_t i = git_ids_add(&texts->seen, id);
    if (i == GIT_IDS_NONE)
        return ERR_NOMEM;
    if (i == texts->n && (r = texts_append(texts, text, commit)) != 0)
        return r;
    texts->list[i].link |= link;
    return 0;
}

/* The next line of a commit's head; false behind its last, which an empty line ends. */
static bool head_line(struct slice *rest, struct slice *line) {
    return slice_cut(*rest, '\n', line, rest) && line->n;
}

bool git_commit_identity(struct slice commit, struct slice word, struct slice *out) {
    struct slice line;
    while (head_line(&commit, &line)) {
        if (!slice_starts(line, word))
            continue;
        line = slice_from(line, word.n);
        while (line.n && line.p[line.n - 1] != '>')
            line.n--;
        *out = line;
        return line.n > 0;
    }
    return false;
}

bool git_commit_signed(struct slice commit) {
    struct slice line;
    while (head_line(&commit, &line))
        if (slice_starts(line, SLICE("gpgsig ")) || slice_starts(line, SLICE("gpgsig-sha256 ")))
            return true;
    return false;
}
