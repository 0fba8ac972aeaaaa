/*
 * `exeat learn` is `exeat run` with a log of its own, from which a policy is written when the command has ended.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/write.h"
#include "netns/sandbox.h"
#include "policy/learn.h"
#include "proxy/command/decisions.h"
#include "proxy/command/run.h"
#include "proxy/process/supervisor.h"

#define USUAL_MAX  64
#define LOG_MAX    (1u << 30)
#define POLICY_MAX (16u << 20)

struct learn {
    struct run run; /* first: its rows fill it in */
    bool allow_all;
    const char *output;
    const char *usual[USUAL_MAX];
    size_t nusual;
    struct policy *known[USUAL_MAX]; /* ready-made ones, and those of --under */
    size_t nknown;
    char folder[PATH_MAX], policy[PATH_MAX + 16], log[PATH_MAX + 16];
    struct learner *learner;
    /* verdicts that wait for the size of their body: the outcome tells it */
    struct waiting {
        char id[40];
        uint64_t sent;
    } * sizes;
    size_t nsizes, cap;
};

static int take_allow_all(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct learn *)target)->allow_all = true;
    return 0;
}

static int take_under(void *target, char *value, struct errmsg *msg) {
    struct config_list *list = &((struct learn *)target)->run.config.sandbox.policies;
    if (!*value)
        return errmsg_set(msg, ERR_USAGE, "the value is empty");
    if (list->n == CONFIG_LIST_MAX)
        return errmsg_set(msg, ERR_LIMIT, "given more than %d times", CONFIG_LIST_MAX);
    list->list[list->n++] = value;
    return 0;
}

static int take_output(void *target, char *value, struct errmsg *msg) {
    if (!*value)
        return errmsg_set(msg, ERR_USAGE, "the value is empty");
    ((struct learn *)target)->output = value;
    return 0;
}

static int take_usual(void *target, char *value, struct errmsg *msg) {
    struct learn *l = target;
    if (!*value || l->nusual == USUAL_MAX)
        return errmsg_set(msg, ERR_USAGE, "HOST or *.HOST, at most %d times", USUAL_MAX);
    l->usual[l->nusual++] = value;
    return 0;
}

static int refuse_policy(void *target, char *value, struct errmsg *msg) {
    (void)target;
    (void)value;
    return errmsg_set(msg, ERR_USAGE, "learn has --under FILE, and --allow-all");
}

static int refuse_log(void *target, char *value, struct errmsg *msg) {
    (void)target;
    (void)value;
    return errmsg_set(msg, ERR_USAGE, "the decisions are in no log; --output FILE is for the policy");
}

static const struct option_row own_rows[] = {
    {0, "allow-all", NULL, take_allow_all,
     "permit everything while the command runs. Only for a command that you would run without exeat"},
    {0, "under", "FILE", take_under, "permit what this policy permits; may be repeated"},
    {'o', "output", "FILE", take_output, "where the policy is written to (default: standard output)"},
    {0, "usual", "HOST", take_usual,
     "a host, or *.HOST, that the command is expected to speak to; may be repeated.\nOthers than these, "
     "those of "
     "--under and those of the ready-made policies stand commented out"},
    /* run's, which would be taken for the beginning of another */
    {'p', "policy", "FILE", refuse_policy, NULL},
    {0, "log", "FILE", refuse_log, NULL},
};

/* The rows of run, but for those that learn has its own way with. */
static size_t make_rows(struct option_row rows[OPTIONS_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof own_rows / sizeof *own_rows; i++)
        rows[n++] = own_rows[i];
    for (size_t i = 0; i < run_nrows && n < OPTIONS_MAX; i++)
        if (strcmp(run_rows[i].name, "policy") != 0 && strcmp(run_rows[i].name, "log") != 0 &&
            strcmp(run_rows[i].name, "service") != 0) /* the log is the service's */
            rows[n++] = run_rows[i];
    return n;
}

static int print_help(const struct option_row *rows, size_t n) {
    puts(
        "usage: exeat learn --allow-all | --under FILE [OPTION]... [--] COMMAND [ARG...]\n"
        "\n"
        "Runs COMMAND as 'exeat run' does, and writes the smallest policy that permits what it did. What a "
        "careful "
        "person\nwould not permit stands in it commented out, with the reason. Read it before you use it.\n");
    options_print(rows, n, stdout);
    puts("\nExit status: as that of 'exeat run'.");
    return options_printed() ? EXIT_SUCCESS : EXIT_FAILED;
}

/* --- the run ----------------------------------------------------------------------------------------------- */

/* Every request: encoded slashes included, which no wildcard takes, and whatever a name leads to. What rules name one by one
 * (options of a push, what else a fetch brings) is named. */
static const char everything[] =
    "allow * https://*:* to private\nallow * http://*:* to private\n"
    "allow * https://*:*~.*%2F.* to private\nallow * http://*:*~.*%2F.* to private\n"
    "allow * https://*:*/**%2f** to private\nallow * http://*:*/**%2f** to private\n"
    "allow fetch https://*:* also archive bundle-uri packfile-uris any-object to private\n"
    "allow fetch http://*:* also archive bundle-uri packfile-uris any-object to private\n"
    "allow push https://*:* refs/** create update delete force options ** to private\n"
    "allow push http://*:* refs/** create update delete force options ** to private\n";

static bool write_file(const char *path, int flags, struct slice text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    bool good = fd >= 0 && write_all(fd, text) == 0;
    return fd >= 0 && close(fd) == 0 && good;
}

/* Addresses that --usual names: no wildcard takes one. */
static void put_addresses(const struct learn *l, struct buf *out) {
    for (size_t i = 0; i < l->nusual; i++) {
        struct url_host host;
        uint16_t port;
        if (url_authority_parse(slice_str(l->usual[i]), 443, &host, &port, NULL) ||
            host.kind == URL_HOST_NAME)
            continue;
        for (unsigned scheme = 0; scheme < 2; scheme++) {
            static const char *const does[] = {"*", "fetch", "push"};
            for (size_t k = 0; k < 3; k++)
                buf_printf(out, "allow %s %s://%s:*%s\n", does[k], scheme ? "https" : "http", l->usual[i],
                           k == 2 ? " refs/** create update delete force options **" : "");
        }
    }
}

/* A folder for the log, and for the policy of --allow-all. */
static bool make_folder(struct learn *l) {
    const char *tmp = getenv("TMPDIR");
    snprintf(l->folder, sizeof l->folder, "%s/exeat-learn.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(l->folder)) {
        l->folder[0] = 0;
        return false;
    }
    snprintf(l->policy, sizeof l->policy, "%s/everything.policy", l->folder);
    snprintf(l->log, sizeof l->log, "%s/decisions.jsonl", l->folder);
    l->run.config.log = l->log;
    if (!l->allow_all)
        return true;
    struct config_list *list = &l->run.config.sandbox.policies;
    list->list[list->n++] = l->policy;
    struct buf text;
    buf_init(&text, POLICY_FILE_MAX);
    buf_puts(&text, everything);
    put_addresses(l, &text);
    bool good = !text.failed && write_file(l->policy, O_EXCL, buf_slice(&text));
    buf_release(&text);
    return good;
}

/* Can the policy be written where it is to be? That is found out before the command runs, and nothing is changed by it. */
static bool check_output(const char *path) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return true; /* a pipe, whose reader would see its end */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && (fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) >= 0)
        unlink(path);
    if (fd < 0)
        return errno == EEXIST; /* a symbolic link to what is to be made */
    close(fd);
    return true;
}

static void remove_folder(struct learn *l) {
    if (!l->folder[0])
        return;
    unlink(l->policy);
    unlink(l->log);
    rmdir(l->folder);
}

/* --- what is usual ----------------------------------------------------------------------------------------- */

static void know(struct learn *l, struct tool *t, const char *path) {
    struct policy_diags diags;
    if (l->nknown == USUAL_MAX)
        return;
    policy_diags_init(&diags);
    if (tool_load_quietly(t, &path, 1, &l->known[l->nknown], &diags) == 0)
        l->nknown++;
    policy_diags_release(&diags);
}

/* The policies of a folder. Those that need values are known for what they include elsewhere. */
static void know_folder(struct learn *l, struct slice folder) {
    static struct tool none;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s", SLICE_ARG(folder));
    DIR *d = opendir(path);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        if (slice_ends(slice_str(e->d_name), SLICE(".policy"))) {
            snprintf(path, sizeof path, "%.*s/%s", SLICE_ARG(folder), e->d_name);
            know(l, &none, path);
        }
    closedir(d);
}

static void know_all(struct learn *l) {
    static struct tool given;
    const struct config_sandbox *s = &l->run.config.sandbox;
    struct slice rest = slice_str(getenv("EXEAT_POLICY_PATH")), one;
    memcpy(given.sets, s->sets, s->nsets * sizeof *s->sets);
    given.nsets = s->nsets;
    for (size_t i = 0; i < s->policies.n; i++)
        if (s->policies.list[i] != l->policy)
            know(l, &given, s->policies.list[i]);
    for (bool more = rest.n > 0; more;) {
        more = slice_cut(rest, ':', &one, &rest);
        if (one.n)
            know_folder(l, one);
    }
    know_folder(l, slice_str(EXEAT_POLICYDIR));
}

static bool usual(void *arg, enum url_scheme scheme, struct slice host) {
    const struct learn *l = arg;
    for (size_t i = 0; i < l->nusual; i++) {
        struct slice u = slice_str(l->usual[i]);
        if (slice_caseeq(u, host) ||
            (slice_starts(u, SLICE("*.")) && host.n >= u.n && slice_ends(host, slice_from(u, 1))))
            return true;
    }
    for (size_t i = 0; i < l->nknown; i++) {
        struct facts f = {.kind = FACTS_HTTP,
                          .scheme = scheme,
                          .host = host,
                          .port = url_default_port(scheme),
                          .method = SLICE("GET"),
                          .path = SLICE("/")};
        struct verdict v;
        policy_judge(l->known[i], &f, &v);
        if (v.reason != REASON_HOST && v.reason != REASON_SCHEME && v.reason != REASON_NO_RULES)
            return true;
    }
    return false;
}

/* --- the policy -------------------------------------------------------------------------------------------- */

/* Outcomes are read first, in a pass of their own, since they come behind their verdicts. */
static int outcome(void *arg, const char *id, json_t *json) {
    struct learn *l = arg;
    json_int_t sent = json_integer_value(json_object_get(json, "sent"));
    if (sent <= 0 || strlen(id) >= sizeof l->sizes->id)
        return 0;
    struct waiting *sizes = array_room(l->sizes, l->nsizes, &l->cap, sizeof *sizes);
    if (!sizes)
        return ERR_NOMEM;
    l->sizes = sizes;
    struct waiting *w = &l->sizes[l->nsizes++];
    snprintf(w->id, sizeof w->id, "%s", id);
    w->sent = (uint64_t)sent;
    return 0;
}

static int pass_over(void *arg, struct decision_line *d) {
    (void)arg;
    (void)d;
    return 0;
}

static int compare_sizes(const void *a, const void *b) {
    return strcmp(((const struct waiting *)a)->id, ((const struct waiting *)b)->id);
}

static int verdict(void *arg, struct decision_line *d) {
    struct learn *l = arg;
    struct waiting key = {.sent = 0};
    snprintf(key.id, sizeof key.id, "%s", d->id);
    const struct waiting *w =
        l->nsizes ? bsearch(&key, l->sizes, l->nsizes, sizeof key, compare_sizes) : NULL;
    return learner_add(l->learner, &d->request.f, slice_str(d->credential), w ? w->sent : 0, d->denied,
                       slice_str(d->reason));
}

static int read_log(struct learn *l, struct slice text) {
    struct decisions sizes = {.verdict = pass_over, .outcome = outcome, .arg = l};
    struct decisions all = {.verdict = verdict, .arg = l};
    int r = decisions_read(&sizes, text);
    if (l->nsizes)
        qsort(l->sizes, l->nsizes, sizeof *l->sizes, compare_sizes);
    return r < 0 ? r : decisions_read(&all, text);
}

static bool write_policy(struct learn *l) {
    struct buf log, out;
    struct errmsg msg = {""};
    buf_init(&out, POLICY_MAX);
    int r = tool_read_file(l->log, LOG_MAX, &log, &msg);
    l->learner = learner_new();
    if (r == 0 && !l->learner)
        r = ERR_NOMEM;
    if (r == 0)
        r = read_log(l, buf_slice(&log));
    buf_puts(&out, "# What this was learned from:");
    for (char **a = l->run.config.sandbox.argv; *a; a++) {
        buf_putc(&out, ' ');
        for (const char *c = *a; *c; c++)
            buf_putc(&out, (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c);
    }
    buf_putc(&out, '\n');
    know_all(l);
    if (r == 0)
        r = learner_write(l->learner, usual, l, &out);
    bool good = r == 0;
    if (!good)
        log_error("learn: the policy can't be written: %s", msg.text[0] ? msg.text : err_text(r));
    else if (l->output && !(good = write_file(l->output, O_TRUNC, buf_slice(&out))))
        log_error("learn: %s can't be written: %s", l->output, strerror(errno));
    else if (!l->output) {
        fwrite(buf_slice(&out).p, 1, buf_len(&out), stdout); /* what fails of it is told by the next line */
        good = options_printed();
    }
    for (size_t i = 0; i < l->nknown; i++)
        policy_free(l->known[i]);
    learner_free(l->learner);
    free(l->sizes);
    buf_release(&log);
    buf_release(&out);
    return good;
}

int command_learn(int argc, char **argv) {
    static struct learn l; /* its lists are long */
    struct option_row rows[OPTIONS_MAX];
    struct errmsg msg;
    struct sandbox_inherit inherit;
    size_t nrows = make_rows(rows);
    int first;
    sandbox_inherit_take(&inherit);
    config_init(&l.run.config);
    if (options_parse(rows, nrows, argc, argv, &l, &first, &msg) < 0) {
        log_error("learn: %s; try 'exeat learn --help'", msg.text);
        return EXIT_BAD_USAGE;
    }
    if (l.run.help)
        return print_help(rows, nrows);
    if (first >= argc || l.allow_all == (l.run.config.sandbox.policies.n > 0)) {
        log_error("learn: %s; try 'exeat learn --help'",
                  first >= argc ? "no command given"
                                : "say what is permitted meanwhile: --allow-all, or --under FILE");
        return EXIT_BAD_USAGE;
    }
    l.run.config.sandbox.argv = argv + first;
    if (!l.run.config.sandbox.name[0])
        config_make_name(&l.run.config.sandbox);
    if (l.output && !check_output(l.output)) {
        log_error("learn: %s can't be written: %s", l.output, strerror(errno));
        return EXIT_FAILED;
    }
    if (!make_folder(&l)) {
        log_error("learn: a folder for the log can't be made: %s", strerror(errno));
        remove_folder(&l);
        return EXIT_FAILED;
    }
    int status = supervisor_run(&l.run.config, &inherit);
    bool begun = status != EXIT_FAILED || access(l.log, F_OK) == 0; /* if not, why has been told */
    if (begun && !write_policy(&l))
        status = EXIT_FAILED;
    remove_folder(&l);
    return status;
}
