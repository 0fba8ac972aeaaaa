#include "proxy/flow/fetched.h"

#include <stdlib.h>

#include "base/array.h"
#include "proxy/codec/git.h"
#include "proxy/codec/git_asked.h"

static struct slice command_name(enum git_asked_command command) {
    switch (command) {
    case GIT_ASKED_PROBE: return SLICE("probe");
    case GIT_ASKED_OLD:
    case GIT_ASKED_FETCH: return SLICE("fetch");
    case GIT_ASKED_LS_REFS: return SLICE("ls-refs");
    case GIT_ASKED_BUNDLE_URI: return SLICE("bundle-uri");
    case GIT_ASKED_OBJECT_INFO: return SLICE("object-info");
    }
    return SLICE_NONE;
}

/* A copy in f->text, which does not move: its room is taken at once. Empty: there is none. */
static struct slice keep(struct fetched *f, struct slice s) {
    char *room;
    if (buf_len(&f->text) + s.n > RECORD_REFS_BYTES || buf_reserve(&f->text, s.n, &room))
        return SLICE_NONE;
    memcpy(room, s.p, s.n);
    buf_commit(&f->text, s.n);
    return slice_make(room, s.n);
}

static bool grow(struct fetched *f) {
    struct record_ref *refs =
        f->nrefs < RECORD_REFS_MAX ? array_room(f->refs, f->nrefs, &f->room, sizeof *refs) : NULL;
    if (refs)
        f->refs = refs;
    return refs != NULL;
}

/* Whether it is one only the keeper knows; nothing that may be one comes into a record. */
static bool looks_secret(struct fetched *f, struct slice ref) {
    bool looks = f->looks && (watch_whole(&f->watch, ref) != 0 || f->watch.nhits > 0);
    f->watch.nhits = 0;
    return looks;
}

static bool add(struct fetched *f, struct slice ref, struct slice id) {
    f->secret = looks_secret(f, ref);
    if (f->secret)
        return false;
    f->bytes += ref.n + id.n;
    struct slice name = f->bytes <= RECORD_REFS_BYTES && grow(f) ? keep(f, ref) : SLICE_NONE;
    f->full = name.n == 0;
    if (!f->full)
        f->refs[f->nrefs++] = (struct record_ref){.ref = name, .new = id};
    return !f->full;
}

static bool add_shown(void *arg, struct slice ref) {
    struct fetched *f = arg;
    if (f->nrefs == f->from)
        f->id = keep(f, f->id);
    f->full = f->id.n == 0;
    return !f->full && add(f, ref, f->id);
}

static int by_name(const void *a, const void *b) {
    const struct record_ref *x = a, *y = b;
    return slice_cmp(x->ref, y->ref);
}

/* HEAD was shown as the branch that it stands for, which was shown, too. */
static void drop_doubles(struct fetched *f) {
    size_t n = f->from + 1;
    qsort(f->refs + f->from, f->nrefs - f->from, sizeof *f->refs, by_name);
    for (size_t i = n; i < f->nrefs; i++)
        if (!slice_eq(f->refs[i].ref, f->refs[n - 1].ref))
            f->refs[n++] = f->refs[i];
        else
            f->bytes -= f->refs[i].ref.n + f->refs[i].new.n;
    f->nrefs = n;
}

static void want_object(struct fetched *f, struct slice hex) {
    uint8_t id[GIT_ID_MAX];
    size_t bytes = f->bytes;
    if (f->wanted.n == 0)
        git_ids_init(&f->wanted, (unsigned)hex.n / 2);
    if (!git_id_from_hex(hex, f->wanted.id_size, id) || git_ids_find(&f->wanted, id) != GIT_IDS_NONE)
        return;
    f->full |= f->wanted.n == RECORD_REFS_MAX || git_ids_add(&f->wanted, id) == GIT_IDS_NONE;
    f->from = f->nrefs;
    f->id = hex;
    f->secret = false;
    if (!f->full)
        shown_names(f->shown, f->repo, hex, add_shown, f);
    if (f->full || f->secret || f->nrefs == f->from) {
        f->nrefs = f->from;
        f->bytes = bytes;
        f->omitted++;
    } else {
        drop_doubles(f);
    }
}

static bool add_meant(void *arg, struct slice ref) {
    add(arg, ref, SLICE_NONE);
    return false;
}

/* By the name itself, or by what HEAD was shown to stand for. */
static void want_ref(struct fetched *f, struct slice name) {
    size_t before = f->nrefs;
    if (!f->full && git_ref_valid(name, true))
        add(f, name, SLICE_NONE);
    else if (!f->full)
        shown_names(f->shown, f->repo, name, add_meant, f);
    f->omitted += f->nrefs == before;
}

static int want(void *arg, enum git_asked_item item, struct slice value) {
    struct fetched *f = arg;
    if (item == GIT_ASKED_WANT_REF)
        want_ref(f, value);
    else if (item == GIT_ASKED_WANT || item == GIT_ASKED_SIZE_OF)
        want_object(f, value);
    return 0;
}

void fetched_read(struct fetched *f, struct slice body, const struct shown *shown,
                  const struct shown_repo *repo, const struct watch_table *secrets) {
    struct git_asked asked;
    char *room;
    fetched_release(f);
    f->shown = shown;
    f->repo = repo;
    buf_init(&f->text, RECORD_REFS_BYTES);
    f->full = buf_reserve(&f->text, RECORD_REFS_BYTES, &room) != 0;
    f->looks = secrets != NULL;
    if (f->looks && watch_init(&f->watch, secrets, NULL))
        f->full = true;
    bool read = git_asked_read(&asked, body, true, want, f, NULL) == 0;
    if (read || asked.command != GIT_ASKED_PROBE)
        f->command = command_name(asked.command);
    f->omitted += !read;
    git_ids_release(&f->wanted);
    watch_release(&f->watch);
    buf_trim(&f->text);
}

void fetched_release(struct fetched *f) {
    free(f->refs);
    buf_release(&f->text);
    git_ids_release(&f->wanted);
    *f = (struct fetched){.nrefs = 0};
}
