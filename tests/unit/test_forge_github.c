/* Requests to GitHub's APIs, read as updates of refs: every row of its tables, and what is not to be read as one. */
#include "tests/unit/forge_support.h"

/* --- GitHub ------------------------------------------------------------------------------------------------ */

static void github(void **state) {
    (void)state;
    reads("POST", REPO "/git/refs", "{\"ref\":\"refs/heads/x\",\"sha\":\"1\"}",
          "create /acme/app refs/heads/x");
    reads("PATCH", REPO "/git/refs/heads/main", "{\"sha\":\"1\"}", "update /acme/app " MAIN);
    reads("PATCH", REPO "/git/refs/heads/main", "{\"sha\":\"1\",\"force\":false}", "update /acme/app " MAIN);
    reads("PATCH", REPO "/git/refs/heads/main", "{\"sha\":\"1\",\"force\":true}", "force /acme/app " MAIN);
    reads("PATCH", REPO "/git/refs/heads/main", "{\"sha\":\"1\",\"force\":\"yes\"}", "force /acme/app " MAIN);
    reads("POST", REPO "/git/refs/heads/main", "{\"sha\":\"1\"}",
          "update /acme/app " MAIN); /* served as PATCH */
    reads("PATCH", REPO "/git/refs/heads%2Fmain", "{\"sha\":\"1\"}", "update /acme/app " MAIN);
    reads("DELETE", REPO "/git/refs/tags/v1", NULL, "delete /acme/app refs/tags/v1");
    reads("PUT", REPO "/contents/src/a.c", "{\"branch\":\"fix/1\"}",
          "update /acme/app refs/heads/fix/1 [src/a.c]");
    reads("PUT", REPO "/contents/a%20b", "{\"branch\":\"x\"}", "update /acme/app refs/heads/x [a b]");
    reads("PUT", REPO "/contents/a.c", "{\"message\":\"m\"}", "update /acme/app ? [a.c]");
    assert_string_equal(question, "/repos/acme/app");
    reads("DELETE", REPO "/contents/a.c?branch=x&sha=1", NULL, "update /acme/app refs/heads/x [a.c]");
    reads("DELETE", REPO "/contents/a.c", "{\"branch\":\"x\"}", "update /acme/app refs/heads/x [a.c]");
    reads("POST", REPO "/merges", "{\"base\":\"main\",\"head\":\"x\"}", "update /acme/app " MAIN);
    reads("PUT", REPO "/pulls/7/merge", "{}", "update /acme/app ?");
    assert_string_equal(question, "/repos/acme/app/pulls/7");
    reads("PUT", REPO "/pulls/7/update-branch", NULL, "update ? ?");
    reads("PATCH", REPO "/pulls/7", "{\"title\":\"t\"}", "quiet");
    reads("PATCH", REPO "/pulls/7", "{\"base\":\"main\"}", "update /acme/app " MAIN);
    reads("POST", REPO "/merge-upstream", "{\"branch\":\"main\"}", "update /acme/app " MAIN);
    reads("POST", REPO "/branches/old/rename", "{\"new_name\":\"main\"}",
          "create /acme/app " MAIN "; delete /acme/app refs/heads/old");
    reads("POST", REPO "/releases", "{\"tag_name\":\"v1\"}", "create /acme/app refs/tags/v1");
    reads("PATCH", REPO "/releases/1", "{\"body\":\"x\"}", "quiet");
    reads("PATCH", REPO "/releases/1", "{\"tag_name\":\"v1\"}", "create /acme/app refs/tags/v1");
    reads("PATCH", REPO "/releases/1", "{\"draft\":false}", "create /acme/app ?");
    reads("POST", REPO "/deployments", "{\"ref\":\"main\"}", "update /acme/app " MAIN);
    reads("POST", REPO "/deployments", "{\"ref\":\"main\",\"auto_merge\":false}", "quiet");
    reads("POST", REPO "/code-scanning/alerts/3/autofix/commits", "{\"target_ref\":\"x\"}",
          "update /acme/app refs/heads/x");
    reads("PUT", REPO "/import", NULL,
          "create /acme/app ?; update /acme/app ?; delete /acme/app ?; force /acme/app ?");
    reads("DELETE", REPO, NULL, "delete /acme/app ?");
    reads("PATCH", HUB "/gists/abc", "{}", "create /abc ?; update /abc ?; delete /abc ?; force /abc ?");
}

static void github_elsewhere(void **state) {
    (void)state;
    const char *body = "{\"branch\":\"main\"}", *wanted = "update /acme/app " MAIN " [x]";
    reads("PUT", "https://hub.test/api/v3/repos/acme/app/contents/x", body, wanted);
    reads("PUT", "https://github.com/api/v3/repos/acme/app/contents/x", body, wanted);
    reads("PUT", HUB "/api/v3/repos/acme/app/contents/x", body, wanted);
    reads("PUT", HUB "/repos//acme/app//contents/x/", body, wanted);
    reads("PUT", HUB "/Repos/acme/app/Contents/x", body, wanted);
    reads("PUT", "https://hub.test/repos/acme/app/contents/x", body, "quiet"); /* not below the API's root */
    reads("PUT", HUB "/repositories/123/contents/x", body, "update ? " MAIN " [x]");
    assert_string_equal(question, "/repositories/123");
    reads("POST", "https://uploads.github.com/repos/acme/app/releases/1/assets?name=x", "…", "quiet");
}

static void github_quiet(void **state) {
    (void)state;
    reads("POST", REPO "/pulls", "{\"base\":\"main\",\"head\":\"x\"}", "quiet");
    reads("POST", REPO "/issues/1/comments", "{\"body\":\"/merge\"}", "quiet");
    reads("GET", REPO "/contents/x", NULL, "quiet");
    reads("HEAD", REPO "/newthing", NULL, "quiet");
    strange("POST", REPO "/newthing");
    strange("PUT", REPO "/contents");
    strange("MERGE", REPO "/contents/x");
    strange("put", REPO "/contents/x");
    strange("POST", HUB "/somewhere");
    reads("POST", REPO "/new/thing", NULL, "strange /acme/app");
}

/* What can be read in more than one way. */
static void github_dark(void **state) {
    (void)state;
    dark("PUT", REPO "/contents/x", "{\"branch\":\"refs/heads/main\"}");
    dark("PUT", REPO "/contents/x", "{\"branch\":\"heads/main\"}");
    dark("PUT", REPO "/contents/x", "{\"branch\":\"HEAD\"}");
    dark("PUT", REPO "/contents/x", "{\"branch\":[\"main\"]}");
    dark("PUT", REPO "/contents/x", "{\"branch\":\"\"}");
    dark("PUT", REPO "/contents/x", "{\"branch\":\"main\",\"branch\":\"x\"}");
    dark("PUT", REPO "/contents/x", "{\"branch\":\"x\",\"Branch\":\"main\"}");
    dark("PUT", REPO "/contents/x", "[]");
    dark("PUT", REPO "/contents/x", "branch=main");
    dark("PUT", REPO "/contents/x?branch=main", "{\"branch\":\"x\"}");
    dark("DELETE", REPO "/contents/x?branch=main", "{\"branch\":\"x\"}");
    dark("DELETE", REPO "/contents/x?branch=main&branch=x", NULL);
    dark("DELETE", REPO "/contents/x?a=1;branch=main", NULL);
    dark("PUT", REPO "/contents/x?_method=PATCH", "{\"branch\":\"x\"}");
    dark("PUT", REPO "/contents/a%2F%2Fb", "{\"branch\":\"x\"}");
    dark("POST", REPO "/merges", "{\"head\":\"x\"}");
    dark("POST", REPO "/git/refs", "{\"ref\":\"heads/x\"}");
    dark("PATCH", REPO "/git/refs/refs/heads/main", "{}");
    dark("PUT", REPO "/pulls/x/merge", "{}");
    dark("PUT", HUB "/repos/ac%2Fme/app/contents/x", "{\"branch\":\"x\"}");
    dark("PUT", HUB "/repos/acme/a%20b/contents/x", "{\"branch\":\"x\"}");
    type_of_body = FORM;
    dark("PUT", REPO "/contents/x", "{\"branch\":\"x\"}");
    type_of_body = "text/plain";
    dark("PUT", REPO "/contents/x", "{\"branch\":\"x\"}");
    override = "PUT";
    dark("POST", REPO "/contents/x", "{\"branch\":\"x\"}");
    override = NULL;
}

static void github_answers(void **state) {
    (void)state;
    answer("/repos/acme/app", "", "{\"default_branch\":\"main\",\"full_name\":\"acme/app\"}");
    reads("PUT", REPO "/contents/x", "{}", "update /acme/app " MAIN " [x]");
    assert_string_equal(question, "");
    answer("/repos/acme/app/pulls/7", "",
           "{\"base\":{\"ref\":\"main\",\"repo\":{\"full_name\":\"Acme/App\"}},"
           "\"head\":{\"ref\":\"fix/1\",\"repo\":{\"full_name\":\"me/fork\"}}}");
    reads("PUT", REPO "/pulls/7/merge", NULL, "update /Acme/App " MAIN);
    reads("PUT", REPO "/pulls/7/update-branch", NULL, "update /me/fork refs/heads/fix/1");
    answer("/repositories/123", "", "{\"full_name\":\"acme/app\"}");
    reads("PUT", HUB "/repositories/123/contents/x", "{\"branch\":\"main\"}",
          "update /acme/app " MAIN " [x]");
    reads("PUT", HUB "/repositories/123/pulls/7/merge", NULL, "update /acme/app ?");
    nanswers = 0;
    answer("/repos/acme/app", "", ""); /* there is none to be had */
    reads("PUT", REPO "/contents/x", "{}", "update /acme/app ? [x]");
    assert_string_equal(question, "");
    nanswers = 0;
    answer("/repos/acme/app", "", "{\"default_branch\":\"a..b\"}");
    dark("PUT", REPO "/contents/x", "{}");
    nanswers = 0;
}

/* --- GitHub's GraphQL --------------------------------------------------------------------------------------- */

#define ASK(q, v, w) asks(HUB, q, v, w)

static void github_graphql(void **state) {
    (void)state;
    ASK("{viewer{login}}", NULL, "quiet");
    ASK(ON("createPullRequest"), "{\"i\":{\"repositoryId\":\"R_1\",\"baseRefName\":\"main\"}}", "quiet");
    ASK(ON("createCommitOnBranch"),
        "{\"i\":{\"branch\":{\"repositoryNameWithOwner\":\"acme/"
        "app\",\"branchName\":\"main\"},\"fileChanges\":"
        "{\"additions\":[{\"path\":\"a\",\"contents\":\"\"}],\"deletions\":[{\"path\":\"b\"}]}}}",
        "update /acme/app " MAIN " [a b]");
    ASK("mutation{createCommitOnBranch(input:{branch:{repositoryNameWithOwner:\\\"acme/"
        "app\\\",branchName:\\\"x\\\"},"
        "message:{headline:\\\"m\\\"},expectedHeadOid:\\\"1\\\"}){clientMutationId}}",
        NULL, "update /acme/app refs/heads/x");
    ASK("mutation($b:String!){createCommitOnBranch(input:{branch:{repositoryNameWithOwner:\\\"acme/app\\\","
        "branchName:$b}}){clientMutationId}}",
        "{\"b\":\"main\"}", "update /acme/app " MAIN);
    ASK(ON("createCommitOnBranch"), "{\"i\":{\"branch\":{\"id\":\"REF_1\"}}}", "update ? ?");
    ASK(ON("createRef"), "{\"i\":{\"repositoryId\":\"R_1\",\"name\":\"refs/heads/x\",\"oid\":\"1\"}}",
        "create ? refs/heads/x");
    assert_non_null(strstr(question, "\"variables\":{\"id\":\"R_1\"}"));
    ASK(ON("updateRef"), "{\"i\":{\"refId\":\"REF_1\",\"oid\":\"1\"}}", "update ? ?");
    ASK(ON("updateRef"), "{\"i\":{\"refId\":\"REF_1\",\"oid\":\"1\",\"force\":true}}", "force ? ?");
    ASK(ON("updateRefs"),
        "{\"i\":{\"repositoryId\":\"R_1\",\"refUpdates\":[{\"name\":\"refs/heads/"
        "main\",\"afterOid\":\"1\",\"beforeOid\":"
        "\"2\"},{\"name\":\"refs/heads/x\",\"afterOid\":\"0000000000000000000000000000000000000000\"},"
        "{\"name\":\"refs/tags/t\",\"afterOid\":\"1\",\"force\":true}]}}",
        "update ? " MAIN "; delete ? refs/heads/x; force ? refs/tags/t");
    ASK(ON("deleteRef"), "{\"i\":{\"refId\":\"REF_1\"}}", "delete ? ?");
    ASK(ON("createLinkedBranch"), "{\"i\":{\"issueId\":\"I_1\",\"oid\":\"1\",\"name\":\"x\"}}",
        "create ? refs/heads/x");
    ASK(ON("mergeBranch"), "{\"i\":{\"repositoryId\":\"R_1\",\"base\":\"main\",\"head\":\"x\"}}",
        "update ? " MAIN);
    ASK(ON("mergePullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "update ? ?");
    ASK(ON("enablePullRequestAutoMerge"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "update ? ?");
    ASK(ON("enqueuePullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "update ? ?");
    ASK(ON("updatePullRequestBranch"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "update ? ?");
    ASK(ON("updatePullRequestBranch"), "{\"i\":{\"pullRequestId\":\"PR_1\",\"updateMethod\":\"REBASE\"}}",
        "force ? ?");
    ASK(ON("revertPullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "create ? ?");
    ASK(ON("updatePullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\",\"title\":\"t\"}}", "quiet");
    ASK(ON("updatePullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\",\"baseRefName\":\"main\"}}",
        "update ? " MAIN);
    ASK(ON("createDeployment"), "{\"i\":{\"refId\":\"REF_1\",\"repositoryId\":\"R_1\"}}", "update ? ?");
    ASK(ON("createDeployment"), "{\"i\":{\"refId\":\"REF_1\",\"autoMerge\":false}}", "quiet");
    ASK(ON("inventThing"), "{\"i\":{}}", "strange inventThing");
}

static void github_graphql_odd(void **state) {
    (void)state;
    /* an alias, a fragment, a second field */
    ASK("mutation($i:X!){a:mergeBranch(input:$i){clientMutationId}}",
        "{\"i\":{\"repositoryId\":\"R_1\",\"base\":\"main\"}}", "update ? " MAIN);
    ASK("mutation M{...F}fragment F on Mutation{deleteRef(input:{refId:\\\"REF_1\\\"}){clientMutationId}}",
        NULL, "delete ? ?");
    ASK("mutation{addStar(input:{starrableId:\\\"1\\\"}){clientMutationId} "
        "mergePullRequest(input:{pullRequestId:"
        "\\\"P\\\"}){clientMutationId}}",
        NULL, "update ? ?");
    dark("POST", HUB "/graphql", "{\"query\":\"mutation{mergeBranch(input:$x){a}}\",\"variables\":{}}");
    dark("POST", HUB "/graphql",
         "{\"query\":\"mutation{mergeBranch(input:{base:$x}){a}}\",\"variables\":{}}");
    dark("POST", HUB "/graphql", "{\"query\":\"mutation{mergeBranch}\"}");
    dark("POST", HUB "/graphql", "{\"query\":\"mutation{one(input:1){a} two(input:1){a}}\"}");
    dark("POST", HUB "/graphql", "{\"id\":\"stored\"}");
    dark("POST", HUB "/graphql", "mutation{x}");
    dark("GET", HUB "/graphql?query=mutation%7BdeleteRef(input:$i)%7Ba%7D%7D", NULL);
    reads("GET", HUB "/graphql?query=%7Bviewer%7Blogin%7D%7D", NULL, "quiet");
}

static void github_graphql_answers(void **state) {
    (void)state;
    char body[1024];
    ASK(ON("mergePullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "update ? ?");
    const char *space = strchr(question, ' ');
    assert_non_null(space);
    snprintf(body, sizeof body, "%s", space + 1);
    answer("/graphql", body,
           "{\"data\":{\"node\":{\"baseRefName\":\"main\",\"headRefName\":\"x\",\"repository\":{"
           "\"nameWithOwner\":"
           "\"acme/app\"},\"headRepository\":{\"nameWithOwner\":\"me/app\"}}}}");
    ASK(ON("mergePullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "update /acme/app " MAIN);
    ASK(ON("updatePullRequestBranch"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "update /me/app refs/heads/x");
    ASK(ON("updatePullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\",\"baseRefName\":\"y\"}}",
        "update /acme/app refs/heads/y");
    ASK(ON("revertPullRequest"), "{\"i\":{\"pullRequestId\":\"PR_1\"}}", "create /acme/app ?");
    ASK(ON("mergePullRequest"), "{\"i\":{\"pullRequestId\":\"PR_2\"}}", "update ? ?"); /* another */
    nanswers = 0;
    ASK(ON("deleteRef"), "{\"i\":{\"refId\":\"PR_1\"}}", "delete ? ?");
    answer(
        "/graphql", body,
        "{\"data\":{\"node\":{\"name\":\"main\",\"prefix\":\"refs/heads/\",\"repository\":{\"nameWithOwner\":"
        "\"acme/app\"}}}}");
    ASK(ON("deleteRef"), "{\"i\":{\"refId\":\"PR_1\"}}", "delete /acme/app " MAIN);
    nanswers = 0;
    answer("/graphql", body, "{\"data\":{\"node\":{\"nameWithOwner\":\"acme/app\"}}}");
    ASK(ON("createRef"), "{\"i\":{\"repositoryId\":\"PR_1\",\"name\":\"refs/heads/x\"}}",
        "create /acme/app refs/heads/x");
    nanswers = 0;
}

static void rows(void **state) {
    (void)state;
    every_row(FORGE_GITHUB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(github),
        cmocka_unit_test(github_elsewhere),
        cmocka_unit_test(github_quiet),
        cmocka_unit_test(github_dark),
        cmocka_unit_test(github_answers),
        cmocka_unit_test(github_graphql),
        cmocka_unit_test(github_graphql_odd),
        cmocka_unit_test(github_graphql_answers),
        cmocka_unit_test(rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
