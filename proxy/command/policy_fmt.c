#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "proxy/command/tool.h"

static int take_check(void *target, char *value, struct errmsg *msg) {
    (void)value;
    (void)msg;
    ((struct tool *)target)->check = true;
    return 0;
}

static const struct option_row rows[] = {
    {0, "check", NULL, take_check, "change nothing; name the files that would change"},
    TOOL_ROW_HELP,
};
#define ROWS (sizeof rows / sizeof rows[0])

static bool write_all(int fd, struct slice s) {
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            s = slice_from(s, (size_t)n);
    }
    return true;
}

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
    bool good = write_all(fd, text) && fchmod(fd, st.st_mode & 07777) == 0;
    good = close(fd) == 0 && good;
    if (good && rename(temporary, real) == 0)
        return true;
    unlink(temporary);
    return false;
}

static int format_file(struct tool *t, const char *path) {
    struct buf text, out;
    struct errmsg msg;
    struct policy_diags diags;
    int status = TOOL_TROUBLE;
    bool standard = strcmp(path, "-") == 0;
    policy_diags_init(&diags);
    buf_init(&out, 2 * POLICY_FILE_MAX);
    int r = tool_read_file(path, POLICY_FILE_MAX, &text, &msg);
    if (r < 0) {
        log_error("policy fmt: %s", msg.text);
        goto out;
    }
    r = policy_format_text(path, buf_slice(&text), &out, &diags);
    if (r == ERR_PARSE) {
        struct buf errors;
        buf_init(&errors, TOOL_OUTPUT_MAX);
        policy_diags_format(&diags, log_colour(STDERR_FILENO), &errors);
        fwrite(buf_slice(&errors).p, 1, buf_len(&errors), stderr);
        buf_release(&errors);
    } else if (r < 0) {
        log_error("policy fmt: %s: %s", path, err_text(r));
    } else if (standard && !t->check) {
        buf_put(&t->out, buf_slice(&out));
        status = EXIT_SUCCESS;
    } else if (slice_eq(buf_slice(&out), buf_slice(&text))) {
        status = EXIT_SUCCESS;
    } else if (t->check) {
        buf_printf(&t->out, "%s\n", path);
        status = TOOL_FINDINGS;
    } else if (replace(path, buf_slice(&out))) {
        status = EXIT_SUCCESS;
    } else {
        log_error("policy fmt: %s can't be written: %s", path, strerror(errno));
    }
out:
    policy_diags_release(&diags);
    buf_release(&text);
    buf_release(&out);
    return status;
}

int command_policy_fmt(int argc, char **argv) {
    static struct tool t;
    int first;
    int status = tool_begin(&t, "policy fmt",
                            "usage: exeat policy fmt [--check] FILE...\n"
                            "\n"
                            "Puts each file into the usual layout, in its place ('-': standard input to "
                            "standard output). Words and\n"
                            "comments stay as they are.\n",
                            rows, ROWS, 1, argc, argv, &first);
    if (status >= 0)
        return status;
    status = EXIT_SUCCESS;
    for (int i = first; i < argc; i++) {
        int one = format_file(&t, argv[i]);
        status = one > status ? one : status;
    }
    return tool_end(&t, status);
}
