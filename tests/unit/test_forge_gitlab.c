/* The same for GitLab, and for Forgejo and Gitea. */
#include "tests/unit/forge_support.h"

/* --- GitLab ------------------------------------------------------------------------------------------------- */

static void gitlab(void **state) {
    (void)state;
    reads("POST", LAB "/repository/branches?branch=x&ref=main", NULL, "create /acme/app refs/heads/x");
    reads("POST", LAB "/repository/branches", "{\"branch\":\"x\"}", "create /acme/app refs/heads/x");
    reads("DELETE", LAB "/repository/branches/fix%2F1", NULL, "delete /acme/app refs/heads/fix/1");
    reads("DELETE", LAB "/repository/merged_branches", NULL, "delete /acme/app ?");
    reads("POST", LAB "/repository/commits",
          "{\"branch\":\"main\",\"actions\":[{\"action\":\"move\",\"file_path\":\"a\",\"previous_path\":"
          "\"b\"}]}",
          "update /acme/app " MAIN " [a b]");
    reads("POST", LAB "/repository/commits", "{\"branch\":\"x\",\"start_branch\":\"main\",\"actions\":[]}",
          "update /acme/app refs/heads/x []; create /acme/app refs/heads/x []");
    reads("POST", LAB "/repository/commits", "{\"branch\":\"x\",\"force\":true}",
          "force /acme/app refs/heads/x");
    reads("POST", LAB "/repository/commits/abc/cherry_pick", "{\"branch\":\"main\"}",
          "update /acme/app " MAIN);
    reads("POST", LAB "/repository/commits/abc/revert", "{\"branch\":\"main\"}", "update /acme/app " MAIN);
    reads("PUT", LAB "/repository/files/src%2Fa.c", "{\"branch\":\"main\"}",
          "update /acme/app " MAIN " [src/a.c]");
    reads("PUT", LAB "/repository/submodules/lib%2Fx", "{\"branch\":\"main\"}",
          "update /acme/app " MAIN " [lib/x]");
    reads("POST", LAB "/repository/changelog", "{\"version\":\"1\"}", "update /acme/app ?");
    reads("POST", LAB "/repository/tags", "{\"tag_name\":\"v1\",\"ref\":\"main\"}",
          "create /acme/app refs/tags/v1");
    reads("DELETE", LAB "/repository/tags/v1", NULL, "delete /acme/app refs/tags/v1");
    reads("POST", LAB "/releases", "{\"tag_name\":\"v1\"}", "create /acme/app refs/tags/v1");
    reads("PUT", LAB "/merge_requests/7/merge", NULL, "update /acme/app ?");
    assert_string_equal(question, "/api/v4/projects/acme%2Fapp/merge_requests/7");
    reads("PUT", LAB "/merge_requests/7/merge", "{\"should_remove_source_branch\":true}",
          "update /acme/app ?; delete ? ?");
    reads("PUT", LAB "/merge_requests/7/rebase", NULL, "force ? ?");
    reads("POST", LAB "/merge_trains/merge_requests/7", NULL, "update /acme/app ?");
    reads("PUT", LAB "/merge_requests/7", "{\"title\":\"t\"}", "quiet");
    reads("PUT", LAB "/merge_requests/7", "{\"target_branch\":\"main\"}", "update /acme/app " MAIN);
    reads("POST", LAB "/mirror/pull", NULL,
          "create /acme/app ?; update /acme/app ?; delete /acme/app ?; force /acme/app ?");
    reads("PUT", LAB, "{\"description\":\"x\"}", "quiet");
    reads("PUT", LAB, "{\"import_url\":\"https://x.test/\",\"mirror\":true}",
          "create /acme/app ?; update /acme/app ?; delete /acme/app ?; force /acme/app ?");
    reads("DELETE", LAB, NULL, "delete /acme/app ?");
    reads(
        "POST", LAB "/wikis", "{}",
        "create /acme/app.wiki ?; update /acme/app.wiki ?; delete /acme/app.wiki ?; force /acme/app.wiki ?");
    reads(
        "DELETE", LAB "/wikis/page", NULL,
        "create /acme/app.wiki ?; update /acme/app.wiki ?; delete /acme/app.wiki ?; force /acme/app.wiki ?");
    assert_non_null(strstr(reading("POST", LAB "/wikis/attachments", NULL), "update /acme/app.wiki ?"));
    reads("PUT", "https://gitlab.com/api/v4/suggestions/5/apply", NULL, "update ? ?");
    reads("PUT", "https://gitlab.com/api/v4/suggestions/batch_apply", NULL, "update ? ?");
}

static void gitlab_forms(void **state) {
    (void)state;
    type_of_body = FORM;
    reads("PUT", LAB "/repository/files/a", "branch=main&content=x", "update /acme/app " MAIN " [a]");
    type_of_body = FORM;
    reads("POST", LAB "/repository/commits", "branch=main&actions[][file_path]=x", "update /acme/app " MAIN);
    type_of_body = FORM;
    dark("PUT", LAB "/repository/files/a", "branch=main&branch=x");
    type_of_body = FORM;
    dark("PUT", LAB "/repository/files/a?branch=main", "branch=x");
    type_of_body = FORM;
    dark("PUT", LAB "/repository/files/a", "branch=x&_method=DELETE");
    dark("PUT", LAB "/repository/files/a?branch=main", "{\"branch\":\"x\"}");
    reads("POST", LAB "/repository/commits?force=true", "{\"branch\":\"x\",\"force\":false}",
          "force /acme/app refs/heads/x");
    strange("POST", LAB "/repository/commits.json");
}

static void gitlab_numbers(void **state) {
    (void)state;
    const char *url = "https://gitlab.com/api/v4/projects/42/repository/branches?branch=x&ref=main";
    reads("POST", url, NULL, "create ? refs/heads/x");
    assert_string_equal(question, "/api/v4/projects/42");
    answer("/api/v4/projects/42", "",
           "{\"path_with_namespace\":\"acme/sub/app\",\"default_branch\":\"main\"}");
    reads("POST", url, NULL, "create /acme/sub/app refs/heads/x");
    answer("/api/v4/projects/42/merge_requests/7", "",
           "{\"target_branch\":\"main\",\"source_branch\":\"x\",\"source_project_id\":43,\"target_project_"
           "id\":42,"
           "\"force_remove_source_branch\":true}");
    reads("PUT", "https://gitlab.com/api/v4/projects/42/merge_requests/7/merge", NULL,
          "update /acme/sub/app " MAIN "; delete ? ?");
    assert_string_equal(question, "/api/v4/projects/43");
    answer("/api/v4/projects/43", "", "{\"path_with_namespace\":\"me/app\"}");
    reads("PUT", "https://gitlab.com/api/v4/projects/42/merge_requests/7/merge", NULL,
          "update /acme/sub/app " MAIN "; delete /me/app refs/heads/x");
    nanswers = 0;
    reads("POST", "https://hub.test/code/api/v4/projects/acme%2Fapp/repository/branches?branch=x", NULL,
          "create /code/acme/app refs/heads/x");
    dark("POST", "https://gitlab.com/api/v4/projects/app/repository/branches?branch=x", NULL);
}

static void gitlab_commands(void **state) {
    (void)state;
    const char *lost = "update /acme/app ?; create /acme/app ?";
    reads("POST", LAB "/merge_requests/7/notes", "{\"body\":\"looks good\"}", "quiet");
    reads("POST", LAB "/merge_requests/7/notes", "{\"body\":\"see src/merge and /usr/merge\"}", "quiet");
    reads("POST", LAB "/merge_requests/7/notes", "{\"body\":\"/merge_it\"}", "quiet");
    reads("POST", LAB "/merge_requests/7/notes", "{\"body\":\"well\\n /merge\\n\"}", lost);
    reads("POST", LAB "/merge_requests/7/notes?body=/merge", NULL, lost);
    reads("POST", LAB "/merge_requests/7/notes", "{\"body\":\"/Target_Branch main\"}", lost);
    type_of_body = FORM;
    reads("POST", LAB "/issues/7/notes", "body=a%0A%2Fcreate_merge_request+x", lost);
    reads("POST", LAB "/merge_requests", "{\"description\":\"/rebase\",\"source_branch\":\"x\"}", lost);
}

static void gitlab_graphql(void **state) {
    (void)state;
    const char *at = "https://gitlab.com/api";
    asks(at, ON("commitCreate"),
         "{\"i\":{\"projectPath\":\"acme/"
         "app\",\"branch\":\"main\",\"actions\":[{\"action\":\"UPDATE\",\"filePath\":\"a\"}]}}",
         "update /acme/app " MAIN " [a]");
    asks(at, ON("createBranch"), "{\"i\":{\"projectPath\":\"acme/app\",\"name\":\"x\"}}",
         "create /acme/app refs/heads/x");
    asks(at, ON("branchDelete"), "{\"i\":{\"projectPath\":\"acme/app\",\"name\":\"x\"}}",
         "delete /acme/app refs/heads/x");
    asks(at, ON("tagCreate"), "{\"i\":{\"projectPath\":\"acme/app\",\"name\":\"x\"}}",
         "create /acme/app refs/tags/x");
    asks(at, ON("tagDelete"), "{\"i\":{\"projectPath\":\"acme/app\",\"name\":\"x\"}}",
         "delete /acme/app refs/tags/x");
    asks(at, ON("releaseCreate"), "{\"i\":{\"projectPath\":\"acme/app\",\"tagName\":\"x\"}}",
         "create /acme/app refs/tags/x");
    asks(at, ON("projectSyncFork"), "{\"i\":{\"projectPath\":\"acme/app\",\"targetBranch\":\"main\"}}",
         "update /acme/app " MAIN);
    asks(at, ON("mergeRequestAccept"), "{\"i\":{\"projectPath\":\"acme/app\",\"iid\":\"7\",\"sha\":\"1\"}}",
         "update /acme/app ?");
    assert_string_equal(question, "/api/v4/projects/acme%2Fapp/merge_requests/7");
    asks(at, ON("mergeRequestUpdate"),
         "{\"i\":{\"projectPath\":\"acme/app\",\"iid\":\"7\",\"targetBranch\":\"main\"}}",
         "update /acme/app " MAIN);
    static const char *const configure[] = {"configureSast", "configureSastIac", "configureSecretDetection",
                                            "configureDependencyScanning", "configureContainerScanning"};
    for (size_t i = 0; i < 5; i++) {
        char query[256];
        snprintf(query, sizeof query, "mutation($i:X!){%s(input:$i){clientMutationId}}", configure[i]);
        asks(at, query, "{\"i\":{\"projectPath\":\"acme/app\"}}", "create /acme/app ?");
    }
    static const char *const texts[] = {
        "mergeRequestCreate", "createIssue",    "updateIssue",         "createNote",     "updateNote",
        "createDiscussion",   "createDiffNote", "createImageDiffNote", "workItemCreate", "workItemUpdate"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char query[256];
        snprintf(query, sizeof query, "mutation($i:X!){%s(input:$i){clientMutationId}}", texts[i]);
        asks(at, query, "{\"i\":{\"body\":\"fine\"}}", "quiet");
        asks(at, query, "{\"i\":{\"body\":{\"description\":\"/merge\"}}}", "update ? ?; create ? ?");
    }
    /* which of the two serves /api/graphql is not known elsewhere: both are read */
    asks("https://hub.test/api", ON("mergeBranch"), "{\"i\":{\"base\":\"main\",\"repositoryId\":\"R_1\"}}",
         "update ? " MAIN);
    asks("https://hub.test/api", ON("createIssue"), "{\"i\":{\"body\":\"/merge\"}}",
         "update ? ?; create ? ?");
}

/* Other ways to the same controller, and to another document than the one in the body. */
static void gitlab_graphql_odd(void **state) {
    (void)state;
    const char *at = "https://gitlab.com/api/graphql", *none = "{\"query\":\"{__typename}\"}";
    const char *tag = "{\"query\":\"mutation{tagDelete(input:{projectPath:\\\"acme/"
                      "app\\\",name:\\\"x\\\"}){errors}}\"}";
    char url[128];
    static const char *const ends[] = {"", "/", ".json", ".JSON", ".x/"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(url, sizeof url, "%s%s", at, ends[i]);
        reads("POST", url, tag, "delete /acme/app refs/tags/x");
    }
    reads("POST", "https://gitlab.com/api/graphqls", tag, "quiet");
    reads("POST", at, none, "quiet");
    static const char *const queries[] = {"_json[][query]=mutation%7Bx%7D",
                                          "_json%5B%5D%5Bquery%5D=x",
                                          "%5fjson[]=x",
                                          "documentId=1",
                                          "query",
                                          "a=b"};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        snprintf(url, sizeof url, "%s?%s", at, queries[i]);
        dark("POST", url, none);
        snprintf(url, sizeof url, "%s?query=%%7B__typename%%7D&%s", at, queries[i]);
        dark("GET", url, NULL);
    }
    reads("GET", "https://gitlab.com/api/graphql.json?query=%7B__typename%7D&variables=%7B%7D", NULL,
          "quiet");
    dark("POST", at, "{\"query\":\"{__typename}\",\"_json\":[{\"query\":\"mutation{x}\"}]}");
}

/* --- Forgejo ------------------------------------------------------------------------------------------------ */

static void forgejo(void **state) {
    (void)state;
    reads("POST", TEA "/contents/a", "{\"branch\":\"main\"}", "update /acme/app " MAIN " [a]");
    reads("PUT", TEA "/contents/a", "{\"branch\":\"main\",\"new_branch\":\"x\"}",
          "update /acme/app refs/heads/x [a]; create /acme/app refs/heads/x [a]");
    reads("PUT", TEA "/contents/a", "{\"branch\":\"main\",\"from_path\":\"b\"}", "update /acme/app " MAIN);
    reads("POST", TEA "/contents",
          "{\"files\":[{\"operation\":\"create\",\"path\":\"a\"}],\"branch\":\"main\"}",
          "update /acme/app " MAIN " [a]");
    reads("POST", TEA "/diffpatch", "{\"content\":\"x\"}", "update /acme/app ?");
    reads("POST", TEA "/branches", "{\"new_branch_name\":\"x\"}", "create /acme/app refs/heads/x");
    reads("PATCH", TEA "/branches/old", "{\"name\":\"new\"}",
          "create /acme/app refs/heads/new; delete /acme/app refs/heads/old");
    reads("PUT", TEA "/branches/main", "{}", "force /acme/app " MAIN);
    reads("DELETE", TEA "/branches/fix/1", NULL, "delete /acme/app refs/heads/fix/1");
    reads("POST", TEA "/pulls/7/merge", "{\"Do\":\"merge\"}", "update /acme/app ?");
    reads("POST", TEA "/pulls/7/merge", "{\"Do\":\"merge\",\"delete_branch_after_merge\":true}",
          "update /acme/app ?; delete ? ?");
    reads("POST", TEA "/pulls/7/update", NULL, "force ? ?");
    reads("PATCH", TEA "/pulls/7", "{\"base\":\"main\"}", "update /acme/app " MAIN);
    reads("POST", TEA "/tags", "{\"tag_name\":\"v1\"}", "create /acme/app refs/tags/v1");
    reads("DELETE", TEA "/tags/v1", NULL, "delete /acme/app refs/tags/v1");
    reads("POST", TEA "/releases", "{\"tag_name\":\"v1\"}", "create /acme/app refs/tags/v1");
    reads("PATCH", TEA "/releases/1", "{\"draft\":false}", "create /acme/app ?");
    reads("POST", TEA "/merge-upstream", "{\"branch\":\"main\"}", "update /acme/app " MAIN);
    reads("POST", TEA "/sync_fork", NULL, "update /acme/app ?");
    reads("POST", TEA "/sync_fork/main", NULL, "update /acme/app " MAIN);
    assert_non_null(strstr(reading("POST", TEA "/mirror-sync", NULL), "force /acme/app ?"));
    reads("DELETE", TEA, NULL, "delete /acme/app ?");
    assert_non_null(strstr(reading("POST", TEA "/wiki/new", "{}"), "update /acme/app.wiki ?"));
    assert_non_null(strstr(reading("PATCH", TEA "/wiki/page/x", "{}"), "update /acme/app.wiki ?"));
}

static void rows(void **state) {
    (void)state;
    every_row(FORGE_GITLAB | FORGE_GITEA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gitlab),         cmocka_unit_test(gitlab_forms),
        cmocka_unit_test(gitlab_numbers), cmocka_unit_test(gitlab_commands),
        cmocka_unit_test(gitlab_graphql), cmocka_unit_test(gitlab_graphql_odd),
        cmocka_unit_test(forgejo),        cmocka_unit_test(rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
