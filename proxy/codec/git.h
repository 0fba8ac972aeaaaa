/*
 * git over smart HTTP: what a push wants, and how a refusal is said so that git shows it. (Which requests are git's:
 * base/git_request.h.)
 */
#ifndef PROXY_CODEC_GIT_H
#define PROXY_CODEC_GIT_H

#include "base/buf.h"
#include "base/git_request.h"
#include "proxy/codec/pktline.h"

/* The names of the media types, for answers. */
#define GIT_PUSH_RESULT  "application/x-git-receive-pack-result"
#define GIT_FETCH_RESULT "application/x-git-upload-pack-result"
#define GIT_FETCH_REFS   "application/x-git-upload-pack-advertisement"
#define GIT_PUSH_REFS    "application/x-git-receive-pack-advertisement"

enum git_encoding { GIT_ENCODING_NONE, GIT_ENCODING_GZIP, GIT_ENCODING_UNKNOWN };

/* Of the Content-Encoding field's value (empty if absent). A push in an unknown encoding is refused. */
enum git_encoding git_encoding(struct slice content_encoding);

/* ---- the command list of a push ---- */

#define GIT_COMMANDS_MAX 20000
#define GIT_PROBE_LEN    4          /* bytes of "0000", by which git looks whether it may in */
#define GIT_SECTION_MAX  (4u << 20) /* bytes up to the pack */
#define GIT_REF_MAX      1024

enum git_op { GIT_CREATE, GIT_UPDATE, GIT_DELETE };

struct git_command {
    enum git_op op;
    struct slice old_id; /* lower-case hex, 40 or 64 digits */
    struct slice new_id;
    /* valid by git's check-ref-format, begins with refs/, is UTF-8, occurs once in the push */
    struct slice ref;
};

struct git_caps {
    bool report_status, report_status_v2, side_band_64k, atomic, push_options, quiet;
    int id_digits; /* 40 or 64; 0 while nothing said */
};

/* Private form: offsets, since the arena moves while it grows. */
struct git_command_at {
    uint32_t ids; /* both ids, one behind the other */
    uint32_t ref;
    uint16_t ref_len;
    uint8_t op;
};

struct git_option_at {
    uint32_t at;
    uint32_t len;
};

struct git_push {
    /* results; good when git_push_feed has returned 0 */
    struct git_caps caps;
    size_t ncommands; /* 0 is fine: the probe "0000", or shallow lines only */
    size_t noptions;  /* push options */
    size_t nshallow;
    bool is_signed; /* the commands stood in a certificate */
    /* some command creates or updates: a pack comes next; otherwise the body must end here */
    bool pack_follows;
    size_t consumed; /* bytes of the body taken so far; when done: up to the pack */
    struct errmsg error;

    /* private */
    int state;
    int err; /* what every further call returns, once refused */
    struct pkt_reader reader;
    struct buf arena; /* ids and names of all commands */
    struct git_command_at *commands;
    size_t room;
    struct git_option_at *options;
    size_t options_room;
    bool caps_seen;
};

void git_push_init(struct git_push *push);
void git_push_release(struct git_push *push);

/* Feeds a cut of the (decoded) body. *used bytes were taken. 0: the command section is complete, the rest of `in` is
 * the pack's. ERR_INCOMPLETE: everything was taken, more is needed. ERR_PARSE, ERR_AMBIGUOUS, ERR_LIMIT, ERR_NOMEM:
 * refuse the push; push->error says why. After 0 a further call takes nothing and returns 0. */
int git_push_feed(struct git_push *push, struct slice in, size_t *used) MUST_CHECK;

/* The i-th command, i < ncommands. Slices are good until git_push_release. */
struct git_command git_push_command(const struct git_push *push, size_t i);

/* The i-th push option, i < noptions, in the same way. */
struct slice git_push_option(const struct git_push *push, size_t i);

/* git's check-ref-format for a full name under refs/; one_level admits refs/x (git does for deletions). */
bool git_ref_valid(struct slice ref, bool one_level);

/* An object's id: 40 or 64 hexadecimal digits, in lower case as git writes them. */
bool git_id_valid(struct slice id);

/* ---- refusing ---- */

/* The body of a 200 answer of type GIT_PUSH_RESULT to a push that is refused as a whole: "unpack ok" and an `ng` line
 * for each ref, on the side band if the client speaks it, `message` (lines for people) on band 2. `reason(i, arg)`
 * gives the text behind `ng <ref> ` for command i; control characters in it become spaces, it is cut at 512 bytes.
 * Without report-status the message is sent as an ERR packet. Works for a push that could not be parsed too (then
 * there are no ng lines, only the message). */
int git_report_refusal(struct buf *out, const struct git_push *push,
                       struct slice (*reason)(size_t i, void *arg), void *arg, struct slice message);

#endif
