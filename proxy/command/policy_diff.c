#include <stdlib.h>

#include "base/log.h"
#include "proxy/command/tool.h"

static const struct option_row rows[] = {TOOL_ROW_SET, TOOL_ROW_JSON, TOOL_ROW_HELP};
#define ROWS (sizeof rows / sizeof rows[0])

int command_policy_diff(int argc, char **argv) {
    static struct tool t;
    int first;
    int status = tool_begin(&t, "policy diff",
                            "usage: exeat policy diff [OPTION]... OLD NEW\n"
                            "\n"
                            "Says what NEW permits that OLD does not, and the other way round, with an "
                            "example of each. It is worked\n"
                            "out on the rules; what could not be decided is said.\n",
                            rows, ROWS, 2, argc, argv, &first);
    if (status >= 0)
        return status;
    if (argc - first > 2) {
        log_error("policy diff: takes two files, got %d", argc - first);
        return TOOL_TROUBLE;
    }
    const char *names[] = {argv[first], argv[first + 1]};
    struct policy *from = tool_load(&t, &names[0], 1), *to = from ? tool_load(&t, &names[1], 1) : NULL;
    size_t findings = 0, unsure = 0;
    status = TOOL_TROUBLE;
    if (to) {
        int r = policy_diff(from, to, &t.print, &findings, &unsure);
        if (r < 0)
            log_error("policy diff: %s", err_text(r));
        else
            status = findings || unsure ? EXIT_FINDINGS : EXIT_SUCCESS;
    }
    policy_free(from);
    policy_free(to);
    return tool_end(&t, status);
}
