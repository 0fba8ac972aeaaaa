/* GraphQL mutations as updates of refs. */
#include <stdlib.h>

#include "base/json.h"
#include "policy/forge_read.h"

/* What exeat asks GitHub about an opaque id. */
#define NODE                                                                                                 \
    "query($id:ID!){node(id:$id){...on Repository{nameWithOwner}...on Ref{name prefix repository"            \
    "{nameWithOwner}}...on PullRequest{baseRefName headRefName repository{nameWithOwner}headRepository"      \
    "{nameWithOwner}}}}"

static const struct forge_mutation *find(unsigned forges, struct slice name) {
    size_t n;
    const struct forge_mutation *rows = forge_mutations(&n), *quiet = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!(rows[i].forges & forges) || !slice_eq(slice_str(rows[i].name), name))
            continue;
        /* of two forges' mutations by one name the one that does more counts */
        if (rows[i].does != FORGE_NOTHING || (rows[i].flags & FORGE_TEXT))
            return &rows[i];
        quiet = &rows[i];
    }
    return quiet;
}

/* --- opaque ids -------------------------------------------------------------------------------------------- */

/* Sets where the forge tells about the id that the mutation names. */
static bool ask_node(struct forge_reading *r, const struct forge_mutation *m) {
    struct slice id;
    struct buf text;
    struct json j;
    if (!m->id[0] || m->forges != FORGE_GITHUB || forge_param(r, m->id, &id) != TRI_YES || id.n > 256)
        return false;
    buf_init(&text, 4096);
    json_init(&j, &text);
    json_open_object(&j);
    json_key(&j, "query");
    json_cstring(&j, NODE);
    json_key(&j, "variables");
    json_open_object(&j);
    json_key(&j, "id");
    json_put_string(&j, id);
    json_close(&j);
    json_close(&j);
    r->repo_target = r->f->path;
    r->repo_body = forge_text(r, buf_slice(&text), SLICE_NONE, SLICE_NONE, SLICE_NONE);
    buf_release(&text);
    return r->repo_body.n > 0;
}

static bool node_answer(struct forge_reading *r, const char *path, struct slice *out) {
    return forge_answer(r, r->repo_target, r->repo_body, path, out);
}

/* The repository that an id of its own, of a ref or of a pull request leads to. */
static void node_repository(struct forge_reading *r, const char *path) {
    struct slice name;
    if (node_answer(r, path, &name))
        r->repository = forge_repository(r, name);
}

/* --- the repository ---------------------------------------------------------------------------------------- */

static void find_repository(struct forge_reading *r, const struct forge_mutation *m) {
    struct slice name = SLICE_NONE, id = SLICE_NONE;
    enum tri named = m->repository[0] ? forge_param(r, m->repository, &name) : TRI_NO;
    enum tri by_id = m->repository[0] && m->id[0] ? forge_param(r, m->id, &id) : TRI_NO;
    if (named == TRI_UNKNOWN || (named == TRI_YES && by_id != TRI_NO))
        forge_dark(r, "which repository it is about can be read in more than one way");
    else if (named == TRI_YES)
        r->repository = forge_repository(r, name);
}

/* GitLab's API about a merge request, for which GraphQL gives project and number. */
static void lab_pull(struct forge_reading *r, const struct forge_mutation *m) {
    struct slice number = SLICE_NONE, target = SLICE_NONE, project = SLICE_NONE;
    bool good = r->repository.n > 0 && forge_param(r, "iid", &number) == TRI_YES &&
                forge_param(r, m->repository, &project) == TRI_YES;
    for (size_t i = 0; i < number.n; i++)
        good &= ascii_digit(number.p[i]);
    for (size_t at = 0; good && at < project.n;) {
        struct slice rest = slice_from(project, at), one;
        bool more = slice_cut(rest, '/', &one, &rest);
        target = forge_text(r, target, one, more ? SLICE("%2F") : SLICE_NONE, SLICE_NONE);
        at += one.n + more;
    }
    if (good) {
        r->api = forge_text(r, r->prefix, SLICE("/api/v4"), SLICE_NONE, SLICE_NONE);
        target = forge_text(r, r->api, SLICE("/projects/"), target, SLICE("/merge_requests/"));
        target = forge_text(r, target, number, SLICE_NONE, SLICE_NONE);
    } else {
        target = SLICE_NONE;
    }
    forge_add_base(r, target, m->does);
    if ((m->flags & FORGE_SOURCE) && forge_switch(r, "shouldRemoveSourceBranch") != TRI_NO)
        forge_add_head(r, target, FORGE_DELETES);
}

/* --- refs -------------------------------------------------------------------------------------------------- */

static enum forge_does does_what(struct forge_reading *r, const struct forge_mutation *m) {
    struct slice value;
    if ((m->flags & FORGE_FORCE) &&
        (forge_switch(r, "force") != TRI_NO || forge_param(r, "updateMethod", &value) != TRI_NO))
        return FORGE_FORCES;
    if ((m->flags & FORGE_START) && forge_param(r, "startBranch", &value) != TRI_NO)
        return FORGE_SAVES;
    return m->does;
}

/* A ref that GitHub knows by what the id leads to. */
static void read_node(struct forge_reading *r, const struct forge_mutation *m) {
    struct slice name = SLICE_NONE, prefix = SLICE_NONE, ref = SLICE_NONE;
    bool head = m->absent == FORGE_HEAD, known = false;
    if (!ask_node(r, m)) {
        forge_dark(r, "the id of what it is about can't be read");
        return;
    }
    node_repository(r,
                    head ? "data.node.headRepository.nameWithOwner" : "data.node.repository.nameWithOwner");
    if (m->absent == FORGE_BASE || head) {
        known = node_answer(r, head ? "data.node.headRefName" : "data.node.baseRefName", &name);
        ref = known ? forge_ref(r, FORGE_HEADS, name) : SLICE_NONE;
    } else if (m->absent == FORGE_MISSING) {
        known = node_answer(r, "data.node.name", &name) && node_answer(r, "data.node.prefix", &prefix);
        ref = known ? forge_ref(r, FORGE_WHOLE, forge_text(r, prefix, name, SLICE_NONE, SLICE_NONE))
                    : SLICE_NONE;
    }
    forge_add_all(r, does_what(r, m), ref,
                  known                        ? NULL
                  : m->absent == FORGE_MISSING ? "one that the request names by an opaque id"
                                               : forge_absent_text(m->absent));
}

/* updateRefs: a list of names, each with what becomes of it. */
static void read_list(struct forge_reading *r) {
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    bool doubtful = false;
    const json_t *list = forge_member(r->json, SLICE("refUpdates"), &doubtful), *whole = r->json;
    size_t n = json_is_object(list) ? 1 : json_array_size(list);
    if (doubtful || n == 0)
        forge_dark(r, "its list of refs can't be read");
    for (size_t i = 0; i < n && r->out->state != FORGE_DARK; i++) {
        struct slice name = SLICE_NONE, after = SLICE_NONE, before = SLICE_NONE;
        r->json = json_is_object(list) ? list : json_array_get(list, i);
        if (forge_param(r, "name", &name) != TRI_YES || forge_param(r, "afterOid", &after) != TRI_YES ||
            forge_param(r, "beforeOid", &before) == TRI_UNKNOWN) {
            forge_dark(r, "its list of refs can't be read");
            break;
        }
        bool gone = after.n <= sizeof zeros - 1 && slice_eq(after, slice_make(zeros, after.n));
        bool fresh =
            before.n && before.n <= sizeof zeros - 1 && slice_eq(before, slice_make(zeros, before.n));
        enum forge_does does = gone                                 ? FORGE_DELETES
                               : forge_switch(r, "force") != TRI_NO ? FORGE_FORCES
                               : fresh                              ? FORGE_CREATES
                               : before.n                           ? FORGE_UPDATES
                                                                    : FORGE_SAVES;
        forge_add_all(r, does, forge_ref(r, FORGE_WHOLE, name), NULL);
    }
    r->json = whole;
}

/* Files that GraphQL names: fileChanges of GitHub, actions of GitLab. */
static void add_files(struct forge_reading *r, size_t first) {
    const struct facts_text *one = NULL, *two = NULL;
    size_t n = 0, m = 0;
    bool doubtful = false, known;
    const json_t *added = forge_member(r->json, SLICE("fileChanges.additions"), &doubtful),
                 *gone = forge_member(r->json, SLICE("fileChanges.deletions"), &doubtful),
                 *actions = forge_member(r->json, SLICE("actions"), &doubtful);
    if ((added && !json_is_array(added)) || (gone && !json_is_array(gone)) || (!added && !gone && !actions))
        doubtful = true;
    known =
        !doubtful && forge_files(r, actions ? actions : added, &one, &n) && forge_files(r, gone, &two, &m);
    struct facts_text *all = known ? arena_alloc(&r->out->arena, (n + m + 1) * sizeof *all) : NULL;
    for (size_t i = 0; all && i < n + m; i++)
        all[i] = i < n ? one[i] : two[i - n];
    for (size_t i = first; all && i < r->out->n; i++) {
        r->out->writes[i].brought.paths_known = true;
        r->out->writes[i].brought.paths = all;
        r->out->writes[i].brought.npaths = n + m;
    }
}

/* A ref that the mutation names by its name. */
static void read_named(struct forge_reading *r, const struct forge_mutation *m) {
    struct slice name = SLICE_NONE;
    size_t first = r->out->n;
    enum tri found = forge_param(r, m->ref, &name);
    if (found == TRI_NO && m->absent == FORGE_NONE)
        return;
    struct slice id = SLICE_NONE;
    enum tri by_id = slice_eq(slice_str(m->id), SLICE("branch.id")) ? forge_param(r, m->id, &id) : TRI_NO;
    bool twice = found == TRI_YES && by_id != TRI_NO;
    bool never = found == TRI_NO && by_id == TRI_NO && m->absent == FORGE_MISSING;
    if (found == TRI_UNKNOWN || twice || never) {
        forge_dark(r, "which ref it is about can't be read");
        return;
    }
    if (by_id != TRI_NO) {
        read_node(r, m);
        add_files(r, first);
        return;
    }
    if (r->repository.n == 0 && m->id[0] && ask_node(r, m))
        node_repository(r, slice_eq(slice_str(m->id), SLICE("repositoryId"))
                               ? "data.node.nameWithOwner"
                               : "data.node.repository.nameWithOwner");
    if (found == TRI_YES)
        forge_add_all(r, does_what(r, m), forge_ref(r, m->space, name), NULL);
    else
        forge_add_all(r, does_what(r, m), SLICE_NONE, forge_absent_text(FORGE_UNNAMED));
    if (m->flags & FORGE_ACTIONS)
        add_files(r, first);
}

static bool writes_nothing(struct forge_reading *r, const struct forge_mutation *m) {
    bool doubtful = false;
    return m->does == FORGE_NOTHING ||
           ((m->flags & FORGE_UNLESS) && json_is_false(forge_member(r->json, SLICE("autoMerge"), &doubtful)));
}

static void read_input(struct forge_reading *r, const struct forge_mutation *m) {
    find_repository(r, m);
    if ((m->flags & FORGE_TEXT) && forge_commands(r))
        forge_add_all(r, FORGE_SAVES, SLICE_NONE, "one that a command in its text names, as /merge");
    if (r->out->state == FORGE_DARK || writes_nothing(r, m))
        return;
    if (m->flags & FORGE_UPDATE_LIST) {
        if (ask_node(r, m))
            node_repository(r, "data.node.nameWithOwner");
        read_list(r);
    } else if (m->ref[0]) {
        read_named(r, m);
    } else if (m->forges == FORGE_GITHUB) {
        read_node(r, m);
    } else if (m->absent == FORGE_BASE) {
        lab_pull(r, m);
    } else {
        forge_add_all(r, m->does, SLICE_NONE, forge_absent_text(FORGE_UNNAMED));
    }
}

/* One root field of a mutation. */
static bool each(void *arg, struct slice field, struct slice arguments, const void *variables) {
    struct forge_reading *r = arg;
    if (slice_eq(field, SLICE("__typename")))
        return true;
    const struct forge_mutation *m = find(r->forges, field);
    if (!m) {
        if (r->out->strange && !slice_eq(r->out->mutation, field))
            forge_dark(r, "it holds more than one mutation that is not known");
        r->out->strange = true;
        r->out->mutation = field;
        return r->out->state != FORGE_DARK;
    }
    if (m->does == FORGE_NOTHING && !(m->flags & FORGE_TEXT))
        return true;
    struct forge_reading one = *r;
    if (r->out->narguments == FORGE_ARGUMENTS_MAX) {
        forge_dark(r, "it holds too many mutations");
        return false;
    }
    json_t *all = graphql_arguments(arguments, variables);
    r->out->arguments[r->out->narguments++] = all; /* what is read borrows from them */
    one.forges = m->forges;
    one.input = true;
    one.json = json_object_get(all, "input");
    if (json_is_object(one.json))
        read_input(&one, m);
    else
        forge_dark(&one, "the arguments of a mutation can't be read");
    return r->out->state != FORGE_DARK;
}

void forge_graphql_read(struct forge_reading *r) {
    if (!graphql_mutations(r->f, r->view, each, r))
        forge_dark(r, r->view->graphql_why);
}
