#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/write.h"
#include "proxy/command/tool.h"

static int take_check(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct tool *)target)->check = true;
    return 0;
}

static const struct option_row rows[] = {
    {0, "check", NULL, take_check, "change nothing; name the files that would change"},
    TOOL_ROW_JSON,
    TOOL_ROW_HELP,
};
#define ROWS (sizeof rows / sizeof rows[0])

/* Puts a new file in the place of the old one, so that it is never half written. */
static bool replace(const char *path, struct slice text) {
    char real[PATH_MAX], temporary[PATH_MAX + 8];
    struct stat st;
    if (!realpath(path, real) || stat(real, &st) < 0)
        return false;
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", real);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = write_all(fd, text) == 0 && fchmod(fd, st.st_mode & 07777) == 0;
    good = close(fd) == 0 && good;
    if (good && rename(temporary, real) == 0)
        return true;
    unlink(temporary);
    return false;
}

/* Errors are the caller's to release: a file that can't be read has a message in `msg` instead. */
static int format_text(const char *path, struct buf *text, struct buf *out, struct policy_diags *diags,
                       struct errmsg *msg) {
    int r = tool_read_file(path, POLICY_FILE_MAX, text, msg);
    if (r < 0)
        return r;
    r = policy_format_text(path, buf_slice(text), out, diags);
    return r < 0 && r != ERR_PARSE ? errmsg_set(msg, r, "%s: %s", path, err_text(r)) : r;
}

/* What became of one file, as text: with --check the names of those that would change, and the new text of standard
 * input. */
static void tell_text(struct tool *t, const char *path, bool differs, struct buf *out,
                      const struct policy_diags *diags) {
    if (diags->n) {
        struct buf errors;
        buf_init(&errors, TOOL_OUTPUT_MAX);
        policy_diags_format(diags, log_colour(STDERR_FILENO), &errors);
        fwrite(buf_slice(&errors).p, 1, buf_len(&errors), stderr);
        buf_release(&errors);
    } else if (t->check && differs) {
        buf_printf(&t->out, "%s\n", path);
    } else if (!t->check && strcmp(path, "-") == 0) {
        buf_put(&t->out, buf_slice(out));
    }
}

static void tell_json(const struct tool *t, const char *path, bool differs, struct buf *out,
                      const struct policy_diags *diags, const struct errmsg *msg, struct json *j) {
    json_open_object(j);
    json_key(j, "file");
    json_cstring(j, path);
    json_key(j, "differs");
    json_bool(j, differs);
    if (!t->check && !msg->text[0] && diags->n == 0 && strcmp(path, "-") == 0) {
        json_key(j, "text");
        json_put_string(j, buf_slice(out));
    }
    json_key(j, "errors");
    if (msg->text[0]) {
        json_open_array(j);
        json_open_object(j);
        json_key(j, "severity");
        json_cstring(j, "error");
        json_key(j, "file");
        json_cstring(j, path);
        json_key(j, "message");
        json_cstring(j, msg->text);
        json_close(j);
        json_close(j);
    } else {
        tool_diags_json(diags, j);
    }
    json_close(j);
}

static int format_file(struct tool *t, const char *path, struct json *j) {
    struct buf text, out;
    struct errmsg msg = {""};
    struct policy_diags diags;
    policy_diags_init(&diags);
    buf_init(&out, 2 * POLICY_FILE_MAX);
    int r = format_text(path, &text, &out, &diags, &msg);
    bool differs = r == 0 && !slice_eq(buf_slice(&out), buf_slice(&text));
    if (differs && !t->check && strcmp(path, "-") != 0 && !replace(path, buf_slice(&out)))
        r = errmsg_set(&msg, ERR_IO, "%s can't be written: %s", path, strerror(errno));
    if (j)
        tell_json(t, path, differs, &out, &diags, &msg, j);
    else if (msg.text[0])
        log_error("policy fmt: %s", msg.text);
    else
        tell_text(t, path, differs, &out, &diags);
    policy_diags_release(&diags);
    buf_release(&text);
    buf_release(&out);
    return r < 0 ? TOOL_TROUBLE : t->check && differs ? EXIT_FINDINGS : EXIT_SUCCESS;
}

int command_policy_fmt(int argc, char **argv) {
    static struct tool t;
    struct json j;
    int first;
    int status = tool_begin(&t, "policy fmt",
                            "usage: exeat policy fmt [OPTION]... FILE...\n"
                            "\n"
                            "Puts each file into the usual layout, in its place ('-': standard input to "
                            "standard output). Words and\n"
                            "comments stay as they are.\n",
                            rows, ROWS, 1, argc, argv, &first);
    if (status >= 0)
        return status;
    status = EXIT_SUCCESS;
    if (t.json) {
        json_init(&j, &t.out);
        json_open_object(&j);
        json_key(&j, "files");
        json_open_array(&j);
    }
    for (int i = first; i < argc; i++) {
        int one = format_file(&t, argv[i], t.json ? &j : NULL);
        status = one > status ? one : status;
    }
    if (t.json) {
        json_close(&j);
        json_close(&j);
        buf_putc(&t.out, '\n');
    }
    return tool_end(&t, status);
}
