/*
 * The record of a decision.
 *
 * Made by a worker, sent to the scribe (recorder.h), written by the scribe to its sinks (sinks.h). A
 * request has two records with one id: `verdict`, handed over before the request goes on, and `outcome`,
 * when its answer has ended. A connection that was refused before a request could be read has a `verdict`
 * of its own. `errand`, under the id of the decision that needs it, is handed over before a request of exeat's own goes
 * out (errand.h). `gap` says how many records are missing, and where.
 *
 * In JSON and in Redis the keys are, each only where it has a value:
 *
 *     event        verdict, outcome, errand, gap
 *     id           ULID; the same for the two events of a request
 *     time         RFC 3339, UTC, milliseconds
 *     sandbox      its name
 *     verdict      allow, deny
 *     reason       why, in words: "no rule allows POST on this host"; of an errand, what for
 *     code         the same as a stable word: "no-rule-for-method"
 *     rule         file:line of the rule that decided
 *     protocol     that the client speaks: "http/1.0", "http/1.1", "h2", or "tunnel" (passed on unread). In the outcome of a
 *                  WebSocket that was granted "http/1.1+websocket" or "h2+websocket"
 *     method, url  url without user name, query values left out ("?page=*") unless they are asked for
 *     git          {"service": "git-upload-pack", "command": "fetch", "refs": […], "omitted": N}: of a fetch the protocol's
 *                  word ("fetch", "ls-refs", "bundle-uri", "object-info", "probe") and the refs that it is for: "ref", and "new",
 *                  the id that it was asked for by; the refs with one id are all those that the object was shown as.
 *                  What is wanted and was shown as none is counted in "omitted".
 *                  {"service": "git-receive-pack", "refs": […], "omitted": N, "options": […], "unpack"}. Of a ref, in a verdict:
 *                  "ref", "old", "new" (ids), "op" (create, update, delete, force), "proof" (of an update, what told
 *                  whether it is a fast-forward: "pack", "server", which was asked for what the pack left open, or
 *                  "none"). Of a write through a forge's API "ref" and "op"; "ref" is "?" where that
 *                  is not known. In the outcome of a push that went upstream: "ref",
 *                  "outcome" ("ok", "refused: " and the server's words, "unknown" if it did not say), and where the
 *                  server did something else than it was asked for, "to", "old", "new", "op" ("force").
 *                  "options": the options of a push, what stands behind '=' left out ("ci.variable=*"); "…": there
 *                  were more. "unpack": why the server could not take the pack
 *     lfs          of a batch of Git LFS {"operation": "upload", "objects": N, "bytes": N}; of a transfer that header
 *                  fields were put on which the server had handed out for it {"fields": N}
 *     credential   the name of the credential that is lent; never more than its name
 *     upstream     address:port connected to
 *     upstream_protocol   that it speaks: "http/1.1" or "h2", each with "+websocket" as before
 *     status       HTTP status that the client got
 *     sent, received   bytes of body from the client to the upstream, and back
 *     duration_ms
 *     count, from, to, sink   of a gap: how many records are missing, the time of the first and of the last, and
 *                  who lost them (channel, file, redis)
 *
 * Every slice is borrowed. No header value, no body and no secret has a place here.
 */
#ifndef PROXY_RECORD_RECORD_H
#define PROXY_RECORD_RECORD_H

#include "base/buf.h"
#include "base/err.h"
#include "base/msg.h"
#include "base/slice.h"
#include "base/ulid.h"
#include "base/url.h"

#define RECORD_MSG        1 /* type of the message in the ring between worker and scribe */
#define RECORD_WAKE       2 /* … of the one that says that there are some (recorder.h) */
#define RECORD_REFS_MAX   5000
#define RECORD_REFS_BYTES 40000  /* refs of one record; what is beyond is counted in `omitted` */
#define RECORD_URL_MAX    4096   /* bytes of a url; what is beyond is cut and shown as "…" */
#define RECORD_TEXT_MAX   1024   /* bytes of each other text */
#define RECORD_JSON_MAX   524288 /* bytes of one line: the above with every byte escaped */

enum record_event { RECORD_VERDICT, RECORD_OUTCOME, RECORD_GAP, RECORD_ERRAND, RECORD_EVENTS };

/* Which of the numbers below have a value. */
enum record_has {
    RECORD_HAS_STATUS = 1,
    RECORD_HAS_SENT = 2,
    RECORD_HAS_RECEIVED = 4,
    RECORD_HAS_DURATION = 8,
};

#define RECORD_REF_UNKNOWN "?" /* no ref has such a name */

struct record_ref {
    struct slice ref, old, new, op;
    struct slice proof;       /* of a verdict on an update */
    struct slice to, outcome; /* of an outcome */
};

struct record_lfs {
    struct slice operation; /* of a batch that could be read, or empty */
    bool batch;
    uint64_t objects, bytes;
    uint32_t fields; /* put on the request */
};

struct record {
    enum record_event event;
    struct ulid id;
    uint64_t time_ms; /* since 1970 */
    struct slice sandbox;
    bool denied; /* of a verdict */
    struct slice reason, code, rule;
    struct slice method, url;
    struct slice git_service, git_command;
    const struct record_ref *refs;
    size_t nrefs;
    uint64_t refs_omitted;
    struct slice options; /* of a push, each on a line, as they are shown */
    struct slice unpack;
    struct record_lfs lfs;
    struct slice protocol;
    struct slice credential, upstream, upstream_protocol;
    unsigned has; /* RECORD_HAS_… */
    uint32_t status;
    uint64_t sent, received, duration_ms;
    uint64_t count, from_ms, to_ms; /* of a gap */
    struct slice sink;
};

/* Appends a URL as the record shows it. `authority`, `path` and `query` are as received (they may be
 * anything): a user name becomes "*@", values of the query "*" unless `values`, control characters and
 * non-ASCII bytes are percent-encoded, and the whole is cut at RECORD_URL_MAX. Without a `path` (CONNECT,
 * a refused handshake) only scheme and authority are written. */
#define RECORD_URL_QUERY  1u /* there is a query, be it empty */
#define RECORD_URL_VALUES 2u /* the operator asked for its values */
int record_put_url(struct buf *out, enum url_scheme scheme, struct slice authority, struct slice path,
                   struct slice query, unsigned flags);

/* Appends the options of a push as `options` wants them, whatever is in them: at most RECORD_TEXT_MAX bytes. */
int record_put_options(struct buf *out, const struct slice *options, size_t n);

/* Writes it as a message. Texts beyond their limit are cut, refs beyond theirs counted: it always fits,
 * `m` never fails for a buffer of MSG_MAX bytes. */
void record_encode(const struct record *r, struct msg_out *m, void *memory, size_t cap);

/* Reads a message: the sender may be anybody. Slices point into it; refs into `refs`, which has room for
 * RECORD_REFS_MAX. 0 or ERR_PEER (then *r means nothing). */
int record_decode(struct msg_in *m, struct record *r, struct record_ref *refs);

/* One JSON object with a line break behind it. Always valid JSON and UTF-8, whatever the record holds. 0,
 * ERR_LIMIT, ERR_NOMEM. */
int record_json(const struct record *r, struct buf *out);

enum record_style {
    RECORD_PLAIN = 0,
    RECORD_COLOUR = 1,  /* for a terminal */
    RECORD_SANDBOX = 2, /* … which sandbox it is of: "exeat: build-7k2f9q: denied …" */
};

/* The line for people, with a line break:
 *     exeat: denied POST https://api.example.com/x (no rule allows POST on this host) [01J…]
 * Control characters, and those that turn text around, are shown as \xHH. `style`: of enum record_style. */
int record_line(const struct record *r, unsigned style, struct buf *out);

/* The line for an outcome that the operator has to hear of (notices.h):
 *     exeat: no answer: no address is known for api.example.com; … [01J…] */
int record_notice(const struct record *r, struct buf *out);

/* Appends a text that came from anywhere: control characters, and those that turn text around, as \xHH. */
void record_put_safe(struct buf *out, struct slice s);

/* Whether the line is shown at this loudness: 0 (-q) none, 1 denials and gaps, 2 (-v) all but outcomes. */
bool record_shown(const struct record *r, int loudness);

/* The fields of an XADD: names are literals, values lie in `text` at the given places. */
#define RECORD_FIELDS_MAX 28
struct record_fields {
    size_t n;
    struct record_field {
        const char *name;
        size_t at, len; /* in the buffer */
    } f[RECORD_FIELDS_MAX];
};
int record_fields(const struct record *r, struct buf *text, struct record_fields *fields);

#endif
