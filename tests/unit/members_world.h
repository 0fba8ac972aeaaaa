/*
 * A service's members without its processes: the sockets of keeper, scribe and two workers end here, and each is answered as the real one
 * would. What a member says reaches the real keeper's table, which has to go on with the service whatever it is; what reaches a worker
 * has to be a whole message of ipc.h.
 */
#ifndef TESTS_UNIT_MEMBERS_WORLD_H
#define TESTS_UNIT_MEMBERS_WORLD_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/version.h"
#include "proxy/process/handover.h"
#include "proxy/process/ipc.h"
#include "proxy/process/members.h"
#include "proxy/process/service_socket.h"
#include "proxy/process/service_wire.h"
#include "vault/keeper.h"

#define WORLD_WORKERS 2
#define WORLD_ROLES   (WORLD_WORKERS + 2)

struct members_world {
    struct event_base *base;
    struct config config;
    struct prepared prepared;
    struct children children;
    struct members all;
    struct keeper *keeper;
    int far[WORLD_ROLES];     /* of the channels in children.list */
    int nowhere, namespace;   /* descriptors to send */
    const char *refuses;      /* workers take no sandbox, for this reason; NULL: they do */
    bool deaf;                /* workers read nothing */
    unsigned grants, revokes; /* that the keeper was told */
    unsigned opened, flushes; /* sandboxes that workers got, orders that the scribe got */
    unsigned ended;           /* orders to end one that workers got */
};

static inline void world_must(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "# %s\n", what);
    abort();
}

static inline int world_mint(void *arg, struct slice name, struct slice spki, struct buf *der,
                             struct errmsg *msg) {
    (void)arg, (void)name, (void)spki, (void)der;
    return errmsg_set(msg, ERR_UNSUPPORTED, "no leaf");
}

/* Roles say nothing by these sockets, and don't end. */
static inline int world_on_message(struct channel *c, struct msg_in *m) {
    (void)c, (void)m;
    return ERR_PEER;
}

static inline void world_on_closed(struct channel *c, int err) {
    (void)c, (void)err;
    world_must(false, "a role's socket has ended");
}

static inline void world_open(struct members_world *w) {
    static const struct channel_ops ops = {world_on_message, world_on_closed};
    static const enum role roles[WORLD_ROLES] = {ROLE_KEEPER, ROLE_SCRIBE, ROLE_WORKER, ROLE_WORKER};
    *w = (struct members_world){.config = {.kind = CONFIG_SERVE, .workers = WORLD_WORKERS}};
    w->prepared.config = &w->config;
    w->base = event_base_new();
    w->all = (struct members){.base = w->base, .prepared = &w->prepared, .children = &w->children};
    w->all.ca_pem = SLICE("PEM");
    w->all.ca_hash = 7;
    w->children.n = WORLD_ROLES;
    for (size_t i = 0; i < WORLD_ROLES; i++) {
        int pair[2];
        struct child *child = &w->children.list[i];
        world_must(msg_pair(pair) == 0, "no socket pair");
        child->role = roles[i];
        world_must(channel_open(&child->ctl, w->base, pair[0], false, &ops, child) == 0, "no channel");
        w->far[i] = pair[1];
    }
    w->nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    w->namespace = service_namespace();
    world_must(keeper_new(NULL, world_mint, NULL, &w->keeper, NULL) == 0, "no keeper");
}

static inline void world_close(struct members_world *w) {
    members_close(&w->all);
    for (size_t i = 0; i < WORLD_ROLES; i++) {
        channel_close(&w->children.list[i].ctl);
        close(w->far[i]);
    }
    close(w->nowhere);
    close(w->namespace);
    keeper_free(w->keeper);
    event_base_free(w->base);
}

static inline void world_keeper(struct members_world *w, struct msg_in *m) {
    static char answer[MSG_MAX];
    struct msg_out out;
    w->grants += m->type == VAULT_GRANT;
    w->revokes += m->type == VAULT_REVOKE;
    world_must(keeper_handle(w->keeper, KEEPER_SUPERVISOR, m, &out, answer, sizeof answer, NULL) == 0,
               "the keeper would not go on with the service");
    world_must(out.n == 0, "the keeper answers");
}

static inline void world_scribe(struct members_world *w, struct msg_in *m) {
    uint64_t number = msg_get_u64(m);
    world_must(m->type == IPC_FLUSH && msg_end(m) == 0, "the scribe would not go on with the service");
    w->flushes++;
    members_flushed(&w->all, number);
}

/* As worker_add_sandbox reads it. */
static inline void world_take_sandbox(struct members_world *w, struct msg_in *m) {
    uint64_t id = msg_get_u64(m);
    world_must(config_is_name(msg_get_slice(m)), "a sandbox's name");
    for (size_t i = 0; i < HANDOVER_FDS; i++)
        close(msg_get_fd(m));
    for (uint32_t n = msg_get_u32(m); n > 0 && !m->err; n--) {
        (void)msg_get_u8(m);
        int fd = msg_get_fd(m);
        close(fd);
    }
    world_must(msg_end(m) == 0, "a worker would not go on with the service");
    w->opened++;
    if (w->refuses)
        members_refused(&w->all, id, slice_str(w->refuses));
}

static inline void world_worker(struct members_world *w, struct msg_in *m) {
    if (m->type == IPC_SANDBOX) {
        world_take_sandbox(w, m);
        return;
    }
    uint64_t id = msg_get_u64(m);
    world_must(m->type == IPC_SANDBOX_END && msg_end(m) == 0, "a worker would not go on with the service");
    w->ended++;
    members_ended(&w->all, id);
}

/* What roles were told, and their answers to it. Whether there was anything. */
static inline bool world_answer(struct members_world *w) {
    static char memory[MSG_MAX];
    bool some = false;
    for (size_t i = 0; i < WORLD_ROLES; i++) {
        enum role role = w->children.list[i].role;
        struct msg_in m;
        if (role == ROLE_WORKER && w->deaf)
            continue;
        while (msg_recv(w->far[i], &m, memory, sizeof memory) == 0) {
            some = true;
            if (role == ROLE_KEEPER)
                world_keeper(w, &m);
            else if (role == ROLE_SCRIBE)
                world_scribe(w, &m);
            else
                world_worker(w, &m);
            msg_close_fds(&m);
        }
    }
    return some;
}

/* Until nobody has anything to say. */
static inline void world_turn(struct members_world *w) {
    do
        event_base_loop(w->base, EVLOOP_NONBLOCK);
    while (world_answer(w));
}

/* Who runs a sandbox: its end of a new connection. */
static inline int world_connect(struct members_world *w) {
    int pair[2];
    world_must(msg_pair(pair) == 0, "no socket pair");
    world_must(members_take(&w->all, pair[0]) == 0, "a connection is turned away");
    return pair[1];
}

#endif
