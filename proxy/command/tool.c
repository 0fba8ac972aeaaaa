#include "proxy/command/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "proxy/process/sources.h"

int tool_take_json(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct tool *)target)->json = true;
    return 0;
}

int tool_take_help(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct tool *)target)->help = true;
    return 0;
}

int tool_take_set(void *target, char *value, struct errmsg *msg) {
    struct tool *t = target;
    if (t->nsets == POLICY_VARS_MAX)
        return errmsg_set(msg, ERR_LIMIT, "given more than %d times", POLICY_VARS_MAX);
    int r = policy_set_parse(value, &t->sets[t->nsets], msg);
    if (r == 0)
        t->nsets++;
    return r;
}

/* Options may stand among the arguments too. The arguments are moved to the end, from *first on. */
static int parse(const struct option_row *rows, size_t nrows, int argc, char **argv, struct tool *t,
                 int *first, struct errmsg *msg) {
    int n = 0, at = 0;
    char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
    int r = arguments ? 0 : ERR_NOMEM;
    while (r == 0) {
        int next = 0;
        r = options_parse(rows, nrows, argc - at, argv + at, t, &next, msg);
        at += next;
        if (r < 0 || at >= argc)
            break;
        bool rest = at > 0 && strcmp(argv[at - 1], "--") == 0;
        arguments[n++] = argv[at];
        for (; rest && at + 1 < argc; at++)
            arguments[n++] = argv[at + 1];
        if (rest)
            break;
    }
    *first = argc - n;
    for (int i = 0; r == 0 && i < n; i++)
        argv[*first + i] = arguments[i];
    free(arguments);
    return r;
}

int tool_begin(struct tool *t, const char *name, const char *text, const struct option_row *rows,
               size_t nrows, size_t least, int argc, char **argv, int *first) {
    struct errmsg msg;
    memset(t, 0, sizeof *t);
    if (parse(rows, nrows, argc, argv, t, first, &msg) < 0) {
        log_error("%s: %s; try 'exeat %s --help'", name, msg.text, name);
        return TOOL_TROUBLE;
    }
    if (t->help) {
        puts(text);
        options_print(rows, nrows, stdout);
        puts("\nExit status: 0 good, 1 findings, 2 wrong usage, or a file that can't be read or has errors.");
        return options_printed() ? EXIT_SUCCESS : TOOL_TROUBLE;
    }
    if ((size_t)(argc - *first) < least) {
        log_error("%s: an argument is missing; try 'exeat %s --help'", name, name);
        return TOOL_TROUBLE;
    }
    buf_init(&t->out, TOOL_OUTPUT_MAX);
    t->print = (struct policy_print){.format = t->json ? POLICY_JSON : POLICY_TEXT,
                                     .colour = !t->json && log_colour(STDOUT_FILENO),
                                     .out = &t->out};
    return -1;
}

int tool_end(struct tool *t, int status) {
    struct slice s = buf_slice(&t->out);
    bool good = !t->out.failed;
    if (good && s.n)
        fwrite(s.p, 1, s.n, stdout); /* what fails of it is told below */
    else if (!good)
        log_error("the result can't be printed: %s", err_text(ERR_LIMIT));
    good = options_printed() && good;
    buf_release(&t->out);
    return good ? status : TOOL_TROUBLE;
}

int tool_load_quietly(const struct tool *t, const char *const *files, size_t nfiles, struct policy **out,
                      struct policy_diags *diags) {
    struct sources sources;
    *out = NULL;
    int r = sources_init(&sources);
    if (r < 0)
        return r;
    struct policy_input in = {.files = files,
                              .nfiles = nfiles,
                              .sets = t->sets,
                              .nsets = t->nsets,
                              .read = sources_read,
                              .arg = &sources};
    r = policy_load(&in, out, diags);
    sources_release(&sources);
    return r;
}

void tool_diags_json(const struct policy_diags *d, struct json *j) {
    json_open_array(j);
    for (size_t i = 0; i < d->n; i++) {
        const struct policy_diag *e = &d->list[i];
        json_open_object(j);
        json_key(j, "severity");
        json_cstring(j, "error");
        json_key(j, "file");
        json_cstring(j, e->file);
        json_key(j, "line");
        json_u64(j, e->line);
        json_key(j, "column");
        json_u64(j, e->col);
        json_key(j, "message");
        json_cstring(j, e->message);
        if (e->expected) {
            json_key(j, "expected");
            json_cstring(j, e->expected);
        }
        if (e->hint) {
            json_key(j, "hint");
            json_cstring(j, e->hint);
        }
        json_close(j);
    }
    if (d->dropped) {
        json_open_object(j);
        json_key(j, "severity");
        json_cstring(j, "error");
        json_key(j, "message");
        json_cstring(j, "too many errors");
        json_key(j, "not_shown");
        json_u64(j, d->dropped);
        json_close(j);
    }
    json_close(j);
}

struct policy *tool_load(struct tool *t, const char *const *files, size_t nfiles) {
    struct policy *p;
    struct policy_diags diags;
    policy_diags_init(&diags);
    int r = tool_load_quietly(t, files, nfiles, &p, &diags);
    t->unproved = r == ERR_PARSE && diags.n + diags.dropped == diags.failed;
    if (r < 0 && r != ERR_PARSE)
        log_error("%s", err_text(r));
    if (r == ERR_PARSE && t->json) {
        struct json j;
        json_init(&j, &t->out);
        json_open_object(&j);
        json_key(&j, "errors");
        tool_diags_json(&diags, &j);
        json_close(&j);
        buf_putc(&t->out, '\n');
    } else if (r == ERR_PARSE) {
        struct buf text;
        buf_init(&text, TOOL_OUTPUT_MAX);
        policy_diags_format(&diags, log_colour(STDERR_FILENO), &text);
        fwrite(buf_slice(&text).p, 1, buf_len(&text), stderr);
        buf_release(&text);
    }
    policy_diags_release(&diags);
    return p;
}

int tool_read_file(const char *path, size_t limit, struct buf *out, struct errmsg *msg) {
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int r = 0;
    buf_init(out, limit);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "%s", path);
    for (;;) {
        char *room;
        r = buf_reserve(out, 16384 < limit - buf_len(out) ? 16384 : limit - buf_len(out) + 1, &room);
        if (r < 0) {
            errmsg_set(msg, r, "%s: %s", path, r == ERR_LIMIT ? "the file is too large" : err_text(r));
            break;
        }
        ssize_t n = read(fd, room, 16384 < limit - buf_len(out) ? 16384 : limit - buf_len(out));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            r = errmsg_errno(msg, ERR_IO, "%s", path);
        if (n <= 0)
            break;
        buf_commit(out, (size_t)n);
    }
    if (!standard)
        close(fd);
    return r;
}

/* --- requests ---------------------------------------------------------------------------------------------- */

void request_release(struct request *r) {
    buf_release(&r->path);
}

/* The path becomes that of an endpoint of the repository. */
static int git_path(struct request *r, const char *endpoint, struct errmsg *msg) {
    struct buf whole;
    struct slice repository = facts_repository(buf_slice(&r->path));
    buf_init(&whole, 1 << 16);
    buf_put(&whole, repository.n ? repository : SLICE("/"));
    buf_puts(&whole, endpoint);
    buf_release(&r->path);
    r->path = whole;
    r->f.path = buf_slice(&r->path);
    return whole.failed ? errmsg_set(msg, ERR_USAGE, "the URL is too long") : 0;
}

int request_url(struct request *r, enum facts_kind kind, struct slice method, struct slice url,
                struct errmsg *msg) {
    struct url_parts parts;
    memset(r, 0, sizeof *r);
    buf_init(&r->path, 1 << 16);
    if (url_split(url, &parts, msg) ||
        url_authority_parse(parts.authority, url_default_port(parts.scheme), &r->host, &r->f.port, msg) ||
        url_path_canonical(parts.path, &r->path, NULL, msg) || url_query_check(parts.query, msg))
        return ERR_USAGE;
    if (kind == FACTS_GIT_FETCH && git_path(r, ".git/git-upload-pack", msg))
        return ERR_USAGE;
    if (kind == FACTS_GIT_PUSH && git_path(r, ".git/git-receive-pack", msg))
        return ERR_USAGE;
    r->f.kind = kind;
    r->f.scheme = parts.scheme;
    r->f.host = url_host_slice(&r->host);
    r->f.host_is_address = r->host.kind != URL_HOST_NAME;
    r->f.path = buf_slice(&r->path);
    r->f.method = method;
    r->f.query = parts.query;
    return 0;
}

int request_lfs(struct request *r, enum facts_lfs operation, struct errmsg *msg) {
    r->f.lfs = operation;
    return git_path(r, operation == FACTS_LFS_LOCK ? ".git/info/lfs/locks" : ".git/info/lfs/objects/batch",
                    msg);
}
