#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *log_role;
static enum log_level log_threshold = LOG_LEVEL_WARN;

void log_setup(const char *role, enum log_level level) {
    log_role = role;
    log_threshold = level;
}

enum log_level log_level(void) {
    return log_threshold;
}

/* One write(2) a line, so that lines of several processes never mix. */
void log_write(enum log_level level, const char *format, ...) {
    if (level > log_threshold)
        return;
    int saved = errno;
    char text[2048];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);

    char line[sizeof text * 4 + 64];
    size_t n = (size_t)snprintf(line, 64, "exeat%s%s: ", log_role ? " " : "", log_role ? log_role : "");
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if ((c < 0x20 && c != '\n') || c == 0x7f)
            n += (size_t)snprintf(line + n, 5, "\\x%02x", c);
        else
            line[n++] = *p;
    }
    line[n++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
    errno = saved;
}

bool log_colour(int fd) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}
