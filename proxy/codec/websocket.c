#include "proxy/codec/websocket.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/base64.h"
#include "base/err.h"

#define KEY_LEN 24 /* 16 bytes in base64 */

/* The one value of a field; empty if it is not there, repeated or of this hop only. */
static struct slice only(const struct http_field *fields, size_t n, struct slice name) {
    size_t count;
    const struct http_field *field = http_find_name(fields, n, name, &count);
    return field && count == 1 ? field->value : SLICE_NONE;
}

/* Upgrade, once, naming nothing else. (It is a field of this hop, which http_find does not see.) */
static bool names_websocket(const struct http_field *fields, size_t n) {
    size_t count = 0;
    bool named = false;
    for (size_t i = 0; i < n; i++) {
        if (fields[i].id != HTTP_F_UPGRADE)
            continue;
        count++;
        named = slice_caseeq(fields[i].value, WEBSOCKET_NAME);
    }
    return named && count == 1;
}

static bool connection_upgrades(const struct http_field *fields, size_t n) {
    struct slice name;
    for (size_t i = 0; i < n; i++) {
        if (fields[i].id != HTTP_F_CONNECTION)
            continue;
        struct slice list = fields[i].value;
        while (http_list_next(&list, &name))
            if (slice_caseeq(name, SLICE("upgrade")))
                return true;
    }
    return false;
}

/* 16 bytes in base64: 22 characters, of which the last carries two bits, and the padding. */
static bool is_key(struct slice s) {
    if (s.n != KEY_LEN || !slice_ends(s, SLICE("==")))
        return false;
    for (size_t i = 0; i < KEY_LEN - 2; i++) {
        char c = s.p[i];
        bool good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
                    c == '/';
        if (!good)
            return false;
    }
    return strchr("AQgw", s.p[KEY_LEN - 3]) != NULL;
}

bool websocket_asked(const struct http1_request *req, struct slice *key) {
    bool body = req->framing == HTTP_BODY_CHUNKED || (req->framing == HTTP_BODY_LENGTH && req->length > 0);
    if (!req->upgrade.n || req->minor != 1 || body || !slice_eq(req->method, SLICE("GET")))
        return false;
    *key = only(req->fields, req->nfields, SLICE("Sec-WebSocket-Key"));
    return names_websocket(req->fields, req->nfields) && is_key(*key) &&
           slice_eq(only(req->fields, req->nfields, SLICE("Sec-WebSocket-Version")), SLICE("13"));
}

int websocket_proof(struct slice key, char proof[static WEBSOCKET_ACCEPT_LEN]) {
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char text[KEY_LEN + sizeof guid - 1];
    unsigned char hash[SHA_DIGEST_LENGTH];
    if (key.n != KEY_LEN)
        return ERR_CRYPTO;
    memcpy(text, key.p, KEY_LEN);
    memcpy(text + KEY_LEN, guid, sizeof guid - 1);
    if (EVP_Digest(text, sizeof text, hash, NULL, EVP_sha1(), NULL) != 1)
        return ERR_CRYPTO;
    base64_encode(slice_make(hash, sizeof hash), proof);
    return 0;
}

bool websocket_granted(const struct http1_response *resp, struct slice key) {
    char proof[WEBSOCKET_ACCEPT_LEN];
    return resp->status == 101 && resp->minor == 1 && names_websocket(resp->fields, resp->nfields) &&
           connection_upgrades(resp->fields, resp->nfields) && websocket_proof(key, proof) == 0 &&
           slice_eq(only(resp->fields, resp->nfields, SLICE("Sec-WebSocket-Accept")),
                    slice_make(proof, sizeof proof));
}
