/*
 * Asking a git server for objects: protocol version 2 over stateless HTTP (git's protocol-v2 and http-protocol
 * documents), as far as exeat asks something itself.
 *
 *     GET  REPOSITORY/info/refs?service=git-upload-pack   Git-Protocol: version=2   -> struct git_advert
 *     POST REPOSITORY/git-upload-pack                     Git-Protocol: version=2   -> struct git_fetch
 *          (the body: git_fetch_begin, git_fetch_want …, git_fetch_have …, git_fetch_end)
 *     or, for a list of refs:                                                        -> struct git_refs
 *          (the body: git_refs_ask)
 *
 * A request says "done" with its haves, so that the answer is a pack at once: all that is reachable from the wants and
 * not from those haves that the server knows, less what the filter leaves out.
 *
 * The readers take any cut of the answer. What comes is hostile: every length is checked, lines that are not a pack are
 * bounded, and an answer in another form than the one asked for is an error, never a guess. What is in the pack is for
 * the parser of packs to doubt.
 */
#ifndef PROXY_CODEC_GIT_FETCH_H
#define PROXY_CODEC_GIT_FETCH_H

#include "base/buf.h"
#include "proxy/codec/pktline.h"

#define GIT_FETCH_PROTOCOL "version=2" /* value of the field Git-Protocol */
#define GIT_ADVERT_MAX     65536       /* bytes of a list of capabilities */
#define GIT_FETCH_LINES_MAX                                                                                  \
    (4u << 20) /* bytes of an answer besides its pack: a line for each shallow commit, progress */

/* ---- what the server offers ---- */

struct git_advert {
    /* results, once git_advert_feed has returned 0 */
    bool fetch, filter, shallow; /* it offers fetching, and in it filters, and depth */
    bool ls_refs;
    int id_digits; /* of its object format: 40 or 64 */
    struct errmsg error;

    /* private */
    int state, err;
    size_t taken;
    struct pkt_reader reader;
};

void git_advert_init(struct git_advert *a);
void git_advert_release(struct git_advert *a);

/* Reads a cut of the answer. 0: it is complete (bytes behind it are not looked at). ERR_INCOMPLETE. ERR_UNSUPPORTED: the
 * server does not speak version 2. ERR_DENIED: it says no, in its own words. ERR_PARSE, ERR_LIMIT, ERR_NOMEM. error
 * says why; an error stays. */
int git_advert_feed(struct git_advert *a, struct slice in);

/* ---- a request ---- */

/* The head of any command of version 2: its name and the object format, up to where its own arguments begin. */
void git_command_begin(struct buf *out, const char *command, int id_digits);

/* The head of the request: id_digits as the server's; filter: "tree:0" (only commits, and what is wanted by name),
 * "blob:none", or NULL for everything. Ids are in lower-case hexadecimal. Errors show in out->failed. */
void git_fetch_begin(struct buf *out, int id_digits, const char *filter);
void git_fetch_want(struct buf *out, struct slice id);
void git_fetch_have(struct buf *out, struct slice id);
void git_fetch_end(struct buf *out);

/* Behind git_fetch_begin: no history beyond the commits that are wanted. Not to be had together with haves. */
void git_fetch_alone(struct buf *out);

/* ---- its answer ---- */

enum git_fetch_step {
    GIT_FETCH_MORE, /* all of `in` is used; more is needed */
    GIT_FETCH_DATA, /* *pack is the next piece of the pack, good until the next call: call again with the rest */
    GIT_FETCH_DONE, /* the answer is complete; what is left of `in` is not its */
    GIT_FETCH_BAD,  /* error says why; it stays */
};

struct git_fetch {
    struct errmsg error;

    /* private */
    int state;
    size_t lines; /* bytes of lines taken */
    struct pkt_reader reader;
};

void git_fetch_init(struct git_fetch *f);
void git_fetch_release(struct git_fetch *f);

/* Takes the next step over `in`; *used bytes of it are spent. */
enum git_fetch_step git_fetch_next(struct git_fetch *f, struct slice in, size_t *used, struct slice *pack);

/* ---- a list of refs ---- */

/* The body that asks for the refs that begin with `prefix` ("refs/heads/"). */
void git_refs_ask(struct buf *out, int id_digits, struct slice prefix);

enum git_refs_step {
    GIT_REFS_MORE, /* all of `in` is used; more is needed */
    GIT_REFS_REF,  /* *ref is the next, good until the next call: call again with the rest */
    GIT_REFS_DONE, /* the answer is complete; what is left of `in` is not its */
    GIT_REFS_BAD,  /* error says why; it stays */
};

struct git_listed_ref {
    struct slice id; /* lower-case hexadecimal */
    struct slice name;
};

struct git_refs {
    struct errmsg error;

    /* private */
    int state;
    size_t id_digits;
    struct pkt_reader reader;
};

/* id_digits: of the server's object format; an id of another length is an error. */
void git_refs_init(struct git_refs *r, int id_digits);
void git_refs_release(struct git_refs *r);

/* Takes the next step over `in`; *used bytes of it are spent. Names are what the server says they are. */
enum git_refs_step git_refs_next(struct git_refs *r, struct slice in, size_t *used,
                                 struct git_listed_ref *ref);

#endif
