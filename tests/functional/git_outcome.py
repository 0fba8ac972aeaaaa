"""What the server itself refuses of a permitted push: it does no harm, the client is told in the server's words, and the
outcome's record says of each ref what became of it. And what exeat cuts off leaves nothing at the server."""
import os
import subprocess

import exeat
import pushes
import raw
import tap
import work
from pushes import CLONE, FETCH, REPO, by_hand, options, pki, run, serve

ANY = FETCH + "allow push https://g.test/acme/app refs/heads/** refs/for/** create update delete with forge\n"
CHANGE = "echo change >> README; git commit -qam change; "
BIG = "head -c 1000000 /dev/urandom > big; git add big; git commit -qm big; "


def hook(git, name, text):
    folder = os.path.join(git.path(REPO), "hooks")
    os.makedirs(folder, exist_ok=True)
    work.write(os.path.join(folder, name), text, 0o755)


def push_record(r):
    """Verdict and outcome of the one push."""
    verdict = pushes.judged(r)
    tap.equal(len(verdict), 1, r)
    return verdict[0], r.outcome_of(verdict[0])


def said(r):
    """(ref, outcome) of the one push, by ref: git asks in an order of its own."""
    verdict, outcome = push_record(r)
    tap.equal(verdict["verdict"], "allow")
    tap.equal(outcome["git"]["service"], "git-receive-pack")
    return sorted((ref["ref"], ref["outcome"]) for ref in outcome["git"]["refs"])


def objects(git):
    """How many objects the server has, loose and packed, and what lies about of a push that was not finished."""
    counted = dict(line.split(": ") for line in git.git(REPO, "count-objects", "-v").strip().split("\n"))
    rest = [name for _, folders, files in os.walk(git.path(REPO) + "/objects")
            for name in folders + files if "tmp" in name or "incoming" in name]
    return int(counted["count"]) + int(counted["in-pack"]), rest


@tap.test
def what_was_done_is_ok(t):
    git = serve(t)
    r = run(git, ANY, CLONE + CHANGE + "git push -q origin HEAD:refs/heads/one HEAD:refs/heads/two")
    tap.equal(r.code, 0, r)
    tap.equal(said(r), [("refs/heads/one", "ok"), ("refs/heads/two", "ok")])
    _, outcome = push_record(r)
    tap.equal(outcome["git"]["refs"][0], {"ref": "refs/heads/one", "outcome": "ok"})


@tap.test
def why_the_server_refused_is_recorded_for_each_ref(t):
    git = serve(t)
    hook(git, "update", "#!/bin/sh\necho looking >&2\n[ $1 != refs/heads/no ]\n")
    command = CLONE + CHANGE + ("git push origin HEAD:refs/heads/no HEAD:refs/heads/yes || echo exit $?; "
                                "read id; curl -s https://exeat.internal/why/$id")
    with exeat.Sandbox(ANY, command, stdin=subprocess.PIPE, **options(git)) as sandbox:
        tap.eventually(lambda: [d for d in sandbox.decisions() if d["event"] == "outcome" and "git" in d])
        id = [d["id"] for d in sandbox.decisions() if d["event"] == "outcome" and "git" in d][0]
        r = sandbox.wait(30, stdin=(id + "\n").encode())
    tap.contains(r.out, "exit 1")
    tap.contains(r.err, " ! [remote rejected] HEAD -> no (hook declined)")
    tap.equal(said(r), [("refs/heads/no", "refused: hook declined"), ("refs/heads/yes", "ok")])
    for line in ("refs/heads/no: refused: hook declined\n", "refs/heads/yes: ok\n"):
        tap.contains(r.out, "             " + line)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/main", "refs/heads/yes"])


@tap.test
def a_stale_atomic_and_a_denied_deletion(t):
    git = serve(t)
    git.git(REPO, "config", "receive.denyDeletes", "true")
    r = run(git, ANY, CLONE + CHANGE + "git push --atomic origin HEAD:refs/heads/a :main || echo exit $?")
    tap.contains(r.out, "exit 1")
    tap.equal(said(r), [("refs/heads/a", "refused: atomic push failure"), ("refs/heads/main", "refused: deletion prohibited")])


@tap.test
def without_the_clients_wish_the_server_says_nothing(t):
    """without the client's wish for a report the server says nothing; it may be had plain, or on the side band"""
    git = serve(t)
    new = git.refs(REPO)["refs/heads/main"]
    pack = bytes.fromhex("5041434b0000000200000000029d08823bd8a8eab510ad6ac75c823cfd3ed31e")
    r = by_hand(git, ANY, '''
    new, pack = "%s", bytes.fromhex("%s")
    for i, caps in enumerate((" object-format=sha1", " report-status", " report-status-v2 side-band-64k")):
        a = push(command("refs/heads/b%%d" %% i, new=new, caps="\\0" + caps) + b"0000" + pack)
        report(a.status, len(a.body) > 0)
    ''' % (new, pack.hex()))
    tap.equal(r.reports, [[200, False], [200, True], [200, True]])
    outcomes = [o["git"]["refs"][0] for o in r.outcomes() if "git" in o]
    tap.equal(outcomes, [{"ref": "refs/heads/b0", "outcome": "unknown"}, {"ref": "refs/heads/b1", "outcome": "ok"},
                         {"ref": "refs/heads/b2", "outcome": "ok"}])


@tap.test
def many_refs_in_another_order_than_asked_for(t):
    """many refs, some not spoken of, in another order than asked for"""
    lines = ["ok refs/heads/c", "ng refs/heads/a no", "ok refs/heads/stranger", "ng refs/heads/d " + "x" * 2000]
    body = b"".join(b"%04x%s" % (len(x) + 4, x) for x in [b"unpack ok"] + [s.encode() for s in lines]) + b"0000"

    answer = raw.response(200, body, [("Content-Type", "application/x-git-receive-pack-result")])
    server = t.use(raw.RawServer(answer, tls=pki().leaf("g.test")))
    r = by_hand(server, ANY, '''
    caps = "\\0 report-status"
    a = push(b"".join(command("refs/heads/" + n, new=ZERO, old=ONE, caps=caps if n == "a" else "") for n in "abcd") + b"0000")
    report(a.status, len(a.body))
    ''')
    tap.equal(r.reports, [[200, len(body)]])
    tap.equal(said(r), [("refs/heads/a", "refused: no"), ("refs/heads/b", "unknown"), ("refs/heads/c", "ok"),
                        ("refs/heads/d", "refused: " + "x" * 512)])


# ---- the server's own checks ----

# A tree with a file called .git: fsck refuses it, and nobody else does.
BAD_TREE = ("blob=$(git hash-object -w README); "
            "tree=$(printf '100644 blob %s\\t.git\\n' $blob | git mktree); "
            "new=$(git commit-tree $tree -p HEAD -m bad); ")


@tap.test
def fsck_refuses_with_the_pack_unpacked_or_kept(t):
    """fsck refuses, with the pack unpacked or kept"""
    for limit in ("1", "1000000"):
        git = serve(t)
        git.git(REPO, "config", "receive.fsckObjects", "true")
        git.git(REPO, "config", "receive.unpackLimit", limit)
        before, refs = objects(git), git.refs(REPO)
        r = run(git, ANY, CLONE + BAD_TREE + "git push origin $new:refs/heads/bad $new:main || echo exit $?")
        tap.contains(r.out, "exit 1")
        tap.contains(r.err, " ! [remote rejected] %s -> bad (unpacker error)" % r.err.split(" -> bad")[0].split(" ")[-1])
        tap.equal(said(r), [("refs/heads/bad", "refused: unpacker error"), ("refs/heads/main", "refused: unpacker error")])
        tap.equal(push_record(r)[1]["git"]["unpack"],
                  "unpack-objects abnormal exit" if limit == "1000000" else "index-pack abnormal exit")
        tap.equal((objects(git), git.refs(REPO)), (before, refs))


@tap.test(timeout=200)
def a_hook_refuses_all_before_anything_is_kept(t):
    """pre-receive, with the pack unpacked or kept, checked or not, in a repository of either kind of ids"""
    for sha256, fsck, limit in ((False, "false", "1"), (False, "true", "100000"), (True, "true", "1"), (True, "false", "100000")):
        git = serve(t, repo=False)
        git.create(REPO, sha256=sha256, config={"receive.fsckObjects": fsck, "receive.unpackLimit": limit})
        hook(git, "pre-receive", "#!/bin/sh\ncat >/dev/null\necho closed for today >&2\nexit 1\n")
        before, refs = objects(git), git.refs(REPO)
        r = run(git, ANY, CLONE + CHANGE + "git push origin HEAD:refs/heads/one HEAD:main || echo exit $?")
        tap.contains(r.out, "exit 1")
        tap.contains(r.err, "remote: closed for today")
        tap.contains(r.err, " ! [remote rejected] HEAD -> one (pre-receive hook declined)")
        tap.equal(said(r), [("refs/heads/main", "refused: pre-receive hook declined"), ("refs/heads/one", "refused: pre-receive hook declined")])
        tap.equal((objects(git), git.refs(REPO)), (before, refs))
        os.unlink(os.path.join(git.path(REPO), "hooks/pre-receive"))
        r = run(git, ANY, CLONE + CHANGE + "git push -q origin HEAD:refs/heads/one HEAD:main")
        tap.equal(said(r), [("refs/heads/main", "ok"), ("refs/heads/one", "ok")])


@tap.test
def a_server_that_takes_no_pushes(t):
    """http.receivepack off: the server's own no, which is shown and recorded as an outcome"""
    git = serve(t, repo=False)
    git.create(REPO, config={"http.receivepack": "false"})
    r = run(git, ANY, CLONE + CHANGE + "git push origin HEAD:refs/heads/one || echo exit $?")
    tap.contains(r.out, "exit 128")
    tap.contains(r.err, "fatal: unable to access 'https://g.test/acme/app.git/': The requested URL returned error: 403")
    verdict = [v for v in r.verdicts() if v["git"]["service"] == "git-receive-pack"]
    tap.equal([(v["verdict"], r.outcome_of(v)["status"]) for v in verdict], [("allow", 403)])


@tap.test(timeout=300)
def what_is_cut_off_is_thrown_away_by_the_server(t):
    """what is cut off is thrown away by the server, whichever way it takes packs in"""
    for fsck, limit, careless in (("true", "1", True), ("true", "1000000", True), ("false", "1", True),
                                  ("false", "1000000", True), ("false", "1", False)):
        git = serve(t, careless=careless)
        git.commit(REPO, "refs/heads/main", {"README": "two\n"}, parent=git.refs(REPO)["refs/heads/main"])
        git.git(REPO, "config", "receive.fsckObjects", fsck)
        git.git(REPO, "config", "receive.unpackLimit", limit)
        before, refs = objects(git), git.refs(REPO)
        r = run(git, ANY, CLONE + "git reset -q --hard HEAD~1; " + BIG + "git push --force origin HEAD:main || echo exit $?")
        tap.contains(r.out, "exit 1")
        tap.contains(r.err, "remote: exeat: push refused: refs/heads/main: ")
        tap.contains(r.err, " ! [remote rejected] HEAD -> main (exeat: ")
        tap.lacks(r.err, "hung up")
        tap.ok([c for c in git.connections if b"PACK" in c.received], "nothing of the pack went up")
        tap.equal(git.refs(REPO), refs)
        tap.eventually(lambda: objects(git) == before if careless else objects(git)[0] == before[0], message=objects(git))
        _, outcome = push_record(r)
        tap.ok("git" not in outcome, outcome)


# ---- proc-receive ----

PROC_RECEIVE = r'''#!/usr/bin/env python3
import sys
def read():
    n = int(sys.stdin.buffer.read(4), 16)
    return sys.stdin.buffer.read(n - 4) if n else None
def write(text):
    sys.stdout.buffer.write(b"%04x" % (len(text) + 4) + text.encode())
def flush():
    sys.stdout.buffer.write(b"0000")
    sys.stdout.flush()
read(), read()
write("version=1\0\n")
flush()
for line in iter(read, None):
    old, new, ref = line.decode().split()
    if ref.endswith("no"):
        write("ng %s no review without a topic\n" % ref)
        continue
    write("ok %s\n" % ref)
    write("option refname refs/changes/01/1/1\n")
    write("option new-oid %s\n" % new)
    write("ok %s\n" % ref)
    write("option refname refs/changes/02/2/7\n")
    write("option old-oid %s\n" % ("1" * 40))
    write("option forced-update\n")
flush()
'''


@tap.test
def a_review_server_does_something_else(t):
    """refs/for/…: the policy judges what the client asks for, the record says what the server did"""
    git = serve(t)
    git.git(REPO, "config", "receive.procReceiveRefs", "refs/for")
    hook(git, "proc-receive", PROC_RECEIVE)
    r = run(git, ANY, CLONE + CHANGE + "git push origin HEAD:refs/for/main HEAD:refs/heads/b HEAD:refs/for/no || echo exit $?; "
                                       "git rev-parse HEAD")
    tap.contains(r.out, "exit 1")
    new = r.out.split()[-1]
    tap.contains(r.err, "HEAD -> refs/changes/01/1/1")
    tap.contains(r.err, " ! [remote rejected] HEAD -> refs/for/no (no review without a topic)")
    verdict, outcome = push_record(r)
    tap.equal({(ref["ref"], ref["op"]) for ref in verdict["git"]["refs"]},
              {("refs/heads/b", "create"), ("refs/for/main", "create"), ("refs/for/no", "create")})
    tap.equal(outcome["git"]["refs"], [
        {"ref": "refs/for/main", "to": "refs/changes/01/1/1", "new": new, "outcome": "ok"},
        {"ref": "refs/heads/b", "outcome": "ok"},
        {"ref": "refs/for/no", "outcome": "refused: no review without a topic"},
        {"ref": "refs/for/main", "to": "refs/changes/02/2/7", "old": "1" * 40, "op": "force", "outcome": "ok"}])
    elsewhere = run(git, FETCH + "allow push https://g.test/acme/app refs/heads/** with forge\n",
                    CLONE + CHANGE + "git push origin HEAD:refs/for/main || echo exit $?")
    tap.contains(elsewhere.err, " ! [remote rejected] HEAD -> refs/for/main (exeat: no rule allows a push to this ref")


tap.main()
