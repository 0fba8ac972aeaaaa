/*
 * What a worker's files share: worker.c puts the process together, worker_sandboxes.c has its sandboxes.
 */
#ifndef PROXY_PROCESS_WORKER_H
#define PROXY_PROCESS_WORKER_H

#include "proxy/flow/engine.h"
#include "proxy/process/config.h"
#include "proxy/process/role.h"
#include "proxy/upstream/proxyenv.h"
#include "vault/marks.h"

struct limits;
struct names;
struct nameserver;
struct policy;
struct recorder;
struct resolver;
struct shown;
struct upstream;
struct vault_client;
struct why;

#define WORKER_DRAIN_MS      1000 /* for exchanges whose sandbox is gone */
#define WORKER_VARIABLES_MAX 16

/* A policy, for all sandboxes that have the same one. */
struct worker_policy {
    struct worker_policy *next;
    unsigned char digest[32]; /* SHA-256 of the bundle */
    unsigned users;
    struct policy *policy;
};

struct worker_sandbox {
    struct worker_sandbox *next;
    struct worker_process *worker;
    uint64_t id;
    char name[CONFIG_NAME_MAX + 1];
    bool ending;
    struct worker_policy *policy;
    struct names *names;
    struct why *why;
    struct limits *limits;
    struct shown *shown;
    struct nameserver *nameserver;
};

struct worker_process {
    struct role_base role; /* first: the control channel's arg is this */
    struct channel keeper;
    int scribe_fd, ring_fd; /* until the recorder takes them */
    char *resolves[CONFIG_LIST_MAX];
    size_t nresolves;
    struct engine_limits limits;
    struct {
        char *name, *value;
    } variables[WORKER_VARIABLES_MAX];
    size_t nvariables;

    struct proxyenv proxies;
    struct resolver *resolver;
    struct slice roots, extra; /* memory that all workers share; `upstream` reads it when it meets a server */
    struct upstream *upstream;
    struct recorder *recorder;
    struct vault_client *vault;
    struct marks_told marks; /* until all are there */
    struct event *expire;    /* of leases */
    bool expiring;
    struct engine *engine;
    struct worker_sandbox *sandboxes;
    struct worker_policy *policies;
    struct event *tick; /* while the recorder empties itself at the end */
    unsigned ticks;
    bool ending;
    int status; /* the exit status then */
};

/* IPC_SANDBOX and IPC_SANDBOX_END. 0; ERR_PEER or ERR_NOMEM: the channel is of no use. What is wrong with one sandbox is told by
 * IPC_SANDBOX_REFUSED, and no matter of the others. */
int worker_add_sandbox(struct worker_process *w, struct msg_in *m);
int worker_end_sandbox(struct worker_process *w, struct msg_in *m);

/* All of them; whatever is still under way gets its outcome. */
void worker_free_sandboxes(struct worker_process *w);

#endif
