/* proxy/codec: what a server of git offers, cut down to what may be seen, and what a fetch asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "proxy/codec/git_offer.h"
#include "proxy/codec/git_asked.h"
#include "tests/unit/mutate.h"

#define A    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C    "cccccccccccccccccccccccccccccccccccccccc"
#define Z    "0000000000000000000000000000000000000000"
#define LONG A "0123456789abcdef01234567"

/* Lines to packets: a flush between "|", a delimiter for "=". NUL is written '@'. */
static void put_packets(const char *text, struct buf *out) {
    struct slice rest = slice_str(text), line;
    for (bool more = true; more;) {
        more = slice_cut(rest, '\n', &line, &rest);
        char copy[512];
        size_t n = 0;
        for (; n < line.n; n++)
            copy[n] = line.p[n] == '@' ? 0 : line.p[n];
        copy[n] = '\n';
        if (slice_eq(line, SLICE("|")))
            pkt_flush(out);
        else if (slice_eq(line, SLICE("=")))
            buf_puts(out, "0001");
        else if (line.n)
            pkt_put(out, slice_make(copy, n + 1));
    }
}

/* … and back. */
static void put_lines(struct slice in, struct buf *out) {
    struct pkt_reader reader;
    struct pkt pkt;
    size_t used;
    pkt_reader_init(&reader);
    while (in.n) {
        assert_int_equal(pkt_next(&reader, in, &used, &pkt), 0);
        in = slice_from(in, used);
        if (pkt.kind != PKT_DATA)
            buf_puts(out, pkt.kind == PKT_FLUSH ? "|\n" : "=\n");
        else
            for (size_t i = 0; i < pkt.payload.n; i++)
                buf_putc(out, pkt.payload.p[i] ? pkt.payload.p[i] : '@');
    }
    pkt_reader_release(&reader);
}

/* ---- offers ---- */

struct seen {
    struct buf ids;   /* "a b ~c": first digits; '~' for a border */
    struct buf names; /* of what: "main HEAD v1 " */
};

static bool permits(void *arg, struct slice ref) {
    (void)arg;
    return !memmem(ref.p, ref.n, "hidden", 6);
}

static void shown(void *arg, struct slice id, struct slice ref) {
    struct seen *seen = arg;
    buf_printf(&seen->ids, "%s%c%c", ref.n ? "" : "~", id.p[0], ' ');
    buf_printf(&seen->names, "%.*s ", SLICE_ARG(ref));
}

static void stands(void *arg, struct slice name, struct slice ref) {
    buf_printf(&((struct seen *)arg)->names, "%.*s=%.*s ", SLICE_ARG(name), SLICE_ARG(ref));
}

/* Feeds in pieces; the error of feed or end. */
static int run(enum git_offer_kind kind, unsigned flags, struct slice in, size_t piece, struct buf *out,
               struct seen *seen) {
    struct git_offer a;
    struct git_offer_rules rules = {.limited = flags & 1,
                                    .any_object = flags & 2,
                                    .bundle_uri = flags & 4,
                                    .packfile_uris = flags & 8,
                                    .permits = permits,
                                    .shown = shown,
                                    .stands = stands,
                                    .arg = seen};
    int r = 0;
    git_offer_init(&a, kind, &rules);
    for (size_t at = 0; at < in.n && r == 0; at += piece)
        r = git_offer_feed(&a, slice_sub(in, at, piece), out);
    if (r == 0)
        r = git_offer_end(&a);
    assert_int_equal(r != 0, a.error.text[0] != 0);
    git_offer_release(&a);
    return r;
}

#define LIMITED 1
#define OBJECTS 2
#define BUNDLES 4
#define PACKS   8
#define SERVICE "# service=git-upload-pack\n|\n"

static const struct {
    enum git_offer_kind kind;
    unsigned flags;
    const char *in, *out; /* out NULL: it can't be read */
    const char *ids;
} offers[] = {
    /* version 0: capabilities go with the first that is shown */
    {GIT_OFFER_DISCOVERY, LIMITED,
     SERVICE A " HEAD@multi_ack include-tag symref=HEAD:refs/heads/main filter x=y agent=g\n" A
               " refs/heads/main\n" B " refs/heads/hidden\n" C " refs/tags/v1\n" A " refs/tags/v1^{}\n|",
     SERVICE A " HEAD@multi_ack symref=HEAD:refs/heads/main agent=g\n" A " refs/heads/main\n" C
               " refs/tags/v1\n" A " refs/tags/v1^{}\n|\n",
     "a a c a "},
    {GIT_OFFER_DISCOVERY, LIMITED,
     SERVICE B " HEAD@multi_ack symref=HEAD:refs/heads/hidden\n" B " refs/heads/hidden\n" A
               " refs/heads/main\n" B " refs/tags/hidden\n" C " refs/tags/hidden^{}\n|",
     SERVICE A " refs/heads/main@multi_ack\n|\n", "a "},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE B " HEAD@multi_ack\n" B " refs/heads/main\n|",
     SERVICE B " refs/heads/main@multi_ack\n|\n", "b "},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE B " refs/heads/hidden@multi_ack object-format=sha1\n|",
     SERVICE Z " capabilities^{}@multi_ack object-format=sha1\n|\n", ""},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE Z " capabilities^{}@multi_ack\n|",
     SERVICE Z " capabilities^{}@multi_ack\n|\n", ""},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE LONG " refs/heads/hidden@multi_ack\n|",
     SERVICE Z "000000000000000000000000 capabilities^{}@multi_ack\n|\n", ""},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE "version 1\n" A " refs/heads/main@shallow\nshallow " B "\n|",
     SERVICE "version 1\n" A " refs/heads/main@shallow\nshallow " B "\n|\n", "a ~b "},
    {GIT_OFFER_DISCOVERY, LIMITED | OBJECTS,
     SERVICE A " refs/heads/main@filter allow-tip-sha1-in-want include-tag\n|",
     SERVICE A " refs/heads/main@filter allow-tip-sha1-in-want\n|\n", "a "},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE A " refs/heads/main@filter allow-tip-sha1-in-want\n|",
     SERVICE A " refs/heads/main@\n|\n", "a "},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE "|", SERVICE "|\n", ""},
    /* of a push: all of its own capabilities, and none of what others at the server have */
    {GIT_OFFER_PUSH, LIMITED,
     "# service=git-receive-pack\n|\n" B " refs/heads/hidden@report-status atomic new=x\n" A
     " refs/heads/main\n" C " .have\n|",
     "# service=git-receive-pack\n|\n" A " refs/heads/main@report-status atomic new=x\n|\n", "a "},
    {GIT_OFFER_PUSH, LIMITED, "version 1\n" B " refs/heads/hidden@report-status\n|",
     "version 1\n" Z " capabilities^{}@report-status\n|\n", ""},
    {GIT_OFFER_PUSH, LIMITED, A " refs/heads/main@report-status\n|", A " refs/heads/main@report-status\n|\n",
     "a "},
    {GIT_OFFER_PUSH, LIMITED, "version 2\nfetch\n|", NULL, ""},
    {GIT_OFFER_PUSH, LIMITED, SERVICE A " refs/heads/main@report-status\n|", NULL, ""},
    /* not limited: as it came */
    {GIT_OFFER_DISCOVERY, 0, SERVICE B " refs/heads/hidden@new include-tag\n|",
     SERVICE B " refs/heads/hidden@new include-tag\n|\n", "b "},
    {GIT_OFFER_DISCOVERY, 0, SERVICE "version 1\n" B " refs/heads/hidden@new\n|",
     SERVICE "version 1\n" B " refs/heads/hidden@new\n|\n", "b "},
    {GIT_OFFER_DISCOVERY, 0, SERVICE Z " capabilities^{}@new\n|", SERVICE Z " capabilities^{}@new\n|\n", ""},
    {GIT_OFFER_DISCOVERY, 0, SERVICE A " refs/heads/a..b@new\nshallow " C "\n" B " x\n|",
     SERVICE A " refs/heads/a..b@new\nshallow " C "\n" B " x\n|\n", "a ~c b "},
    {GIT_OFFER_LS_REFS, 0, B " HEAD\n" B " odd\nunborn x\n|", B " HEAD\n" B " odd\nunborn x\n|\n", "b b "},
    /* … also where it can't be read */
    {GIT_OFFER_DISCOVERY, 0,
     SERVICE "new\n" A " refs/heads/main\n|\n|\n=", SERVICE "new\n" A " refs/heads/main\n|\n|\n=\n", ""},
    {GIT_OFFER_LS_REFS, 0, A " refs/heads/main new:x\n" B " refs/heads/x\n|\nmore\n|",
     A " refs/heads/main new:x\n" B " refs/heads/x\n|\nmore\n|\n", ""},
    {GIT_OFFER_LS_REFS, 0, A " refs/heads/main\n=\n" B " refs/heads/x\n|",
     A " refs/heads/main\n=\n" B " refs/heads/x\n|\n", "a "},
    {GIT_OFFER_LS_REFS, 0, A " refs/heads/main", A " refs/heads/main\n", "a "},
    /* version 2, with and without the service */
    {GIT_OFFER_DISCOVERY, 0,
     "version 2\nagent=g\nls-refs\nfetch=shallow packfile-uris filter new\nbundle-uri\nnew\nobject-info\n|",
     "version 2\nagent=g\nls-refs\nfetch=shallow filter\nobject-info\n|\n", ""},
    {GIT_OFFER_DISCOVERY, BUNDLES | PACKS, SERVICE "version 2\nfetch=packfile-uris\nbundle-uri\n|",
     SERVICE "version 2\nfetch=packfile-uris\nbundle-uri\n|\n", ""},
    {GIT_OFFER_DISCOVERY, LIMITED,
     "version 2\nfetch=filter ref-in-want\nserver-option\nobject-info\nfetch\nls-refs=unborn\n|",
     "version 2\nfetch\nfetch\nls-refs=unborn\n|\n", ""},
    /* ls-refs */
    {GIT_OFFER_LS_REFS, LIMITED,
     A " HEAD symref-target:refs/heads/main\n" A " refs/heads/main\n" B " refs/heads/hidden\n" C
       " refs/tags/v1 peeled:" A "\n" C " refs/tags/hidden peeled:" B "\n" A
       " refs/remotes/o/HEAD symref-target:refs/heads/hidden\n|",
     A " HEAD symref-target:refs/heads/main\n" A " refs/heads/main\n" C " refs/tags/v1 peeled:" A "\n|\n",
     "a a c a "},
    {GIT_OFFER_LS_REFS, LIMITED, "unborn HEAD symref-target:refs/heads/main\n|",
     "unborn HEAD symref-target:refs/heads/main\n|\n", ""},
    {GIT_OFFER_LS_REFS, LIMITED, "unborn HEAD symref-target:refs/heads/hidden\n|", "|\n", ""},
    {GIT_OFFER_LS_REFS, LIMITED, B " HEAD\n" B " odd\n" B " refs/heads/a..b\n|", "|\n", ""},
    /* the server's own words end it */
    {GIT_OFFER_DISCOVERY, LIMITED, "ERR no\n" B " refs/heads/hidden\n|", "ERR no\n", ""},
    {GIT_OFFER_LS_REFS, LIMITED, "ERR no\n", "ERR no\n", ""},
    /* no offers */
    {GIT_OFFER_DISCOVERY, LIMITED, "|", NULL, ""},
    {GIT_OFFER_DISCOVERY, LIMITED, A " refs/heads/main@x\n|", NULL, ""},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE A " refs/heads/main\n|", NULL, ""},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE A " refs/heads/main@x\n", NULL, "a "},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE A " refs/heads/main@x\n|\n" B " refs/heads/hidden\n|", NULL, "a "},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE A " refs/heads/main@x\n" LONG " refs/heads/x\n|", NULL, "a "},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE A " refs/tags/v1@x\n" B " refs/tags/v2^{}\n|", NULL, "a "},
    {GIT_OFFER_DISCOVERY, LIMITED, SERVICE "version 1\nversion 2\n|", NULL, ""},
    {GIT_OFFER_DISCOVERY, 0, "version 2\n=\n|", NULL, ""},
    {GIT_OFFER_LS_REFS, LIMITED, A " refs/heads/main new:x\n|", NULL, ""},
    {GIT_OFFER_LS_REFS, LIMITED, A " refs/heads/main\n|\n" B " refs/heads/hidden\n|", NULL, "a "},
    {GIT_OFFER_LS_REFS, LIMITED, "AAAA refs/heads/main\n|", NULL, ""},
};

static void test_offers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i++)
        for (size_t piece = 1; piece < 4000; piece = piece < 40 ? piece + 1 : piece * 10) {
            struct buf in, out, lines;
            struct seen seen;
            buf_init(&in, 1 << 16);
            buf_init(&out, 1 << 16);
            buf_init(&lines, 1 << 16);
            buf_init(&seen.ids, 1 << 16);
            buf_init(&seen.names, 1 << 16);
            put_packets(offers[i].in, &in);
            int r = run(offers[i].kind, offers[i].flags, buf_slice(&in), piece, &out, &seen);
            put_lines(buf_slice(&out), &lines);
            const char *text = buf_cstr(&lines);
            bool leaks = offers[i].flags & LIMITED && strstr(text, "hidden");
            if ((r != 0) != !offers[i].out || (r == 0 && strcmp(text, offers[i].out) != 0) ||
                strcmp(buf_cstr(&seen.ids), offers[i].ids) != 0 || leaks)
                fail_msg("row %zu in pieces of %zu: %d\n%s--- ids %s", i, piece, r, buf_cstr(&lines),
                         buf_cstr(&seen.ids));
            buf_release(&in);
            buf_release(&out);
            buf_release(&lines);
            buf_release(&seen.ids);
            buf_release(&seen.names);
        }
}

/* What an object is shown as: the ref, what the ref stands for, the tag that leads to it. */
static void test_names(void **state) {
    static const struct {
        enum git_offer_kind kind;
        const char *in, *limited, *open;
    } rows[] = {
        {GIT_OFFER_DISCOVERY,
         SERVICE A " HEAD@x symref=HEAD:refs/heads/main\n" A " refs/heads/main\n" B " refs/heads/hidden\n" C
                   " refs/tags/v1\n" A " refs/tags/v1^{}\n|",
         "HEAD=refs/heads/main refs/heads/main refs/heads/main refs/tags/v1 refs/tags/v1 ",
         "HEAD=refs/heads/main refs/heads/main refs/heads/main refs/heads/hidden refs/tags/v1 refs/tags/v1 "},
        {GIT_OFFER_LS_REFS,
         A " HEAD symref-target:refs/heads/main\n" B " refs/heads/hidden\n" C " refs/tags/v1 peeled:" A "\n|",
         "HEAD=refs/heads/main refs/heads/main refs/tags/v1 refs/tags/v1 ",
         "HEAD=refs/heads/main refs/heads/main refs/heads/hidden refs/tags/v1 refs/tags/v1 "},
        {GIT_OFFER_LS_REFS, A " HEAD\n|", "", "HEAD "},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        struct buf in, out;
        struct seen seen;
        buf_init(&in, 1 << 16);
        buf_init(&out, 1 << 16);
        buf_init(&seen.ids, 1 << 16);
        buf_init(&seen.names, 1 << 16);
        put_packets(rows[i / 2].in, &in);
        assert_int_equal(run(rows[i / 2].kind, i % 2 ? LIMITED : 0, buf_slice(&in), 7, &out, &seen), 0);
        assert_string_equal(buf_cstr(&seen.names), i % 2 ? rows[i / 2].limited : rows[i / 2].open);
        buf_release(&in);
        buf_release(&out);
        buf_release(&seen.ids);
        buf_release(&seen.names);
    }
}

/* A spoilt offer shows nothing hidden, and is still made of packets. */
static void spoilt(struct slice in, void *arg) {
    struct buf out, lines;
    struct seen seen;
    buf_init(&out, 1 << 16);
    buf_init(&lines, 1 << 16);
    buf_init(&seen.ids, 1 << 16);
    buf_init(&seen.names, 1 << 16);
    run(*(enum git_offer_kind *)arg, LIMITED, in, in.n ? in.n : 1, &out, &seen);
    put_lines(buf_slice(&out), &lines);
    buf_release(&out);
    buf_release(&lines);
    buf_release(&seen.ids);
    buf_release(&seen.names);
}

static void test_spoilt_offers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i += 5) {
        struct buf in;
        enum git_offer_kind kind = offers[i].kind;
        buf_init(&in, 1 << 16);
        put_packets(offers[i].in, &in);
        mutate_truncate(buf_slice(&in), spoilt, &kind);
        mutate_flip(buf_slice(&in), spoilt, &kind);
        buf_release(&in);
    }
}

/* ---- requests ---- */

static int item(void *arg, enum git_asked_item kind, struct slice value) {
    static const char names[] = {'w', 'r', 's', 'x', 'o'};
    struct buf *out = arg;
    buf_printf(out, "%c:%.*s ", names[kind],
               kind == GIT_ASKED_WANT_REF || kind == GIT_ASKED_EXCLUDE ? (int)value.n : 1, value.p);
    return value.p[0] == 'c' ? ERR_DENIED : 0;
}

static const struct {
    const char *in;
    int err;
    enum git_asked_command command;
    const char *flags; /* packfile-Uris Filter Options Deepens freelY */
    const char *items;
    const char *clean; /* NULL: as it came */
} requests[] = {
    {"|", 0, GIT_ASKED_PROBE, "", "", NULL},
    {"want " A " ofs-delta include-tag agent=g\nwant " B "\n|\nhave " C "\n|\nhave " A "\ndone", 0,
     GIT_ASKED_OLD, "", "w:a w:b ",
     "want " A " ofs-delta agent=g\nwant " B "\n|\nhave " C "\n|\nhave " A "\ndone\n"},
    {"want " A "\nshallow " B "\ndeepen 1\n|\ndone", 0, GIT_ASKED_OLD, "D", "w:a s:b ", NULL},
    {"want " A " deepen-relative\ndeepen 1\n|", 0, GIT_ASKED_OLD, "DY", "w:a ", NULL},
    {"want " A "\ndeepen 2147483647\nfilter blob:none\n|", 0, GIT_ASKED_OLD, "FDY", "w:a ", NULL},
    {"want " LONG "\ndeepen-not refs/heads/x\ndeepen-since 1\n|", 0, GIT_ASKED_OLD, "D",
     "w:a x:refs/heads/x ", NULL},
    {"command=ls-refs\nagent=g\nobject-format=sha1\n=\npeel\nsymrefs\nunborn\nref-prefix refs/\n|", 0,
     GIT_ASKED_LS_REFS, "", "", NULL},
    {"agent=g\ncommand=ls-refs\nserver-option=x\n|", 0, GIT_ASKED_LS_REFS, "O", "", NULL},
    {"command=fetch\n=\nthin-pack\ninclude-tag\nwant " A "\nwant-ref refs/heads/x\nhave " B "\nshallow " B
     "\ndeepen 3\ndeepen-relative\ndone\n|",
     0, GIT_ASKED_FETCH, "DY", "w:a r:refs/heads/x s:b ",
     "command=fetch\n=\nthin-pack\nwant " A "\nwant-ref refs/heads/x\nhave " B "\nshallow " B
     "\ndeepen 3\ndeepen-relative\ndone\n|\n"},
    {"command=fetch\n=\npackfile-uris https\nfilter tree:0\nwait-for-done\n|", 0, GIT_ASKED_FETCH, "UF", "",
     NULL},
    {"command=bundle-uri\n|", 0, GIT_ASKED_BUNDLE_URI, "", "", NULL},
    {"command=object-info\n=\nsize\noid " A "\n|", 0, GIT_ASKED_OBJECT_INFO, "", "o:a ", NULL},
    /* what is named may be refused by who asks */
    {"command=fetch\n=\nwant " C "\n|", ERR_DENIED, GIT_ASKED_FETCH, "", "w:c ", NULL},
    {"want " C "\n|", ERR_DENIED, GIT_ASKED_OLD, "", "w:c ", NULL},
    /* not read */
    {"", ERR_PARSE, GIT_ASKED_PROBE, "", "", NULL},
    {"|\n|\nwant " A, ERR_PARSE, GIT_ASKED_OLD, "", "", NULL},
    {"want " A, ERR_PARSE, GIT_ASKED_OLD, "", "w:a ", NULL},
    {"want " A "\n|\nwant " B, ERR_PARSE, GIT_ASKED_OLD, "", "w:a ", NULL},
    {"want " A "\ncommand=fetch\n|", ERR_PARSE, GIT_ASKED_OLD, "", "w:a ", NULL},
    {"want " A "\nwant " LONG "\n|", ERR_PARSE, GIT_ASKED_OLD, "", "w:a ", NULL},
    {"want aa\n|", ERR_PARSE, GIT_ASKED_OLD, "", "", NULL},
    {"want " A "\n=\n|", ERR_PARSE, GIT_ASKED_OLD, "", "w:a ", NULL},
    {"command=fetch\nwant " A "\n|", ERR_PARSE, GIT_ASKED_FETCH, "", "", NULL},
    {"command=fetch\ncommand=ls-refs\n|", ERR_PARSE, GIT_ASKED_FETCH, "", "", NULL},
    {"agent=g\n=\nwant " A "\n|", ERR_PARSE, GIT_ASKED_PROBE, "", "", NULL},
    {"command=new\n|", ERR_PARSE, GIT_ASKED_PROBE, "", "", NULL},
    {"command=fetch\nnew=1\n|", ERR_PARSE, GIT_ASKED_FETCH, "", "", NULL},
    {"command=fetch\n=\nnew\n|", ERR_PARSE, GIT_ASKED_FETCH, "", "", NULL},
    {"command=fetch\n=\n=\n|", ERR_PARSE, GIT_ASKED_FETCH, "", "", NULL},
    {"command=ls-refs\n|\ncommand=bundle-uri\n|", ERR_PARSE, GIT_ASKED_LS_REFS, "", "", NULL},
    {"command=ls-refs", ERR_PARSE, GIT_ASKED_LS_REFS, "", "", NULL},
    {"command=bundle-uri\n=\nx\n|", ERR_PARSE, GIT_ASKED_BUNDLE_URI, "", "", NULL},
    {"command=fetch\n=\ndeepen x\n|", ERR_PARSE, GIT_ASKED_FETCH, "", "", NULL},
    {"hello\n|", ERR_PARSE, GIT_ASKED_PROBE, "", "", NULL},
};

static void test_requests(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        struct git_asked f;
        struct buf in, items, clean, lines;
        char flags[8];
        buf_init(&in, 1 << 16);
        buf_init(&items, 1 << 16);
        buf_init(&lines, 1 << 16);
        put_packets(requests[i].in, &in);
        buf_init(&clean, buf_len(&in));
        int r = git_asked_read(&f, buf_slice(&in), true, item, &items, &clean);
        snprintf(flags, sizeof flags, "%s%s%s%s%s", f.packfile_uris ? "U" : "", f.filter ? "F" : "",
                 f.server_options ? "O" : "", f.deepens ? "D" : "", f.deepens_freely ? "Y" : "");
        const char *found = buf_cstr(&items);
        if (r != requests[i].err || f.command != requests[i].command ||
            strcmp(found, requests[i].items) != 0 || (r == 0 && strcmp(flags, requests[i].flags) != 0) ||
            (r == ERR_PARSE) != (f.error.text[0] != 0))
            fail_msg("row %zu: %d (%s), command %d, flags %s, items %s", i, r, f.error.text, (int)f.command,
                     flags, found);
        if (r == 0 && requests[i].clean) {
            put_lines(buf_slice(&clean), &lines);
            assert_string_equal(buf_cstr(&lines), requests[i].clean);
        } else if (r == 0) {
            assert_true(slice_eq(buf_slice(&clean), buf_slice(&in)));
        }
        buf_release(&in);
        buf_release(&items);
        buf_release(&clean);
        buf_release(&lines);
    }
}

/* Where nothing is limited the older form is only recognised. */
static void test_not_strict(void **state) {
    struct git_asked f;
    struct buf in;
    (void)state;
    buf_init(&in, 1 << 16);
    put_packets("want " A "\nnew line\n|", &in);
    assert_int_equal(git_asked_read(&f, buf_slice(&in), false, NULL, NULL, NULL), 0);
    assert_int_equal(f.command, GIT_ASKED_OLD);
    assert_int_equal(git_asked_read(&f, buf_slice(&in), true, NULL, NULL, NULL), ERR_PARSE);
    buf_release(&in);
}

/* ---- borders ---- */

static void border(void *arg, struct slice id) {
    buf_printf(arg, "%c", id.p[0]);
}

static void test_borders(void **state) {
    static const struct {
        enum git_asked_command command;
        const char *in, *out;
        bool done;
    } rows[] = {
        {GIT_ASKED_OLD, "shallow " A "\nunshallow " B "\nshallow " C "\n|\nshallow " B, "ac", true},
        {GIT_ASKED_OLD, "NAK\nshallow " A, "", true},
        {GIT_ASKED_OLD, "shallow " A, "a", false},
        {GIT_ASKED_FETCH,
         "acknowledgments\nNAK\nready\n=\nshallow-info\nshallow " A "\n=\npackfile\nshallow " B, "a", true},
        {GIT_ASKED_FETCH, "shallow-info\nshallow " A "\nunshallow " B "\n|", "a", true},
        {GIT_ASKED_FETCH, "acknowledgments\nNAK\n|", "", true},
        {GIT_ASKED_FETCH, "packfile\nshallow " A "\n|", "", true},
        {GIT_ASKED_FETCH, "shallow " A "\n|", "", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t piece = 1; piece < 1000; piece *= 3) {
            struct git_borders b;
            struct buf in, out;
            buf_init(&in, 1 << 16);
            buf_init(&out, 1 << 16);
            put_packets(rows[i].in, &in);
            git_borders_init(&b, rows[i].command);
            for (size_t at = 0; at < buf_len(&in); at += piece)
                git_borders_feed(&b, slice_sub(buf_slice(&in), at, piece), border, &out);
            if (b.done != rows[i].done || strcmp(buf_cstr(&out), rows[i].out) != 0)
                fail_msg("row %zu: %s, done %d", i, buf_cstr(&out), b.done);
            git_borders_release(&b);
            buf_release(&in);
            buf_release(&out);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offers),        cmocka_unit_test(test_names),
        cmocka_unit_test(test_spoilt_offers), cmocka_unit_test(test_requests),
        cmocka_unit_test(test_not_strict),    cmocka_unit_test(test_borders),
    };
    return cmocka_run_group_tests_name("git_offer", tests, NULL, NULL);
}
