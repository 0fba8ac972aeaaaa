#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/version.h"
#include "proxy/command/commands.h"
#include "proxy/command/options.h"

static void print_help(void) {
    puts("exeat: runs a command whose only way out is a proxy that denies what no policy allows\n"
         "\n"
         "usage: exeat COMMAND [ARG...]\n");
    for (const struct command *c = commands; c->name; c++)
        printf("  %-10s %s\n", c->name, c->help);
    puts("\n"
         "'exeat COMMAND --help' tells more; so do exeat(1), exeat-policy-tools(1), exeat-policy(5) and "
         "exeat-credentials(5).");
}

/* "exeat help run" is "exeat run --help", "exeat help policy check" is "exeat policy check --help". */
int command_help(int argc, char **argv) {
    if (argc < 2) {
        print_help();
        return options_printed() ? EXIT_SUCCESS : EXIT_FAILED;
    }
    for (const struct command *c = commands; c->name; c++) {
        char option[] = "--help";
        bool tool = argc > 2 && c->run == command_policy;
        char *args[] = {argv[1], tool ? argv[2] : option, tool ? option : NULL, NULL};
        if (strcmp(c->name, argv[1]) == 0 && c->run != command_help && c->run != command_version)
            return c->run(tool ? 3 : 2, args);
    }
    if (strcmp(argv[1], "help") != 0 && strcmp(argv[1], "version") != 0) {
        log_error("help: unknown command '%s'; try 'exeat --help'", argv[1]);
        return EXIT_BAD_USAGE;
    }
    print_help();
    return options_printed() ? EXIT_SUCCESS : EXIT_FAILED;
}

int command_version(int argc, char **argv) {
    (void)argc;
    (void)argv;
    printf("exeat %s\n", version_build);
    return options_printed() ? EXIT_SUCCESS : EXIT_FAILED;
}
