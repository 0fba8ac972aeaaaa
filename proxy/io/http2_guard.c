#include "proxy/io/http2_guard.h"

#define TEXT(number)  TEXT_(number)
#define TEXT_(number) #number
/* Budgets, in words. */
#define IDLE_LIMIT                                                                                           \
    ": of no use there may be " TEXT(HTTP2_GUARD_IDLE) " frames at once, and " TEXT(                         \
        HTTP2_GUARD_IDLE_SECOND) " a second"
#define RESETS_LIMIT                                                                                         \
    ": " TEXT(HTTP2_GUARD_RESETS) " at once, and " TEXT(HTTP2_GUARD_RESETS_SECOND) " a second"

void http2_guard_init(struct http2_guard *guard, uint64_t now_ms) {
    *guard = (struct http2_guard){.idle = HTTP2_GUARD_IDLE, .resets = HTTP2_GUARD_RESETS, .second = now_ms};
}

static void give(unsigned *left, uint64_t more, unsigned most) {
    *left = more > most - *left ? most : *left + (unsigned)more;
}

static void give_time(struct http2_guard *guard, uint64_t now_ms) {
    uint64_t seconds = (now_ms - guard->second) / 1000;
    if (seconds == 0)
        return;
    guard->second += seconds * 1000;
    if (seconds > HTTP2_GUARD_IDLE)
        seconds = HTTP2_GUARD_IDLE;
    give(&guard->idle, seconds * HTTP2_GUARD_IDLE_SECOND, HTTP2_GUARD_IDLE);
    give(&guard->resets, seconds * HTTP2_GUARD_RESETS_SECOND, HTTP2_GUARD_RESETS);
}

static const char *take(unsigned *left, const char *what) {
    if (*left == 0)
        return what;
    --*left;
    return NULL;
}

const char *http2_guard_frame(struct http2_guard *guard, const nghttp2_frame_hd *head, uint64_t now_ms) {
    give_time(guard, now_ms);
    switch (head->type) {
    case NGHTTP2_DATA:
        if (head->length > 0 || head->flags & NGHTTP2_FLAG_END_STREAM)
            return NULL;
        return take(&guard->idle, "too many empty DATA frames" IDLE_LIMIT);
    case NGHTTP2_HEADERS:
        guard->continuations = 0;
        return take(&guard->idle, "too many HEADERS frames for so few requests" IDLE_LIMIT);
    case NGHTTP2_CONTINUATION:
        return ++guard->continuations > HTTP2_GUARD_CONTINUATIONS
                   ? "a header block in more than " TEXT(HTTP2_GUARD_CONTINUATIONS) " CONTINUATION frames"
                   : NULL;
    case NGHTTP2_RST_STREAM: return take(&guard->idle, "too many RST_STREAM frames" IDLE_LIMIT);
    case NGHTTP2_SETTINGS: return take(&guard->idle, "too many SETTINGS frames" IDLE_LIMIT);
    case NGHTTP2_PING: return take(&guard->idle, "too many PING frames" IDLE_LIMIT);
    case NGHTTP2_WINDOW_UPDATE:
        return take(&guard->idle, "too many WINDOW_UPDATE frames for so little data" IDLE_LIMIT);
    case NGHTTP2_PRIORITY: return take(&guard->idle, "too many PRIORITY frames" IDLE_LIMIT);
    default:
        if (head->type >= HTTP2_EXTENSIONS)
            return take(&guard->idle, "too many frames of unknown types" IDLE_LIMIT);
        return take(&guard->idle, "too many frames of no meaning" IDLE_LIMIT);
    }
}

const char *http2_guard_broken(struct http2_guard *guard, uint64_t now_ms) {
    give_time(guard, now_ms);
    return take(&guard->resets, "too many streams were begun and reset" RESETS_LIMIT);
}

void http2_guard_data(struct http2_guard *guard, size_t n) {
    if (n >= HTTP2_GUARD_PIECE)
        give(&guard->idle, HTTP2_GUARD_IDLE_DATA, HTTP2_GUARD_IDLE);
}

/* What is short because there was no more is nobody's game: a message of a call, an event, a frame of a WebSocket. */
void http2_guard_sent(struct http2_guard *guard, size_t n, size_t left) {
    if (n >= HTTP2_GUARD_PIECE || (n && !left))
        give(&guard->idle, HTTP2_GUARD_IDLE_DATA, HTTP2_GUARD_IDLE);
}

void http2_guard_whole(struct http2_guard *guard) {
    give(&guard->idle, HTTP2_GUARD_IDLE_WHOLE, HTTP2_GUARD_IDLE);
    give(&guard->resets, 1, HTTP2_GUARD_RESETS);
}
