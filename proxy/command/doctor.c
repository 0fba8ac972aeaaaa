#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "netns/doctor.h"
#include "proxy/command/commands.h"
#include "proxy/command/options.h"
#include "proxy/process/spawn.h"

struct doctor {
    bool json, help;
};

static int take_json(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct doctor *)target)->json = true;
    return 0;
}

static int take_help(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct doctor *)target)->help = true;
    return 0;
}

static const struct option_row rows[] = {
    {0, "json", NULL, take_json, "one JSON object, for programs"},
    {'h', "help", NULL, take_help, "this text"},
};
#define ROWS (sizeof rows / sizeof rows[0])

static const char *const severity_words[] = {
    [DOCTOR_OK] = "ok", [DOCTOR_NOTE] = "note", [DOCTOR_ERROR] = "error"};

/* Each line of a text, with an indent. */
static void print_lines(const char *label, const char *text) {
    for (const char *line = text; *line;) {
        const char *end = line;
        while (*end && *end != '\n')
            end++;
        printf("       %s%.*s\n", line == text ? label : "  ", (int)(end - line), line);
        line = *end ? end + 1 : end;
    }
}

static void print_text(const struct doctor_report *report) {
    for (size_t i = 0; i < report->n; i++) {
        const struct doctor_finding *f = &report->list[i];
        printf("%-5s  %s\n", severity_words[f->severity], f->what);
        print_lines("", f->why);
        print_lines("to do: ", f->todo);
    }
    if (report->errors)
        printf("\n%zu %s in the way: exeat run will not work here\n", report->errors,
               report->errors == 1 ? "thing stands" : "things stand");
    else
        puts("\nnothing stands in the way: exeat run works here");
}

static bool print_json(const struct doctor_report *report) {
    struct buf out;
    struct json j;
    buf_init(&out, 256 << 10);
    json_init(&j, &out);
    json_open_object(&j);
    json_key(&j, "ok");
    json_bool(&j, report->errors == 0);
    json_key(&j, "findings");
    json_open_array(&j);
    for (size_t i = 0; i < report->n; i++) {
        const struct doctor_finding *f = &report->list[i];
        json_open_object(&j);
        json_key(&j, "severity");
        json_cstring(&j, severity_words[f->severity]);
        json_key(&j, "what");
        json_cstring(&j, f->what);
        json_key(&j, "why");
        json_cstring(&j, f->why);
        json_key(&j, "todo");
        json_cstring(&j, f->todo);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    buf_putc(&out, '\n');
    bool good = !out.failed && fwrite(buf_slice(&out).p, 1, buf_len(&out), stdout) == buf_len(&out);
    buf_release(&out);
    return good;
}

/* Are the programs of exeat's roles there, and to be trusted? One finding for all; of several that are not it names the first. */
static void check_programs(struct doctor_report *report) {
    static const char *const parts[] = {"init", "keeper", "worker", "scribe"};
    if (report->n == DOCTOR_FINDINGS_MAX)
        return;
    struct doctor_finding *f = &report->list[report->n++];
    *f = (struct doctor_finding){.severity = DOCTOR_OK, .what = "programs of exeat's own"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && f->severity == DOCTOR_OK; i++) {
        char path[PATH_MAX];
        struct errmsg msg;
        int fd = spawn_open(parts[i], path, &msg);
        if (fd >= 0) {
            close(fd);
            continue;
        }
        f->severity = DOCTOR_ERROR;
        snprintf(f->why, sizeof f->why, "%s", msg.text);
        report->errors++;
    }
}

int command_doctor(int argc, char **argv) {
    struct doctor options = {false, false};
    struct errmsg msg;
    int first;
    if (options_parse(rows, ROWS, argc, argv, &options, &first, &msg) < 0) {
        log_error("doctor: %s; try 'exeat doctor --help'", msg.text);
        return EXIT_BAD_USAGE;
    }
    if (options.help) {
        puts("usage: exeat doctor [--json]\n"
             "\n"
             "Says what on this host stands in the way of 'exeat run', and what to do about it. Changes "
             "nothing.\n");
        options_print(rows, ROWS, stdout);
        puts("\nExit status: 0 if nothing stands in the way, 1 if something does.");
        return options_printed() ? EXIT_SUCCESS : EXIT_FAILED;
    }
    if (first < argc) {
        log_error("doctor: takes no argument, got '%s'", argv[first]);
        return EXIT_BAD_USAGE;
    }
    static struct doctor_report report;
    doctor_check(&report);
    check_programs(&report);
    bool good = options.json ? print_json(&report) : (print_text(&report), true);
    if (!options_printed() || !good)
        return EXIT_FAILED;
    return report.errors ? EXIT_FINDINGS : EXIT_SUCCESS;
}
