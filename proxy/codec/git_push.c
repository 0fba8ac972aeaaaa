/*
 * The command section of a push, walked packet by packet (gitprotocol-pack, gitprotocol-http; receive-pack's own
 * reading of them where they are silent).
 *
 * receive-pack is lenient in places: capabilities behind any command, commands beside a certificate, any special
 * packet for the end. Here each of these is refused: what two servers could read differently must not pass, and no
 * client sends it.
 */
#include "proxy/codec/git.h"

#include <stdlib.h>

_Static_assert(GIT_REF_MAX == 1024, "as it is said in a refusal");

enum {
    PUSH_LIST,           /* shallow lines, then commands or a certificate, up to the flush */
    PUSH_CERT_VERSION,   /* the certificate's first line */
    PUSH_CERT_HEADER,    /* pusher, nonce ... up to the empty line */
    PUSH_CERT_COMMANDS,  /* up to the signature */
    PUSH_CERT_SIGNATURE, /* up to push-cert-end */
    PUSH_CERT_END,       /* only the flush may follow */
    PUSH_OPTIONS,        /* the push options' own section */
    PUSH_DONE,
};

#define OPTIONS_MAX   1000
#define COMMANDS_ROOM 16

void git_push_init(struct git_push *push) {
    *push = (struct git_push){.state = PUSH_LIST};
    pkt_reader_init(&push->reader);
    buf_init(&push->arena, GIT_SECTION_MAX);
}

void git_push_release(struct git_push *push) {
    pkt_reader_release(&push->reader);
    buf_release(&push->arena);
    free(push->commands);
    free(push->options);
    push->commands = NULL;
    push->options = NULL;
    push->ncommands = push->room = 0;
    push->noptions = push->options_room = 0;
}

static int refuse(struct git_push *push, int err, const char *text) {
    return errmsg_set(&push->error, err, "%s", text);
}

/* ---- ids and capabilities ---- */

static bool is_zero(struct slice id) {
    for (size_t i = 0; i < id.n; i++)
        if (id.p[i] != '0')
            return false;
    return true;
}

/* Every id of a push has the length of the first, and that of the object format named. */
static int check_id(struct git_push *push, struct slice id) {
    if (!git_id_valid(id))
        return refuse(push, ERR_PARSE, "a malformed object id in the push's command list");
    if (push->caps.id_digits == 0)
        push->caps.id_digits = (int)id.n;
    if (push->caps.id_digits != (int)id.n)
        return refuse(push, ERR_AMBIGUOUS, "object ids of another length than the push's object format has");
    return 0;
}

static int set_format(struct git_push *push, struct slice format) {
    int digits = slice_eq(format, SLICE("sha1")) ? 40 : slice_eq(format, SLICE("sha256")) ? 64 : 0;
    if (digits == 0)
        return refuse(push, ERR_UNSUPPORTED, "a push in an unknown object format");
    if (push->caps.id_digits && push->caps.id_digits != digits)
        return refuse(push, ERR_AMBIGUOUS, "object ids of another length than the push's object format has");
    push->caps.id_digits = digits;
    return 0;
}

static void set_cap(struct git_caps *caps, struct slice name) {
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"report-status", &caps->report_status}, {"report-status-v2", &caps->report_status_v2},
        {"side-band-64k", &caps->side_band_64k}, {"atomic", &caps->atomic},
        {"push-options", &caps->push_options},   {"quiet", &caps->quiet},
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (slice_eq(name, slice_str(flags[i].name)))
            *flags[i].flag = true;
}

/* What stands behind the NUL of the first command. git takes "name=value" for the capability "name" too. */
static int read_caps(struct git_push *push, struct slice list) {
    bool format = false;
    for (size_t i = 0; i < list.n; i++)
        if ((unsigned char)list.p[i] < 0x20 || list.p[i] == 0x7f)
            return refuse(push, ERR_PARSE, "a control character in the push's capabilities");
    while (list.n) {
        struct slice word, name, value;
        slice_cut(list, ' ', &word, &list);
        slice_cut(word, '=', &name, &value);
        set_cap(&push->caps, name);
        if (!slice_eq(name, SLICE("object-format")))
            continue;
        if (format)
            return refuse(push, ERR_AMBIGUOUS, "a push that names its object format twice");
        format = true;
        int r = set_format(push, value);
        if (r)
            return r;
    }
    push->caps_seen = true;
    return format ? 0 : set_format(push, SLICE("sha1"));
}

/* ---- commands ---- */

static int keep_command(struct git_push *push, enum git_op op, struct slice ids[2], struct slice ref) {
    if (push->ncommands == GIT_COMMANDS_MAX)
        return refuse(push, ERR_LIMIT, "too many commands in one push");
    if (push->ncommands == push->room) {
        size_t room = push->room ? push->room * 2 : COMMANDS_ROOM;
        struct git_command_at *more = reallocarray(push->commands, room, sizeof(*more));
        if (!more)
            return refuse(push, ERR_NOMEM, "out of memory");
        push->commands = more;
        push->room = room;
    }
    size_t at = buf_len(&push->arena);
    if (buf_put(&push->arena, ids[0]) || buf_put(&push->arena, ids[1]) || buf_put(&push->arena, ref))
        return refuse(push, ERR_LIMIT, "the push's command list is too long");
    push->commands[push->ncommands++] = (struct git_command_at){.ids = (uint32_t)at,
                                                                .ref = (uint32_t)(at + ids[0].n * 2),
                                                                .ref_len = (uint16_t)ref.n,
                                                                .op = (uint8_t)op};
    push->pack_follows = push->pack_follows || op != GIT_DELETE;
    return 0;
}

/* OLD SP NEW SP REF */
static int read_command(struct git_push *push, struct slice line) {
    struct slice ids[2], rest, ref;
    if (!slice_cut(line, ' ', &ids[0], &rest) || !slice_cut(rest, ' ', &ids[1], &ref))
        return refuse(push, ERR_PARSE, "a malformed command in the push's command list");
    for (int i = 0; i < 2; i++) {
        int r = check_id(push, ids[i]);
        if (r)
            return r;
    }
    bool from_zero = is_zero(ids[0]), to_zero = is_zero(ids[1]);
    if (from_zero && to_zero)
        return refuse(push, ERR_PARSE, "a command that neither creates nor deletes its ref");
    enum git_op op = from_zero ? GIT_CREATE : to_zero ? GIT_DELETE : GIT_UPDATE;
    if (!git_ref_valid(ref, op == GIT_DELETE))
        return refuse(push, ERR_PARSE,
                      ref.n > GIT_REF_MAX ? "a ref's name of more than 1024 bytes"
                                          : "a malformed name of a ref in the push's command list");
    return keep_command(push, op, ids, ref);
}

static int read_shallow(struct git_push *push, struct slice id) {
    if (push->ncommands || push->caps_seen)
        return refuse(push, ERR_AMBIGUOUS, "a shallow line behind a command");
    push->nshallow++;
    return check_id(push, id);
}

/* A line of the ordinary list, without its LF. */
static int read_list(struct git_push *push, struct slice line) {
    struct slice text, caps;
    if (slice_starts(line, SLICE("shallow ")))
        return read_shallow(push, slice_from(line, 8));
    if (slice_cut(line, 0, &text, &caps)) {
        if (push->ncommands || push->caps_seen)
            return refuse(push, ERR_AMBIGUOUS, "capabilities behind another than the first command");
        int r = read_caps(push, caps);
        if (r)
            return r;
    }
    if (!slice_eq(text, SLICE("push-cert")))
        return read_command(push, text);
    if (push->ncommands)
        return refuse(push, ERR_AMBIGUOUS, "a push certificate beside commands");
    push->is_signed = true;
    push->state = PUSH_CERT_VERSION;
    return 0;
}

/* ---- certificates ---- */

/* git looks for the last line that begins like one of these, and takes all before it for commands. */
static bool begins_signature(struct slice line) {
    return slice_starts(line, SLICE("-----BEGIN PGP SIGNATURE-----")) ||
           slice_starts(line, SLICE("-----BEGIN PGP MESSAGE-----")) ||
           slice_starts(line, SLICE("-----BEGIN SIGNED MESSAGE-----")) ||
           slice_starts(line, SLICE("-----BEGIN SSH SIGNATURE-----"));
}

/* A line of the certificate, with its LF: one line in each packet, as git writes them. */
static int read_cert(struct git_push *push, struct slice raw) {
    struct slice line = slice_sub(raw, 0, raw.n ? raw.n - 1 : 0);
    if (!slice_ends(raw, SLICE("\n")) || slice_find(line, '\n') >= 0 || slice_find(line, 0) >= 0)
        return refuse(push, ERR_PARSE, "a malformed line in the push certificate");
    bool end = slice_eq(line, SLICE("push-cert-end"));
    switch (push->state) {
    case PUSH_CERT_VERSION:
        push->state = PUSH_CERT_HEADER;
        return slice_eq(line, SLICE("certificate version 0.1"))
                   ? 0
                   : refuse(push, ERR_UNSUPPORTED, "a push certificate of an unknown version");
    case PUSH_CERT_HEADER:
        if (line.n == 0)
            push->state = PUSH_CERT_COMMANDS;
        return end ? refuse(push, ERR_PARSE, "a push certificate without commands") : 0;
    case PUSH_CERT_COMMANDS:
        if (!begins_signature(line))
            return end ? refuse(push, ERR_PARSE, "a push certificate without a signature")
                       : read_command(push, line);
        push->state = PUSH_CERT_SIGNATURE;
        return push->ncommands ? 0 : refuse(push, ERR_PARSE, "a push certificate without commands");
    case PUSH_CERT_SIGNATURE:
        if (end)
            push->state = PUSH_CERT_END;
        return begins_signature(line) ? refuse(push, ERR_AMBIGUOUS, "a push certificate with two signatures")
                                      : 0;
    default: return refuse(push, ERR_AMBIGUOUS, "commands behind a push certificate");
    }
}

/* ---- the section as a whole ---- */

static int read_option(struct git_push *push, struct slice option) {
    for (size_t i = 0; i < option.n; i++)
        if ((unsigned char)option.p[i] < 0x20 && option.p[i] != '\t')
            return refuse(push, ERR_PARSE, "a control character in a push option");
    if (push->noptions == OPTIONS_MAX)
        return refuse(push, ERR_LIMIT, "too many push options");
    if (push->noptions == push->options_room) {
        size_t room = push->options_room ? 2 * push->options_room : COMMANDS_ROOM;
        struct git_option_at *options = reallocarray(push->options, room, sizeof *options);
        if (!options)
            return refuse(push, ERR_NOMEM, "out of memory");
        push->options = options;
        push->options_room = room;
    }
    push->options[push->noptions++] =
        (struct git_option_at){(uint32_t)buf_len(&push->arena), (uint32_t)option.n};
    return buf_put(&push->arena, option) ? refuse(push, ERR_LIMIT, "the push options are too long") : 0;
}

struct slice git_push_option(const struct git_push *push, size_t i) {
    struct slice arena = buf_slice(&push->arena);
    return slice_sub(arena, push->options[i].at, push->options[i].len);
}

static int compare_refs(const void *a, const void *b, void *arena) {
    const struct git_command_at *x = *(struct git_command_at *const *)a,
                                *y = *(struct git_command_at *const *)b;
    const char *base = arena;
    return slice_cmp(slice_make(base + x->ref, x->ref_len), slice_make(base + y->ref, y->ref_len));
}

/* A ref named twice would be judged twice and changed who knows how. */
static int check_duplicates(struct git_push *push) {
    if (push->ncommands < 2)
        return 0;
    struct git_command_at **order = calloc(push->ncommands, sizeof(struct git_command_at *));
    if (!order)
        return refuse(push, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < push->ncommands; i++)
        order[i] = &push->commands[i];
    void *arena = push->arena.data + push->arena.start;
    qsort_r(order, push->ncommands, sizeof(struct git_command_at *), compare_refs, arena);
    int r = 0;
    for (size_t i = 1; i < push->ncommands && !r; i++)
        if (compare_refs(&order[i - 1], &order[i], arena) == 0)
            r = refuse(push, ERR_AMBIGUOUS, "a push that names the same ref twice");
    free(order);
    return r;
}

/* A flush ends the list, then the push options' section if there is one. */
static int read_flush(struct git_push *push) {
    switch (push->state) {
    case PUSH_LIST:
    case PUSH_CERT_END:
        push->state = push->caps.push_options ? PUSH_OPTIONS : PUSH_DONE;
        return check_duplicates(push);
    case PUSH_OPTIONS: push->state = PUSH_DONE; return 0;
    default: return refuse(push, ERR_PARSE, "a push certificate without an end");
    }
}

static int read_packet(struct git_push *push, const struct pkt *pkt) {
    if (pkt->kind == PKT_FLUSH)
        return read_flush(push);
    if (pkt->kind != PKT_DATA)
        return refuse(push, ERR_PARSE, "a delimiter packet in the push's command list");
    struct slice line = pkt->payload;
    if (push->state != PUSH_LIST && push->state != PUSH_OPTIONS)
        return read_cert(push, line);
    if (slice_ends(line, SLICE("\n")))
        line.n--;
    return push->state == PUSH_OPTIONS ? read_option(push, line) : read_list(push, line);
}

int git_push_feed(struct git_push *push, struct slice in, size_t *used) {
    *used = 0;
    while (push->state != PUSH_DONE && !push->err) {
        struct pkt pkt;
        size_t took;
        int r = pkt_next(&push->reader, slice_from(in, *used), &took, &pkt);
        *used += took;
        push->consumed += took;
        if (r == ERR_PARSE)
            r = refuse(push, r, "a malformed packet length in the push's command list");
        else if (r && r != ERR_INCOMPLETE)
            r = refuse(push, r, "out of memory");
        if (push->consumed > GIT_SECTION_MAX)
            r = refuse(push, ERR_LIMIT, "the push's command list is too long");
        if (r == ERR_INCOMPLETE)
            return r;
        push->err = r ? r : read_packet(push, &pkt);
    }
    return push->err;
}

struct git_command git_push_command(const struct git_push *push, size_t i) {
    const struct git_command_at *at = &push->commands[i];
    struct slice arena = buf_slice(&push->arena);
    size_t digits = (size_t)push->caps.id_digits;
    return (struct git_command){.op = (enum git_op)at->op,
                                .old_id = slice_sub(arena, at->ids, digits),
                                .new_id = slice_sub(arena, at->ids + digits, digits),
                                .ref = slice_sub(arena, at->ref, at->ref_len)};
}

/* ---- bodies ---- */

enum git_encoding git_encoding(struct slice content_encoding) {
    if (content_encoding.n == 0)
        return GIT_ENCODING_NONE;
    if (slice_caseeq(content_encoding, SLICE("gzip")) || slice_caseeq(content_encoding, SLICE("x-gzip")))
        return GIT_ENCODING_GZIP;
    return GIT_ENCODING_UNKNOWN;
}
