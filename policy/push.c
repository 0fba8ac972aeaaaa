#include "policy/push.h"

struct texts {
    bool known, hopeful;
    const struct facts_text *list;
    size_t n;
};

struct patterns {
    const struct glob *list;
    size_t n;
    bool paths;
};

static bool text_matches(const struct patterns *p, const struct facts_text *t, bool loose) {
    unsigned flags = loose ? GLOB_NOCASE : 0;
    for (size_t i = 0; i < p->n; i++)
        if (glob_match(&p->list[i], t->text, flags) ||
            (loose && p->paths && t->link && glob_below(&p->list[i], t->text, flags)))
            return true;
    return false;
}

/* Do all match, for an allow; does any, for a deny? */
static bool texts_match(const struct patterns *p, const struct texts *texts, bool loose,
                        struct push_finding *finding) {
    if (p->n == 0)
        return true;
    if (!texts->known) {
        finding->unknown = true;
        return loose != texts->hopeful;
    }
    for (size_t i = 0; i < texts->n; i++) {
        if (text_matches(p, &texts->list[i], loose) == loose) {
            finding->text = &texts->list[i];
            return loose;
        }
    }
    return !loose;
}

static bool within(const struct facts *f, bool known, uint64_t value, uint64_t most, bool loose,
                   struct push_finding *finding) {
    if (most == 0 || loose)
        return true;
    finding->unknown = !known;
    return known ? value <= most : f->hopeful;
}

static const struct facts_brought *brought_of(const struct facts_ref *ref) {
    static const struct facts_brought nothing = {.paths_known = true,
                                                 .commits_known = true,
                                                 .signed_known = true,
                                                 .authors_known = true,
                                                 .committers_known = true},
                                      unknown = {0};
    if (ref->op == FACTS_DELETE)
        return &nothing;
    return ref->brought ? ref->brought : &unknown;
}

enum stage push_stage(const struct facts *f, const struct facts_ref *ref, const struct rule *r, bool loose,
                      struct push_finding *finding) {
    const struct facts_brought *b = brought_of(ref);
    struct patterns authors = {r->authors, r->nauthors, false},
                    committers = {r->committers, r->ncommitters, false},
                    changes = {r->changes, r->nchanges, true};
    struct texts by = {b->authors_known, f->hopeful, b->authors, b->nauthors},
                 with = {b->committers_known, f->hopeful, b->committers, b->ncommitters},
                 paths = {b->paths_known, f->hopeful, b->paths, b->npaths};
    *finding = (struct push_finding){.unknown = false};
    if (!r->brings)
        return STAGE_MATCH;
    if (f->unread) /* whatever comes out well for the push */
        return loose ? STAGE_CHANGES : STAGE_MATCH;
    if (!within(f, f->size_known, f->size, r->max_size, loose, finding))
        return STAGE_SIZE;
    if (!within(f, f->blob_known, f->blob, r->max_blob, loose, finding))
        return STAGE_BLOB;
    if (!within(f, b->commits_known, b->ncommits, r->max_commits, loose, finding))
        return STAGE_COMMITS;
    if (!texts_match(&authors, &by, loose, finding))
        return STAGE_AUTHOR;
    if (!texts_match(&committers, &with, loose, finding))
        return STAGE_COMMITTER;
    if (r->wants_signed && !loose && (b->signed_known ? b->nsigned < b->ncommits : !f->hopeful)) {
        finding->unknown = !b->signed_known;
        return STAGE_SIGNED;
    }
    return texts_match(&changes, &paths, loose, finding) ? STAGE_MATCH : STAGE_CHANGES;
}

size_t push_unknown(const struct facts *f, const struct facts_ref *ref, const struct rule *r,
                    enum stage stages[PUSH_PARTS]) {
    const struct facts_brought *b = brought_of(ref);
    const struct {
        bool asked, known;
        enum stage stage;
    } parts[PUSH_PARTS] = {
        {r->nchanges > 0, b->paths_known, STAGE_CHANGES},
        {r->max_size > 0, f->size_known, STAGE_SIZE},
        {r->max_blob > 0, f->blob_known, STAGE_BLOB},
        {r->max_commits > 0, b->commits_known, STAGE_COMMITS},
        {r->nauthors > 0, b->authors_known, STAGE_AUTHOR},
        {r->ncommitters > 0, b->committers_known, STAGE_COMMITTER},
        {r->wants_signed, b->signed_known, STAGE_SIGNED},
    };
    size_t n = 0;
    for (size_t i = 0; i < PUSH_PARTS; i++)
        if (parts[i].asked && !parts[i].known)
            stages[n++] = parts[i].stage;
    return n;
}

const char *push_how(enum stage stage) {
    switch (stage) {
    case STAGE_CHANGES: return "changes";
    case STAGE_AUTHOR: return "has the author";
    case STAGE_COMMITTER: return "has the committer";
    default: return NULL;
    }
}

const char *push_word(enum stage stage) {
    switch (stage) {
    case STAGE_CHANGES: return "paths";
    case STAGE_SIZE: return "max-size";
    case STAGE_BLOB: return "max-blob";
    case STAGE_COMMITS: return "max-commits";
    case STAGE_AUTHOR: return "author";
    case STAGE_COMMITTER: return "committer";
    case STAGE_SIGNED: return "signed";
    default: return NULL;
    }
}
