/*
 * Which objects of which repositories a sandbox was shown by their ids, where its policy keeps fetches to some refs: it
 * may ask for those and for no others. git's HTTP transport has no state of its own: the list of refs and the fetch that
 * follows are two requests, maybe to two workers. So this lies in a memfd that the workers of a sandbox share.
 *
 * What is kept of an id is 63 bits of a keyed hash over origin, repository and id; the key is made at random for each
 * sandbox. No lock is taken. Of SHOWN_MAX ids those listed longest ago are forgotten first, and asking for the list of
 * refs again brings them back.
 *
 * Whatever the policy says, it is also kept by which names of refs they were shown, so that the record of a fetch tells
 * what it was for. Of these, too, the oldest are forgotten first.
 */
#ifndef PROXY_FLOW_SHOWN_H
#define PROXY_FLOW_SHOWN_H

#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"

#define SHOWN_MAX      (1u << 19) /* at 8 bytes; only what was written to takes memory */
#define SHOWN_NAME_MAX 1024       /* bytes of a ref's name; longer ones are not kept */

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

/* A new list of refs begins: what it shows is forgotten after what was shown before. Returns its number. */
uint32_t shown_begin(struct shown *s);

void shown_add(struct shown *s, const struct shown_repo *repo, enum shown_kind kind, struct slice id);
bool shown_has(const struct shown *s, const struct shown_repo *repo, enum shown_kind kind, struct slice id);

/* The list shows an object as what this ref is, or leads to; or, in an id's place, HEAD or the like as what stands for it. */
void shown_name(struct shown *s, const struct shown_repo *repo, uint32_t list, struct slice id,
                struct slice ref);
/* Calls `found` with each ref by which the last list that had this object showed it, until it returns false. A ref may
 * come twice. */
void shown_names(const struct shown *s, const struct shown_repo *repo, struct slice id,
                 bool (*found)(void *arg, struct slice ref), void *arg);

#endif
