/*
 * Fuzz harness for the ClientHello: any cut gives the same result, and where OpenSSL reads the same bytes as a
 * ClientHello, it sees the same name, or none as well.
 */
#include <stdlib.h>

#include <openssl/ssl.h>

#include "proxy/codec/clienthello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth)
        abort();
}

static int feed(struct clienthello *c, struct slice in, size_t piece) {
    int r = ERR_INCOMPLETE;
    clienthello_init(c);
    for (size_t at = 0; at < in.n && r == ERR_INCOMPLETE; at += piece)
        r = clienthello_feed(c, slice_sub(in, at, piece));
    return r;
}

struct other {
    bool called, name;
    char text[65536];
    size_t n;
};

static int on_hello(SSL *ssl, int *alert, void *arg) {
    struct other *o = arg;
    const unsigned char *p;
    size_t n;
    (void)alert;
    o->called = true;
    o->name = SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &n) == 1;
    if (o->name) {
        memcpy(o->text, p, n);
        o->n = n;
    }
    return SSL_CLIENT_HELLO_ERROR;
}

/* The same, by OpenSSL. */
static void ask_other(struct slice in, struct other *o) {
    static SSL_CTX *ctx;
    if (!ctx)
        ctx = SSL_CTX_new(TLS_server_method());
    SSL *ssl = SSL_new(ctx);
    BIO *wire = BIO_new_mem_buf(in.p, (int)in.n), *sink = BIO_new(BIO_s_mem());
    must(ssl && wire && sink);
    SSL_CTX_set_client_hello_cb(ctx, on_hello, o);
    SSL_set_bio(ssl, wire, sink);
    (void)SSL_accept(ssl);
    SSL_free(ssl);
}

static void compare(const struct clienthello *c, const struct other *o) {
    must(o->name == (c->kind != CLIENTHELLO_NO_NAME));
    if (c->kind != CLIENTHELLO_NAME && c->kind != CLIENTHELLO_ADDRESS)
        return;
    struct slice name = slice_from(slice_make(o->text, o->n), 5);
    must(o->n > 5 && slice_caseeq(name, url_host_slice(&c->name)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct other o;
    struct slice in = slice_make(data, size);
    struct clienthello whole, bytes;
    int r = feed(&whole, in, in.n ? in.n : 1);
    must(feed(&bytes, in, 1) == r);
    must(whole.kind == bytes.kind && whole.ech == bytes.ech);
    must(slice_eq(url_host_slice(&whole.name), url_host_slice(&bytes.name)));
    must(r == 0 || r == ERR_INCOMPLETE || whole.why);
    o.called = false;
    if (r == 0 && size < 1 << 20)
        ask_other(in, &o);
    if (o.called)
        compare(&whole, &o);
    clienthello_release(&whole);
    clienthello_release(&bytes);
    return 0;
}
