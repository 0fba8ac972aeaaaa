"""Where a push brings too little history for a proof, the server is asked for it; a server that lies proves nothing."""
import json
import os
import random
import time

import asks
import exeat
import pushes
import raw
import tap
import work
from h2server import NodeServer

REPO = pushes.REPO
POLICY = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* create update delete with forge\n"
CLONE = pushes.CLONE
PUSH = CLONE + "git push origin %s:fix/1 || echo refused-$?\n"
FORCE = CLONE + "git push --force origin %s:fix/1 || echo refused-$?\n"
BIG = "head -c 3000000 /dev/urandom > big; git add big; git commit -qm big; "


def at(git):
    return git.refs(REPO)["refs/heads/fix/1"]


def the_ref(r, verdict):
    found = [ref for ref in pushes.refs(r, verdict) if ref["ref"] == "refs/heads/fix/1"]
    tap.equal(len(found), 1, str(r))
    return found[0]


def passes(git, r, new, proof="server"):
    tap.lacks(r.out, "refused-", str(r))
    ref = the_ref(r, "allow")
    tap.equal((ref["op"], ref["proof"], at(git)), ("update", proof, new), str(r))


def refused(git, r, old, proof):
    tap.contains(r.out, "refused-1", str(r))
    tap.contains(r.err, "! [remote rejected]")
    ref = the_ref(r, "deny")
    tap.equal((ref["op"], ref["proof"], at(git)), ("force", proof, old), str(r))


@tap.test
def a_branch_moved_on_to_known_commits_passes(t):
    git = asks.serve(t)
    r = pushes.run(git, POLICY, PUSH % git.line[5])
    passes(git, r, git.line[5])
    tap.equal([h.method for h in asks.asked(git)], ["GET", "POST"])
    body = asks.asked(git)[1].request.start
    tap.equal((body.count(b"want "), body.count(b"want " + git.line[5].encode()), body.count(b"have " + git.line[2].encode()), b"filter tree:0" in body),
              (1, 1, 1, True))


@tap.test
def a_server_that_speaks_http_2_alone_is_asked_by_it(t):
    work.need("node")
    git = asks.serve(t)
    aside = git.commit(REPO, "refs/heads/aside", {"x": "y\n"}, "aside", parent=git.line[1])
    front = t.use(NodeServer(pushes.pki().leaf("g.test"), "only", "to=%d" % git.port))
    r = pushes.run(git, POLICY, PUSH % git.line[5], resolve=[front.resolve("g.test")])
    passes(git, r, git.line[5])
    own = [h for h in front.seen if h["headers"]["user-agent"].startswith("exeat/")]
    tap.equal([(h["method"], h["version"]) for h in own], [("GET", "2.0"), ("POST", "2.0")])
    tap.equal(len({h["headers"]["authorization"] for h in own}), 1)
    tap.equal([e["upstream_protocol"] for e in r.events("errand")], ["h2"] * 2)
    tap.equal(len({h["session"] for h in front.seen}), 1, "a connection of its own was made for it")
    refused(git, pushes.run(git, POLICY, FORCE % aside, resolve=[front.resolve("g.test")]), git.line[5], "server")


@tap.test
def a_branch_moved_back_or_aside_is_forced(t):
    git = asks.serve(t)
    aside = git.commit(REPO, "refs/heads/aside", {"x": "y\n"}, "aside", parent=git.line[1])
    orphan = git.commit(REPO, "refs/heads/orphan", {"x": "y\n"}, "orphan")
    for where in (git.line[1], git.line[0], aside, orphan):
        r = pushes.run(git, POLICY, FORCE % where)
        refused(git, r, git.line[2], "server")
    tap.equal(len(asks.asked(git)), 8)
    posts = [h for h in pushes.posts(git, "git-receive-pack") if h.request.header("content-length") != "4"]
    tap.equal(posts, [])


@tap.test
def new_commits_on_top_of_known_ones(t):
    for big in ("", BIG):
        git = asks.serve(t)
        grow = CLONE + "git checkout -q %s; echo a > a; git add a; git commit -qm a; " + big + "git push origin HEAD:fix/1; git rev-parse HEAD\n"
        r = pushes.run(git, POLICY, grow % git.line[4])
        passes(git, r, r.out.split()[-1])
        git = asks.serve(t)
        r = pushes.run(git, POLICY, (grow % git.line[1]).replace("git push", "git push --force").replace("; git rev-parse", " || echo refused-$?; git rev-parse"))
        refused(git, r, git.line[2], "server")
        time.sleep(0.3)
        tap.equal(at(git), git.line[2])


@tap.test
def a_merge_of_known_history_passes(t):
    git = asks.serve(t)
    aside = git.commit(REPO, "refs/heads/aside", {"x": "y\n"}, "aside", parent=git.line[1])
    r = pushes.run(git, POLICY, CLONE + "git checkout -q %s; git merge -q -s ours -m merged %s; git push origin HEAD:fix/1; git rev-parse HEAD\n"
                   % (aside, git.line[4]))
    passes(git, r, r.out.split()[-1])


@tap.test
def several_refs_are_asked_about_in_turn(t):
    git = asks.serve(t)
    git.git(REPO, "update-ref", "refs/heads/fix/2", git.line[3])
    r = pushes.run(git, POLICY, CLONE + "git push origin %s:fix/1 %s:fix/2 %s:refs/heads/fix/new" % (git.line[5], git.line[4], git.line[0]))
    passes(git, r, git.line[5])
    tap.equal(git.refs(REPO)["refs/heads/fix/2"], git.line[4])
    r = pushes.run(git, POLICY, CLONE + "git push --force origin %s:fix/1 %s:fix/2 || echo refused-$?" % (git.line[4], git.line[5]))
    refused(git, r, git.line[5], "server")


@tap.test
def sha256(t):
    git = asks.serve(t, sha256=True)
    passes(git, pushes.run(git, POLICY, PUSH % git.line[5]), git.line[5])
    refused(git, pushes.run(git, POLICY, FORCE % git.line[0]), git.line[5], "server")


@tap.test
def a_server_without_filters(t):
    git = asks.serve(t, config={"uploadpack.allowFilter": "false"})
    passes(git, pushes.run(git, POLICY, PUSH % git.line[5]), git.line[5])
    tap.lacks(asks.asked(git)[1].request.start, b"filter")
    refused(git, pushes.run(git, POLICY, FORCE % git.line[0]), git.line[5], "server")


@tap.test
def the_credential_goes_with_it_and_it_is_on_record(t):
    git = asks.serve(t)
    r = pushes.run(git, POLICY, PUSH % git.line[5])
    passes(git, r, git.line[5])
    tap.equal([(h.user, h.password) for h in asks.asked(git)], [("x-access-token", pushes.SECRET)] * 2)
    verdict = pushes.judged(r, verdict="allow")[0]
    errands = r.events("errand", id=verdict["id"])
    tap.equal([(e["method"], e["url"], e["credential"], e["reason"]) for e in errands],
              [("GET", "https://g.test/acme/app.git/info/refs?service=*", "forge", "to prove a fast-forward"),
               ("POST", "https://g.test" + asks.UPLOAD, "forge", "to prove a fast-forward")])
    order = [e["event"] for e in r.decisions if e.get("id") == verdict["id"]]
    tap.equal(order, ["errand", "errand", "verdict", "outcome"])


@tap.test
def the_page_about_a_decision_tells_what_was_asked(t):
    git = asks.serve(t)
    r = pushes.run(git, POLICY, FORCE % git.line[0] + "id=$(git push --force origin %s:fix/1 2>&1 | sed -n 's/.*decision \\([0-9A-Z]*\\).*/\\1/p'); "
                   "curl -sS http://exeat.internal/why/$id; curl -sS -H 'Accept: application/json' http://exeat.internal/why/$id" % git.line[0])
    lines = r.out.strip().split("\n")
    told = [line for line in lines if line.startswith("  exeat: asked ")]
    tap.equal(len(told), 2, str(r))
    tap.contains(told[0], "asked GET https://g.test/acme/app.git/info/refs?service=* (to prove a fast-forward)")
    rest = "".join(lines[lines.index(told[1]) + 1:])
    page = json.loads(rest[rest.index("{"):])
    tap.equal([e["reason"] for e in page["errands"]], ["to prove a fast-forward"] * 2)
    tap.equal((page["errands"][1]["url"], page["errands_omitted"]), ("https://g.test" + asks.UPLOAD, 0))
    tap.equal(page["verdict"]["id"], page["errands"][0]["id"])


@tap.test
def nothing_is_asked_where_the_pack_is_enough_or_no_proof_would_help(t):
    git = asks.serve(t)
    r = pushes.run(git, POLICY, CLONE + "git checkout -q fix/1; echo a > a; git add a; git commit -qm a; git push origin fix/1; git rev-parse HEAD")
    passes(git, r, r.out.split()[-1], "pack")
    r = pushes.run(git, POLICY, CLONE + "git push origin %s:refs/heads/other || echo refused-$?" % git.line[5])
    tap.contains(r.out, "refused-1")
    tap.equal(asks.asked(git), [])


GZIPPED = r"""cat > ../g.py <<'EOF'
import gzip, subprocess
def git(*a, stdin=None): return subprocess.run(("git",) + a, input=stdin, stdout=subprocess.PIPE, check=True).stdout
old, new = git("rev-parse", "origin/fix/1", "%s").decode().split()
line = b"%%s %%s refs/heads/fix/1\0 report-status" %% (old.encode(), new.encode())
pack = git("pack-objects", "-q", "--revs", "--stdout", stdin=b"%%s\n^origin/main\n" %% new.encode())
open("../body", "wb").write(gzip.compress(b"%%04x%%s0000" %% (len(line) + 4, line) + pack, 1))
EOF
python3 ../g.py; curl -sS -H 'Content-Encoding: gzip' -H 'Content-Type: application/x-git-receive-pack-request' -H 'Expect:' \
    --data-binary @../body https://g.test/acme/app.git/git-receive-pack | tr -d '\000'; echo
"""


@tap.test
def a_push_in_a_gzip_body(t):
    git = asks.serve(t)
    r = pushes.run(git, POLICY, CLONE + GZIPPED % git.line[5])
    tap.contains(r.out, "ok refs/heads/fix/1", str(r))
    passes(git, r, git.line[5])
    r = pushes.run(git, POLICY, CLONE + GZIPPED % git.line[0])
    tap.contains(r.out, "ng refs/heads/fix/1 exeat: ", str(r))
    tap.equal((the_ref(r, "deny")["op"], at(git)), ("force", git.line[5]))


# A push by hand: one commit, as a delta of one that the server has and the pack has not.
THIN = r"""cat > ../t.py <<'END'
import hashlib, struct, subprocess, zlib
def git(*a, stdin=None): return subprocess.run(("git",) + a, input=stdin, stdout=subprocess.PIPE, check=True).stdout
def size(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])
base, parent, old = "%s", "%s", git("rev-parse", "origin/fix/1").decode().strip()
new = git("commit-tree", base + "^{tree}", "-p", parent, "-m", "thin").decode().strip()
was, now = (git("cat-file", "commit", i) for i in (base, new))
delta = size(len(was)) + size(len(now)) + b"".join(bytes([len(p)]) + p for p in (now[i:i + 100] for i in range(0, len(now), 100)))
n = len(delta)
head = bytes([7 << 4 | n & 15 | (128 if n > 15 else 0)]) + (size(n >> 4) if n > 15 else b"")
pack = b"PACK" + struct.pack(">II", 2, 1) + head + bytes.fromhex(base) + zlib.compress(delta)
pack += hashlib.sha1(pack).digest()
line = ("%%s %%s refs/heads/fix/1\0 report-status" %% (old, new)).encode()
open("../body", "wb").write(b"%%04x%%s0000" %% (len(line) + 4, line) + pack)
print(new)
END
python3 ../t.py; curl -sS -H 'Content-Type: application/x-git-receive-pack-request' -H 'Expect:' \
    --data-binary @../body https://g.test/acme/app.git/git-receive-pack | tr -d '\000'; echo
"""


@tap.test(timeout=200)
def a_commit_as_a_delta_of_one_that_the_server_has(t):
    for parent, count in ((2, 3), (5, 4)):
        git = asks.serve(t)
        r = pushes.run(git, POLICY, CLONE + THIN % (git.line[4], git.line[parent]))
        tap.contains(r.out, "ok refs/heads/fix/1", str(r))
        passes(git, r, r.out.split()[0])
        tap.equal(len(asks.asked(git)), count)
        tap.contains(asks.asked(git)[2].request.start, b"deepen 1")
    git = asks.serve(t)
    r = pushes.run(git, POLICY, CLONE + THIN % (git.line[4], git.line[0]))
    tap.contains(r.out, "ng refs/heads/fix/1 exeat: ", str(r))
    ref = the_ref(r, "deny")
    tap.equal((ref["op"], ref["proof"], at(git)), ("force", "server", git.line[2]))


def try_lie(git, name, proof, *args):
    """What is pushed is a fast-forward in truth: it is refused for want of a proof, and for nothing else."""
    backend = git._backend
    asks.instead(git, *args)
    r = pushes.run(git, POLICY, PUSH % git.line[5])
    git._backend = backend
    print("# %s: %s" % (name, "".join(line[28:] for line in r.err.split("\n") if "push refused" in line)))
    refused(git, r, git.line[2], proof)
    git.hits.clear()
    return r


@tap.test(timeout=300)
def a_lying_server(t):
    """A server that lies can make a proof fail, and make none."""
    git = asks.serve(t)
    whole = ("an empty pack", "another commit", "the old one")
    for name, lie in asks.lies(git).items():
        try_lie(git, name, "server" if name in whole else "none", lie)
    adverts = {
        "not git": b"<html>",
        "v0": b"001e# service=git-upload-pack\n0000" + asks.pkt(git.line[2].encode() + b" HEAD\0x\n") + b"0000",
        "no fetch": asks.pkt(b"version 2\n") + asks.pkt(b"ls-refs\n") + b"0000",
        "says no": asks.pkt(b"ERR go away\n"),
        "sha256": asks.pkt(b"version 2\n") + asks.pkt(b"fetch=filter\n") + asks.pkt(b"object-format=sha256\n") + b"0000",
        "half": asks.pkt(b"version 2\n") + asks.pkt(b"fetch=filter\n"),
    }
    for name, lie in adverts.items():
        r = try_lie(git, name, "none", raw.response(200, lie), "/acme/app.git/info/refs", "GET")
        if name == "v0":
            tap.contains(r.err, "remote: exeat: the server was asked in vain: the server does not speak version 2 of git's protocol, in which alone it is asked")


@tap.test
def a_hanging_server(t):
    """Where a server hangs an update is forced as soon as the time is up."""
    git = asks.serve(t)
    asks.instead(git, lambda connection: time.sleep(100))
    r = pushes.run(git, POLICY, PUSH % git.line[5])
    refused(git, r, git.line[2], "none")
    tap.contains(r.err, "within 1")
    took = exeat.when(r.verdict(verdict="deny")) - exeat.when(r.events("errand")[0])
    tap.ok(14 < took < 40, "%g s: %s" % (took, r))


@tap.test
def a_client_that_goes_away_while_the_server_is_asked(t):
    git = asks.serve(t)
    asks.instead(git, lambda connection: time.sleep(3))
    r = pushes.run(git, POLICY, CLONE + "timeout 1 git push origin %s:fix/1 || echo gone-$?; sleep 3; git ls-remote -q origin refs/heads/fix/1" % git.line[5])
    tap.contains(r.out, "gone-124", str(r))
    tap.contains(r.out, git.line[2], str(r))
    tap.equal(at(git), git.line[2])


@tap.test
def force_where_it_is_permitted_asks_nobody(t):
    git = asks.serve(t)
    policy = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* force with forge\n"
    r = pushes.run(git, policy, FORCE % git.line[0])
    tap.equal((at(git), asks.asked(git)), (git.line[0], []), str(r))


@tap.test
def long_history(t):
    """Ten thousand commits are asked for and looked through."""
    git = asks.serve(t)
    stream = "".join("commit refs/heads/long\ncommitter S <s@example.com> %d +0000\ndata 2\nc\n%s\n"
                     % (1700000000 + i, "from %s\n" % git.line[2] if i == 0 else "") for i in range(10000))
    git.git(REPO, "fast-import", "--quiet", stdin=stream.encode())
    far = git.refs(REPO)["refs/heads/long"]
    r = pushes.run(git, POLICY, PUSH % far)
    passes(git, r, far)
    print("# %.1f s" % r.seconds)


@tap.test(timeout=400)
def at_random_exeat_agrees_with_git(t):
    """From anywhere to anywhere in a history of any shape, what passes is a fast-forward by git's own word."""
    seed = int(os.environ.get("EXEAT_SEED", "0")) or random.randrange(1 << 30)
    print("# EXEAT_SEED=%d" % seed)
    rnd = random.Random(seed)
    git = asks.serve(t)
    known = list(git.line)
    for i in range(30):
        parents = rnd.sample(known, rnd.choice([0, 1, 1, 1, 2, 2]))
        tree = git.git(REPO, "rev-parse", rnd.choice(known) + "^{tree}").strip()
        known.append(git.git(REPO, "commit-tree", tree, "-m", "r%d" % i, *[w for p in parents for w in ("-p", p)]).strip())
        git.git(REPO, "update-ref", "refs/keep/%d" % i, known[-1])
    tries, script = 12, [CLONE, "git fetch -q origin 'refs/keep/*:refs/keep/*'; git config advice.detachedHead false"]
    for i in range(tries):
        to = rnd.choice(known)
        if rnd.random() < 0.4:
            script.append("git checkout -q %s; git commit -q --allow-empty -m n%d; new=$(git rev-parse HEAD)" % (to, i))
        else:
            script.append("new=%s" % to)
        script.append("old=$(git rev-parse refs/remotes/origin/fix/1); [ $old = $new ] && ff=same || { git merge-base --is-ancestor $old $new && ff=yes || ff=no; }; "
                      "git push -q --force origin $new:fix/1 2>/dev/null && ok=yes || ok=no; git fetch -q origin; "
                      "[ $(git rev-parse refs/remotes/origin/fix/1) = $new ] && at=new || at=old; echo $ff $ok $at")
    r = pushes.run(git, POLICY, "\n".join(script).replace("set -e; ", ""), timeout=300)
    rows = [line.split() for line in r.out.split("\n") if len(line.split()) == 3]
    tap.equal(len(rows), tries, str(r))
    print("# " + "; ".join(" ".join(row) for row in rows))
    for ff, ok, where in rows:
        tap.equal((ok, where), ("no", "old") if ff == "no" else ("yes", "new"), rows)
    git.git(REPO, "fsck", "--strict")


if __name__ == "__main__":
    tap.main()
