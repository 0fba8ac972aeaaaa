/*
 * Which objects of which repositories a sandbox was shown by their ids, where its policy keeps fetches to some refs: it
 * may ask for those and for no others. git's HTTP transport has no state of its own: the list of refs and the fetch that
 * follows are two requests, maybe to two workers. So this lies in a memfd that the workers of a sandbox share.
 *
 * What is kept of an id is 63 bits of a keyed hash over origin, repository and id; the key is made at random for each
 * sandbox. No lock is taken. Of SHOWN_MAX ids those listed longest ago are forgotten first, and asking for the list of
 * refs again brings them back.
 */
#ifndef PROXY_FLOW_SHOWN_H
#define PROXY_FLOW_SHOWN_H

#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"

#define SHOWN_MAX (1u << 19) /* at 8 bytes; only what was written to takes memory */

enum shown_kind {
    SHOWN_OBJECT, /* of a ref, or of what a tag leads to */
    SHOWN_BORDER, /* where a shallow clone's history ends */
};

/* One repository. */
struct shown_repo {
    unsigned char key[32];
};

struct shown;

/* 0, ERR_IO or ERR_NOMEM. */
int shown_new(struct shown **out, struct errmsg *msg);
/* What another process made; `fd` is taken, in every case. ERR_PEER if it is none. */
int shown_attach(int fd, struct shown **out, struct errmsg *msg);
/* Borrowed: the descriptor to hand to other processes. */
int shown_fd(const struct shown *s);
void shown_free(struct shown *s);

/* `path` is the repository's, as facts_repository gives it. NULL for `s`: nothing will have been shown. */
void shown_repo(const struct shown *s, enum url_scheme scheme, struct slice host, uint16_t port,
                struct slice path, struct shown_repo *out);

/* A new list of refs begins: what it shows is forgotten after what was shown before. */
void shown_begin(struct shown *s);

void shown_add(struct shown *s, const struct shown_repo *repo, enum shown_kind kind, struct slice id);
bool shown_has(const struct shown *s, const struct shown_repo *repo, enum shown_kind kind, struct slice id);

#endif
