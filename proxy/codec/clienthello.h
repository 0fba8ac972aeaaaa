/*
 * The ClientHello, read off the wire before a TLS library sees it (RFC 8446 4.1.2 and 5.1, RFC 6066 3): which name a
 * client asks for, when its TLS is to be passed through unread.
 *
 * Bytes are fed as they come; the hello may be split into records, and records into segments, in any way. It is read
 * strictly, since somebody else will read the same bytes after us: whatever another reader could take for another name
 * is malformed. A hello with an encrypted one inside (ECH, or what looks like it: GREASE) is noted, for the name outside
 * says nothing of the one inside.
 *
 * Life cycle: clienthello_init - clienthello_feed … - clienthello_release. No clock, no socket; memory for one message.
 */
#ifndef PROXY_CODEC_CLIENTHELLO_H
#define PROXY_CODEC_CLIENTHELLO_H

#include "base/buf.h"
#include "base/err.h"
#include "base/url.h"

#define CLIENTHELLO_MAX  65536  /* bytes of the message */
#define CLIENTHELLO_WIRE 131072 /* … with its records' heads */

/* What the server_name extension says. */
enum clienthello_name {
    CLIENTHELLO_NO_NAME,  /* it is not there */
    CLIENTHELLO_NAME,     /* one DNS name */
    CLIENTHELLO_ADDRESS,  /* an IP address, which RFC 6066 forbids */
    CLIENTHELLO_BAD_NAME, /* several, none, an empty one, a final dot, bytes that no name has */
};

struct clienthello {
    /* the result, when clienthello_feed has returned 0 */
    enum clienthello_name kind;
    struct url_host name; /* of CLIENTHELLO_NAME and CLIENTHELLO_ADDRESS, canonical */
    bool ech;             /* encrypted_client_hello is there */

    /* why not: one line, when clienthello_feed has failed */
    const char *why;

    /* private */
    struct buf message;
    size_t wire;           /* bytes fed */
    unsigned char head[5]; /* of the current record */
    size_t nhead;
    size_t left; /* bytes of the record to come */
};

void clienthello_init(struct clienthello *c);
void clienthello_release(struct clienthello *c);

/*
 * The next bytes. 0: the hello is whole; what follows it in `bytes` was not looked at, unless it is in the same record,
 * where nothing may follow. ERR_INCOMPLETE: more. ERR_PARSE, ERR_LIMIT, ERR_NOMEM: it is none that can be read; `why`
 * says it. Not to be called after anything but ERR_INCOMPLETE.
 */
int clienthello_feed(struct clienthello *c, struct slice bytes) MUST_CHECK;

#endif
