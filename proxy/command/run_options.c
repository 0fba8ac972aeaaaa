#include <string.h>

#include "proxy/command/run.h"
#include "proxy/flow/time_limits.h"

static int add(struct config_list *list, const char *value, struct errmsg *msg) {
    if (list->n == CONFIG_LIST_MAX)
        return errmsg_set(msg, ERR_LIMIT, "given more than %d times", CONFIG_LIST_MAX);
    list->list[list->n++] = value;
    return 0;
}

static int need_value(const char *value, struct errmsg *msg) {
    return *value ? 0 : errmsg_set(msg, ERR_USAGE, "the value is empty");
}

static int take_policy(void *target, char *value, struct errmsg *msg) {
    struct run *run = target;
    int r = need_value(value, msg);
    return r < 0 ? r : add(&run->config.sandbox.policies, value, msg);
}

static int take_vault(void *target, char *value, struct errmsg *msg) {
    struct run *run = target;
    if (run->config.vault)
        return errmsg_set(msg, ERR_USAGE, "given twice; put all credentials into one file");
    run->config.vault = value;
    return need_value(value, msg);
}

static int take_set(void *target, char *value, struct errmsg *msg) {
    struct config_sandbox *s = &((struct run *)target)->config.sandbox;
    if (s->nsets == POLICY_VARS_MAX)
        return errmsg_set(msg, ERR_LIMIT, "given more than %d times", POLICY_VARS_MAX);
    int r = policy_set_parse(value, &s->sets[s->nsets], msg);
    if (r == 0)
        s->nsets++;
    return r;
}

static int take_name(void *target, char *value, struct errmsg *msg) {
    return config_set_name(&((struct run *)target)->config.sandbox, value, msg);
}

static int take_log(void *target, char *value, struct errmsg *msg) {
    ((struct run *)target)->config.log = value;
    return need_value(value, msg);
}

static int take_redis(void *target, char *value, struct errmsg *msg) {
    ((struct run *)target)->config.redis = value;
    return need_value(value, msg);
}

static int take_upstream_ca(void *target, char *value, struct errmsg *msg) {
    int r = need_value(value, msg);
    return r < 0 ? r : add(&((struct run *)target)->config.upstream_cas, value, msg);
}

static int take_resolve(void *target, char *value, struct errmsg *msg) {
    int r = need_value(value, msg);
    return r < 0 ? r : add(&((struct run *)target)->config.resolves, value, msg);
}

static int take_time_limit(void *target, char *value, struct errmsg *msg) {
    int r = need_value(value, msg);
    return r < 0 ? r : add(&((struct run *)target)->config.time_limits, value, msg);
}

static int take_state(void *target, char *value, struct errmsg *msg) {
    ((struct run *)target)->config.state = value;
    return need_value(value, msg);
}

static int take_workers(void *target, char *value, struct errmsg *msg) {
    uint64_t n;
    if (!slice_u64(slice_str(value), CONFIG_WORKERS_MAX, &n) || n == 0)
        return errmsg_set(msg, ERR_USAGE, "'%s' is no number from 1 to %d", value, CONFIG_WORKERS_MAX);
    ((struct run *)target)->config.workers = (unsigned)n;
    return 0;
}

static int take_push_memory(void *target, char *value, struct errmsg *msg) {
    uint64_t n;
    if (!slice_u64(slice_str(value), CONFIG_PUSH_MAX, &n) || n == 0)
        return errmsg_set(msg, ERR_USAGE, "'%s' is no number of MiB from 1 to %d", value, CONFIG_PUSH_MAX);
    ((struct run *)target)->config.push_memory = (size_t)n << 20;
    return 0;
}

static int take_log_query(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct run *)target)->config.log_query = true;
    return 0;
}

static int take_quiet(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct run *)target)->config.verbosity = IPC_QUIET;
    return 0;
}

static int take_verbose(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct run *)target)->config.verbosity = IPC_ALL;
    return 0;
}

static int take_service(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct run *)target)->config.kind = CONFIG_JOIN;
    return 0;
}

static int take_help(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct run *)target)->help = true;
    return 0;
}

const struct option_row run_rows[] = {
    {'p', "policy", "FILE", take_policy,
     "what the command may do, exeat-policy(5); may be repeated, the files add up.\nWithout one everything "
     "is denied"},
    {0, "set", "NAME=VALUE", take_set,
     "a variable of the policy, in place of its 'let NAME'; may be repeated"},
    {0, "name", "SANDBOX", take_name,
     "the sandbox's name, in records and refusals (default: the command's, and a tail)"},
    {0, "service", NULL, take_service,
     "with the processes of 'exeat serve', which has the state directory that this one would have;\nwhat "
     "follows is the service's then, but --state"},
    {0, "vault", "FILE", take_vault, "the credentials that rules lend by name, exeat-credentials(5)"},
    {0, "log", "FILE", take_log,
     "where decisions are written to, a JSON line each (default: decisions.jsonl in the state directory)"},
    {0, "log-query", NULL, take_log_query,
     "record the values in queries too (without it: names alone, as in ?page=*)"},
    {0, "redis", "URL", take_redis,
     "also write decisions to the stream exeat:decisions:\nredis://[[user]:password@]HOST[:PORT][/DB] or "
     "unix:PATH"},
    {0, "upstream-ca", "FILE", take_upstream_ca,
     "further roots (PEM) that servers' certificates may be signed by; may be repeated"},
    {0, "resolve", "HOST:PORT:ADDRESS[:PORT]", take_resolve,
     "connect to ADDRESS, and PORT, for HOST:PORT, be it a private or loopback address;\nin all forms of "
     "curl's --resolve; may be repeated"},
    {0, "state", "DIR", take_state,
     "where exeat keeps its certification authority and the log\n(default: $XDG_STATE_HOME/exeat or "
     "~/.local/state/exeat)"},
    {0, "time-limit", "WHAT=TIME", take_time_limit,
     "how long peers may take for their part; may be repeated\nDefaults:" TIME_LIMITS_HELP},
    {0, "workers", "N", take_workers, "processes that take connections (default: 1)"},
    {0, "push-memory", "MIB", take_push_memory,
     "memory for looking through one push, where a rule needs that (default: 256)"},
    {'q', "quiet", NULL, take_quiet,
     "no decisions on standard error (default: denials); of -q and -v the last counts"},
    {'v', "verbose", NULL, take_verbose, "every decision on standard error"},
    {'h', "help", NULL, take_help, "this text"},
};
const size_t run_nrows = sizeof run_rows / sizeof run_rows[0];

const struct option_row *serve_rows(size_t *n) {
    size_t first = 0;
    while (strcmp(run_rows[first].name, "vault") != 0)
        first++;
    *n = run_nrows - first;
    return &run_rows[first];
}

bool run_is_for_service(const struct run *run, struct errmsg *msg) {
    const struct config *c = &run->config;
    const struct {
        bool given;
        const char *name;
    } options[] = {
        {c->vault != NULL, "vault"},
        {c->log != NULL, "log"},
        {c->log_query, "log-query"},
        {c->redis != NULL, "redis"},
        {c->upstream_cas.n != 0, "upstream-ca"},
        {c->resolves.n != 0, "resolve"},
        {c->time_limits.n != 0, "time-limit"},
        {c->workers != 1, "workers"},
        {c->push_memory != (size_t)CONFIG_PUSH_MIB << 20, "push-memory"},
        {c->verbosity == IPC_QUIET, "quiet"},
        {c->verbosity == IPC_ALL, "verbose"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (!options[i].given)
            continue;
        errmsg_set(msg, ERR_USAGE, "--%s is for the service: give it to 'exeat serve'", options[i].name);
        return true;
    }
    return false;
}
