#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "proxy/command/commands.h"
#include "proxy/command/run.h"
#include "proxy/process/service.h"

static int print_help(const struct option_row *rows, size_t n) {
    puts(
        "usage: exeat serve [OPTION]...\n"
        "\n"
        "Serves many sandboxes with the same processes. Each is run by 'exeat run --service --policy FILE -- "
        "COMMAND',\nof the same user and with the same state directory, and takes little more than COMMAND "
        "does.\n");
    options_print(rows, n, stdout);
    puts("\n"
         "Exit status: 0 when it was told to end (SIGTERM, SIGINT, SIGHUP, SIGQUIT), which ends the\n"
         "sandboxes too; 125 if exeat itself fails.\n"
         "\n"
         "example: exeat serve --vault credentials --workers 4 --redis redis://127.0.0.1");
    return options_printed() ? EXIT_SUCCESS : EXIT_FAILED;
}

int command_serve(int argc, char **argv) {
    static struct run run; /* its lists are long */
    struct errmsg msg;
    size_t n;
    int first;
    const struct option_row *rows = serve_rows(&n);
    config_init(&run.config);
    run.config.kind = CONFIG_SERVE;
    if (options_parse(rows, n, argc, argv, &run, &first, &msg) < 0) {
        log_error("serve: %s; try 'exeat serve --help'", msg.text);
        return EXIT_BAD_USAGE;
    }
    if (run.help)
        return print_help(rows, n);
    if (first < argc) {
        log_error("serve: what is '%s'? Sandboxes are run by 'exeat run --service'", argv[first]);
        return EXIT_BAD_USAGE;
    }
    return service_run(&run.config);
}
