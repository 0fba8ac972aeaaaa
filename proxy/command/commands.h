/*
 * The subcommands. Each gets its own arguments (argv[0] is its name), prints, and returns the program's exit status. One file each.
 */
#ifndef PROXY_COMMAND_COMMANDS_H
#define PROXY_COMMAND_COMMANDS_H

int command_run(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_learn(int argc, char **argv);
int command_policy(int argc, char **argv);
int command_policy_check(int argc, char **argv);
int command_policy_test(int argc, char **argv);
int command_policy_explain(int argc, char **argv);
int command_policy_diff(int argc, char **argv);
int command_policy_replay(int argc, char **argv);
int command_policy_fmt(int argc, char **argv);
int command_help(int argc, char **argv);
int command_version(int argc, char **argv);

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* one line */
};

/* The table, in main.c; ended by a row without a name. */
extern const struct command commands[];

/* Exit statuses that are exeat's own, as env(1) and docker(1) have them. */
enum { EXIT_FINDINGS = 1, EXIT_BAD_USAGE = 125, EXIT_FAILED = 125 };

#endif
