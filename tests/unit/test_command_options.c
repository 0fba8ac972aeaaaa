/* The table of options: what is parsed, where parsing stops, and what a mistake is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/command/options.h"

struct seen {
    char values[256];
    bool flag;
};

static int take_value(void *target, char *value, struct errmsg *msg) {
    struct seen *seen = target;
    if (strcmp(value, "bad") == 0)
        return errmsg_set(msg, ERR_USAGE, "'bad' is not good");
    size_t n = strlen(seen->values);
    snprintf(seen->values + n, sizeof seen->values - n, "%s;", value);
    return 0;
}

static int take_flag(void *target, char *value, struct errmsg *msg) {
    (void)msg;
    assert_null(value);
    ((struct seen *)target)->flag = true;
    return 0;
}

static const struct option_row rows[] = {
    {'p', "policy", "FILE", take_value, "a file\nof two lines"},
    {0, "set", "NAME=VALUE", take_value, "a value"},
    {'q', "quiet", NULL, take_flag, "nothing"},
};
#define ROWS (sizeof rows / sizeof rows[0])

#define MAX_ARGS 16
static int parse(const char *line, struct seen *seen, int *first, struct errmsg *msg) {
    static char memory[512];
    char *argv[MAX_ARGS + 1];
    int argc = 0;
    snprintf(memory, sizeof memory, "run %s", line);
    for (char *p = memory; p && argc < MAX_ARGS;) {
        char *word = strsep(&p, " ");
        if (*word)
            argv[argc++] = word;
    }
    argv[argc] = NULL;
    *seen = (struct seen){.flag = false};
    return options_parse(rows, ROWS, argc, argv, seen, first, msg);
}

static void what_is_parsed(void **state) {
    (void)state;
    static const struct {
        const char *line, *values;
        bool flag;
        int first;
    } cases[] = {
        {"", "", false, 1},
        {"ls -l", "", false, 1},
        {"-p a -pb --policy c --policy=d", "a;b;c;d;", false, 7},
        {"--set x=1 -q cmd -q --policy z", "x=1;", true, 4},
        {"-q -- -p", "", true, 3},
        {"-- --", "", false, 2},
        {"-qp a", "a;", true, 3},
        {"--pol a", "a;", false, 3}, /* a beginning is enough, as everywhere */
        {"- x", "", false, 1},       /* a command named "-" */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct seen seen;
        struct errmsg msg;
        int first = -1;
        assert_int_equal(parse(cases[i].line, &seen, &first, &msg), 0);
        assert_string_equal(seen.values, cases[i].values);
        assert_int_equal(seen.flag, cases[i].flag);
        assert_int_equal(first, cases[i].first);
    }
}

static void what_a_mistake_is_told(void **state) {
    (void)state;
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"--policy", "option --policy needs a value: FILE"}, {"-q -p", "option -p needs a value: FILE"},
        {"--nonsense x", "unknown option --nonsense"},       {"-q -z x", "unknown option -z"},
        {"--quiet=yes", "option --quiet takes no value"},    {"--set bad", "--set: 'bad' is not good"},
        {"-p bad", "--policy: 'bad' is not good"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct seen seen;
        struct errmsg msg;
        int first;
        assert_int_equal(parse(cases[i].line, &seen, &first, &msg), ERR_USAGE);
        assert_string_equal(msg.text, cases[i].words);
    }
}

static void the_help_names_every_row(void **state) {
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    options_print(rows, ROWS, out);
    fclose(out);
    assert_non_null(strstr(text, "  -p, --policy FILE\n"));
    assert_non_null(strstr(text, "            of two lines\n"));
    assert_non_null(strstr(text, "      --set NAME=VALUE\n"));
    assert_non_null(strstr(text, "  -q, --quiet\n"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_parsed),
        cmocka_unit_test(what_a_mistake_is_told),
        cmocka_unit_test(the_help_names_every_row),
    };
    return cmocka_run_group_tests_name("command options", tests, NULL, NULL);
}
