/*
 * Facts: what policy is told about one request. A borrowed view: every slice belongs to the caller and must be good
 * for as long as the facts and the verdict made from them are in use.
 *
 * Host and path are in the canonical form of base/url.h. That is the caller's duty: policy compares bytes.
 */
#ifndef POLICY_FACTS_H
#define POLICY_FACTS_H

#include "base/err.h"
#include "base/git_request.h"
#include "base/slice.h"
#include "base/url.h"

enum facts_kind {
    FACTS_HTTP,      /* any request that is not one of git's */
    FACTS_GIT_FETCH, /* info/refs?service=git-upload-pack, git-upload-pack, git-upload-archive */
    FACTS_GIT_PUSH,  /* info/refs?service=git-receive-pack, git-receive-pack */
    FACTS_TUNNEL,    /* a TLS connection that may be passed through unread: scheme, host and port alone */
};

/* What a push does to one ref. */
enum facts_op {
    FACTS_CREATE, /* old id is all zeros */
    FACTS_UPDATE, /* an existing ref, proved a fast-forward */
    FACTS_DELETE, /* new id is all zeros */
    FACTS_FORCE,  /* an existing ref, not a fast-forward or not proved one (then set `unproved`) */
};

/* What of a fetch a rule must permit by name (`also`), since it may bring more than the refs that are shown. */
enum facts_extra {
    FACTS_PLAIN,         /* nothing of the kind */
    FACTS_ARCHIVE,       /* git-upload-archive */
    FACTS_BUNDLE_URI,    /* the server names bundles that are downloaded from elsewhere */
    FACTS_PACKFILE_URIS, /* … packs */
    FACTS_ANY_OBJECT,    /* an object by an id that no ref was shown to have, as partial clones ask for */
    FACTS_EXTRAS
};

/* A path that a push changes, or an identity in a commit of its. */
struct facts_text {
    struct slice text; /* "src/main.c", "Name <mail>" */
    /* the first that has it, in hexadecimal; empty: none, it is the update itself that takes back */
    struct slice commit;
    /* a path that is or was a symbolic link or a submodule: a deny of anything below it is meant, too */
    bool link;
};

/* What a push brings to one ref, as far as its pack was looked through. What is not known: no allow with a condition on it
 * matches, every deny does. */
struct facts_brought {
    bool paths_known;
    const struct facts_text *paths; /* files that the pushed commits change */
    size_t npaths;
    bool commits_known, signed_known, authors_known, committers_known;
    size_t ncommits;                               /* pushed commits */
    size_t nsigned;                                /* of them, with a signature; it is not verified */
    const struct facts_text *authors, *committers; /* of them, each once */
    size_t nauthors, ncommitters;
};

/* One ref that a push changes, or that a fetch is about (then the name alone counts). */
struct facts_ref {
    struct slice name; /* as sent, "refs/heads/main" */
    enum facts_op op;
    bool unproved;    /* op is FACTS_FORCE only because no proof was made: the refusal says so */
    struct slice old; /* object ids in hexadecimal; kept for the record, of a fetch see facts.refs */
    struct slice new;
    const struct facts_brought *brought; /* NULL: nothing is known. A deletion brings nothing */
};

/* What a request to Git LFS's API is for, in the words of an `lfs` rule. */
enum facts_lfs {
    FACTS_LFS_UNKNOWN,  /* it has no word, or can't be told for certain */
    FACTS_LFS_DOWNLOAD, /* a batch that says so; whatever is only read (GET, HEAD) */
    FACTS_LFS_UPLOAD, /* a batch that says so; PUT of an object; its `verify`; locks/verify, a part of each push */
    FACTS_LFS_LOCK, /* a lock is made or given back */
    FACTS_LFS_COUNT
};

/* How much of the request's body is known. */
enum facts_body {
    FACTS_BODY_UNREAD, /* nothing of it (yet): see policy_needs_body */
    FACTS_BODY_WHOLE,  /* `body` is all of it, as sent (content encodings are not undone) */
    FACTS_BODY_OVER,   /* it is longer than what policy_needs_body asked for */
};

/* Header field `i` of the request, in the order received, names as sent; an empty name where the server will not see the
 * field. False behind the last. */
typedef bool facts_field(const void *arg, size_t i, struct slice *name, struct slice *value);

/* What a forge answered when exeat itself asked it (policy_question): to GET `target`, or to POST `body` to it. */
struct facts_answer {
    struct slice target, body;
    struct slice answer; /* the JSON of a 200; empty: there is no answer to be had */
};

struct facts {
    enum facts_kind kind;
    enum url_scheme scheme;
    struct slice host;    /* url_host_slice() */
    bool host_is_address; /* host is an IPv4 or IPv6 literal */
    uint16_t port;
    struct slice method; /* as sent: case matters to an allow */
    struct slice path;   /* url_path_canonical(); for git the whole path, "/acme/app.git/git-receive-pack" */
    struct slice query;  /* without '?', as sent */
    const struct git_request *git; /* FACTS_HTTP: git_classify of these, NULL if nobody has asked yet */

    /* FACTS_GIT_PUSH: none for the discovery, or the empty probe ("0000"), which touches no ref; permitted if any push
     * rule speaks of the repository. Set only when the whole command list has been read.
     * FACTS_GIT_FETCH: none for the request as such, which is permitted if any fetch rule speaks of the repository. Refs in
     * a row with one and the same `new` are names of one object: it is enough that one of them is permitted. */
    const struct facts_ref *refs;
    size_t nrefs;
    bool refs_untold;       /* FACTS_GIT_FETCH, of a log: it is about refs beside these, or about any */
    enum facts_extra extra; /* FACTS_GIT_FETCH only, and without refs */

    /* Of a push's pack, as a whole. As with facts_brought, what is not known helps nobody. */
    bool size_known;
    uint64_t size; /* bytes */
    bool blob_known;
    uint64_t blob; /* bytes of the largest file in it */
    /* the pack is still to be read: whatever hangs on what it brings is taken to come out well */
    bool unread;
    bool hopeful; /* … the same for each part that is not known, for tools: does the verdict hang on one? */
    const char *unknown; /* why it is not known what the push brings; NULL: it wasn't looked at */

    /* Push options ("merge_request.create"), set with the refs: a forge may open, merge or write by them. */
    const struct slice *options;
    size_t noptions;

    /* Header fields; NULL: not known (then no condition on one can be told). */
    facts_field *field;
    const void *field_arg;

    /* The body, for conditions on it and for requests that write refs through a forge's API. */
    enum facts_body body_state;
    struct slice body;
    const struct facts_answer *answers;
    size_t nanswers;

    /* What a batch of Git LFS is for, if it is known without its body: the tools judge what a log tells. */
    enum facts_lfs lfs;

    /* A push that was read out of a forge's API (doors.h): its repository is not known, so that only a rule about every
     * repository permits it, and every rule may deny it. A ref with an empty name is not known in the same way. */
    bool repository_unknown;
};

/* What base/git_request.h says of a FACTS_HTTP: f->git, or, where nobody has asked yet, *own. */
const struct git_request *facts_git(const struct facts *f, struct git_request *own);

/* Whether a request that is given as FACTS_HTTP is one that git's servers could take for theirs (base/git_request.h): HTTP's rules
 * never permit it. *why: what is wrong with it, or NULL where nothing is, and it should have been given as git's. */
bool facts_git_as_http(const struct facts *f, const char **why);

/* Whether the path is of Git LFS's API below a repository ("/acme/app.git/info/lfs/objects/batch"): an `lfs` rule
 * permits it. Rules about methods do too: it is plain HTTP. *repository: as facts_repository gives it. */
bool facts_lfs(struct slice path, struct slice *repository);

/* A POST to .../info/lfs/objects/batch: its body says what it is for. */
bool facts_lfs_batch(const struct facts *f);

/* Reads the facts, of a batch also the body: one that is not there whole, compressed, no JSON in UTF-8, or whose
 * `operation` is there twice, in whatever letter case, is for FACTS_LFS_UNKNOWN. */
enum facts_lfs facts_lfs_operation(const struct facts *f);

/* "download", "upload", "lock"; NULL for FACTS_LFS_UNKNOWN. */
const char *facts_lfs_name(enum facts_lfs operation);

/* The repository's part of a git endpoint's path: without the endpoint, trailing slashes and ".git" (in any case).
 * "/acme/app.git/info/refs" -> "/acme/app". A view of `path`; may be empty (the server's root). */
struct slice facts_repository(struct slice path);

/* Whether a rule can name this method: capitals, digits, '-' and '_', at most 32. */
bool facts_method(struct slice method);

/* What a word stands for: false if it is none of them. Words are compared exactly. */
bool facts_lfs_of(struct slice word, enum facts_lfs *out);
bool facts_extra_of(struct slice word, enum facts_extra *out);
bool facts_op_of(struct slice word, enum facts_op *out);

/* "create", "update", "delete", "force". */
const char *facts_op_name(enum facts_op op);

/* "archive", "bundle-uri", "packfile-uris", "any-object"; "" for FACTS_PLAIN. */
const char *facts_extra_name(enum facts_extra extra);

#endif
