/* Errands: what goes out, what comes back, what ends them, and that each is on record before it leaves; and what is on record of
 * an exchange that ends with its sandbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "proxy/flow/errand.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"
#include "tests/unit/record_support.h"
#include "tests/unit/upstream_rig.h"
#include "tests/unit/vault_support.h"
#include "vault/keeper.h"

/* ---- a server that does what the path says ---- */

struct visit {
    char bytes[65536]; /* head and body of the request */
    size_t n;
    unsigned turn; /* of the connection, from 1 */
};

static void visit_say(int fd, const char *text) {
    (void)!write(fd, text, strlen(text));
}

static bool visit_read(int fd, struct visit *v) {
    v->n = 0;
    if (!server_head(NULL, fd, v->bytes, sizeof v->bytes))
        return false;
    v->n = strlen(v->bytes);
    const char *length = strstr(v->bytes, "\r\nContent-Length: ");
    size_t more = length ? strtoul(length + 18, NULL, 10) : 0;
    while (more && v->n < sizeof v->bytes - 1) {
        ssize_t n = read(fd, v->bytes + v->n, more);
        if (n <= 0)
            return false;
        v->n += (size_t)n;
        more -= (size_t)n;
    }
    v->bytes[v->n] = 0;
    return true;
}

/* False: the connection ends. */
static bool visit_answer(int fd, const struct visit *v) {
    char head[128];
    const char *path = strchr(v->bytes, ' ') + 1;
    if (strncmp(path, "/echo", 5) == 0 || strncmp(path, "/acme/echo", 10) == 0) {
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", v->n);
        visit_say(fd, head);
        visit_say(fd, v->bytes);
    } else if (strncmp(path, "/chunks", 7) == 0) {
        visit_say(fd, "HTTP/1.1 103 Early\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-");
        usleep(20000);
        visit_say(fd, "Encoding: chunked\r\n\r\n3\r\none\r\n");
        usleep(20000);
        visit_say(fd, "4\r\n two\r\n0\r\n\r\n");
    } else if (strncmp(path, "/away", 5) == 0) {
        visit_say(fd, "HTTP/1.1 302 Found\r\nLocation: http://b.test/\r\nContent-Length: 4\r\n\r\naway");
    } else if (strncmp(path, "/endless", 8) == 0) {
        visit_say(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        for (int i = 0; i < 1000; i++)
            visit_say(fd, "this goes on and on and on and on and on and on and on and on and on and on, ");
        return false;
    } else if (strncmp(path, "/hang", 5) == 0) {
        usleep(3000000);
    } else if (strncmp(path, "/cut", 4) == 0) {
        visit_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfew");
        return false;
    } else if (strncmp(path, "/toend", 6) == 0) {
        visit_say(fd, "HTTP/1.1 200 OK\r\n\r\nup to the end");
        return false;
    } else if (strncmp(path, "/gzip", 5) == 0) {
        visit_say(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok");
    } else if (strncmp(path, "/noise", 6) == 0) {
        visit_say(fd, "220 mail.test ready\r\n\r\n");
    } else if (strncmp(path, "/once", 5) == 0 && v->turn > 1) {
        return false; /* a server that had enough of the connection just when it was used again */
    } else {
        visit_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine");
    }
    return true;
}

static unsigned server_up(pid_t *pid) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 16), 0);
    getsockname(listener, (struct sockaddr *)&a, &n);
    *pid = fork();
    if (*pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGCHLD, SIG_IGN);
        for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
            static struct visit v;
            if (fork())
                continue;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            v.turn = 1;
            while (visit_read(fd, &v) && visit_answer(fd, &v))
                v.turn++;
            _exit(0);
        }
        _exit(1);
    }
    close(listener);
    return ntohs(a.sin_port);
}

/* ---- an exchange, with all that is around it ---- */

struct world {
    struct rig rig;
    pid_t server;
    char pin[64];
    const char *pins[2];
    struct vault *vault;
    struct keeper *keeper;
    struct vault_client *client;
    char sent[MSG_MAX], answer[MSG_MAX];
    size_t sent_n;
    struct recording records;
    struct engine engine;
    struct box box;
    struct xchg *x;

    /* what was heard */
    struct errand *errand;
    unsigned heads, overs, pieces;
    int status, err;
    char body[65536], why[512];
    size_t body_n;
    bool cancel_in_head, cancel_in_data;
};

static const char vault_text[] = "credential forge\n"
                                 "    for http://a.test/acme/**\n"
                                 "    from env EXEAT_TEST_A\n"
                                 "    inject basic x-access-token\n";

static int send_question(void *arg, const struct msg_out *m) {
    struct world *w = arg;
    memcpy(w->sent, m->p, m->n);
    w->sent_n = m->n;
    return 0;
}

static void deliver(struct world *w) {
    struct msg_in in;
    struct msg_out out;
    assert_int_equal(msg_parse(&in, w->sent, w->sent_n), 0);
    assert_int_equal(keeper_handle(w->keeper, KEEPER_WORKER, &in, &out, w->answer, sizeof w->answer, NULL),
                     0);
    w->sent_n = 0;
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    assert_int_equal(vault_client_feed(w->client, &in), 0);
}

static void world_vault(struct world *w) {
    static const char *const granted[] = {"forge"};
    char memory[1024];
    struct msg_out m, out;
    struct msg_in in;
    setenv("EXEAT_TEST_A", "SECRET-A", 1);
    w->vault = open_vault(NULL, vault_text);
    assert_int_equal(keeper_new(w->vault, NULL, NULL, &w->keeper, NULL), 0);
    assert_int_equal(vault_client_new(send_question, w, &w->client), 0);
    vault_put_grant(&m, memory, sizeof memory, 7, granted, 1);
    assert_int_equal(msg_parse(&in, m.p, m.n), 0);
    assert_int_equal(
        keeper_handle(w->keeper, KEEPER_SUPERVISOR, &in, &out, w->answer, sizeof w->answer, NULL), 0);
}

static struct world *world_open(void) {
    struct world *w = calloc(1, sizeof *w);
    snprintf(w->pin, sizeof w->pin, "a.test:80:127.0.0.1:%u", server_up(&w->server));
    w->pins[0] = w->pin;
    rig_open(&w->rig, "", w->pins, NULL);
    world_vault(w);
    recording_open(&w->records, w->rig.base, NULL, NULL);
    w->engine.config =
        (struct engine_config){.base = w->rig.base, .vault = w->client, .recorder = w->records.recorder};
    buf_init(&w->engine.text2, 65536);
    w->box = (struct box){.engine = &w->engine, .id = 7, .name = "sandbox", .pool = w->rig.pool};
    w->x = calloc(1, sizeof *w->x);
    w->x->box = &w->box;
    w->x->verdict.action = VERDICT_ALLOW;
    w->x->verdict.credential = SLICE("forge");
    w->x->target.scheme = URL_HTTP;
    w->x->target.port = 80;
    assert_int_equal(url_host_parse(SLICE("a.test"), &w->x->target.host, NULL), 0);
    decision_begin(&w->x->decision);
    return w;
}

static void world_close(struct world *w) {
    errand_cancel_all(w->x);
    free(w->x);
    buf_release(&w->engine.text2);
    recording_close(&w->records);
    vault_client_free(w->client);
    keeper_free(w->keeper);
    vault_free(w->vault);
    rig_close(&w->rig);
    kill(w->server, SIGKILL);
    waitpid(w->server, NULL, 0);
    free(w);
}

static void on_head(void *arg, const struct http1_response *resp) {
    struct world *w = arg;
    w->heads++;
    w->status = resp->status;
    if (w->cancel_in_head)
        errand_cancel(w->errand);
}

static void on_data(void *arg, struct slice bytes) {
    struct world *w = arg;
    w->pieces++;
    w->body_n += bytes.n;
    if (w->cancel_in_data)
        errand_cancel_all(w->x);
}

static void on_over(void *arg, const struct errand_answer *answer) {
    struct world *w = arg;
    w->overs++;
    w->status = answer->status;
    w->err = answer->err;
    assert_true(answer->err == 0 || answer->why[0]);
    snprintf(w->why, sizeof w->why, "%s", answer->err ? answer->why : "");
    snprintf(w->body, sizeof w->body, "%.*s", SLICE_ARG(answer->body));
}

static const struct errand_events whole = {.over = on_over}, streamed = {on_head, on_data, on_over};

static bool is_over(void *arg) {
    return ((struct world *)arg)->overs > 0;
}

static struct errand_ask asking(const char *target) {
    return (struct errand_ask){.method = SLICE("GET"),
                               .target = slice_str(target),
                               .purpose = "to know",
                               .ms = 2000,
                               .answer_max = 60000};
}

/* Starts it, and has the keeper answer. */
static void begin(struct world *w, const struct errand_ask *ask, const struct errand_events *events) {
    w->overs = w->heads = w->pieces = 0;
    w->body_n = 0;
    w->errand = errand_start(w->x, ask, events, w);
    assert_non_null(w->errand);
    assert_int_equal(w->overs, 0);
    if (w->x->verdict.credential.n)
        deliver(w);
}

static void run(struct world *w, const struct errand_ask *ask, const struct errand_events *events) {
    begin(w, ask, events);
    assert_true(loop_until(w->rig.base, is_over, w, LOOP_PATIENCE));
    assert_int_equal(w->overs, 1);
    assert_null(w->x->errands);
}

/* The next record, or false. */
static bool next_record(struct world *w, struct record *r) {
    static struct record_ref refs[RECORD_REFS_MAX];
    struct msg_in m;
    if (!recording_take(&w->records, &m))
        return false;
    assert_int_equal(record_decode(&m, r, refs), 0);
    return true;
}

/* ---- the tests ---- */

static void carries(void **state) {
    struct world *w = world_open();
    struct record r;
    struct http_field fields[] = {{.name = SLICE("Git-Protocol"), .value = SLICE("version=2")},
                                  {.name = SLICE("Content-Type"), .value = SLICE("text/x")}};
    struct errand_ask ask = asking("/echo/../x");
    (void)state;
    ask.method = SLICE("POST");
    ask.fields = fields;
    ask.nfields = 2;
    ask.body = SLICE("some body");
    assert_null(errand_start(w->x, &ask, &whole, w)); /* not a path that could be judged */
    w->x->verdict.credential = SLICE_NONE;
    ask.target = SLICE("/echo?a=b");
    run(w, &ask, &whole);
    assert_int_equal(w->err, 0);
    assert_int_equal(w->status, 200);
    assert_string_equal(w->body, "POST /echo?a=b HTTP/1.1\r\nHost: a.test\r\nGit-Protocol: version=2\r\n"
                                 "Content-Type: text/x\r\nUser-Agent: exeat/" PACKAGE_VERSION "\r\n"
                                 "Accept-Encoding: identity\r\nContent-Length: 9\r\n\r\nsome body");
    assert_true(next_record(w, &r));
    assert_int_equal(r.event, RECORD_ERRAND);
    assert_string_equal(r.id.text, w->x->decision.id.text);
    assert_true(slice_eq(r.method, SLICE("POST")) && slice_eq(r.url, SLICE("http://a.test/echo?a=*")));
    assert_true(slice_eq(r.reason, SLICE("to know")) && r.credential.n == 0);
    assert_false(next_record(w, &r));
    world_close(w);
}

static void lends(void **state) {
    struct world *w = world_open();
    struct record r;
    struct errand_ask ask = asking("/echo");
    (void)state;
    /* the keeper binds by path, and is asked about this one */
    run(w, &ask, &whole);
    assert_int_equal(w->err, ERR_DENIED);
    assert_non_null(strstr(w->why, "credential forge: "));
    assert_false(next_record(w, &r));
    ask.target = SLICE("/acme/echo");
    run(w, &ask, &whole);
    assert_int_equal(w->err, 0);
    /* "x-access-token:SECRET-A" */
    assert_non_null(strstr(w->body, "\r\nAuthorization: Basic eC1hY2Nlc3MtdG9rZW46U0VDUkVULUE=\r\n"));
    assert_true(next_record(w, &r));
    assert_true(slice_eq(r.credential, SLICE("forge")));
    /* none is granted to another sandbox */
    w->box.id = 8;
    run(w, &ask, &whole);
    assert_int_equal(w->err, ERR_DENIED);
    assert_false(next_record(w, &r));
    world_close(w);
}

static void only_for_what_is_permitted(void **state) {
    struct world *w = world_open();
    struct errand_ask ask = asking("/acme/app");
    (void)state;
    w->x->verdict.action = VERDICT_DENY;
    assert_null(errand_start(w->x, &ask, &whole, w));
    w->x->verdict.action = VERDICT_ALLOW;
    for (int i = 0; i < ERRANDS_MAX; i++)
        assert_non_null(errand_start(w->x, &ask, &whole, w));
    assert_null(errand_start(w->x, &ask, &whole, w));
    assert_non_null(strstr(w->x->errand_why, "too often"));
    w->x->nerrands = 0;
    assert_int_equal(limits_new(1, &w->box.limits, NULL), 0);
    while (limits_take_errand(w->box.limits, clock_monotonic_ms()))
        ;
    assert_null(errand_start(w->x, &ask, &whole, w));
    assert_non_null(strstr(w->x->errand_why, "within a minute"));
    limits_free(w->box.limits);
    w->box.limits = NULL;
    world_close(w);
}

static void answers(void **state) {
    static const struct {
        const char *path;
        int err, status;
        const char *body;
    } rows[] = {
        {"/chunks", 0, 200, "one two"},   {"/away", 0, 302, "away"},     {"/toend", 0, 200, "up to the end"},
        {"/endless", ERR_LIMIT, 200, ""}, {"/hang", ERR_TIMEOUT, 0, ""}, {"/cut", ERR_IO, 200, ""},
        {"/gzip", ERR_PARSE, 200, ""},    {"/noise", ERR_PARSE, 0, ""},
    };
    struct world *w = world_open();
    (void)state;
    w->x->verdict.credential = SLICE_NONE;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct errand_ask ask = asking(rows[i].path);
        ask.ms = 500;
        run(w, &ask, &whole);
        if (w->err != rows[i].err || w->status != rows[i].status || strcmp(w->body, rows[i].body) != 0)
            fail_msg("%s: %d %d %s (%s)", rows[i].path, w->err, w->status, w->body, w->why);
    }
    assert_int_equal(upstream_pool_open(w->rig.pool), upstream_pool_idle(w->rig.pool));
    world_close(w);
}

static void streams(void **state) {
    struct world *w = world_open();
    struct errand_ask ask = asking("/chunks");
    (void)state;
    w->x->verdict.credential = SLICE_NONE;
    run(w, &ask, &streamed);
    assert_true(w->heads == 1 && w->pieces >= 2 && w->body_n == 7 && w->err == 0);
    assert_string_equal(w->body, "");
    world_close(w);
}

static void again_on_a_stale_connection(void **state) {
    struct world *w = world_open();
    struct record r;
    struct errand_ask ask = asking("/once");
    (void)state;
    w->x->verdict.credential = SLICE_NONE;
    for (int i = 0; i < 3; i++) {
        run(w, &ask, &whole);
        assert_int_equal(w->err, 0);
        assert_string_equal(w->body, "fine");
        assert_true(next_record(w, &r));
        assert_false(next_record(w, &r)); /* one errand is one record, also when it is sent twice */
    }
    world_close(w);
}

static bool has_head(void *arg) {
    return ((struct world *)arg)->heads > 0;
}

static bool has_piece(void *arg) {
    return ((struct world *)arg)->pieces > 0;
}

static void cancelled(void **state) {
    struct world *w = world_open();
    struct errand_ask ask = asking("/acme/app");
    (void)state;
    /* at each of its stages: with the keeper, connecting, waiting, in its callbacks */
    w->errand = errand_start(w->x, &ask, &streamed, w);
    errand_cancel(w->errand);
    deliver(w);
    begin(w, &ask, &streamed);
    errand_cancel(w->errand);
    w->x->verdict.credential = SLICE_NONE;
    ask.target = SLICE("/hang");
    begin(w, &ask, &streamed);
    loop_for(w->rig.base, 100);
    errand_cancel(w->errand);
    ask.target = SLICE("/chunks");
    w->cancel_in_head = true;
    begin(w, &ask, &streamed);
    assert_true(loop_until(w->rig.base, has_head, w, LOOP_PATIENCE));
    w->cancel_in_head = false;
    w->cancel_in_data = true;
    begin(w, &ask, &streamed);
    assert_true(loop_until(w->rig.base, has_piece, w, LOOP_PATIENCE));
    loop_for(w->rig.base, 100);
    assert_true(w->pieces == 1 && w->overs == 0 && w->x->errands == NULL);
    assert_int_equal(upstream_pool_open(w->rig.pool), upstream_pool_idle(w->rig.pool));
    world_close(w);
}

/* ---- what else an exchange leaves behind ---- */

/* An upload that goes on behind its answer has no client any more: what breaks it off is exeat, though this goes on. */
static void ends_with_its_sandbox_alone(void **state) {
    static const struct xchg_client answered;
    struct world *w = world_open();
    struct box *box = calloc(1, sizeof *box);
    struct record r;
    (void)state;
    *box = w->box;
    box->pool = upstream_pool_new(w->rig.upstream, NULL);
    box->link = &w->engine.boxes;
    w->engine.boxes = box;
    w->x->box = box;
    w->x->client = &answered;
    w->x->state = XCHG_TAIL;
    LIST_INSERT_HEAD(&box->tails, w->x, tail);
    xchg_record(w->x, false, NULL, SLICE_NONE);
    engine_remove_sandbox(&w->engine, box->id);
    assert_true(next_record(w, &r) && r.event == RECORD_VERDICT);
    assert_true(next_record(w, &r) && r.event == RECORD_OUTCOME);
    assert_true(slice_eq(r.code, SLICE("exeat-ended")));
    assert_true(w->engine.spare_xchgs == w->x && !w->engine.boxes);
    w->x->box = &w->box;
    world_close(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries),   cmocka_unit_test(lends),
        cmocka_unit_test(answers),   cmocka_unit_test(only_for_what_is_permitted),
        cmocka_unit_test(streams),   cmocka_unit_test(again_on_a_stale_connection),
        cmocka_unit_test(cancelled), cmocka_unit_test(ends_with_its_sandbox_alone),
    };
    return cmocka_run_group_tests(tests, make_roots, free_roots);
}
