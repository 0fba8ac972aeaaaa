#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "netns/sandbox.h"
#include "proxy/command/commands.h"
#include "proxy/command/options.h"
#include "proxy/command/run.h"
#include "proxy/process/supervisor.h"

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
    if (run.config.kind == CONFIG_JOIN && run_is_for_service(&run, &msg)) {
        log_error("run: %s; try 'exeat run --help'", msg.text);
        return EXIT_BAD_USAGE;
    }
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
