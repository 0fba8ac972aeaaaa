/*
 * What does the client speak? Told from the first bytes of a connection; never more than SNIFF_MAX are needed.
 */
#ifndef PROXY_CODEC_SNIFF_H
#define PROXY_CODEC_SNIFF_H

#include "base/slice.h"

#define SNIFF_MAX 40

enum sniff {
    SNIFF_MORE,  /* too few bytes to tell; call again with all bytes so far */
    SNIFF_TLS,   /* a handshake record that begins with a ClientHello */
    SNIFF_HTTP,  /* a method and a space: let http1.h judge it */
    SNIFF_HTTP2, /* HTTP/2 with prior knowledge in clear text: refused */
    SNIFF_SSH,   /* SSH's identification line */
    SNIFF_OTHER, /* none of these: refused */
};

enum sniff sniff_first(struct slice data);

#endif
