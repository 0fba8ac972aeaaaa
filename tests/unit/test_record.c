/* The record: what it shows and what it never shows, its way as a message, hostile senders, and a scribe
 * that is slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/loop.h"
#include "tests/unit/record_support.h"

static struct record_ref decoded_refs[RECORD_REFS_MAX];

static struct ulid an_id(void) {
    struct ulid id;
    assert_true(ulid_parse(SLICE("01ARZ3NDEKTSV4RRFFQ69G5FAV"), &id));
    return id;
}

static struct record a_record(void) {
    static const struct record_ref refs[] = {
        {SLICE("refs/heads/main"), SLICE("1111"), SLICE("2222"), SLICE("force")},
        {SLICE("refs/heads/b"), SLICE("0000"), SLICE("3333"), SLICE("create")}};
    return (struct record){.event = RECORD_VERDICT,
                           .id = an_id(),
                           .time_ms = 1700000000123ull,
                           .sandbox = SLICE("s1"),
                           .denied = true,
                           .reason = SLICE("no rule allows force"),
                           .code = SLICE("no-rule-for-refs"),
                           .rule = SLICE("p.policy:7"),
                           .protocol = SLICE("h2"),
                           .method = SLICE("POST"),
                           .url = SLICE("https://g.test/r.git/x"),
                           .git_service = SLICE("git-receive-pack"),
                           .refs = refs,
                           .nrefs = 2,
                           .credential = SLICE("github"),
                           .upstream = SLICE("192.0.2.1:443"),
                           .upstream_protocol = SLICE("http/1.1"),
                           .has = RECORD_HAS_STATUS | RECORD_HAS_SENT | RECORD_HAS_RECEIVED |
                                  RECORD_HAS_DURATION,
                           .status = 403,
                           .sent = 5,
                           .received = 6,
                           .duration_ms = 7};
}

static void expect_url(struct slice authority, struct slice path, struct slice query, unsigned flags,
                       const char *want) {
    struct buf b;
    buf_init(&b, 8192);
    assert_int_equal(record_put_url(&b, URL_HTTPS, authority, path, query, flags), 0);
    assert_string_equal(buf_cstr(&b), want);
    buf_release(&b);
}

static void urls_hide_values(void **state) {
    (void)state;
    expect_url(SLICE("a.test"), SLICE("/p"), SLICE_NONE, 0, "https://a.test/p");
    expect_url(SLICE("a.test"), SLICE("/p"), SLICE("access_token=T&x=%0d%0aSET%20k"), RECORD_URL_QUERY,
               "https://a.test/p?access_token=*&x=*");
    expect_url(SLICE("a.test"), SLICE("/p"), SLICE("TOKEN"), RECORD_URL_QUERY, "https://a.test/p?*");
    expect_url(SLICE("a.test"), SLICE("/p"), SLICE("a=1;token=T&&b"), RECORD_URL_QUERY,
               "https://a.test/p?a=*&&*");
    expect_url(SLICE("a.test"), SLICE("/"), SLICE(""), RECORD_URL_QUERY, "https://a.test/?");
    expect_url(SLICE("a.test"), SLICE("/p"), SLICE("page=2"), RECORD_URL_QUERY | RECORD_URL_VALUES,
               "https://a.test/p?page=2");
    expect_url(SLICE("user:pw@a.test"), SLICE("/"), SLICE_NONE, 0, "https://*@a.test/");
    expect_url(SLICE("user:p@w@a.test"), SLICE("/"), SLICE_NONE, 0, "https://*@a.test/");
    expect_url(SLICE("a.test:8443"), SLICE_NONE, SLICE_NONE, 0, "https://a.test:8443");
    expect_url(SLICE("a\r\nb"), SLICE("/\x1b[31m \xc3\xa9\x7f"), SLICE("k\n=v"), RECORD_URL_QUERY,
               "https://a%0D%0Ab/%1B[31m%20%C3%A9%7F?k%0A=*");
}

static void urls_are_bounded(void **state) {
    (void)state;
    char *path = malloc(100000);
    struct buf b;
    memset(path, 1, 100000);
    buf_init(&b, 8192);
    assert_int_equal(record_put_url(&b, URL_HTTP, SLICE("a"), slice_make(path, 100000), SLICE_NONE, 0), 0);
    assert_true(buf_len(&b) <= RECORD_URL_MAX);
    assert_true(slice_ends(buf_slice(&b), SLICE("%01\xe2\x80\xa6")));
    buf_release(&b);
    free(path);
}

static void expect_json(const struct record *r, const char *want) {
    struct buf b;
    buf_init(&b, RECORD_JSON_MAX);
    assert_int_equal(record_json(r, &b), 0);
    assert_string_equal(buf_cstr(&b), want);
    buf_release(&b);
}

static void json_has_the_keys(void **state) {
    (void)state;
    struct record r = a_record();
    expect_json(
        &r,
        "{\"event\":\"verdict\",\"id\":\"01ARZ3NDEKTSV4RRFFQ69G5FAV\",\"time\":\"2023-11-14T22:13:20.123Z\","
        "\"sandbox\":\"s1\",\"verdict\":\"deny\",\"reason\":\"no rule allows "
        "force\",\"code\":\"no-rule-for-refs\","
        "\"rule\":\"p.policy:7\",\"protocol\":\"h2\",\"method\":\"POST\",\"url\":\"https://g.test/r.git/x\","
        "\"git\":{\"service\":\"git-receive-pack\",\"refs\":[{\"ref\":\"refs/heads/main\",\"old\":\"1111\","
        "\"new\":\"2222\",\"op\":\"force\"},{\"ref\":\"refs/heads/b\",\"old\":\"0000\",\"new\":\"3333\","
        "\"op\":\"create\"}]},\"credential\":\"github\",\"upstream\":\"192.0.2.1:443\","
        "\"upstream_protocol\":\"http/1.1\",\"status\":403,"
        "\"sent\":5,\"received\":6,\"duration_ms\":7}\n");
    static const struct record_ref made[] = {
        {.ref = SLICE("refs/for/main"), .to = SLICE("refs/changes/1"), .outcome = SLICE("ok")},
        {.ref = SLICE("refs/heads/b"), .outcome = SLICE("refused: hook declined")}};
    struct record pushed = {.event = RECORD_OUTCOME, .git_service = SLICE("git-receive-pack")};
    pushed.refs = made;
    pushed.nrefs = 2;
    pushed.unpack = SLICE("disk full");
    pushed.options = SLICE("ci.skip\ntopic=*");
    expect_json(&pushed,
                "{\"event\":\"outcome\",\"time\":\"1970-01-01T00:00:00.000Z\",\"git\":{\"service\":"
                "\"git-receive-pack\",\"refs\":[{\"ref\":\"refs/for/main\",\"to\":\"refs/changes/1\","
                "\"outcome\":\"ok\"},{\"ref\":\"refs/heads/b\",\"outcome\":\"refused: hook declined\"}],"
                "\"options\":[\"ci.skip\",\"topic=*\"],\"unpack\":\"disk full\"}}\n");
    static const struct record_ref fetched[] = {{.ref = SLICE("refs/heads/main"), .new = SLICE("2222")}};
    struct record fetch = {.event = RECORD_VERDICT, .git_service = SLICE("git-upload-pack")};
    fetch.git_command = SLICE("fetch");
    fetch.refs = fetched;
    fetch.nrefs = 1;
    fetch.refs_omitted = 2;
    expect_json(
        &fetch,
        "{\"event\":\"verdict\",\"time\":\"1970-01-01T00:00:00.000Z\",\"verdict\":\"allow\",\"git\":{"
        "\"service\":\"git-upload-pack\",\"command\":\"fetch\",\"refs\":[{\"ref\":\"refs/heads/main\","
        "\"new\":\"2222\"}],\"omitted\":2}}\n");
    struct record gap = {.event = RECORD_GAP,
                         .time_ms = 3000,
                         .count = 9,
                         .from_ms = 1000,
                         .to_ms = 2000,
                         .sink = SLICE("redis")};
    expect_json(
        &gap,
        "{\"event\":\"gap\",\"time\":\"1970-01-01T00:00:03.000Z\",\"count\":9,"
        "\"from\":\"1970-01-01T00:00:01.000Z\",\"to\":\"1970-01-01T00:00:02.000Z\",\"sink\":\"redis\"}\n");
    struct record hostile = {
        .event = RECORD_OUTCOME, .sandbox = SLICE("a\"b\\\n\xff"), .method = SLICE("\x1b]0;x\x07")};
    expect_json(&hostile, "{\"event\":\"outcome\",\"time\":\"1970-01-01T00:00:00.000Z\","
                          "\"sandbox\":\"a\\\"b\\\\\\n\xef\xbf\xbd\",\"method\":\"\\u001b]0;x\\u0007\"}\n");
}

static void expect_line(const struct record *r, unsigned style, const char *want) {
    struct buf b;
    buf_init(&b, 65536);
    assert_int_equal(record_line(r, style, &b), 0);
    assert_string_equal(buf_cstr(&b), want);
    buf_release(&b);
}

static void lines_for_people(void **state) {
    (void)state;
    struct record r = {.event = RECORD_VERDICT,
                       .id = an_id(),
                       .denied = true,
                       .method = SLICE("POST"),
                       .url = SLICE("https://a.test/x"),
                       .reason = SLICE("no rule allows POST on this host")};
    expect_line(&r, RECORD_PLAIN,
                "exeat: denied POST https://a.test/x (no rule allows POST on this host) "
                "[01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    expect_line(&r, RECORD_COLOUR,
                "exeat: \033[31mdenied\033[0m POST https://a.test/x (no rule allows POST on this host) "
                "[01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    r.denied = false;
    r.reason = SLICE_NONE;
    expect_line(&r, RECORD_PLAIN, "exeat: allowed POST https://a.test/x [01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    r.reason = SLICE("allowed");
    r.rule = SLICE("my.policy:7");
    expect_line(&r, RECORD_PLAIN,
                "exeat: allowed POST https://a.test/x (my.policy:7) [01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    r.sandbox = SLICE("npm\x1b");
    expect_line(&r, RECORD_PLAIN,
                "exeat: allowed POST https://a.test/x (my.policy:7) [01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    expect_line(
        &r, RECORD_SANDBOX,
        "exeat: npm\\x1b: allowed POST https://a.test/x (my.policy:7) [01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    r.sandbox = SLICE_NONE;
    r.credential = SLICE("github");
    expect_line(
        &r, RECORD_PLAIN,
        "exeat: allowed POST https://a.test/x (my.policy:7, with github) [01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    struct record push = a_record();
    push.refs_omitted = 4;
    expect_line(&push, RECORD_PLAIN,
                "exeat: denied push https://g.test/r.git/x refs/heads/main refs/heads/b (and 4 more) "
                "(no rule allows force) [01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    struct record_ref unknown = {.ref = SLICE(RECORD_REF_UNKNOWN), .op = SLICE("update")};
    struct record merge = {.event = RECORD_VERDICT,
                           .denied = true,
                           .method = SLICE("PUT"),
                           .url = SLICE("https://a.test/merge"),
                           .reason = SLICE("no rule allows a push to this ref"),
                           .refs = &unknown,
                           .nrefs = 1};
    expect_line(
        &merge, RECORD_PLAIN,
        "exeat: denied PUT https://a.test/merge (a ref that is not known) (no rule allows a push to this "
        "ref)\n");
    struct record other = {.event = RECORD_VERDICT, .denied = true, .reason = SLICE("no TLS and no HTTP")};
    expect_line(&other, RECORD_PLAIN, "exeat: denied connection (no TLS and no HTTP)\n");
}

static void lines_can_not_draw(void **state) {
    (void)state;
    struct record r = {.event = RECORD_VERDICT,
                       .denied = true,
                       .method = SLICE("G\x1b[2J\r\n"),
                       .url = SLICE("\xc2\x9b"
                                    "31m\xe2\x80\xae\xef\xbb\xbf\xff\xc3\xa9")};
    expect_line(
        &r, RECORD_PLAIN,
        "exeat: denied G\\x1b[2J\\x0d\\x0a \\xc2\\x9b31m\\xe2\\x80\\xae\\xef\\xbb\\xbf\\xff\xc3\xa9\n");
}

static void loudness(void **state) {
    (void)state;
    struct record deny = {.event = RECORD_VERDICT, .denied = true}, allow = {.event = RECORD_VERDICT};
    struct record gap = {.event = RECORD_GAP}, outcome = {.event = RECORD_OUTCOME};
    struct record errand = {.event = RECORD_ERRAND};
    assert_false(record_shown(&deny, 0) || record_shown(&gap, 0));
    assert_true(record_shown(&deny, 1) && record_shown(&gap, 1));
    assert_false(record_shown(&allow, 1) || record_shown(&outcome, 1));
    assert_true(record_shown(&allow, 2) && !record_shown(&outcome, 2));
    assert_true(record_shown(&errand, 2) && !record_shown(&errand, 1));
}

static void fields_are_the_same(void **state) {
    (void)state;
    struct record r = a_record();
    struct record_fields f;
    struct buf text;
    buf_init(&text, RECORD_JSON_MAX);
    assert_int_equal(record_fields(&r, &text, &f), 0);
    assert_int_equal(f.n, 19);
    struct slice all = buf_slice(&text);
    for (size_t i = 0; i < f.n; i++) {
        struct slice value = slice_sub(all, f.f[i].at, f.f[i].len);
        if (strcmp(f.f[i].name, "verdict") == 0)
            assert_true(slice_eq(value, SLICE("deny")));
        if (strcmp(f.f[i].name, "status") == 0)
            assert_true(slice_eq(value, SLICE("403")));
        if (strcmp(f.f[i].name, "git") == 0)
            assert_true(slice_starts(value, SLICE("{\"service\":\"git-receive-pack\",\"refs\":[{\"ref\":")));
    }
    buf_release(&text);
}

/* A batch of Git LFS, and the transfer of an object. */
static void lfs_is_told(void **state) {
    (void)state;
    struct record r = {.event = RECORD_VERDICT,
                       .lfs = {.batch = true, .operation = SLICE("upload"), .objects = 2, .bytes = 7}};
    expect_json(&r,
                "{\"event\":\"verdict\",\"time\":\"1970-01-01T00:00:00.000Z\",\"verdict\":\"allow\",\"lfs\":"
                "{\"operation\":\"upload\",\"objects\":2,\"bytes\":7}}\n");
    r.lfs = (struct record_lfs){.fields = 3};
    expect_json(&r,
                "{\"event\":\"verdict\",\"time\":\"1970-01-01T00:00:00.000Z\",\"verdict\":\"allow\",\"lfs\":"
                "{\"fields\":3}}\n");
}

static void expect_back(const struct record *r) {
    struct record got;
    uint8_t memory[MSG_MAX];
    struct msg_out out;
    struct msg_in in;
    struct buf one;
    record_encode(r, &out, memory, sizeof memory);
    assert_int_equal(out.err, 0);
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    assert_int_equal(record_decode(&in, &got, decoded_refs), 0);
    buf_init(&one, RECORD_JSON_MAX);
    record_json(r, &one);
    expect_json(&got, buf_cstr(&one));
    buf_release(&one);
}

static void messages_come_back(void **state) {
    (void)state;
    struct record r = a_record();
    r.refs_omitted = 9;
    r.git_command = SLICE("fetch");
    r.options = SLICE("a\nb=*");
    r.unpack = SLICE("disk full");
    r.lfs = (struct record_lfs){
        .batch = true, .operation = SLICE("download"), .objects = 1, .bytes = 2, .fields = 3};
    expect_back(&r);
    struct record gap = {.event = RECORD_GAP, .sink = SLICE("channel")};
    expect_back(&gap);
    gap.count = 9;
    gap.from_ms = 1000;
    gap.to_ms = 2000;
    expect_back(&gap);
    /* a number of nothing is told as well */
    struct record none = {.event = RECORD_OUTCOME, .has = RECORD_HAS_SENT, .refs_omitted = 1};
    expect_back(&none);
}

/* 5,000 refs with long names and every text at its limit: it still fits, and says what it left out. */
static void the_largest_fits(void **state) {
    (void)state;
    static char text[2 * RECORD_URL_MAX];
    static struct record_ref refs[RECORD_REFS_MAX];
    memset(text, 1, sizeof text);
    struct slice s = slice_make(text, sizeof text);
    for (size_t i = 0; i < RECORD_REFS_MAX; i++)
        refs[i] = (struct record_ref){slice_make(text, 200), slice_make(text, 64), slice_make(text, 64),
                                      SLICE("create")};
    struct record r = {.event = RECORD_VERDICT,
                       .id = ulid_new(),
                       .sandbox = s,
                       .reason = s,
                       .code = s,
                       .rule = s,
                       .method = s,
                       .url = s,
                       .git_service = s,
                       .git_command = s,
                       .refs = refs,
                       .nrefs = RECORD_REFS_MAX,
                       .options = s,
                       .unpack = s,
                       .lfs.operation = s,
                       .protocol = s,
                       .credential = s,
                       .upstream = s,
                       .upstream_protocol = s,
                       .sink = s};
    struct record got;
    uint8_t memory[MSG_MAX];
    struct msg_out out;
    struct msg_in in;
    struct buf json;
    record_encode(&r, &out, memory, sizeof memory);
    assert_int_equal(out.err, 0);
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    assert_int_equal(record_decode(&in, &got, decoded_refs), 0);
    assert_true(got.nrefs > 100 && got.nrefs + got.refs_omitted == RECORD_REFS_MAX);
    buf_init(&json, RECORD_JSON_MAX);
    assert_int_equal(record_json(&got, &json), 0);
    buf_release(&json);
}

/* Whatever a sender makes of a message: an error or a record that can be written, never more. */
static void try_message(const uint8_t *p, size_t n, bool *accepted) {
    struct msg_in in;
    struct record r;
    struct buf b;
    *accepted = false;
    if (msg_parse(&in, p, n) || record_decode(&in, &r, decoded_refs))
        return;
    *accepted = true;
    buf_init(&b, RECORD_JSON_MAX);
    assert_int_equal(record_json(&r, &b), 0);
    buf_clear(&b);
    assert_int_equal(record_line(&r, RECORD_COLOUR | RECORD_SANDBOX, &b), 0);
    buf_release(&b);
}

static void hostile_messages(void **state) {
    (void)state;
    struct record r = a_record();
    uint8_t memory[4096];
    struct msg_out out;
    bool accepted;
    record_encode(&r, &out, memory, sizeof memory);
    for (size_t n = 0; n < out.n; n++) {
        uint8_t *copy = malloc(n ? n : 1); /* so that a sanitizer sees a step too far */
        memcpy(copy, out.p, n);
        try_message(copy, n, &accepted);
        assert_false(accepted);
        free(copy);
    }
    for (size_t bit = 0; bit < out.n * 8; bit++) {
        out.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_message(out.p, out.n, &accepted);
        out.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    memory[out.n] = 0;
    try_message(out.p, out.n + 1, &accepted);
    assert_false(accepted);
    r.has = 16;
    record_encode(&r, &out, memory, sizeof memory);
    try_message(out.p, out.n, &accepted);
    assert_false(accepted);
    r.has = 0;
    r.time_ms = UINT64_MAX;
    record_encode(&r, &out, memory, sizeof memory);
    try_message(out.p, out.n, &accepted);
    assert_false(accepted);
}

/* --- the channel -------------------------------------------------------------------------------------- */

struct reader {
    struct recording from;
    uint64_t records, missing, last_sent;
    bool in_order;
};

/* Reads all there is; counts records, and those that a gap says are missing. */
static void read_all(struct reader *reader) {
    struct msg_in in;
    struct record r;
    while (recording_take(&reader->from, &in)) {
        assert_int_equal(record_decode(&in, &r, decoded_refs), 0);
        if (r.event == RECORD_GAP) {
            assert_true(slice_eq(r.sink, SLICE("channel")) && r.from_ms <= r.to_ms);
            reader->missing += r.count;
            continue;
        }
        reader->records++;
        reader->in_order = reader->in_order && r.sent > reader->last_sent;
        reader->last_sent = r.sent;
    }
    ring_done(reader->from.ring);
}

static void a_slow_scribe(void **state) {
    (void)state;
    struct event_base *base = event_base_new();
    struct reader reader = {.in_order = true};
    recording_open(&reader.from, base, NULL, NULL);
    struct recorder *c = reader.from.recorder;
    struct record r = a_record();
    const uint64_t many = 30000;
    for (r.sent = 1; r.sent <= many; r.sent++)
        recorder_send(c, &r);
    assert_true(recorder_lost(c) > 0 && recorder_lost(c) < many);
    for (int turn = 0; turn < 10000 && !recorder_empty(c); turn++) {
        read_all(&reader);
        loop_for(base, 2 * RECORDER_RETRY_MS);
    }
    assert_true(recorder_empty(c));
    recorder_send(c, &r); /* goes straight through again */
    read_all(&reader);
    assert_int_equal(reader.records + reader.missing, many + 1);
    assert_int_equal(reader.missing, recorder_lost(c));
    assert_true(reader.in_order);
    recording_close(&reader.from);
    event_base_free(base);
}

/* One that does more than the scribe can write loses its own, also when it is not the only one. */
static void one_that_floods(void **state) {
    (void)state;
    struct event_base *base = event_base_new();
    struct reader reader = {.in_order = true};
    recording_open(&reader.from, base, NULL, NULL);
    struct recorder *c = reader.from.recorder;
    struct record flood = a_record(), other = a_record(), third = a_record();
    flood.sandbox = SLICE("flood");
    other.sandbox = SLICE("other");
    third.sandbox = SLICE("third");
    for (int i = 0; i < 30000; i++)
        recorder_send(c, &flood);
    uint64_t lost = recorder_lost(c);
    assert_true(lost > 0);
    for (int i = 0; i < 1000; i++) {
        recorder_send(c, &other);
        recorder_send(c, &flood);
    }
    assert_int_equal(recorder_lost(c), lost + 1000);
    for (int i = 0; i < 30000; i++)
        recorder_send(c, &third);
    lost = recorder_lost(c);
    for (int i = 0; i < 100; i++)
        recorder_send(c, &other);
    assert_int_equal(recorder_lost(c), lost);
    uint64_t left = 2 * 30000 + 2 * 1000 + 100;
    for (int turn = 0; turn < 10000 && !recorder_empty(c); turn++) {
        read_all(&reader);
        loop_for(base, 2 * RECORDER_RETRY_MS);
    }
    read_all(&reader);
    assert_int_equal(reader.records + reader.missing, left);
    assert_int_equal(reader.missing, lost);
    recording_close(&reader.from);
    event_base_free(base);
}

static void set_flag(void *arg) {
    *(bool *)arg = true;
}

static bool get_flag(void *arg) {
    return *(bool *)arg;
}

static void a_dead_scribe(void **state) {
    (void)state;
    struct event_base *base = event_base_new();
    bool gone = false;
    struct reader reader = {.in_order = true};
    recording_open(&reader.from, base, set_flag, &gone);
    struct recorder *c = reader.from.recorder;
    struct record r = a_record();
    close(reader.from.scribe);
    reader.from.scribe = -1;
    recorder_send(c, &r);
    assert_false(gone);
    assert_true(loop_until(base, get_flag, &gone, LOOP_PATIENCE));
    const uint64_t many = 3000; /* more than there is room for in the ring */
    for (r.sent = 1; r.sent <= many; r.sent++)
        recorder_send(c, &r);
    assert_int_equal(recorder_lost(c), 0); /* another one comes for them */
    for (int turn = 0; turn < 10000 && !recorder_empty(c); turn++) {
        read_all(&reader);
        loop_for(base, 2 * RECORDER_RETRY_MS);
    }
    read_all(&reader);
    assert_int_equal(reader.records, many + 1);
    recording_close(&reader.from);
    event_base_free(base);
}

/* What is recorded is there though its writer is no more; a scribe that sleeps is woken, once. */
static void a_scribe_that_sleeps(void **state) {
    (void)state;
    struct event_base *base = event_base_new();
    uint8_t memory[64];
    struct msg_in in;
    struct reader reader = {.in_order = true};
    recording_open(&reader.from, base, NULL, NULL);
    struct recorder *c = reader.from.recorder;
    int fd = reader.from.scribe;
    struct record r = a_record();
    for (r.sent = 1; r.sent <= 3; r.sent++)
        recorder_send(c, &r);
    assert_int_equal(msg_recv(fd, &in, memory, sizeof memory), ERR_AGAIN); /* he comes by himself */
    assert_false(ring_rest(reader.from.ring));                             /* there is something */
    read_all(&reader);
    assert_true(ring_rest(reader.from.ring));
    for (; r.sent <= 6; r.sent++)
        recorder_send(c, &r);
    assert_int_equal(msg_recv(fd, &in, memory, sizeof memory), 0);
    assert_int_equal(in.type, RECORD_WAKE);
    assert_int_equal(msg_end(&in), 0);
    assert_int_equal(msg_recv(fd, &in, memory, sizeof memory), ERR_AGAIN);
    recorder_free(c);
    reader.from.recorder = NULL;
    read_all(&reader);
    assert_int_equal(reader.records, 6);
    assert_true(reader.in_order);
    recording_close(&reader.from);
    event_base_free(base);
}

static void options_are_shown_without_their_values(void **state) {
    (void)state;
    static const struct slice some[] = {SLICE("ci.skip"), SLICE("ci.variable=TOKEN=SECRET-A"), SLICE("a=\nb"),
                                        SLICE("x\ny")};
    struct slice many[400];
    struct buf b;
    buf_init(&b, RECORD_TEXT_MAX);
    assert_int_equal(record_put_options(&b, some, 4), 0);
    assert_string_equal(buf_cstr(&b), "ci.skip\nci.variable=*\na=*\nx?y");
    buf_release(&b);
    for (size_t i = 0; i < 400; i++)
        many[i] = SLICE("merge_request.create");
    for (size_t n = 1; n <= 400; n += 7) {
        buf_init(&b, RECORD_TEXT_MAX);
        assert_int_equal(record_put_options(&b, many, n), 0);
        assert_int_equal(slice_ends(buf_slice(&b), SLICE("\n\342\200\246")), n > 48);
        buf_release(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_hide_values), cmocka_unit_test(options_are_shown_without_their_values),
        cmocka_unit_test(urls_are_bounded), cmocka_unit_test(json_has_the_keys),
        cmocka_unit_test(lines_for_people), cmocka_unit_test(lines_can_not_draw),
        cmocka_unit_test(loudness),         cmocka_unit_test(fields_are_the_same),
        cmocka_unit_test(lfs_is_told),      cmocka_unit_test(messages_come_back),
        cmocka_unit_test(the_largest_fits), cmocka_unit_test(hostile_messages),
        cmocka_unit_test(a_slow_scribe),    cmocka_unit_test(one_that_floods),
        cmocka_unit_test(a_dead_scribe),    cmocka_unit_test(a_scribe_that_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
