/* From sources to secrets, and from secrets to the values of header fields. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "vault/internal.h"

/* A source may end in a line break, which is no part of the secret; one byte more tells that it is too long.
 * */
#define RAW_MAX (VAULT_VALUE_MAX + 3)

/* git's credential protocol writes some lines of its own. */
#define GIT_RAW_MAX (VAULT_VALUE_MAX + 4096)

/* --- sources -------------------------------------------------------------------------------------------- */

static int from_env(const struct credential *c, struct secret *out, struct errmsg *msg) {
    const char *value = getenv(c->argv[0]);
    if (!value)
        return errmsg_set(msg, ERR_NOTFOUND, "the variable %s is not set", c->argv[0]);
    int r = secret_set(out, slice_str(value));
    return r ? errmsg_set(msg, r, "the variable %s: %s", c->argv[0], err_text(r)) : 0;
}

static int from_file(const struct credential *c, struct secret *out, struct errmsg *msg) {
    struct stat st;
    int r = 0;
    int fd = open(c->argv[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "%s can't be opened", c->argv[0]);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        r = errmsg_set(msg, ERR_IO, "%s is no regular file", c->argv[0]);
    else if ((r = secret_reserve(out, RAW_MAX)))
        errmsg_set(msg, r, "%s", err_text(r));
    while (r == 0) {
        ssize_t n = out->n < RAW_MAX ? read(fd, out->bytes + out->n, RAW_MAX - out->n) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            r = errmsg_errno(msg, ERR_IO, "%s can't be read", c->argv[0]);
        if (n <= 0)
            break;
        out->n += (size_t)n;
    }
    close(fd);
    return r;
}

static int from_exec(const struct vault *v, const struct credential *c, unsigned ms, struct secret *out,
                     struct errmsg *msg) {
    char *argv[WORDS_MAX + 1] = {NULL};
    memcpy(argv, c->argv, c->nargv * sizeof *argv);
    return vault_exec(argv, v->folder, SLICE_NONE, ms, RAW_MAX, out, msg);
}

/* Replaces the helper's answer by the value of its line "password=". */
static int take_password(struct secret *answer, const char *program, struct errmsg *msg) {
    struct slice rest = secret_slice(answer), one, found = SLICE_NONE;
    struct secret password = {0};
    bool more = true;
    while (more) {
        more = slice_cut(rest, '\n', &one, &rest);
        if (slice_starts(one, SLICE("password=")))
            found = slice_from(one, strlen("password="));
    }
    if (!found.p)
        return errmsg_set(msg, ERR_PARSE, "'%s' gave no password", program);
    int r = secret_set(&password, found);
    secret_release(answer);
    *answer = password;
    return r ? errmsg_set(msg, r, "%s", err_text(r)) : 0;
}

static int from_git_credential(const struct vault *v, const struct credential *c, unsigned ms,
                               struct secret *out, struct errmsg *msg) {
    static char get[] = "get";
    char *argv[WORDS_MAX + 2] = {NULL};
    const struct scope *s = &c->scopes[0];
    struct buf ask;
    memcpy(argv, c->argv, c->nargv * sizeof *argv);
    argv[c->nargv] = get;
    buf_init(&ask, 1024);
    buf_printf(&ask, "protocol=%s\nhost=%s", url_scheme_name(s->scheme), s->host.text);
    if (s->port != url_default_port(s->scheme))
        buf_printf(&ask, ":%u", (unsigned)s->port);
    buf_puts(&ask, "\n\n");
    int r = ask.failed ? errmsg_set(msg, ERR_LIMIT, "the question to '%s' is too long", argv[0])
                       : vault_exec(argv, v->folder, buf_slice(&ask), ms, GIT_RAW_MAX, out, msg);
    buf_release(&ask);
    return r ? r : take_password(out, argv[0], msg);
}

static int read_source(const struct vault *v, const struct credential *c, unsigned ms, struct secret *out,
                       struct errmsg *msg) {
    switch (c->kind) {
    case VAULT_FROM_ENV: return from_env(c, out, msg);
    case VAULT_FROM_FILE: return from_file(c, out, msg);
    case VAULT_FROM_EXEC: return from_exec(v, c, ms, out, msg);
    case VAULT_FROM_GIT_CREDENTIAL: return from_git_credential(v, c, ms, out, msg);
    }
    return errmsg_set(msg, ERR_INTERNAL, "a source without a reader");
}

/* --- checks --------------------------------------------------------------------------------------------- */

static void trim_break(struct secret *s) {
    if (s->n && s->bytes[s->n - 1] == '\n')
        s->n--;
    else
        return;
    if (s->n && s->bytes[s->n - 1] == '\r')
        s->n--;
}

/* NULL if `s` may be a secret, else what is wrong with it, without a byte of it. */
static const char *check_secret(const struct secret *s) {
    if (s->n == 0)
        return "is empty";
    if (s->n > VAULT_VALUE_MAX)
        return "is too long";
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->bytes[i];
        if (c == '\n' || c == '\r')
            return "holds a line break";
        if (c < 0x20 || c == 0x7f)
            return "holds a control character";
    }
    return NULL;
}

/* The same for one form. */
static const char *check_form(const struct form *f, const struct secret *s) {
    if (f->kind == FORM_BASIC)
        return NULL; /* base64 carries anything */
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->bytes[i];
        if (c > 0x7e)
            return "holds a character that a header can't carry";
        if (c == ' ' && f->kind == FORM_BEARER)
            return "holds a blank, which no bearer token does";
        if (c == ' ' && (i == 0 || i == s->n - 1))
            return "begins or ends with a blank, which a header can't carry";
    }
    return NULL;
}

/* --- forms ---------------------------------------------------------------------------------------------- */

static int render_basic(struct form *f, const struct secret *s) {
    struct secret pair = {0};
    size_t user = strlen(f->user), before = strlen(f->before), n = user + 1 + s->n;
    int r = secret_reserve(&pair, n);
    if (r == 0)
        r = secret_reserve(&f->value, before + base64_length(n));
    if (r == 0) {
        memcpy(pair.bytes, f->user, user);
        pair.bytes[user] = ':';
        memcpy(pair.bytes + user + 1, s->bytes, s->n);
        memcpy(f->value.bytes, f->before, before);
        f->value.n = before + base64_encode(slice_make(pair.bytes, n), f->value.bytes + before);
    }
    secret_release(&pair);
    return r;
}

static int render_form(struct form *f, const struct secret *s) {
    size_t before = strlen(f->before);
    if (f->kind == FORM_BASIC)
        return render_basic(f, s);
    int r = secret_reserve(&f->value, before + s->n);
    if (r == 0) {
        memcpy(f->value.bytes, f->before, before);
        memcpy(f->value.bytes + before, s->bytes, s->n);
        f->value.n = before + s->n;
    }
    return r;
}

static void resolve_one(struct vault *v, struct credential *c, unsigned ms, struct diags *d) {
    struct secret s = {0};
    struct errmsg msg;
    if (read_source(v, c, ms, &s, &msg)) {
        vault_diag_at(d, c->from, NULL, NULL, "credential '%s': %s", c->name, msg.text);
        goto out;
    }
    if (c->kind == VAULT_FROM_FILE || c->kind == VAULT_FROM_EXEC)
        trim_break(&s);
    const char *wrong = check_secret(&s);
    if (wrong) {
        vault_diag_at(d, c->from, NULL, NULL, "credential '%s': the secret %s", c->name, wrong);
        goto out;
    }
    for (size_t i = 0; i < c->nforms; i++) {
        struct form *f = &c->forms[i];
        if ((wrong = check_form(f, &s)))
            vault_diag_at(d, f->place, NULL, NULL, "credential '%s': the secret %s", c->name, wrong);
        else if (render_form(f, &s))
            vault_diag_at(d, f->place, NULL, NULL, "credential '%s': no memory for the secret", c->name);
    }
    int r = marks_add(v->marks, (uint32_t)(c - v->list), secret_slice(&s));
    c->unwatched = r == ERR_UNSUPPORTED;
    if (r && !c->unwatched)
        vault_diag_at(d, c->from, NULL, NULL, "credential '%s': what it is recognised by: %s", c->name,
                      err_text(r));
out:
    secret_release(&s);
}

int vault_resolve(struct vault *v, unsigned exec_ms, struct buf *diags) {
    struct diags d = {.vault = v, .out = diags};
    marks_free(v->marks);
    if (marks_new(&v->marks)) {
        buf_puts(diags, "exeat: credentials: no memory, or no random numbers\n");
        return ERR_DENIED;
    }
    for (size_t i = 0; i < v->n; i++)
        resolve_one(v, &v->list[i], exec_ms, &d);
    if (!vault_diag_end(&d))
        return 0;
    marks_free(v->marks);
    v->marks = NULL;
    for (size_t i = 0; i < v->n; i++)
        for (size_t j = 0; j < v->list[i].nforms; j++)
            secret_release(&v->list[i].forms[j].value);
    return ERR_DENIED;
}
