/*
 * The opening handshake of a WebSocket over HTTP/1.1 (RFC 6455 section 4): was it asked for, and was it granted? What
 * comes behind it are frames, which nobody here reads.
 *
 * Only this upgrade is passed on, and only where both sides mean it beyond doubt: a proxy that relays bytes while its
 * upstream still reads requests would carry what no rule has judged. So the request must be a GET without a body and
 * name "websocket" alone, and an answer counts only with the proof made from the request's key.
 */
#ifndef PROXY_CODEC_WEBSOCKET_H
#define PROXY_CODEC_WEBSOCKET_H

#include "proxy/codec/http1.h"

#define WEBSOCKET_NAME       SLICE("websocket")
#define WEBSOCKET_ACCEPT_LEN 28

/* Is it the handshake, version 13? Then *key is the value of Sec-WebSocket-Key (24 characters, into the head). */
bool websocket_asked(const struct http1_request *req, struct slice *key);

/* What Sec-WebSocket-Accept must say for a key. 0 or ERR_CRYPTO. */
int websocket_proof(struct slice key, char proof[static WEBSOCKET_ACCEPT_LEN]);

/* Is it the 101 that fits the key? */
bool websocket_granted(const struct http1_response *resp, struct slice key);

#endif
