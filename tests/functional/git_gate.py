"""Pushes and fetches of real git through the gate: what passes, what is refused, and what git then prints."""
import gzip

import client
import exeat
import pushes
import tap
from gitserver import GitServer
from pki import Pki

pki = Pki()
REPO = "acme/app.git"
POLICY = """
let repo = acme/app
allow fetch https://g.test/$repo with forge
allow push  https://g.test/$repo refs/heads/fix/* create update delete with forge
allow push  https://g.test/$repo refs/heads/work force create update with forge
allow fetch https://g.test/acme/open
allow push  https://g.test/acme/sha refs/heads/fix/** create delete with forge
"""
VAULT = """
credential forge
    for     https://g.test
    from    env FORGE_TOKEN
    inject  basic x-access-token
"""
SECRET = "SECRET-A"
CLONE = "set -e; cd; git clone -q https://g.test/acme/app.git w; cd w; git checkout -q -b fix/1; "
CHANGE = "echo change >> README; git commit -qam change; "


def serve(t, **options):
    git = t.use(GitServer(tls=pki.leaf("g.test"), users={"x-access-token": SECRET}, **options))
    git.create(REPO)
    return git


def run(t, git, command, policy=POLICY, **options):
    return exeat.run(policy, command, vault=VAULT, env={"FORGE_TOKEN": SECRET, **options.pop("env", {})},
                     resolve=[git.resolve("g.test")], upstream_ca=pki.ca, timeout=options.pop("timeout", 60), **options)


def never_a_prompt(r):
    for word in ("Username", "Password", "could not read"):
        tap.lacks(r.err, word)
    tap.lacks(r.out + r.err, SECRET)


# ---- what passes ----

@tap.test
def clone_and_push_to_a_permitted_branch_with_a_credential_that_the_sandbox_never_saw(t):
    git = serve(t)
    r = run(t, git, CLONE + CHANGE + "git push -q origin fix/1; env | grep -c SECRET-A || true")
    tap.equal(r.code, 0, r)
    tap.ok("refs/heads/fix/1" in git.refs(REPO), r)
    tap.ok(all(h.user == "x-access-token" and len(h.authorization) == 1 for h in git.hits), git.hits)
    push = pushes.judged(r)
    tap.equal(len(push), 1)
    ref = push[0]["git"]["refs"][0]
    tap.equal((ref["ref"], ref["op"], ref["new"]), ("refs/heads/fix/1", "create", git.refs(REPO)["refs/heads/fix/1"]))
    tap.equal(push[0]["credential"], "forge")
    never_a_prompt(r)


@tap.test
def a_push_of_several_megabytes_goes_through_probe_and_chunks(t):
    git = serve(t)
    r = run(t, git, CLONE + "head -c 5000000 /dev/urandom > big; git add big; git commit -qm big; git push -q origin fix/1")
    tap.equal(r.code, 0, r)
    posts = [h for h in git.hits if h.method == "POST" and h.path.endswith("git-receive-pack")]
    tap.equal([h.request.header("content-length") for h in posts], ["4", None])
    tap.equal(posts[1].request.header("transfer-encoding"), "chunked")
    tap.ok("refs/heads/fix/1" in git.refs(REPO))


@tap.test
def protocol_versions_0_1_and_2_fetch(t):
    git = serve(t)
    for i in range(150):
        git.git(REPO, "update-ref", "refs/heads/b%d" % i, "refs/heads/main")
    r = run(t, git, "cd; for v in 0 1 2; do git -c protocol.version=$v clone -q https://g.test/acme/app.git c$v || exit 1; "
                    "git -C c$v branch -r | wc -l; done")
    tap.equal(r.code, 0, r)
    tap.equal(r.out.split(), ["152"] * 3)
    tap.ok(any(h.request.all("content-encoding") == ["gzip"] for h in git.hits), "no gzip came through")


@tap.test
def protocol_versions_0_1_and_2_push(t):
    git = serve(t)
    r = run(t, git, "cd; for v in 0 1 2; do g=\"git -c protocol.version=$v\"; $g clone -q https://g.test/acme/app.git c$v; "
                    "cd c$v; echo $v >> README; git commit -qam $v; $g push -q origin HEAD:refs/heads/fix/$v; echo $?; "
                    "$g push -q origin HEAD:refs/heads/main; echo $?; cd; done")
    tap.equal(r.out.split(), ["0", "1"] * 3)
    tap.equal(r.err.count("[remote rejected] HEAD -> main (exeat: "), 3)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/fix/0", "refs/heads/fix/1", "refs/heads/fix/2", "refs/heads/main"])
    tap.equal({h.request.header("git-protocol") for h in git.hits}, {None, "version=1", "version=2"})


@tap.test
def several_workers_serve_one_sandbox_alike(t):
    git = serve(t)
    r = run(t, git, "cd; for i in 1 2 3 4; do (git clone -q https://g.test/acme/app.git c$i && cd c$i && "
                    "git checkout -q -b fix/$i && git commit -q --allow-empty -m $i && git push -q origin fix/$i; echo push $?) & "
                    "curl -s -o /dev/null -w 'curl %{http_code}\n' https://g.test/ & "
                    "getent ahostsv4 g.test | sed 's/ .*/ addr/;q' & done; wait", workers=3)
    lines = r.out.strip().split("\n")
    tap.equal((lines.count("push 0"), lines.count("curl 403")), (4, 4), r)
    # one name has one address, whichever worker was asked
    tap.equal(len({line for line in lines if line.endswith(" addr")}), 1, r)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/fix/%d" % i for i in (1, 2, 3, 4)] + ["refs/heads/main"])


@tap.test
def deletion_push_options_and_atomic_pushes_are_read(t):
    git = serve(t)
    git.git(REPO, "update-ref", "refs/heads/fix/old", "refs/heads/main")
    git.git(REPO, "update-ref", "refs/heads/fix/older", "refs/heads/main")
    r = run(t, git, CLONE + CHANGE + "git push -q origin --delete fix/old; "
                    "git push -q -o ci.skip --atomic origin fix/1 :fix/older HEAD:fix/2")
    tap.equal(r.code, 0, r)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/fix/1", "refs/heads/fix/2", "refs/heads/main"])


@tap.test
def a_shallow_clone_pushes(t):
    git = serve(t)
    git.commit(REPO, "refs/heads/main", {"README": "two\n"}, parent=git.refs(REPO)["refs/heads/main"])
    r = run(t, git, "set -e; cd; git clone -q --depth 1 https://g.test/acme/app.git w; cd w; git checkout -q -b fix/1; "
                    + CHANGE + "git push -q origin fix/1")
    tap.equal(r.code, 0, r)


@tap.test
def sha256_repositories_push(t):
    git = serve(t)
    git.create("acme/sha.git", sha256=True, empty=True)
    r = run(t, git, "set -e; cd; git init -q --object-format=sha256 s; cd s; echo x > x; git add x; git commit -qm x; "
                    "git push -q https://g.test/acme/sha HEAD:refs/heads/fix/a HEAD:refs/heads/fix/b; "
                    "git push -q https://g.test/acme/sha --delete fix/b; "
                    "! git push https://g.test/acme/sha HEAD:refs/heads/main")
    tap.equal(r.code, 0, r)
    tap.equal(list(git.refs("acme/sha.git")), ["refs/heads/fix/a"])
    tap.contains(r.err, "! [remote rejected]")


# ---- what does not ----

@tap.test
def a_push_elsewhere_is_refused_in_words_that_git_prints(t):
    git = serve(t)
    before = git.refs(REPO)
    r = run(t, git, CLONE + CHANGE + "git push origin fix/1:main || echo refused-$?")
    tap.contains(r.out, "refused-1")
    tap.contains(r.err, "! [remote rejected] fix/1 -> main (exeat: ")
    tap.contains(r.err, "remote: exeat: push refused: ")
    verdict = r.verdict(verdict="deny")
    tap.contains(r.err, verdict["id"])
    tap.contains(r.err, "to permit: allow push")
    tap.equal(git.refs(REPO), before)
    tap.ok(not [h for h in git.hits if h.method == "POST" and h.path.endswith("receive-pack")], "bytes went upstream")
    ref = verdict["git"]["refs"][0]
    tap.equal((ref["ref"], ref["op"]), ("refs/heads/main", "force"))
    never_a_prompt(r)


@tap.test
def an_update_that_is_no_fast_forward_is_force_and_says_so(t):
    git = serve(t)
    git.git(REPO, "update-ref", "refs/heads/fix/1", "refs/heads/main")
    git.git(REPO, "update-ref", "refs/heads/work", "refs/heads/main")
    r = run(t, git, CLONE + "git commit -q --amend -m new; git push --force origin fix/1 || echo refused; git push -q --force origin fix/1:work")
    tap.contains(r.out, "refused")
    tap.contains(r.err, "no rule allows force of this ref")
    tap.equal(r.code, 0, r)
    tap.ok(git.refs(REPO)["refs/heads/work"] != git.refs(REPO)["refs/heads/main"])


@tap.test
def all_commands_stand_or_fall_together_in_any_order(t):
    git = serve(t)
    before = git.refs(REPO)
    for order in ("fix/1 HEAD:refs/heads/no", "HEAD:refs/heads/no fix/1", "fix/1 HEAD:refs/heads/JDK-PACK HEAD:refs/heads/fix/3"):
        r = run(t, git, CLONE + CHANGE + "git push origin %s || echo refused" % order)
        tap.contains(r.out, "refused")
        tap.equal(r.err.count("! [remote rejected]"), len(order.split()), r)
        tap.equal(git.refs(REPO), before)


@tap.test
def a_refused_discovery_is_one_line_that_git_prints(t):
    git = serve(t)
    git.create("acme/open.git")
    git.create("acme/other.git")
    for command in ("git ls-remote https://g.test/acme/other", "git clone https://g.test/acme/other.git x",
                    "cd; git init -q e; cd e; git commit -q --allow-empty -m x; git push https://g.test/acme/open HEAD:main"):
        r = run(t, git, command)
        tap.ok(r.code != 0)
        tap.contains(r.err, "remote: exeat: denied: ")
        tap.contains(r.err, r.verdict(verdict="deny")["id"])
        never_a_prompt(r)
    tap.equal(git.hits, [])


@tap.test
def a_refused_credential_is_no_prompt(t):
    git = t.use(GitServer(tls=pki.leaf("g.test"), users={"x-access-token": "another"}))
    git.create(REPO)
    r = run(t, git, "git ls-remote https://g.test/acme/app")
    tap.ok(r.code != 0)
    tap.contains(r.err, "refused the credential forge")
    never_a_prompt(r)


@tap.test(timeout=150)
def a_big_push_is_refused_quickly_and_readably(t):
    git = serve(t)
    # stored without compression, which would take most of the time
    r = run(t, git, CLONE + "git config core.compression 0; head -c 120000000 /dev/urandom > big; git add big; git commit -qm big; "
                    "git push origin fix/1:main || echo refused-$?; date +%s", timeout=120)
    tap.contains(r.err, "! [remote rejected] fix/1 -> main (exeat: ")
    tap.lacks(r.err, "RPC failed")
    tap.lacks(r.err, "hung up")
    took = int(r.out.split()[-1]) - exeat.when(r.verdict(verdict="deny"))
    tap.ok(took < 60, "git took %g s to end when it was refused" % took)
    tap.equal([h for h in git.hits if h.path.endswith("receive-pack") and h.method == "POST" and
               h.request.header("content-length") != "4"], [])


# ---- by hand ----

ZERO, ONE = "0" * 40, "1" * 40


PUSHING = '''
    def pkt(text):
        data = text.encode() if isinstance(text, str) else text
        return b"%04x" % (len(data) + 4) + data
    def command(ref, old="0" * 40, new="1" * 40, caps=""):
        return pkt("%s %s %s%s" % (old, new, ref, caps))
    CAPS = "\\0 report-status side-band-64k agent=x"
    def push(body, extra="", chunks=None, path="/acme/app.git/git-receive-pack"):
        c = tls("g.test")
        head = ("POST %s HTTP/1.1\\r\\nHost: g.test\\r\\n"
                "Content-Type: application/x-git-receive-pack-request\\r\\n%s" % (path, extra))
        if chunks:
            c.send(head + "Transfer-Encoding: chunked\\r\\n\\r\\n")
            for i in range(0, len(body), chunks):
                c.send(b"%x\\r\\n%s\\r\\n" % (len(body[i:i + chunks]), body[i:i + chunks]))
            c.send("0\\r\\n\\r\\n")
        else:
            c.send((head + "Content-Length: %d\\r\\n\\r\\n" % len(body)).encode() + body)
        return c.answer()
'''


def raw_push(t, git, code, **options):
    return client.run(POLICY, [PUSHING, code], vault=VAULT, env={"FORGE_TOKEN": SECRET},
                      resolve=[git.resolve("g.test")], upstream_ca=pki.ca, **options)


@tap.test
def a_command_list_in_pieces_or_gzip_is_judged_all_the_same(t):
    git = serve(t)
    r = raw_push(t, git, '''
        import gzip
        denied = command("refs/heads/fix/a", caps=CAPS) + command("refs/heads/main") + b"0000" + b"PACK" + b"x" * 100
        for chunks in (1, 2, 7, 50):
            a = push(denied, chunks=chunks)
            report(a.status, b"ng refs/heads/main" in a.body and b"ng refs/heads/fix/a" in a.body, a.header("content-type"))
        a = push(gzip.compress(denied), "Content-Encoding: gzip\\r\\n")
        report(a.status, b"ng refs/heads/main" in a.body, a.header("content-type"))
        a = push(denied, "Content-Encoding: br\\r\\n")
        report(a.status, b"encoding" in a.body, a.header("content-type"))
        bomb = gzip.compress(command("refs/heads/fix/a", caps=CAPS) + b"".join(command("refs/heads/fix/%d" % i) for i in range(60000)))
        a = push(bomb, "Content-Encoding: gzip\\r\\n")
        report(a.status, b"too many commands" in a.body, a.header("content-type"))
        a = push(b"zzzz" + denied)
        report(a.status, b"exeat: push refused" in a.body, a.header("content-type"))
        a = push(denied[:60])
        report(a.status, b"exeat: push refused" in a.body, a.header("content-type"))
    ''')
    for got in r.reports:
        tap.equal(got, [200, True, "application/x-git-receive-pack-result"])
    tap.equal(len(r.reports), 9)
    tap.equal(git.hits, [])
    tap.equal(len(r.verdicts(verdict="deny")), 9)


@tap.test
def odd_spellings_of_the_endpoints_open_nothing(t):
    git = serve(t)
    r = raw_push(t, git, '''
        c = tls("g.test")
        for target in ("/acme/app.git/info/refs?service=git-upload-pack&service=git-receive-pack",
                       "/acme/app.git/info/refs?service=git%2dreceive-pack&x=1&service=git-upload-pack",
                       "/acme/app.git/INFO/refs?service=git-upload-pack", "/acme/app.git//info/refs?service=git-upload-pack",
                       "/acme/app.git/info/refs", "/acme/app.git/HEAD", "/acme/other.git/info/refs?service=git-upload-pack"):
            a = tls("g.test").get(target, host="g.test")
            report(a.status, a.header("content-type"), a.body.decode())
        a = push(b"0000", path="/acme/app.git/git-receive-pack/")
        report(a.status, a.header("content-type"), a.body.decode())
        a = push(b"0000", path="/acme/other.git/git-receive-pack")
        report(a.status, a.header("content-type"), a.body.decode())
    ''')
    for got in r.reports:
        tap.equal(got[0], 403, got)
    tap.equal(git.hits, [])


@tap.test
def the_probe_goes_through(t):
    git = serve(t)
    r = raw_push(t, git, '''
        a = push(b"0000")
        report(a.status)
        a = push(b"0000", "Authorization: Basic eDp5\\r\\nExpect: 100-continue\\r\\n")
        report(a.status, a.interim)
    ''')
    tap.equal(r.reports, [200, [200, [100]]])
    tap.equal([(h.user, h.password, h.status) for h in git.hits], [("x-access-token", SECRET, 200)] * 2)


@tap.test
def a_client_that_pauses_within_its_push_is_waited_for(t):
    git = serve(t)
    r = raw_push(t, git, '''
        c = tls("g.test")
        body = command("refs/heads/fix/a", caps=CAPS) + b"0000"
        c.send("POST /acme/app.git/git-receive-pack HTTP/1.1\\r\\nHost: g.test\\r\\n"
               "Content-Type: application/x-git-receive-pack-request\\r\\nContent-Length: 10000\\r\\n\\r\\n")
        c.send(body[:30])
        spin(1)
        c.send(body[30:])
        spin(1)
        c.send("PACK")
        spin(0.5)
        c.close()
    ''')
    eventually = tap.eventually(lambda: [c for c in git.connections if b"PACK" in c.received])
    tap.ok(eventually)


if __name__ == "__main__":
    tap.main()
