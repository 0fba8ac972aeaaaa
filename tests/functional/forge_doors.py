"""Requests to a forge's API are judged as the pushes that they are; what only the forge knows, it is asked."""
import base64
import os
import shutil

import client
import tap
from forgeserver import Forge
from pki import Pki

pki = Pki()
HTTP = "allow * https://api.github.com/** with hub\n"
PUSH = "allow push https://github.com/acme/app refs/heads/fix/* create update\n"
LAB = ("allow * https://gitlab.com/api/** with lab\nallow * https://gitlab.com/api/v4/projects/*%2f*{,/**} with lab\n"
       "allow push https://gitlab.com/acme/app refs/heads/fix/* create update\n")
VAULT = ("credential hub\n    for https://api.github.com\n    from env HUB_TOKEN\n    inject bearer\n"
         "credential lab\n    for https://gitlab.com\n    from env LAB_TOKEN\n    inject bearer\n")

SEND = '''
    def ask(method, target, body=None, host="api.github.com", kind="application/json", extra=""):
        c = tls(host)
        data = (body if isinstance(body, str) else json.dumps(body) if body is not None else "").encode()
        head = "%s %s HTTP/1.1\\r\\nHost: %s\\r\\nUser-Agent: curl/8\\r\\n%s" % (method, target, host, extra)
        if data:
            head += "Content-Type: %s\\r\\n" % kind
        if "chunked" in extra:
            data = b"".join(b"1\\r\\n%c\\r\\n" % byte for byte in data) + b"0\\r\\n\\r\\n"
        elif data or method != "GET":
            head += "Content-Length: %d\\r\\n" % len(data)
        c.send(head.encode() + b"\\r\\n" + data)
        a = c.answer()
        text = a.body.decode()
        reason = [line.split("reason:")[1].strip() for line in text.split("\\n") if "reason:" in line]
        report(a.status, (reason or [""])[0], text)
'''


def serve(t):
    return t.use(Forge(tls=pki.leaf("api.github.com", "gitlab.com")))


def run(hub, code, policy=HTTP + PUSH, **options):
    return client.run(policy, [SEND, code], resolve=[hub.resolve("api.github.com"), hub.resolve("gitlab.com")],
                      upstream_ca=pki.ca, vault=VAULT, **{"env": {"HUB_TOKEN": "SECRET-A", "LAB_TOKEN": "SECRET-B"}, **options})


def answers(r):
    """Status and the beginning of the reason, of each answer."""
    return [(status, reason) for status, reason, _ in r.reports]


def gh(t, policy, *calls):
    if not shutil.which("gh"):
        tap.skip("no gh")
    hub = serve(t)
    code = '''
        env = dict(os.environ, GH_TOKEN="SECRET-none", GH_PROMPT_DISABLED="1", GH_NO_UPDATE_NOTIFIER="1")
        for args in %r:
            p = subprocess.run(["gh", *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
            report(p.returncode, p.stdout, "")
    ''' % (calls,)
    return hub, run(hub, code, policy=policy)


# ---- gh ----

CREATE = ("pr", "create", "-R", "acme/app", "--title", "t", "--body", "b", "--base", "main", "--head", "fix/1")


def put(branch):
    return ("api", "-X", "PUT", "repos/acme/app/contents/x", "-f", "message=m", "-f", "content=eA==", "-f", "branch=" + branch)


@tap.test
def gh_opens_a_pull_request_and_does_not_write_to_main(t):
    hub, r = gh(t, HTTP + PUSH, CREATE, put("main"), put("fix/1"))
    (created, url, _), (refused, why, _), (put_code, put_out, _) = r.reports
    tap.equal(created, 0, url)
    tap.contains(url, "https://github.com/acme/app/pull/9")
    tap.ok(refused != 0, why)
    tap.contains(why, "the request updates refs/heads/main of https://github.com/acme/app: no rule allows a push to this ref")
    tap.contains(why, "allow push https://github.com/acme/app refs/heads/main update")
    tap.equal(put_code, 0, put_out)
    tap.equal(hub.writes, ["createPullRequest", "PUT /repos/acme/app/contents/x"])
    denied, allowed = r.verdict(method="PUT", verdict="deny"), r.verdict(method="PUT", verdict="allow")
    tap.equal((denied["code"], denied["git"]["refs"]), ("no-rule-for-ref", [{"ref": "refs/heads/main", "op": "update"}]))
    tap.equal(allowed["git"]["refs"], [{"ref": "refs/heads/fix/1", "op": "update"}])


@tap.test
def a_deny_of_main_stops_gh_though_everything_else_may_be_pushed(t):
    hub, r = gh(t, HTTP + "allow push https://github.com/**\ndeny push https://github.com/** refs/heads/main note \"by review\"\n",
                put("main"), ("api", "-X", "PATCH", "repos/acme/app/git/refs/heads/main", "-f", "sha=1"), ("api", "-X", "PUT", "repos/acme/app/pulls/7/merge"),
                ("api", "repos/acme/app/merges", "-f", "base=main", "-f", "head=x"), put("x"))
    for code, out, _ in r.reports[:4]:
        tap.ok(code != 0, out)
        tap.contains(out, "denied by test.policy:3: by review")
    tap.equal(r.reports[4][0], 0)
    tap.equal(hub.writes, ["PUT /repos/acme/app/contents/x"])


# ---- what is asked ----

@tap.test
def the_default_branch_is_asked_for_with_the_rules_credential(t):
    hub = serve(t)
    r = run(hub, 'ask("PUT", "/repos/acme/app/contents/x", {"message": "m"})')
    tap.equal(answers(r), [(403, "the request updates refs/heads/main of https://github.com/acme/app: no rule allows a push to this ref")])
    tap.equal(hub.asked, [("GET", "/repos/acme/app", "Bearer SECRET-A")])
    tap.equal(hub.writes, [])
    tap.equal([e["reason"] for e in r.events("errand")], ["to learn which ref a request writes"])


@tap.test
def a_pull_request_is_merged_where_its_base_may_be_pushed_to(t):
    hub = serve(t)
    r = run(hub, '''
        ask("PUT", "/repos/acme/app/pulls/7/merge", {})
        ask("PUT", "/repos/acme/app/pulls/8/merge", {})
        ask("PUT", "/repos/acme/app/pulls/8/merge")
        ask("PUT", "/repositories/123/pulls/8/merge")
        ask("PUT", "/repos/acme/app/pulls/7/update-branch")
        ask("PATCH", "/repos/acme/app/pulls/8", {"base": "main"})
    ''')
    tap.equal([s for s, _ in answers(r)], [403, 200, 200, 200, 200, 403], str(r))
    tap.contains(r.reports[0][1], "the request updates refs/heads/main")
    tap.equal(hub.writes, ["PUT /repos/acme/app/pulls/8/merge"] * 2 + ["PUT /repositories/123/pulls/8/merge",
                                                                    "PUT /repos/acme/app/pulls/7/update-branch"])


@tap.test
def an_opaque_id_is_asked_about_by_graphql(t):
    hub = serve(t)
    r = run(hub, '''
        def merge(id):
            ask("POST", "/graphql", {"query": "mutation($i: ID!) { mergePullRequest(input: {pullRequestId: $i}) { clientMutationId } }",
                                     "variables": {"i": id}})
        merge("PR_7")
        merge("PR_8")
    ''')
    tap.equal([s for s, _ in answers(r)], [403, 200], str(r))
    tap.equal(hub.writes, ["mergePullRequest"])
    tap.equal([(m, p) for m, p, _ in hub.asked], [("POST", "/graphql")] * 2)


@tap.test
def what_the_forge_does_not_tell_is_refused(t):
    hub = serve(t)
    hub.broken = True
    r = run(hub, '''
        ask("PUT", "/repos/acme/app/contents/x", {"message": "m"})
        ask("PUT", "/repos/acme/app/pulls/8/merge", {})
    ''')
    tap.equal([s for s, _ in answers(r)], [403, 403])
    tap.contains(r.reports[0][1], "(the default branch, which the request does not name)")
    tap.contains(r.reports[1][1], "(the branch that is merged into, which the request does not name)")
    tap.equal(hub.writes, [])
    tap.equal(len(hub.asked), 2)


@tap.test
def nothing_is_asked_where_the_answer_would_change_nothing(t):
    hub = serve(t)
    r = run(hub, '''
        ask("PUT", "/repos/acme/app/contents/x", {"branch": "main"})
        ask("PUT", "/repos/acme/app/contents/x", {"branch": "fix/1"})
        ask("PUT", "/repos/acme/other/contents/x", {"branch": "fix/1"})
        ask("POST", "/repos/acme/app/issues/1/comments", {"body": "hello"})
    ''')
    tap.equal([s for s, _ in answers(r)], [403, 200, 403, 201])
    tap.equal(hub.asked, [])
    r = run(hub, 'ask("PUT", "/repos/acme/app/pulls/7/merge", {})', policy=HTTP + "allow push https://github.com/acme/app\n")
    tap.equal(answers(r), [(200, "")])
    tap.equal(hub.asked, [])


# ---- what can't be read, or is not known ----

@tap.test
def what_can_be_read_in_two_ways_is_refused(t):
    hub = serve(t)
    r = run(hub, '''
        ask("PUT", "/repos/acme/app/contents/x", '{"branch": "fix/1", "branch": "main"}')
        ask("PUT", "/repos/acme/app/contents/x", '{"branch": "fix/1"}', kind="application/x-www-form-urlencoded")
        ask("PUT", "/repos/acme/app/contents/x", '{"branch": "fix/1"}', extra="Content-Encoding: gzip\\r\\n")
        ask("PUT", "/repos/acme/app/contents/x?branch=main", {"branch": "fix/1"})
        ask("POST", "/repos/acme/app/contents/x?_method=PUT", {"branch": "fix/1"})
        ask("POST", "/graphql", {"id": "stored"})
        ask("PUT", "/repos/acme/app/contents/x", {"branch": "fix/1"}, extra="Transfer-Encoding: chunked\\r\\n")
        ask("PUT", "/repos/acme/app/contents/x", {"branch": "main"}, extra="Transfer-Encoding: chunked\\r\\n")
    ''')
    tap.equal([s for s, _ in answers(r)], [403] * 6 + [200, 403], r.reports)
    for _, reason, _ in r.reports[:6]:
        tap.contains(reason, "what it writes to a repository can't be read for certain: ")
    tap.equal(hub.writes, ["PUT /repos/acme/app/contents/x"])


@tap.test
def a_body_that_is_too_long_to_be_held_is_refused(t):
    hub = serve(t)
    r = run(hub, '''
        ask("PUT", "/repos/acme/app/contents/x", {"branch": "fix/1", "content": "a" * (4 << 20)})
        try:
            ask("PUT", "/repos/acme/app/contents/x", {"branch": "fix/1", "content": "a" * (17 << 20)})
        except OSError:  # the answer came, and the end, before all of the body was out
            pass
    ''', timeout=60)
    tap.equal(r.reports[0][0], 200)
    tap.contains(r.verdict(verdict="deny")["reason"], "the body is too long to be held")
    tap.equal(hub.writes, ["PUT /repos/acme/app/contents/x"])


@tap.test
def an_endpoint_that_is_not_known_needs_a_rule_that_names_it(t):
    hub = serve(t)
    code = 'ask("POST", "/repos/acme/app/newthing", {})\nask("POST", "/repos/acme/other/newthing", {})'
    r = run(hub, code)
    tap.equal([s for s, _ in answers(r)], [403, 201])
    tap.contains(r.reports[0][1], "only a rule that names it exactly, without a wildcard, permits it")
    tap.contains(r.reports[0][2], "allow POST https://api.github.com/repos/acme/app/newthing")
    r = run(hub, code, policy="allow POST https://api.github.com/repos/acme/app/newthing with hub\n" + HTTP + PUSH)
    tap.equal([s for s, _ in answers(r)], [201, 201])


# ---- GitLab ----

@tap.test
def gitlab_by_name_by_number_and_by_form(t):
    hub = serve(t)
    r = run(hub, '''
        lab = lambda *args, **more: ask(*args, host="gitlab.com", **more)
        lab("POST", "/api/v4/projects/acme%2Fapp/repository/commits", {"branch": "main", "actions": []})
        lab("POST", "/api/v4/projects/acme%2Fapp/repository/commits", {"branch": "fix/1", "actions": []})
        lab("POST", "/api/v4/projects/42/repository/branches?branch=fix/2&ref=main")
        lab("POST", "/api/v4/projects/42/repository/branches?branch=rel&ref=main")
        lab("PUT", "/api/v4/projects/42/repository/files/a", "branch=main&content=x", kind="application/x-www-form-urlencoded")
        lab("PUT", "/api/v4/projects/42/repository/files/a", "branch=fix%2F1&content=x", kind="application/x-www-form-urlencoded")
        lab("PUT", "/api/v4/projects/42/merge_requests/7/merge")
        lab("PUT", "/api/v4/projects/42/merge_requests/8/merge")
        lab("PUT", "/api/v4/projects/42/merge_requests/8/merge", {"should_remove_source_branch": True})
        lab("POST", "/api/v4/projects/42/merge_requests/7/notes", {"body": "fine"})
        lab("POST", "/api/v4/projects/42/merge_requests/7/notes", {"body": "fine\\n/merge"})
        lab("POST", "/api/v4/projects/42/merge_requests", {"source_branch": "fix/1", "target_branch": "main", "title": "t"})
    ''', policy=LAB)
    tap.equal([s for s, _ in answers(r)], [403, 201, 201, 403, 403, 200, 403, 200, 403, 201, 403, 201], str(r))
    tap.contains(r.reports[8][1], "the request deletes refs/heads/fix/1")
    tap.equal({a[2] for a in hub.asked}, {"Bearer SECRET-B"})
    tap.equal(len(hub.writes), 6)


# ---- secrets of the vault ----

@tap.test
def what_is_written_holds_no_secret_of_the_vault(t):
    hub = serve(t)
    secret, other = "SECRET-hub-4Kq7Lm2Xz8Rt5Vb1Nc6Pw", "SECRET-hub-4Kq7Lm2Xz8Rt5Vb1Nc6Px"

    def content(key):
        return base64.b64encode(("a line\nkey = %s\n" % key).encode()).decode()

    r = run(hub, """
        ask("PUT", "/repos/acme/app/contents/x", {"branch": "fix/1", "message": "m", "content": %r})
        ask("PUT", "/repos/acme/app/contents/x", {"branch": "fix/1", "message": "it is %s", "content": "eA=="})
        ask("PUT", "/repos/acme/app/contents/x", {"branch": "fix/1", "message": "m", "content": %r})
        ask("POST", "/repos/acme/app/issues", {"title": %r})
    """ % (content(secret), secret, content(other), secret), env={"HUB_TOKEN": secret, "LAB_TOKEN": "SECRET-B"})
    said = "the secret of credential 'hub' is in the request's body"
    tap.equal(answers(r), [(403, said + ", in base64"), (403, said), (200, ""), (201, "")], r)
    tap.equal(hub.writes, ["PUT /repos/acme/app/contents/x", "POST /repos/acme/app/issues"])
    tap.equal([(v["code"], v["reason"]) for v in r.verdicts(verdict="deny")], [("secret", said + ", in base64"), ("secret", said)])
    for text in (r.err, str(r.decisions), str(r.reports)):
        tap.lacks(text, secret)
        tap.lacks(text, content(secret))


if __name__ == "__main__":
    tap.main()
