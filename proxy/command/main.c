#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "proxy/command/commands.h"

const struct command commands[] = {
    {"run", command_run, "run a command whose only way out is exeat"},
    {"serve", command_serve, "serve many sandboxes with the same processes"},
    {"learn", command_learn, "run a command and write the policy that it needs"},
    {"policy", command_policy, "check, test, explain, compare, replay and format policies"},
    {"doctor", command_doctor, "say what on this host stands in the way, and what to do"},
    {"help", command_help, "this text, or that of one command"},
    {"version", command_version, "the version"},
    {0},
};

/* What people type without thinking of subcommands. */
static const struct command synonyms[] = {
    {"--help", command_help, NULL},
    {"-h", command_help, NULL},
    {"--version", command_version, NULL},
    {"-V", command_version, NULL},
    {0},
};

static const struct command *find(const struct command *table, const char *name) {
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* A descriptor that is opened must never become standard error by chance: what is said there would be written into it. */
static int open_standard(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return -1;
    return 0;
}

int main(int argc, char **argv) {
    if (open_standard() < 0)
        return EXIT_FAILED;
    log_setup(NULL, LOG_LEVEL_WARN);
    if (argc < 2) {
        fputs("exeat: no command given; try 'exeat --help'\n", stderr);
        return EXIT_BAD_USAGE;
    }
    const struct command *command = find(commands, argv[1]);
    if (!command)
        command = find(synonyms, argv[1]);
    if (!command) {
        log_error("unknown command '%s'; try 'exeat --help'", argv[1]);
        return EXIT_BAD_USAGE;
    }
    return command->run(argc - 1, argv + 1);
}
