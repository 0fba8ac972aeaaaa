/*
 * Errors: small typed codes, and a message that the caller owns.
 *
 * A function that can fail returns 0 on success and a negative `enum err` otherwise. Where a person must be told
 * more than the code says, it also takes a `struct errmsg *` (which may be NULL) and fills it on failure only.
 * Library code never prints and never ends the process: commands do.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

enum err {
    ERR_OK = 0,
    ERR_INTERNAL = -1,     /* a bug of ours; nothing the caller did */
    ERR_NOMEM = -2,        /* allocation failed */
    ERR_IO = -3,           /* a system call failed; errno said why, the message repeats it */
    ERR_AGAIN = -4,        /* would block: try again when the descriptor is ready */
    ERR_EOF = -5,          /* the peer has ended the stream */
    ERR_LIMIT = -6,        /* a hard limit of ours was reached */
    ERR_PARSE = -7,        /* bytes that do not follow their grammar */
    ERR_AMBIGUOUS = -8,    /* bytes that two parsers could read differently: refused */
    ERR_INCOMPLETE = -9,   /* a valid beginning: more bytes are needed */
    ERR_DENIED = -10,      /* refused by policy, binding or permission */
    ERR_NOTFOUND = -11,    /* no such thing */
    ERR_EXISTS = -12,      /* it is there already */
    ERR_USAGE = -13,       /* the caller's arguments are off */
    ERR_UNSUPPORTED = -14, /* known, but not on this host or not yet */
    ERR_TIMEOUT = -15,     /* a time limit passed */
    ERR_CRYPTO = -16,      /* OpenSSL refused; the message carries its reason */
    ERR_PEER = -17,        /* another process of ours broke the protocol */
};

/* Behind the prototype of a function whose error, if nobody looks at it, lets something pass that should not: what
 * confines, checks, reads hostile bytes, writes what frames a message, or lends a secret. */
#define MUST_CHECK __attribute__((warn_unused_result))

#define ERRMSG_MAX 1024

/* A message for people: one line, or a few, without a final line break. Always NUL-terminated. */
struct errmsg {
    char text[ERRMSG_MAX];
};

/* A short English phrase for a code ("out of memory"). Never NULL. */
const char *err_text(int err);

/* Replaces the message. `msg` may be NULL. Too long a text is cut. Returns `err`, so that a caller can write
 * `return errmsg_set(msg, ERR_PARSE, "...")`. errno is kept. */
int errmsg_set(struct errmsg *msg, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same, and appends ": " and strerror(errno); of a limit that ulimit sets (EFBIG, EMFILE) it says which. */
int errmsg_errno(struct errmsg *msg, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "PREFIX: " before the message that is there. */
void errmsg_prefix(struct errmsg *msg, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
