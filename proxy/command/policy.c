#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "proxy/command/commands.h"
#include "proxy/command/options.h"

static const struct command tools[] = {
    {"check", command_policy_check, "errors, and what looks wrong though it loads"},
    {"test", command_policy_test, "prove the `expect` lines, and *.policy-test files"},
    {"explain", command_policy_explain, "the verdict on one request, and all about it"},
    {"diff", command_policy_diff, "what a changed policy permits that it did not, and what no longer"},
    {"replay", command_policy_replay, "judge recorded decisions by another policy"},
    {"fmt", command_policy_fmt, "put a file into the usual layout"},
    {0},
};

static void help(FILE *out) {
    fputs("usage: exeat policy TOOL [ARG...]\n\n", out);
    for (const struct command *c = tools; c->name; c++)
        fprintf(out, "  %-10s %s\n", c->name, c->help);
    fputs("\n'exeat policy TOOL --help' tells more; so does exeat-policy-tools(1). The language is in "
          "exeat-policy(5).\n",
          out);
}

int command_policy(int argc, char **argv) {
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        help(stdout);
        return options_printed() ? EXIT_SUCCESS : 2;
    }
    for (const struct command *c = tools; c->name; c++)
        if (strcmp(argv[1], c->name) == 0)
            return c->run(argc - 1, argv + 1);
    log_error("policy: unknown tool '%s'; try 'exeat policy --help'", argv[1]);
    return 2;
}
