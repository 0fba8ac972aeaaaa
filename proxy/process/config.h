/*
 * What `exeat run` or `exeat serve` was asked for: the command line in order, nothing read or opened yet. All strings are borrowed (from argv).
 */
#ifndef PROXY_PROCESS_CONFIG_H
#define PROXY_PROCESS_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/policy.h"
#include "proxy/process/ipc.h"

#define CONFIG_LIST_MAX    256 /* of any option that may be repeated */
#define CONFIG_WORKERS_MAX 64
#define CONFIG_NAME_MAX    64 /* bytes of a sandbox's name */
#define CONFIG_PUSH_MIB    256
#define CONFIG_PUSH_MAX    65536 /* MiB */

#define STATUS_FAILED 125 /* exit status when exeat itself fails */

/* Of an option that may be repeated. (What is used of it comes first, here and below: pages that nobody has touched are none.) */
struct config_list {
    size_t n;
    const char *list[CONFIG_LIST_MAX];
};

/* One sandbox. A service has none of its own. */
struct config_sandbox {
    char name[CONFIG_NAME_MAX + 1];
    char **argv; /* the command, NULL-terminated */
    size_t nsets;
    struct policy_set sets[POLICY_VARS_MAX];
    struct config_list policies;
};

/* What it is that begins. */
enum config_kind {
    CONFIG_RUN,   /* one sandbox, with processes of its own */
    CONFIG_SERVE, /* these processes, for sandboxes to come */
    CONFIG_JOIN,  /* one sandbox, with the processes of a service */
};

struct config {
    enum config_kind kind;
    const char *vault; /* NULL: none */
    const char *log;   /* NULL: in the state directory */
    const char *state; /* NULL: the default */
    char *redis;       /* NULL: none; may hold a password, so it is taken out of argv once read */
    unsigned workers;
    size_t push_memory; /* bytes that a worker may take for looking through a push */
    bool log_query;     /* values of queries are recorded */
    enum ipc_verbosity verbosity;
    struct config_sandbox sandbox;
    struct config_list upstream_cas;
    struct config_list resolves;
    struct config_list time_limits;
};

/* `c` is zero. */
void config_init(struct config *c);

/* A sandbox's name: 1 to CONFIG_NAME_MAX of letters, digits, '.', '_', '-', beginning with a letter or digit. */
bool config_is_name(struct slice name);
int config_set_name(struct config_sandbox *s, const char *name, struct errmsg *msg);

/* A name for a sandbox that got none: the command's and a few random characters ("npm-7k2f9q"). */
void config_make_name(struct config_sandbox *s);

#endif
