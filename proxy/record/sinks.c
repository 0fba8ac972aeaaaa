#include "proxy/record/sinks.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proxy/record/notices.h"
#include "proxy/record/sink_file.h"

#define LINES_MAX 65536 /* bytes after which the file is written to within a turn */

struct sinks {
    struct event_base *base;
    struct sink_file *file;
    struct sink_redis *redis;
    int line_fd;
    int loudness;
    unsigned style;
    struct notices notices;
    struct buf text;  /* a line at a time; kept for the next */
    struct buf lines; /* for the file, of this turn of the loop */
    uint64_t lines_from, lines_to;
    struct event *turn;
    bool turn_due;
    struct event *stop;
    void (*done)(void *arg);
    void *done_arg;
    struct record_ref *refs; /* RECORD_REFS_MAX, for decoding */
};

/*
 * Standard error may be a pipe that nobody reads or a stopped terminal, and the scribe must not wait for
 * it. The descriptor is shared with the user's shell, so its flags are not ours to change: poll tells, and
 * promises a pipe room for PIPE_BUF bytes. What can't be written is left out; the file has it.
 */
static void put_line(struct sinks *s) {
    struct slice line = buf_slice(&s->text);
    struct pollfd p = {.fd = s->line_fd, .events = POLLOUT};
    if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
        return;
    struct slice tail = SLICE("\xe2\x80\xa6\n");
    struct iovec v[2] = {{(void *)(uintptr_t)line.p, line.n}, {(void *)(uintptr_t)tail.p, 0}};
    if (line.n > PIPE_BUF) {
        v[0].iov_len = PIPE_BUF - tail.n;
        v[1].iov_len = tail.n;
    }
    while (writev(s->line_fd, v, 2) < 0 && errno == EINTR)
        ;
}

static void write_line(struct sinks *s, const struct record *r) {
    if (s->line_fd < 0 || s->loudness <= 0)
        return;
    buf_clear(&s->text);
    enum notice notice = notices_take(&s->notices, r);
    int e = 0;
    if (record_shown(r, s->loudness))
        e = record_line(r, s->style, &s->text);
    else if (notice == NOTICE_TELL)
        e = record_notice(r, &s->text);
    else if (notice == NOTICE_MORE)
        buf_puts(&s->text, NOTICES_LAST);
    if (e == 0 && buf_len(&s->text))
        put_line(s);
}

static void flush_file(struct sinks *s) {
    if (buf_len(&s->lines) == 0)
        return;
    (void)sink_file_write(s->file, buf_slice(&s->lines), s->lines_from, s->lines_to);
    buf_clear(&s->lines);
}

static void write_file(struct sinks *s, const struct record *r) {
    if (!s->file)
        return;
    if (buf_len(&s->lines) > LINES_MAX)
        flush_file(s);
    size_t before = buf_len(&s->lines);
    if (before == 0)
        s->lines_from = r->time_ms;
    s->lines_to = r->time_ms;
    if (record_json(r, &s->lines)) { /* memory is short: no half line */
        s->lines.end = s->lines.start + before;
        s->lines.failed = false;
    }
}

/* What is there goes to the file; a gap of one sink goes to the others as well. */
static void settle(struct sinks *s, bool force) {
    struct record gap;
    flush_file(s);
    if (s->redis && sink_redis_take_gap(s->redis, force, &gap)) {
        write_file(s, &gap);
        write_line(s, &gap);
    }
    if (s->file && sink_file_take_gap(s->file, force, &gap)) {
        write_file(s, &gap);
        write_line(s, &gap);
        if (s->redis)
            (void)sink_redis_write(s->redis, &gap);
    }
    flush_file(s);
}

static void on_turn(evutil_socket_t fd, short what, void *arg) {
    struct sinks *s = arg;
    (void)fd;
    (void)what;
    s->turn_due = false;
    settle(s, false);
}

void sinks_write(struct sinks *s, const struct record *r) {
    write_file(s, r);
    if (s->redis)
        (void)sink_redis_write(s->redis, r);
    write_line(s, r);
    if (!s->turn_due) /* once for thousands of records */
        event_active(s->turn, EV_TIMEOUT, 0);
    s->turn_due = true;
}

void sinks_flush(struct sinks *s) {
    flush_file(s);
}

int sinks_receive(struct sinks *s, struct msg_in *m) {
    struct record r;
    int err = record_decode(m, &r, s->refs);
    if (err == 0)
        sinks_write(s, &r);
    return err;
}

/* --- life --------------------------------------------------------------------------------------------- */

static void stopped(struct sinks *s) {
    void (*done)(void *) = s->done;
    if (!done)
        return;
    s->done = NULL;
    event_del(s->stop);
    settle(s, true);
    done(s->done_arg);
}

static void on_stop_timer(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    stopped(arg);
}

static void on_redis_empty(void *arg) {
    struct sinks *s = arg;
    settle(s, false);
    if (s->done)
        stopped(s);
}

void sinks_stop(struct sinks *s, void (*done)(void *arg), void *arg) {
    struct record gap;
    flush_file(s);
    /* what the file lacks is still to be told to Redis, before it is drained */
    if (s->file && s->redis && sink_file_take_gap(s->file, true, &gap)) {
        write_file(s, &gap);
        (void)sink_redis_write(s->redis, &gap);
    }
    bool drained = !s->redis || sink_redis_empty(s->redis);
    struct timeval t = {.tv_sec = drained ? 0 : SINKS_STOP_MS / 1000,
                        .tv_usec = drained ? 0 : SINKS_STOP_MS % 1000 * 1000};
    s->done = done;
    s->done_arg = arg;
    event_add(s->stop, &t);
}

struct sinks *sinks_new(const struct sinks_config *config) {
    struct sinks *s = calloc(1, sizeof *s);
    if (!s) {
        if (config->log_fd >= 0)
            close(config->log_fd);
        return NULL;
    }
    s->base = config->base;
    s->line_fd = config->line_fd;
    s->loudness = config->loudness;
    s->style = config->style;
    buf_init(&s->text, RECORD_JSON_MAX);
    buf_init(&s->lines, LINES_MAX + RECORD_JSON_MAX);
    bool ok = true;
    if (config->log_fd >= 0)
        ok = (s->file = sink_file_new(config->log_fd)) != NULL;
    if (config->redis)
        ok = (s->redis = sink_redis_new(config->base, config->redis)) != NULL && ok;
    s->refs = calloc(RECORD_REFS_MAX, sizeof *s->refs);
    s->stop = evtimer_new(config->base, on_stop_timer, s);
    s->turn = event_new(config->base, -1, 0, on_turn, s);
    if (!ok || !s->refs || !s->stop || !s->turn) {
        sinks_free(s);
        return NULL;
    }
    if (s->redis)
        sink_redis_on_empty(s->redis, on_redis_empty, s);
    return s;
}

void sinks_free(struct sinks *s) {
    if (!s)
        return;
    if (s->file)
        flush_file(s);
    sink_file_free(s->file);
    sink_redis_free(s->redis);
    if (s->stop)
        event_free(s->stop);
    if (s->turn)
        event_free(s->turn);
    buf_release(&s->text);
    buf_release(&s->lines);
    free(s->refs);
    free(s);
}
