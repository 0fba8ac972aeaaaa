#include "proxy/io/http2_io.h"

#include <openssl/crypto.h>
#include <stdlib.h>

#include "proxy/io/http2_guard.h"

/* ---- fields ---- */

static void nv_put(struct http2_nvs *nvs, struct slice name, struct slice value, uint8_t flags) {
    if (nvs->n == HTTP2_NV_MAX)
        return;
    nvs->nv[nvs->n++] = (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name.p,
        .namelen = name.n,
        .value = (uint8_t *)(uintptr_t)(value.p ? value.p : ""),
        .valuelen = value.n,
        .flags = flags,
    };
}

void http2_nv_put(struct http2_nvs *nvs, struct slice name, struct slice value) {
    nv_put(nvs, name, value, NGHTTP2_NV_FLAG_NONE);
}

void http2_nv_field(struct http2_nvs *nvs, const struct http_field *field) {
    nv_put(nvs, field->name, field->value, field->never ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE);
}

void http2_nv_secret(struct http2_nvs *nvs, struct slice name, struct slice value) {
    nv_put(nvs, name, value, NGHTTP2_NV_FLAG_NO_INDEX);
}

/* ---- a body on its way out ---- */

void http2_out_init(struct http2_out *out, nghttp2_session *session, struct io *io, int32_t id,
                    void (*sent)(struct http2_out *out, size_t n)) {
    *out = (struct http2_out){.session = session, .io = io, .id = id, .sent = sent};
    buf_init(&out->bytes, HTTP2_OUT_MAX);
    http2_list_init(&out->trailers);
    io_share_begin(&out->share, io->share.memory);
}

void http2_out_release(struct http2_out *out) {
    buf_release(&out->bytes);
    io_share_end(&out->share);
    http2_list_clear(&out->trailers);
}

static void out_trailers(struct http2_out *out) {
    struct http2_nvs nvs = {.n = 0};
    struct http_field field;
    size_t at = 0;
    while (http2_list_next(&out->trailers, &at, &field))
        http2_nv_field(&nvs, &field);
    nghttp2_submit_trailer(out->session, out->id, nvs.nv, nvs.n);
}

/* So much of it may go now. */
static size_t out_ready(const struct http2_out *out) {
    size_t have = buf_len(&out->bytes);
    return have && have == out->left && !out->complete ? have - 1 : have;
}

/* nghttp2's read callback: how much the next frame takes. */
static ssize_t out_read(nghttp2_session *session, int32_t id, uint8_t *p, size_t n, uint32_t *flags,
                        nghttp2_data_source *source, void *arg) {
    struct http2_out *out = source->ptr;
    size_t have = out_ready(out);
    (void)session;
    (void)id;
    (void)p;
    (void)arg;
    if (have == 0 && !out->complete) {
        out->waiting = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (have > n)
        return (ssize_t)n;
    if (out->complete) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (out->trailers.fields) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            out_trailers(out);
        }
    }
    return (ssize_t)have;
}

nghttp2_data_provider http2_out_provider(struct http2_out *out) {
    return (nghttp2_data_provider){.source = {.ptr = out}, .read_callback = out_read};
}

/* nghttp2's send_data callback. */
static int out_send(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
                    nghttp2_data_source *source, void *arg) {
    struct http2_out *out = source->ptr;
    (void)session;
    (void)frame;
    (void)arg;
    if (io_full(out->io))
        return NGHTTP2_ERR_WOULDBLOCK;
    if (buf_put(io_queue(out->io), slice_make(head, HTTP2_FRAME_HEAD)) ||
        buf_put(io_queue(out->io), slice_sub(buf_slice(&out->bytes), 0, n)))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    buf_consume(&out->bytes, n);
    buf_trim(&out->bytes);
    io_share_set(&out->share, out->bytes.cap);
    out->left -= n < out->left ? n : out->left;
    out->sent(out, n);
    return 0;
}

static void out_resume(struct http2_out *out) {
    if (!out->waiting)
        return;
    out->waiting = false;
    nghttp2_session_resume_data(out->session, out->id);
}

void http2_out_expect(struct http2_out *out, uint64_t length) {
    out->left = length;
}

int http2_out_put(struct http2_out *out, struct slice bytes) {
    int r = buf_put(&out->bytes, bytes);
    io_share_set(&out->share, out->bytes.cap);
    if (r == 0 && bytes.n)
        out_resume(out);
    return r;
}

void http2_out_end(struct http2_out *out, const struct http_field *trailers, size_t n) {
    if (out->complete)
        return;
    for (size_t i = 0; i < n; i++) {
        char name[256];
        if (trailers[i].hop || trailers[i].name.n > sizeof name)
            continue;
        for (size_t k = 0; k < trailers[i].name.n; k++)
            name[k] = ascii_lower(trailers[i].name.p[k]);
        if (http2_list_add(&out->trailers, slice_make(name, trailers[i].name.n), trailers[i].value,
                           trailers[i].never)) {
            nghttp2_submit_rst_stream(out->session, NGHTTP2_FLAG_NONE, out->id, NGHTTP2_INTERNAL_ERROR);
            return; /* a message without its trailers is not told as a whole one */
        }
    }
    out->complete = true;
    out_resume(out);
}

bool http2_out_full(struct http2_out *out) {
    bool full = out_ready(out) >= (io_share_pressed(&out->share) ? 1 : HTTP2_HIGH);
    out->was_full |= full;
    return full;
}

bool http2_out_drains(const struct http2_out *out) {
    return out->was_full && out_ready(out) <= (io_share_pressed(&out->share) ? 0 : HTTP2_LOW);
}

bool http2_out_drained(struct http2_out *out) {
    bool now = http2_out_drains(out);
    if (now)
        out->was_full = false;
    return now;
}

/* ---- the loop ---- */

/* Into the io's queue, until that is full. */
static int send_some(nghttp2_session *session, struct io *io, bool wipe) {
    while (!io_full(io)) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_send(session, &p);
        if (n == 0)
            break;
        if (n < 0 || buf_put(io_queue(io), slice_make(p, (size_t)n)))
            return ERR_NOMEM;
        /* it is the library's, but it has done with it: the next frame is written there */
        if (wipe)
            OPENSSL_cleanse((void *)(uintptr_t)p, (size_t)n);
    }
    return 0;
}

int http2_send(nghttp2_session *session, struct io *io, bool wipe) {
    bool stopped;
    do {
        int r = send_some(session, io, wipe);
        stopped = io_full(io);
        if (r == 0)
            r = io_flush(io);
        if (r)
            return r;
        /* all went out at once: no event will say that there is room */
    } while (stopped && !io_full(io));
    return 0;
}

/* ---- memory ---- */

union block {
    size_t n;
    max_align_t align;
};

static void *wiping_malloc(size_t n, void *arg) {
    (void)arg;
    union block *b = n <= SIZE_MAX - sizeof *b ? malloc(sizeof *b + n) : NULL;
    if (!b)
        return NULL;
    b->n = n;
    return b + 1;
}

static void wiping_free(void *p, void *arg) {
    (void)arg;
    if (!p)
        return;
    union block *b = (union block *)p - 1;
    OPENSSL_cleanse(p, b->n);
    free(b);
}

static void *wiping_calloc(size_t n, size_t size, void *arg) {
    if (size && n > SIZE_MAX / size)
        return NULL;
    void *p = wiping_malloc(n * size, arg);
    if (p)
        memset(p, 0, n * size);
    return p;
}

static void *wiping_realloc(void *p, size_t n, void *arg) {
    void *q = wiping_malloc(n, arg);
    if (!p || !q)
        return q;
    size_t old = ((union block *)p - 1)->n;
    memcpy(q, p, old < n ? old : n);
    wiping_free(p, arg);
    return q;
}

nghttp2_mem *http2_wiping_memory(void) {
    static nghttp2_mem memory = {NULL, wiping_malloc, wiping_free, wiping_calloc, wiping_realloc};
    return &memory;
}

/* ---- the beginning ---- */

nghttp2_option *http2_option(void) {
    nghttp2_option *option;
    if (nghttp2_option_new(&option))
        return NULL;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    /* one read may bring more frames to be acknowledged than the guard lets pass: he is to say so, not the library */
    nghttp2_option_set_max_outbound_ack(option, HTTP2_GUARD_IDLE + 1);
    /* the beginning of an extension's frame is told of those types alone that are said to be used */
    for (unsigned type = HTTP2_EXTENSIONS; type <= UINT8_MAX; type++)
        nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
    return option;
}

static int ignore_extension(nghttp2_session *session, void **payload, const nghttp2_frame_hd *head,
                            void *arg) {
    (void)session;
    (void)payload;
    (void)head;
    (void)arg;
    return NGHTTP2_ERR_CANCEL;
}

nghttp2_session_callbacks *http2_callbacks(void) {
    nghttp2_session_callbacks *c;
    if (nghttp2_session_callbacks_new(&c))
        return NULL;
    nghttp2_session_callbacks_set_send_data_callback(c, out_send);
    nghttp2_session_callbacks_set_unpack_extension_callback(c, ignore_extension);
    return c;
}

struct slice http2_broken_rule(const nghttp2_goaway *goaway) {
    if (goaway->opaque_data_len)
        return slice_make(goaway->opaque_data, goaway->opaque_data_len);
    return slice_str(nghttp2_http2_strerror(goaway->error_code));
}

struct slice http2_alpn(bool http2) {
    const struct slice both = SLICE("\x02h2\x08http/1.1");
    return http2 ? both : slice_from(both, 3);
}

bool http2_chosen(const struct io *io) {
    const unsigned char *name = NULL;
    unsigned n = 0;
    if (io->ssl)
        SSL_get0_alpn_selected(io->ssl, &name, &n);
    return slice_eq(slice_make(name, n), SLICE("h2"));
}
