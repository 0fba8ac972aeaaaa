#include "proxy/codec/clienthello.h"

#define RECORD_HANDSHAKE 22
#define RECORD_MAX       16384
#define MESSAGE_HELLO    1
#define EXT_SERVER_NAME  0
#define EXT_ECH          0xfe0d
#define NAME_HOST        0

void clienthello_init(struct clienthello *c) {
    *c = (struct clienthello){.kind = CLIENTHELLO_NO_NAME};
    buf_init(&c->message, CLIENTHELLO_MAX + 4);
}

void clienthello_release(struct clienthello *c) {
    buf_release(&c->message);
}

static int hello_bad(struct clienthello *c, int err, const char *why) {
    c->why = why;
    return err;
}

/* ---- within the message ---- */

/* Takes n bytes off the front; false: there are not so many. */
static bool take(struct slice *s, size_t n, struct slice *out) {
    if (s->n < n)
        return false;
    *out = slice_sub(*s, 0, n);
    *s = slice_from(*s, n);
    return true;
}

static bool take_number(struct slice *s, size_t n, size_t *out) {
    struct slice bytes;
    if (!take(s, n, &bytes))
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out = *out << 8 | (unsigned char)bytes.p[i];
    return true;
}

/* A length of so many bytes, and what it counts. */
static bool take_vector(struct slice *s, size_t width, struct slice *out) {
    struct slice rest = *s;
    size_t n;
    if (!take_number(&rest, width, &n) || !take(&rest, n, out))
        return false;
    *s = rest;
    return true;
}

/* server_name: a list with one host_name, and nothing else. */
static enum clienthello_name read_name(struct slice ext, struct url_host *host) {
    struct slice list, name;
    size_t type;
    if (!take_vector(&ext, 2, &list) || ext.n || !take_number(&list, 1, &type) || type != NAME_HOST ||
        !take_vector(&list, 2, &name) || list.n || name.n == 0)
        return CLIENTHELLO_BAD_NAME;
    if (name.p[name.n - 1] == '.' || url_host_parse(name, host, NULL))
        return CLIENTHELLO_BAD_NAME;
    return host->kind == URL_HOST_NAME ? CLIENTHELLO_NAME : CLIENTHELLO_ADDRESS;
}

/* False: malformed, or one is there twice. */
static bool read_extensions(struct clienthello *c, struct slice list) {
    unsigned char seen[65536 / 8] = {0};
    while (list.n) {
        struct slice ext;
        size_t type;
        if (!take_number(&list, 2, &type) || !take_vector(&list, 2, &ext) || seen[type / 8] >> type % 8 & 1)
            return false;
        seen[type / 8] |= (unsigned char)(1u << type % 8);
        if (type == EXT_SERVER_NAME)
            c->kind = read_name(ext, &c->name);
        else if (type == EXT_ECH)
            c->ech = true;
    }
    return true;
}

static int read_message(struct clienthello *c) {
    struct slice m = slice_from(buf_slice(&c->message), 4), ignored, session, suites, compression, list;
    size_t version;
    if (!take_number(&m, 2, &version) || version >> 8 != 3)
        return hello_bad(c, ERR_PARSE, "the ClientHello is of no version of TLS");
    if (!take(&m, 32, &ignored) || !take_vector(&m, 1, &session) || session.n > 32 ||
        !take_vector(&m, 2, &suites) || suites.n == 0 || suites.n % 2 || !take_vector(&m, 1, &compression) ||
        compression.n == 0)
        return hello_bad(c, ERR_PARSE, "the ClientHello is malformed");
    if (m.n == 0)
        return 0; /* without extensions, as long ago */
    if (!take_vector(&m, 2, &list) || m.n || !read_extensions(c, list))
        return hello_bad(c, ERR_PARSE, "the ClientHello's extensions are malformed, or one is there twice");
    return 0;
}

/* ---- records ---- */

/* The whole of a record's head is there. */
static int record_begins(struct clienthello *c) {
    size_t n = (size_t)c->head[3] << 8 | c->head[4];
    if (c->head[0] != RECORD_HANDSHAKE || c->head[1] != 3 || c->head[2] > 4)
        return hello_bad(c, ERR_PARSE, "something else comes between the records of the ClientHello");
    if (n == 0 || n > RECORD_MAX)
        return hello_bad(c, ERR_PARSE, "a record of the ClientHello is empty, or too long");
    c->left = n;
    return 0;
}

/* The message's length with its head, 0: not known yet. */
static size_t message_length(const struct clienthello *c) {
    struct slice m = buf_slice(&c->message);
    size_t n = 0;
    if (m.n < 4)
        return 0;
    m = slice_from(m, 1);
    (void)take_number(&m, 3, &n);
    return n + 4;
}

/* More of the message has come. 0: it is whole. */
static int message_grew(struct clienthello *c) {
    size_t length = message_length(c), have = buf_len(&c->message);
    if (buf_slice(&c->message).p[0] != MESSAGE_HELLO)
        return hello_bad(c, ERR_PARSE, "the handshake does not begin with a ClientHello");
    if (length > CLIENTHELLO_MAX + 4)
        return hello_bad(c, ERR_LIMIT, "the ClientHello is longer than 64 KiB");
    if (length == 0 || have < length)
        return ERR_INCOMPLETE;
    if (have > length || c->left)
        return hello_bad(c, ERR_PARSE, "something follows the ClientHello in its record");
    return read_message(c);
}

int clienthello_feed(struct clienthello *c, struct slice bytes) {
    while (bytes.n) {
        if (c->wire == CLIENTHELLO_WIRE)
            return hello_bad(c, ERR_LIMIT, "the ClientHello comes in too many pieces");
        if (c->left == 0) {
            c->head[c->nhead++] = (unsigned char)bytes.p[0];
            bytes = slice_from(bytes, 1);
            c->wire++;
            int r = c->nhead == sizeof c->head ? record_begins(c) : 0;
            if (r)
                return r;
            continue;
        }
        size_t room = CLIENTHELLO_WIRE - c->wire;
        struct slice piece = slice_sub(bytes, 0, c->left < room ? c->left : room);
        int r = buf_put(&c->message, piece);
        if (r == ERR_LIMIT)
            return hello_bad(c, r, "the ClientHello is longer than 64 KiB");
        if (r)
            return hello_bad(c, r, "out of memory");
        bytes = slice_from(bytes, piece.n);
        c->wire += piece.n;
        c->left -= piece.n;
        if (c->left == 0)
            c->nhead = 0;
        r = message_grew(c);
        if (r != ERR_INCOMPLETE)
            return r;
    }
    return ERR_INCOMPLETE;
}
