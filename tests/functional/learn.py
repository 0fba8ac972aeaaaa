#!/usr/bin/env python3
"""exeat learn: curl, git and npm run once, and what is learned lets them run again, and no more."""
import os

import exeat
import pki
import raw
import servers
import tap
import work
from gitserver import GitServer

PKI = pki.Pki()


def learn(command, *args, resolve=(), home=None, env=None, timeout=60):
    """Runs `exeat learn -o FILE`; the result and the policy."""
    home = home or work.folder("home.", user=exeat.as_user(), mode=0o700)
    path = os.path.join(home, "learned.policy")
    options = ["--upstream-ca", PKI.ca]
    for entry in resolve:
        options += ["--resolve", entry]
    r = exeat.call("learn", "-o", path, *options, *args, "--", "sh", "-c", command, home=home, timeout=timeout,
                   env={"EXEAT_POLICY_PATH": os.path.join(exeat.TOP, "policy"), "TMPDIR": home, **(env or {})})
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            text = f.read()
    tap.note(text)
    tap.equal([n for n in os.listdir(home) if n.startswith("exeat-learn")], [])
    return r, text


def rules(text):
    return [line for line in text.splitlines() if line.startswith("allow ")]


@tap.test
def what_curl_did_becomes_a_policy_that_permits_it_again(t):
    server = t.use(raw.RawServer(tls=PKI.leaf("a.test", "b.test"), answer=servers.response(200, "hello")))
    resolve = [server.resolve("a.test"), server.resolve("b.test")]
    command = ("for i in 1 2 3; do curl -sS https://a.test/x/$i; done; curl -sS https://a.test/y/1; "
               "curl -sS -d body https://a.test/z; curl -sS https://b.test/")
    r, text = learn(command, "--allow-all", "--usual", "a.test", resolve=resolve)
    tap.equal((r.code, r.out), (0, "hello" * 6), r)
    tap.equal(rules(text), ["allow GET https://a.test/x/*", "allow GET https://a.test/y/1"])
    tap.contains(text, "# not permitted: it is a write, with a body\n#allow POST https://a.test/z\n")
    tap.contains(text, "#allow GET https://b.test/\n")
    tap.contains(text, "\n# seen 3 times: /x/1, /x/2, /x/3\n")
    r = exeat.run(text, "curl -sS https://a.test/x/4; curl -sS https://b.test/; curl -sS -d body https://a.test/z",
                  resolve=resolve, upstream_ca=PKI.ca)
    tap.equal([v["verdict"] for v in r.verdicts()], ["allow", "deny", "deny"])


@tap.test
def everything_means_everything(t):
    server = t.use(raw.RawServer(tls=PKI.leaf("api.git.test", "github.com"), answer=servers.response(200, "hello")))
    resolve = [server.resolve("api.git.test"), server.resolve("github.com")]
    urls = ["https://api.git.test/v1/things", "https://api.git.test/graphql", "https://api.git.test/repos/a/b/contents/x",
            "https://api.git.test/repos/a/b/merges", "https://api.git.test/repos/a/b/frob", "https://api.git.test/api/v4/projects/1/repository/commits",
            "https://api.git.test/a%2fb%2fc%2fd", "https://github.com/a/b/branches"]
    command = "; ".join("curl -sS -X %s -d 'no JSON' '%s'" % (method, u) for u in urls for method in ("POST", "PUT", "DELETE"))
    r, text = learn(command, "--allow-all", "--usual", "api.git.test", resolve=resolve)
    tap.equal((r.code, r.out), (0, "hello" * 3 * len(urls)), str(r))
    tap.lacks(text, "it was denied")


@tap.test
def under_a_policy_only_what_it_permits(t):
    server = t.use(raw.RawServer(tls=PKI.leaf("a.test"), answer=servers.response(200, "hello")))
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    under = work.write(os.path.join(home, "under.policy"), "allow GET https://a.test/**\n", 0o644, exeat.as_user())
    r, text = learn("curl -sS https://a.test/x; curl -sS -o /dev/null -w '%{http_code}' -X PUT https://a.test/x; exit 7", "--under",
                    under, resolve=[server.resolve("a.test")], home=home)
    tap.equal((r.code, r.out), (7, "hello403"))
    tap.equal(rules(text), ["allow GET https://a.test/x"])
    tap.contains(text, "# not permitted: it was denied: no rule allows PUT on this host\n#allow PUT https://a.test/x\n")


@tap.test
def nothing_runs_without_leave():
    r, text = learn("echo it ran")
    tap.equal((r.code, r.out, text), (125, "", ""))
    tap.contains(r.err, "--allow-all")
    tap.equal(exeat.call("learn", "--help").code, 0)


@tap.test
def what_keeps_it_from_starting_is_told_once():
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    there = os.path.join(home, "there.policy")
    work.write(there, "# as it was\n", user=exeat.as_user())
    for args in (["--under", "none.policy"], ["--under", "none.policy", "-o", "new.policy"],
                 ["--under", "none.policy", "-o", there], ["--allow-all", "-o", "none/new.policy"], ["--allow-all", "-o", "."]):
        r = exeat.call("learn", *args, "--", "echo", "it ran", home=home)
        tap.equal((r.code, r.out, len(r.err.splitlines())), (125, "", 1), str(args))
        tap.ok("none" in r.err or "Is a directory" in r.err, r.err)
    with open(there, encoding="utf-8") as f:
        tap.equal(f.read(), "# as it was\n")
    tap.ok(not os.path.exists(os.path.join(home, "new.policy")))


@tap.test
def git_is_learned_by_repository_and_ref(t):
    git = t.use(GitServer(tls=PKI.leaf("g.test"), private=False))
    git.create("acme/app.git")
    command = ("set -e; cd; git clone -q https://g.test/acme/app.git w; cd w; "
               "for i in 1 2 3; do git push -q origin HEAD:refs/heads/fix/$i; done")
    r, text = learn(command, "--allow-all", "--usual", "g.test", resolve=[git.resolve("g.test")])
    tap.equal(r.code, 0, r)
    tap.equal(rules(text), ["allow fetch https://g.test/acme/app", "allow push https://g.test/acme/app refs/heads/fix/* create"])


@tap.test
def a_push_that_was_denied_is_none_that_was_forced(t):
    """Nobody has looked whether it is a fast-forward: what is written, to be permitted by hand, is an update."""
    git = t.use(GitServer(tls=PKI.leaf("g.test"), private=False))
    git.create("acme/app.git")
    under = work.write(os.path.join(work.folder("under.", user=exeat.as_user(), mode=0o755), "u.policy"), "allow fetch https://g.test/acme/app\nallow push https://g.test/acme/app refs/heads/fix/*\n")
    command = ("cd; git clone -q https://g.test/acme/app.git w; cd w; git commit -q --allow-empty -m x; "
               "git push -q origin HEAD:refs/heads/main; true")
    _, text = learn(command, "--under", under, "--usual", "g.test", resolve=[git.resolve("g.test")])
    tap.contains(text, "\n#allow push https://g.test/acme/app refs/heads/main update\n")
    tap.lacks(text, "force\n")


@tap.test
def npm_is_learned_from_its_own_registry():
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    probe = work.sh("sh", "-c", "npm ping >/dev/null 2>&1 && echo yes || echo no", check=False)
    if "yes" not in probe:
        tap.skip("npm's registry is not reachable")
    r, text = learn("mkdir p; cd p; echo '{\"name\":\"x\",\"version\":\"1.0.0\"}' >package.json; "
                    "npm install --no-audit --no-fund --no-update-notifier ms left-pad isarray", "--allow-all", home=home, timeout=110)
    tap.equal(r.code, 0, r)
    tap.ok(len(rules(text)) == 2, text)
    tap.ok(rules(text)[1].endswith("/*/-/*"), text)


if __name__ == "__main__":
    tap.main()
