/*
 * Texts that are kept once each, and those that a commit's head holds.
 */
#include <stdlib.h>

#include "proxy/codec/git_changes_internal.h"

#define TEXTS_ARENA (1u << 31) /* places in it are numbers of 32 bits */

void git_texts_init(struct git_texts *texts, struct git_memory *memory) {
    *texts = (struct git_texts){.memory = memory};
    buf_init(&texts->arena, TEXTS_ARENA);
    git_ids_init_in(&texts->seen, GIT_ID_MAX, memory);
}

void git_texts_release(struct git_texts *texts) {
    free(texts->list);
    git_memory_give(texts->memory, texts->room * sizeof *texts->list + texts->arena_counted);
    texts->list = NULL;
    texts->n = texts->room = texts->arena_counted = 0;
    buf_release(&texts->arena);
    git_ids_release(&texts->seen);
}

/* By hash, of which nobody can make two alike: of SHA-1 one could, and have a path taken for another. */
static int texts_hash(struct git_changes *c, struct slice text, uint8_t *id) {
    unsigned got;
    if (EVP_DigestInit_ex2(c->hash, c->md, NULL) != 1 || EVP_DigestUpdate(c->hash, text.p, text.n) != 1 ||
        EVP_DigestFinal_ex(c->hash, id, &got) != 1)
        return ERR_CRYPTO;
    return 0;
}

/* Counts what the arena, which doubles, will take with so much more in it. */
static bool texts_count(struct git_texts *texts, size_t more) {
    size_t need = buf_len(&texts->arena) + more, size = texts->arena_counted ? texts->arena_counted : 1;
    while (size < need)
        size *= 2;
    if (size == texts->arena_counted)
        return true;
    if (!git_memory_take(texts->memory, size - texts->arena_counted))
        return false;
    texts->arena_counted = size;
    return true;
}

static int texts_append(struct git_texts *texts, struct slice text, uint32_t commit) {
    void *list = git_memory_list(texts->memory, texts->list, sizeof *texts->list, texts->n, &texts->room);
    size_t at = buf_len(&texts->arena);
    if (!list)
        return ERR_LIMIT;
    texts->list = list;
    int r = texts_count(texts, text.n) ? buf_put(&texts->arena, text) : ERR_LIMIT;
    if (r)
        return r;
    texts->list[texts->n++] = (struct git_text){.at = (uint32_t)at, .n = (uint32_t)text.n, .commit = commit};
    return 0;
}

int git_texts_add(struct git_changes *c, struct git_texts *texts, struct slice text, uint32_t commit,
                  bool link) {
    uint8_t id[GIT_ID_MAX];
    int r = texts_hash(c, text, id);
    if (r)
        return r;
    size_t i = git_ids_add(&texts->seen, id);
    if (i == GIT_IDS_NONE)
        return ERR_LIMIT;
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
