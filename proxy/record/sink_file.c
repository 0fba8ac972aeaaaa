#include "proxy/record/sink_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

struct sink_file {
    int fd;
    bool broken; /* the last line failed; trouble has been said */
    bool torn;   /* … and part of it is in the file */
    uint64_t count, from_ms, to_ms;
};

struct sink_file *sink_file_new(int fd) {
    struct sink_file *s = calloc(1, sizeof *s);
    if (!s) {
        close(fd);
        return NULL;
    }
    s->fd = fd;
    return s;
}

void sink_file_free(struct sink_file *s) {
    if (!s)
        return;
    close(s->fd);
    free(s);
}

/* Bytes written, or -1. A short write means that the disk is full (or a limit reached): what is missing is
 * tried once. */
static ssize_t write_most(int fd, struct slice s) {
    size_t done = 0;
    while (done < s.n) {
        ssize_t n = write(fd, s.p + done, s.n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return done ? (ssize_t)done : -1;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int failed(struct sink_file *s, int saved, struct slice missing, uint64_t from_ms, uint64_t to_ms) {
    if (!s->broken)
        log_error("decisions can't be written to the log file (%s); they are counted, and it is tried again "
                  "with each",
                  strerror(saved));
    s->broken = true;
    if (s->count == 0)
        s->from_ms = from_ms;
    s->to_ms = to_ms;
    for (size_t i = 0; i < missing.n; i++)
        s->count += missing.p[i] == '\n';
    return ERR_IO;
}

int sink_file_write(struct sink_file *s, struct slice lines, uint64_t from_ms, uint64_t to_ms) {
    errno = 0;
    if (s->torn) {
        if (write_most(s->fd, SLICE("\n")) != 1)
            return failed(s, errno, lines, from_ms, to_ms);
        s->torn = false;
    }
    ssize_t n = write_most(s->fd, lines);
    if (n != (ssize_t)lines.n) {
        s->torn = n > 0 && lines.p[n - 1] != '\n';
        return failed(s, errno, slice_from(lines, n > 0 ? (size_t)n : 0), from_ms, to_ms);
    }
    if (s->broken)
        log_warn("decisions are written to the log file again; %llu are missing",
                 (unsigned long long)s->count);
    s->broken = false;
    return 0;
}

bool sink_file_take_gap(struct sink_file *s, bool force, struct record *gap) {
    if (s->count == 0 || (s->broken && !force))
        return false;
    *gap = (struct record){.event = RECORD_GAP,
                           .id = ulid_new(),
                           .time_ms = clock_wall_ms(),
                           .count = s->count,
                           .from_ms = s->from_ms,
                           .to_ms = s->to_ms,
                           .sink = SLICE("file")};
    s->count = 0;
    return true;
}
