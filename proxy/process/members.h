/*
 * The sandboxes of a service: whoever has joined it (service_wire.h), from the first message to the last.
 *
 * What a member needs of the roles is sent through `children`; their answers come in through members_refused, members_ended and
 * members_flushed. A member that breaks the protocol, or whose policy a worker can't take, ends alone.
 */
#ifndef PROXY_PROCESS_MEMBERS_H
#define PROXY_PROCESS_MEMBERS_H

#include <event2/event.h>
#include <sys/queue.h>

#include "proxy/process/children.h"
#include "proxy/process/prepare.h"

#define MEMBERS_MAX     65536 /* as many as the keeper knows (vault/wire.h) */
#define MEMBERS_BUCKETS 1024

struct member;

struct members {
    struct event_base *base;
    const struct prepared *prepared; /* the service's; its vault says which credentials there are */
    struct children *children;
    struct slice ca_pem; /* our root, and the hash of its subject: borrowed */
    uint32_t ca_hash;
    size_t n;
    uint64_t last; /* id that was given */
    LIST_HEAD(members_bucket, member) buckets[MEMBERS_BUCKETS];
};

/* Whether there is room in a message for what each is told who joins: the paths of a large vault may be too long for that. */
bool members_possible(const struct members *all);

/* `fd`, a connection, is taken in every case. 0; ERR_LIMIT or ERR_NOMEM: it is closed. */
int members_take(struct members *all, int fd);

/* As children_ops have them. */
void members_refused(struct members *all, uint64_t id, struct slice why);
void members_ended(struct members *all, uint64_t id);
void members_flushed(struct members *all, uint64_t id);

/* Closes all connections: each who is there ends its sandbox. */
void members_close(struct members *all);

#endif
