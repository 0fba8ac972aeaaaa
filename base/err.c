#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *err_text(int err) {
    switch ((enum err)err) {
    case ERR_OK: return "no error";
    case ERR_INTERNAL: return "internal error";
    case ERR_NOMEM: return "out of memory";
    case ERR_IO: return "input or output failed";
    case ERR_AGAIN: return "would block";
    case ERR_EOF: return "end of stream";
    case ERR_LIMIT: return "limit reached";
    case ERR_PARSE: return "malformed";
    case ERR_AMBIGUOUS: return "ambiguous";
    case ERR_INCOMPLETE: return "incomplete";
    case ERR_DENIED: return "denied";
    case ERR_NOTFOUND: return "not found";
    case ERR_EXISTS: return "exists already";
    case ERR_USAGE: return "wrong usage";
    case ERR_UNSUPPORTED: return "not supported";
    case ERR_TIMEOUT: return "timed out";
    case ERR_CRYPTO: return "cryptographic operation failed";
    case ERR_PEER: return "protocol between processes broken";
    }
    return "unknown error";
}

int errmsg_set(struct errmsg *msg, int err, const char *format, ...) {
    if (msg) {
        int saved = errno;
        va_list ap;
        va_start(ap, format);
        vsnprintf(msg->text, sizeof msg->text, format, ap);
        va_end(ap);
        errno = saved;
    }
    return err;
}

/* What sets the limit that was met, if it is the shell's to set. */
static const char *limit_of(int error) {
    return error == EFBIG ? " (limit: ulimit -f)" : error == EMFILE ? " (limit: ulimit -n)" : "";
}

int errmsg_errno(struct errmsg *msg, int err, const char *format, ...) {
    if (msg) {
        int saved = errno;
        va_list ap;
        va_start(ap, format);
        int n = vsnprintf(msg->text, sizeof msg->text, format, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof msg->text)
            snprintf(msg->text + n, sizeof msg->text - (size_t)n, ": %s%s", strerror(saved), limit_of(saved));
        errno = saved;
    }
    return err;
}

void errmsg_prefix(struct errmsg *msg, const char *format, ...) {
    if (!msg)
        return;
    char old[sizeof msg->text];
    memcpy(old, msg->text, sizeof old);
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(msg->text, sizeof msg->text, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n + 3 > sizeof msg->text)
        return;
    size_t room = sizeof msg->text - (size_t)n - 3;
    size_t len = strnlen(old, room);
    memcpy(msg->text + n, ": ", 2);
    memcpy(msg->text + n + 2, old, len);
    msg->text[(size_t)n + 2 + len] = 0;
}
