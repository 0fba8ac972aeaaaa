#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "netns/sandbox.h"
#include "proxy/command/commands.h"
#include "proxy/command/options.h"
#include "proxy/command/run.h"
#include "proxy/flow/time_limits.h"
#include "proxy/process/config.h"
#include "proxy/process/supervisor.h"

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
    {0, "vault", "FILE", take_vault, "the credentials that rules lend by name, exeat-credentials(5)"},
    {0, "set", "NAME=VALUE", take_set,
     "a variable of the policy, in place of its 'let NAME'; may be repeated"},
    {0, "name", "SANDBOX", take_name,
     "the sandbox's name, in records and refusals (default: the command's, and a tail)"},
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
    {0, "workers", "N", take_workers, "processes that serve the sandbox (default: 1)"},
    {0, "push-memory", "MIB", take_push_memory,
     "memory for looking through one push, where a rule needs that (default: 256)"},
    {'q', "quiet", NULL, take_quiet,
     "no decisions on standard error (default: denials); of -q and -v the last counts"},
    {'v', "verbose", NULL, take_verbose, "every decision on standard error"},
    {'h', "help", NULL, take_help, "this text"},
};
const size_t run_nrows = sizeof run_rows / sizeof run_rows[0];

static int print_help(void) {
    puts("usage: exeat run [OPTION]... [--] COMMAND [ARG...]\n"
         "\n"
         "Runs COMMAND in namespaces of its own, whose only way out is a proxy that denies what no policy "
         "allows.\n");
    options_print(run_rows, run_nrows, stdout);
    puts("\n"
         "Exit status: the command's own; 128+N if signal N ended it; 125 if exeat itself fails;\n"
         "126 if the command can't be run; 127 if it is not found.\n"
         "\n"
         "example: exeat run --policy bugfix.policy --vault credentials --set repo=acme/app -- git push "
         "origin fix/42");
    return options_printed() ? EXIT_SUCCESS : EXIT_FAILED;
}

/* A file beyond the user's limit is an error that says so. (Not ignored: the command would inherit that.) */
static void on_file_limit(int sig) {
    (void)sig;
}

int command_run(int argc, char **argv) {
    static struct run run; /* its lists are long */
    struct errmsg msg;
    struct sandbox_inherit inherit;
    sandbox_inherit_take(&inherit);
    if (!(inherit.ignored & 1ull << (SIGXFSZ - 1)))
        signal(SIGXFSZ, on_file_limit);
    config_init(&run.config);
    int first;
    if (options_parse(run_rows, run_nrows, argc, argv, &run, &first, &msg) < 0) {
        log_error("run: %s; try 'exeat run --help'", msg.text);
        return EXIT_BAD_USAGE;
    }
    if (run.help)
        return print_help();
    if (first >= argc) {
        log_error(
            "run: no command given: exeat run [OPTION]... [--] COMMAND [ARG...]; try 'exeat run --help'");
        return EXIT_BAD_USAGE;
    }
    run.config.sandbox.argv = argv + first;
    if (!run.config.sandbox.name[0])
        config_make_name(&run.config.sandbox);
    return supervisor_run(&run.config, &inherit);
}
