"""git over HTTP/2, which it speaks where it is offered, and over HTTP/1.1: the same comes of both. A request whose length git does
not tell goes over HTTP/1.1 either way: libcurl 7.84 to 8.6 can stand still at its end over HTTP/2."""
import client
import h2
import pushes
import tap
from gitserver import Narrow
from pushes import CLONE, REPO, posts, run, serve

URL = "https://g.test/acme/app.git"
POLICY = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* with forge\n" \
    "deny push https://g.test/acme/app paths locked/**\n"
LONG = "-c http.postBuffer=65536 "  # what is longer has no length
FILL = "head -c %d /dev/urandom > big; git add -A; git commit -qm c; "


def each_protocol(f):
    for version in ("HTTP/2", "HTTP/1.1"):
        def case(t, version=version):
            env = pushes.over(version)
            f(t, lambda git, script, **more: run(git, POLICY, script, **{"timeout": 200, **more, "env": env}),
              {"HTTP/2": "h2", "HTTP/1.1": "http/1.1"}[version])
        case.__name__ = f.__name__ + " over " + version
        case.__doc__ = f.__doc__
        tap.test(timeout=400)(case)
    return f


def spoken(r, service, long=False):
    """What the requests of that service were spoken in; those above 64 KiB, or the others."""
    urls = {v["id"]: v["url"] for v in r.verdicts()}
    return {o["protocol"] for o in r.outcomes() if service in urls[o["id"]] and (o["sent"] > 65536) == long}


@each_protocol
def pushes_short_and_long(t, git_run, protocol):
    git = serve(t)
    r = git_run(git, CLONE + FILL % 100 + "git push -q origin HEAD:fix/short; " + FILL % 3000000 + "git push -q origin HEAD:fix/long; "
                + FILL % 200000 + "git %s push -q origin HEAD:fix/again HEAD:fix/long; git rev-parse HEAD HEAD~1 HEAD~2" % LONG)
    tap.equal(r.code, 0, str(r))
    again, long, short = r.out.split()
    refs = git.refs(REPO)
    tap.equal([refs["refs/heads/fix/" + name] for name in ("short", "long", "again")], [short, again, again])
    tap.ok(long != again)
    tap.equal(spoken(r, "git-upload-pack"), {protocol})
    tap.equal(spoken(r, "info/refs"), {protocol})
    tap.ok(protocol in spoken(r, "git-receive-pack"))
    tap.equal(spoken(r, "git-receive-pack", long=True), {"http/1.1"})
    tap.equal({v["verdict"] for v in r.verdicts()}, {"allow"})


@each_protocol
def refused_by_the_list_and_by_the_pack(t, git_run, protocol):
    git = serve(t)
    before = git.refs(REPO)
    r = git_run(git, CLONE + "set +e; " + FILL % 3000000 + "git push origin HEAD:main; echo $?; mkdir locked; echo x > locked/f; " + FILL % 100
                + "git push origin HEAD:fix/short; echo $?; " + FILL % 3000000 + "git push origin HEAD:fix/long; echo $?")
    tap.equal(r.out.split(), ["1"] * 3, str(r))
    tap.equal(git.refs(REPO), before)
    for name in ("main", "fix/short", "fix/long"):
        if name == "main":
            tap.contains(r.err, "remote: exeat: push refused: refs/heads/main: ")
        tap.contains(r.err, "HEAD -> %s (exeat: " % name)
    tap.equal(len(r.verdicts(verdict="deny")), 3)
    for word in ("RPC failed", "hung up", "Everything up-to-date"):
        tap.lacks(r.err, word)


@each_protocol
def a_credential_that_is_refused(t, git_run, protocol):
    git = serve(t, cls=Narrow)
    r = git_run(git, CLONE + "set +e; " + FILL % 100 + "git push origin HEAD:fix/short; " + FILL % 3000000 + "git push origin HEAD:fix/long")
    for name in ("short", "long"):
        tap.contains(r.err, "HEAD -> fix/%s (exeat: g.test refused the credential forge (status 401) [" % name)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/main"])


@each_protocol
def fetches_of_all_kinds(t, git_run, protocol):
    git = serve(t)
    commits = "".join("commit refs/heads/many/%d\ncommitter S <s@example.com> %d +0000\ndata 2\nc\nM 100644 inline f/%d\ndata 2\nc\n"
                      % (i, 1700000000 + i, i) for i in range(1500))
    git.git(REPO, "fast-import", "--quiet", stdin=(commits + "done\n").encode())
    r = git_run(git, "set -e; cd; git clone -q --depth 1 %(url)s s; git -C s fetch -q --unshallow; "
                "git clone -q --filter=blob:none --no-checkout %(url)s p; git -C p cat-file -p origin/main:README; "
                "git -c protocol.version=0 clone -q --single-branch -b main %(url)s o; git -C o %(long)s fetch -q origin '+refs/heads/many/*:refs/many/*'; "
                "git clone -q --single-branch -b main %(url)s w; git -C w %(long)s fetch -q origin '+refs/heads/many/*:refs/many/*'; "
                "git clone -q --no-checkout %(url)s g; "  # its request is compressed
                "for r in o w g; do git -C $r for-each-ref 'refs/many' 'refs/remotes/origin/many' | wc -l; git -C $r fsck; done" % {"url": URL, "long": LONG})
    tap.equal((r.code, r.out.split()), (0, ["hello", "1500", "1500", "1500"]), str(r))
    tap.ok(any(h.request.header("content-encoding") == "gzip" for h in git.hits))
    tap.equal(spoken(r, "git-upload-pack"), {protocol} if protocol == "http/1.1" else {protocol, "http/1.1"})
    tap.equal(spoken(r, "git-upload-pack", long=True), {"http/1.1"})


@each_protocol
def many_at_once(t, git_run, protocol):
    git = serve(t)
    r = git_run(git, CLONE + "cd ..; for i in 1 2 3 4 5 6; do (cp -r w w$i; cd w$i; " + FILL % 300000 + "git " + LONG + "push -q origin HEAD:fix/$i; "
                + FILL % 50 + "git push -q origin HEAD:fix/$i; git clone -q " + URL + " ../c$i; echo done) & done; wait")
    tap.equal(r.out.split(), ["done"] * 6, str(r))
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/fix/%d" % i for i in range(1, 7)] + ["refs/heads/main"])


HAND = '''
    def post(c, service, body, length=True, end=True):
        s = c.request("/acme/app.git/" + service, "POST", end=False, authority="g.test", fields=[
            ("content-type", "application/x-%s-request" % service)] + ([("content-length", str(len(body)))] if length else []))
        c.data(s, body, end)
        return c.answer(s)
'''


@tap.test
def a_probe_is_to_be_repeated(t):
    """… unanswered and unrecorded: what comes instead is. What is as short and no probe, or of another length, is answered."""
    h2.needed()
    git = serve(t)
    r = client.run(POLICY, [pushes.HAND, h2.CLIENT, HAND, '''
    c = h2("g.test")
    for service in ("git-receive-pack", "git-upload-pack"):
        a = post(c, service, b"0000")
        report(a.status, a.reset)
    a = post(c, "git-receive-pack", command("refs/heads/main", caps=CAPS) + b"0000", length=False)
    report(a.status, named(a))
    a = c.get("/acme/app.git/info/refs?service=git-receive-pack", authority="g.test")
    report(a.status, a.whole, c.settle())
    '''], **pushes.options(git, timeout=60))
    tap.equal(r.reports, [[0, 13], [0, 13], [200, ["refs/heads/main"]], [200, True, True]], str(r))
    tap.equal([v["verdict"] for v in r.verdicts()], ["deny", "allow"])
    tap.equal(posts(git, "git-receive-pack") + posts(git, "git-upload-pack"), [])


if __name__ == "__main__":
    tap.main()
