#include "proxy/flow/engine.h"
#include "proxy/upstream/upstream.h"

#define DURATION_MAX (24u * 60 * 60 * 1000)

void engine_limits_default(struct engine_limits *limits) {
    *limits = (struct engine_limits){
        .handshake_ms = 30 * 1000,
        .head_ms = 30 * 1000,
        .connect_ms = UPSTREAM_CONNECT_MS,
        .idle_ms = 5 * 60 * 1000,
        .silence_ms = UPSTREAM_SILENT_MS,
        .answer_ms = 30 * 60 * 1000,
        .body_ms = 10 * 60 * 1000,
        .relay_ms = 60 * 60 * 1000,
        .linger_ms = 10 * 1000,
        .connections = 16384,
        .sandbox_connections = 8192,
        .sandbox_streams = 2048,
        .sandbox_memory = 128u << 20,
        .accept_burst = 32,
        .push_memory = 256u << 20,
    };
}

/* ---- by name ---- */

static const struct {
    const char *name;
    size_t at;
} times[] = {
    {"handshake", offsetof(struct engine_limits, handshake_ms)},
    {"head", offsetof(struct engine_limits, head_ms)},
    {"connect", offsetof(struct engine_limits, connect_ms)},
    {"idle", offsetof(struct engine_limits, idle_ms)},
    {"silence", offsetof(struct engine_limits, silence_ms)},
    {"answer", offsetof(struct engine_limits, answer_ms)},
    {"body", offsetof(struct engine_limits, body_ms)},
    {"relay", offsetof(struct engine_limits, relay_ms)},
};

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

int engine_limits_set_time(struct engine_limits *limits, struct slice text, struct errmsg *msg) {
    struct slice name, value;
    unsigned ms;
    slice_cut(text, '=', &name, &value);
    if (!read_duration(value, &ms))
        return errmsg_set(msg, ERR_USAGE,
                          "--time-limit: '%.*s': a time is written as 500ms, 30s, 5m or 1h, up to 24h",
                          SLICE_ARG(text));
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (!slice_eq(name, slice_str(times[i].name)))
            continue;
        memcpy((char *)limits + times[i].at, &ms, sizeof ms);
        return 0;
    }
    return errmsg_set(msg, ERR_USAGE,
                      "--time-limit: '%.*s': there are limits for handshake, head, connect, silence, idle, "
                      "body, answer and relay",
                      SLICE_ARG(name));
}
