"""A server like GitHub's API, GitLab's and Forgejo's, as far as the tests go: one repository, whose branches count."""
import json
import re
import urllib.parse

import raw

JSON = [("Content-Type", "application/json; charset=utf-8")]


class Forge(raw.RawServer):
    """`writes` lists what was done to the repository, `asked` what exeat asked itself."""

    def __init__(self, **listener):
        super().__init__(self._reply, **listener)
        self.writes, self.asked, self.queries = [], [], []
        self.pulls = {7: ("main", "fix/1"), 8: ("fix/9", "fix/1")}
        self.broken = False

    def _reply(self, connection, request):
        connection.read_body(request)
        path, _, query = request.target.partition("?")
        if any(v.startswith("exeat/") for v in request.all("user-agent")):
            self.asked.append((request.method, request.target, request.header("authorization")))
            if self.broken:
                return raw.response(500, "{}", JSON)
        body = json.loads(request.body or b"{}") if b"{" in (request.body or b"")[:1] else {}
        status, answer = self._one(request.method, path, query, body)
        return raw.response(status, json.dumps(answer), JSON)

    def _one(self, method, path, query, body):
        if path.endswith("/graphql"):
            return 200, self._graphql(body)
        if method != "GET":
            self.writes.append("%s %s" % (method, path))
            return 201 if method == "POST" else 200, {"number": 9, "html_url": "https://github.com/acme/app/pull/9"}
        pull = re.search(r"/(?:pulls|merge_requests)/(\d+)$", path)
        if pull:
            base, head = self.pulls[int(pull.group(1))]
            repo = {"full_name": "acme/app"}
            return 200, {"base": {"ref": base, "repo": repo}, "head": {"ref": head, "repo": repo},
                         "target_branch": base, "source_branch": head, "source_project_id": 42, "target_project_id": 42}
        if re.search(r"/(repos/acme/app|repositories/123|projects/(42|acme%2[fF]app))$", path):
            return 200, {"full_name": "acme/app", "path_with_namespace": "acme/app", "default_branch": "main"}
        return 404, {"message": "Not Found"}

    def _graphql(self, body):
        text, variables = body.get("query", ""), body.get("variables") or {}
        self.queries.append(text)
        if "node(id:" in text:
            base, head = self.pulls.get(int(variables["id"][3:] or 0), ("main", "fix/1"))
            repo = {"nameWithOwner": "acme/app"}
            return {"data": {"node": {"baseRefName": base, "headRefName": head, "repository": repo, "headRepository": repo}}}
        if text.lstrip().startswith("mutation"):
            self.writes.append(re.search(r"(\w+)\(input", text).group(1))
            return {"data": {"createPullRequest": {"pullRequest": {
                "id": "PR_9", "url": "https://github.com/acme/app/pull/9"}}}}
        repository = {"id": "R_1", "name": "app", "owner": {"login": "acme"}, "nameWithOwner": "acme/app",
                      "hasIssuesEnabled": True, "description": "", "viewerPermission": "WRITE", "isPrivate": False,
                      "defaultBranchRef": {"name": "main"}, "parent": None, "mergeCommitAllowed": True,
                      "rebaseMergeAllowed": True, "squashMergeAllowed": True,
                      "pullRequests": {"nodes": [], "totalCount": 0}, "ref": {"name": "fix/1"}}
        return {"data": {"viewer": {"login": "someone"}, "repository": repository, "repo_000": repository,
                         "__type": {"fields": []}}}


def quote(text):
    return urllib.parse.quote(text, safe="")
