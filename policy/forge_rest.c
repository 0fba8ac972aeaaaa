/* A request that a row of the tables fits, as updates of refs. */
#include <stdlib.h>

#include "policy/forge_read.h"

/* --- updates ----------------------------------------------------------------------------------------------- */

const char *forge_absent_text(enum forge_absent absent) {
    switch (absent) {
    case FORGE_DEFAULT: return "the default branch, which the request does not name";
    case FORGE_BASE: return "the branch that is merged into, which the request does not name";
    case FORGE_HEAD: return "the branch that the pull request is made of, which the request does not name";
    case FORGE_MISSING:
    case FORGE_UNNAMED:
    case FORGE_NONE: break;
    }
    return "one that the request does not name";
}

static void forge_add(struct forge_reading *r, struct slice ref, enum facts_op op, const char *unknown) {
    struct forge *out = r->out;
    if (out->n == FORGE_WRITES_MAX)
        forge_dark(r, "it writes too many refs at once");
    if (out->state == FORGE_DARK)
        return;
    out->state = FORGE_WRITES;
    struct forge_write *w = &out->writes[out->n++];
    *w = (struct forge_write){
        .repository = r->repository,
        .ref = {.name = ref, .op = op},
        .unknown = unknown,
    };
    w->ref.brought = &w->brought;
    if (!w->unknown && r->repository.n == 0)
        w->unknown = "in a repository that the request names by a number or an opaque id";
}

void forge_add_all(struct forge_reading *r, enum forge_does does, struct slice ref, const char *unknown) {
    switch (does) {
    case FORGE_NOTHING: break;
    case FORGE_CREATES:
    case FORGE_RENAMES: forge_add(r, ref, FACTS_CREATE, unknown); break;
    case FORGE_UPDATES: forge_add(r, ref, FACTS_UPDATE, unknown); break;
    case FORGE_DELETES: forge_add(r, ref, FACTS_DELETE, unknown); break;
    case FORGE_FORCES: forge_add(r, ref, FACTS_FORCE, unknown); break;
    case FORGE_SAVES:
        forge_add(r, ref, FACTS_UPDATE, unknown);
        forge_add(r, ref, FACTS_CREATE, unknown);
        break;
    case FORGE_ANYTHING:
        for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE; op++)
            forge_add(r, ref, (enum facts_op)op, unknown);
        break;
    }
}

/* --- what has to be asked for ------------------------------------------------------------------------------- */

/* Makes the repository known, if it can be. */
static void settle_repository(struct forge_reading *r) {
    struct slice name;
    const char *path = (r->forges & FORGE_GITLAB) ? "path_with_namespace" : "full_name";
    if (r->repository.n == 0 && forge_answer(r, r->repo_target, SLICE_NONE, path, &name))
        r->repository = forge_repository(r, name);
}

/* A branch by a name that the forge gave, in the repository that is known now. */
static void add_answered(struct forge_reading *r, bool known, struct slice name, enum forge_does does,
                         enum forge_absent absent) {
    if (!known)
        forge_add_all(r, does, SLICE_NONE, forge_absent_text(absent));
    else
        forge_add_all(r, does, forge_ref(r, FORGE_HEADS, name), NULL);
}

void forge_add_base(struct forge_reading *r, struct slice target, enum forge_does does) {
    struct slice branch = SLICE_NONE, name;
    bool lab = r->forges & FORGE_GITLAB;
    settle_repository(r);
    bool known = forge_answer(r, target, SLICE_NONE, lab ? "target_branch" : "base.ref", &branch);
    if (known && !lab)
        known = forge_answer(r, target, SLICE_NONE, "base.repo.full_name", &name);
    if (known && !lab)
        r->repository = forge_repository(r, name);
    add_answered(r, known, branch, does, FORGE_BASE);
}

/* GitLab tells the source project by its number. */
static bool lab_head(struct forge_reading *r, struct slice target, struct slice *branch) {
    struct slice from, to, name;
    if (!forge_answer(r, target, SLICE_NONE, "source_branch", branch) ||
        !forge_answer(r, target, SLICE_NONE, "source_project_id", &from) ||
        !forge_answer(r, target, SLICE_NONE, "target_project_id", &to))
        return false;
    if (slice_eq(from, to))
        return true;
    struct slice project = forge_text(r, r->api, SLICE("/projects/"), from, SLICE_NONE);
    if (!forge_answer(r, project, SLICE_NONE, "path_with_namespace", &name))
        return false;
    r->repository = forge_repository(r, name);
    return true;
}

void forge_add_head(struct forge_reading *r, struct slice target, enum forge_does does) {
    struct slice branch = SLICE_NONE, name;
    bool known;
    settle_repository(r);
    if (r->forges & FORGE_GITLAB) {
        known = lab_head(r, target, &branch);
    } else {
        known = forge_answer(r, target, SLICE_NONE, "head.ref", &branch) &&
                forge_answer(r, target, SLICE_NONE, "head.repo.full_name", &name);
        if (known)
            r->repository = forge_repository(r, name);
    }
    if (!known)
        r->repository = SLICE_NONE; /* it may be a fork */
    add_answered(r, known, branch, does, FORGE_HEAD);
}

/* --- the body ---------------------------------------------------------------------------------------------- */

static bool is_form(const struct facts *f) {
    struct slice type = SLICE_NONE, media, rest;
    if (condition_header(f, SLICE("content-type"), &type) != TRI_YES)
        return false;
    slice_cut(type, ';', &media, &rest);
    return slice_caseeq(slice_trim(media), SLICE("application/x-www-form-urlencoded"));
}

/* The body's parameters. False: they can't be read. */
static bool read_body(struct forge_reading *r) {
    const struct facts *f = r->f;
    if (f->body_state == FACTS_BODY_WHOLE && f->body.n == 0)
        return true;
    if (f->body_state == FACTS_BODY_WHOLE && is_form(f) && !(r->forges & FORGE_GITHUB)) {
        char text[64];
        struct slice value;
        r->form.query = f->body;
        if (condition_query(&r->form, SLICE("_method"), text, sizeof text, &value) == TRI_NO)
            return true;
        forge_dark(r, "its form can be read in more than one way");
        return false;
    }
    condition_json_read(f, r->view);
    if (json_is_object((const json_t *)r->view->json)) {
        r->json = r->view->json;
        return true;
    }
    forge_dark(r, r->view->why ? r->view->why : "the body is no JSON object");
    return false;
}

/* --- rows -------------------------------------------------------------------------------------------------- */

/* The ref that the row is about. YES: *out; NO: the request does not name it; UNKNOWN: it is dark now. */
static enum tri named_ref(struct forge_reading *r, const struct forge_row *row, struct slice *out) {
    struct slice name = SLICE_NONE;
    enum tri found = TRI_NO;
    if (row->ref[0] == '{') {
        name = forge_captured(r, slice_sub(slice_str(row->ref), 1, strlen(row->ref) - 2));
        found = TRI_YES;
    } else if (row->ref[0]) {
        found = forge_param(r, row->ref, &name);
    }
    if (found == TRI_UNKNOWN || (found == TRI_NO && row->ref[0] && row->absent == FORGE_MISSING)) {
        forge_dark(r, found == TRI_NO ? "it does not say which ref it is about"
                                      : "which ref it is about can be read in more than one way");
        return TRI_UNKNOWN;
    }
    if (found == TRI_YES)
        *out = forge_ref(r, row->space, name);
    return r->out->state == FORGE_DARK ? TRI_UNKNOWN : found;
}

/* Whether the branch may be a new one, which GitLab makes of another. */
static bool starts(struct forge_reading *r) {
    static const char *const names[] = {"start_branch", "start_sha", "start_project", "startBranch"};
    struct slice value;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (forge_param(r, names[i], &value) != TRI_NO)
            return true;
    return false;
}

/* What is done to the ref, by the row and by what the request says. */
static enum forge_does does_what(struct forge_reading *r, const struct forge_row *row) {
    if ((row->flags & FORGE_FORCE) && forge_switch(r, "force") != TRI_NO)
        return FORGE_FORCES;
    if ((row->flags & FORGE_START) && starts(r))
        return FORGE_SAVES;
    return row->does;
}

/* The files that change, on all that was added from `first` on. */
static void add_files(struct forge_reading *r, const struct forge_row *row, size_t first) {
    const struct facts_text *paths = NULL;
    size_t n = 0;
    bool known = false, doubtful = false;
    if (row->file[0]) {
        struct slice name = forge_captured(r, slice_sub(slice_str(row->file), 1, strlen(row->file) - 2));
        struct slice from = SLICE_NONE;
        known = forge_file(r, name, &paths, &n) && forge_param(r, "from_path", &from) == TRI_NO;
    } else if (row->flags & FORGE_ACTIONS) {
        const char *list = r->forges & FORGE_GITEA ? "files" : "actions";
        const json_t *all = forge_member(r->json, slice_str(list), &doubtful);
        known = json_is_array(all) && !doubtful && forge_files(r, all, &paths, &n);
    }
    for (size_t i = first; known && i < r->out->n; i++) {
        r->out->writes[i].brought.paths_known = true;
        r->out->writes[i].brought.paths = paths;
        r->out->writes[i].brought.npaths = n;
    }
}

/* A merge that takes the branch away which it was made of. */
static void add_source(struct forge_reading *r, struct slice target) {
    struct slice own = SLICE_NONE, kept = r->repository;
    bool asked = forge_switch(r, "should_remove_source_branch") != TRI_NO ||
                 forge_switch(r, "shouldRemoveSourceBranch") != TRI_NO ||
                 forge_switch(r, "delete_branch_after_merge") != TRI_NO;
    if ((r->forges & FORGE_GITLAB) && !asked)
        asked = forge_answer(r, target, SLICE_NONE, "force_remove_source_branch", &own) &&
                slice_eq(own, SLICE("true"));
    if (asked)
        forge_add_head(r, target, FORGE_DELETES);
    r->repository = kept;
}

static void read_pull(struct forge_reading *r, const struct forge_row *row) {
    struct slice number = forge_captured(r, SLICE("number"));
    struct slice kind = (r->forges & FORGE_GITLAB) ? SLICE("/merge_requests/") : SLICE("/pulls/");
    struct slice target = forge_text(r, r->repo_target, kind, number, SLICE_NONE);
    for (size_t i = 0; i < number.n; i++)
        if (!ascii_digit(number.p[i]))
            forge_dark(r, "a pull request has no such number");
    if (row->absent == FORGE_HEAD)
        forge_add_head(r, target, row->does);
    else
        forge_add_base(r, target, row->does);
    if (row->flags & FORGE_SOURCE)
        add_source(r, target);
}

/* The default branch of the repository, which the request leaves open. */
static void read_default(struct forge_reading *r, enum forge_does does) {
    struct slice name = SLICE_NONE;
    bool known = forge_answer(r, r->repo_target, r->repo_body, "default_branch", &name);
    add_answered(r, known, name, does, FORGE_DEFAULT);
}

/* Repositories beside the one that is named. */
static void move_repository(struct forge_reading *r, const struct forge_row *row) {
    if ((row->flags & FORGE_WIKI) && r->repository.n)
        r->repository = forge_text(r, r->repository, SLICE(".wiki"), SLICE_NONE, SLICE_NONE);
    if (row->flags & FORGE_GIST)
        r->repository = forge_text(r, SLICE("/"), forge_captured(r, SLICE("gist")), SLICE_NONE, SLICE_NONE);
}

/* Rows whose request may write nothing at all. */
static bool writes_nothing(struct forge_reading *r, const struct forge_row *row) {
    static const char *const mirror[] = {"import_url",
                                         "mirror",
                                         "mirror_user_id",
                                         "mirror_trigger_builds",
                                         "mirror_overwrites_diverged_branches",
                                         "only_mirror_protected_branches",
                                         "mirror_branch_regex"};
    struct slice value;
    bool any = false;
    if (row->flags & FORGE_UNLESS)
        return forge_switch(r, "auto_merge") == TRI_NO &&
               json_is_false(forge_member(r->json, SLICE("auto_merge"), &any));
    if (row->flags & FORGE_DRAFT)
        return forge_param(r, row->ref, &value) == TRI_NO &&
               (forge_param(r, "draft", &value) == TRI_NO || forge_switch(r, "draft") == TRI_YES);
    if (!(row->flags & FORGE_MIRROR))
        return false;
    for (size_t i = 0; i < sizeof mirror / sizeof *mirror; i++)
        any |= forge_switch(r, mirror[i]) != TRI_NO;
    return !any;
}

static void read_ref(struct forge_reading *r, const struct forge_row *row) {
    struct slice ref = SLICE_NONE, fresh = SLICE_NONE;
    size_t first = r->out->n;
    enum tri named = named_ref(r, row, &ref);
    if (named == TRI_UNKNOWN || (named == TRI_NO && row->absent == FORGE_NONE))
        return;
    enum forge_does does = does_what(r, row);
    enum tri other = (row->flags & FORGE_NEW_BRANCH) ? forge_param(r, "new_branch", &fresh) : TRI_NO;
    if (other == TRI_UNKNOWN)
        forge_dark(r, "which ref it is about can be read in more than one way");
    else if (other == TRI_YES && fresh.n)
        forge_add_all(r, FORGE_SAVES, forge_ref(r, FORGE_HEADS, fresh), NULL);
    else if (named == TRI_YES)
        forge_add_all(r, does, ref, NULL);
    else if (row->absent == FORGE_DEFAULT)
        read_default(r, does);
    else
        forge_add_all(r, does, SLICE_NONE, forge_absent_text(row->absent));
    if (row->does == FORGE_RENAMES)
        forge_add_all(r, FORGE_DELETES, forge_ref(r, row->space, forge_captured(r, SLICE("branch"))), NULL);
    if (row->does != FORGE_DELETES)
        add_files(r, row, first);
}

void forge_rest_read(struct forge_reading *r, const struct forge_row *row) {
    if (!read_body(r))
        return;
    if (row->flags & FORGE_TEXT && forge_commands(r)) {
        settle_repository(r);
        forge_add_all(r, FORGE_SAVES, SLICE_NONE, "one that a command in its text names, as /merge");
    }
    if (row->does == FORGE_NOTHING || writes_nothing(r, row))
        return;
    if (!(row->flags & FORGE_GIST))
        settle_repository(r);
    move_repository(r, row);
    if (row->absent == FORGE_BASE || row->absent == FORGE_HEAD)
        read_pull(r, row);
    else
        read_ref(r, row);
}
