/* The engine's limits: what they are at first, and the times by their names. */
#include "proxy/flow/engine.h"

#include <stdio.h>

#include "proxy/upstream/upstream.h"

#define DURATION_MAX (24u * 60 * 60 * 1000)

enum { MS_s = 1000, MS_m = 60 * MS_s, MS_h = 60 * MS_m };

#define MS(NAME, name, number, unit) MS_##NAME = (number)*MS_##unit,
enum { TIME_LIMITS(MS) };

_Static_assert(MS_CONNECT == UPSTREAM_CONNECT_MS && MS_SILENCE == UPSTREAM_SILENT_MS,
               "the pool's own are the same");

#define DEFAULT(NAME, name, number, unit) .name##_ms = MS_##NAME,

void engine_limits_default(struct engine_limits *limits) {
    *limits = (struct engine_limits){
        TIME_LIMITS(DEFAULT).linger_ms = 10 * 1000,
        .connections = 16384,
        .sandbox_connections = 8192,
        .sandbox_streams = 2048,
        .sandbox_memory = 128u << 20,
        .accept_burst = 32,
        .push_memory = 256u << 20,
    };
}

/* ---- by name ---- */

#define ROW(NAME, name, number, unit)                                                                        \
    [TIME_LIMIT_##NAME] = {#name, offsetof(struct engine_limits, name##_ms)},

static const struct {
    const char *name;
    size_t at;
} times[] = {TIME_LIMITS(ROW)};

static const struct {
    const char *name;
    unsigned ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}};

static bool read_duration(struct slice text, unsigned *ms) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        struct slice unit = slice_str(units[i].name), digits = slice_sub(text, 0, text.n - unit.n);
        uint64_t n;
        if (!slice_ends(text, unit) || !slice_u64(digits, DURATION_MAX / units[i].ms, &n) || n == 0)
            continue;
        *ms = (unsigned)n * units[i].ms;
        return true;
    }
    return false;
}

static int no_such_limit(struct slice name, struct errmsg *msg) {
    char names[128] = "";
    size_t at = 0;
    for (size_t i = 0; i < TIME_LIMITS_COUNT; i++) {
        const char *before = i == 0 ? "" : i == TIME_LIMITS_COUNT - 1 ? " and " : ", ";
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", before, times[i].name);
    }
    return errmsg_set(msg, ERR_USAGE, "--time-limit: '%.*s': there are limits for %s", SLICE_ARG(name),
                      names);
}

int engine_limits_set_time(struct engine_limits *limits, struct slice text, struct errmsg *msg) {
    struct slice name, value;
    unsigned ms;
    slice_cut(text, '=', &name, &value);
    if (!read_duration(value, &ms))
        return errmsg_set(msg, ERR_USAGE,
                          "--time-limit: '%.*s': a time is written as 500ms, 30s, 5m or 1h, up to 24h",
                          SLICE_ARG(text));
    for (size_t i = 0; i < TIME_LIMITS_COUNT; i++) {
        if (!slice_eq(name, slice_str(times[i].name)))
            continue;
        memcpy((char *)limits + times[i].at, &ms, sizeof ms);
        return 0;
    }
    return no_such_limit(name, msg);
}

const char *engine_limits_met(const struct engine_limits *limits, enum time_limit which,
                              char text[TIME_LIMIT_TEXT]) {
    unsigned ms;
    size_t i = sizeof units / sizeof *units - 1;
    memcpy(&ms, (const char *)limits + times[which].at, sizeof ms);
    while (ms % units[i].ms)
        i--;
    snprintf(text, TIME_LIMIT_TEXT, "%u%s (--time-limit %s)", ms / units[i].ms, units[i].name,
             times[which].name);
    return text;
}
