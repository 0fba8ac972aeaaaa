"""What a push changes, where the server has to be asked for the trees: what it withholds lets nothing through."""
import time

import asks
import pushes
import raw
import tap

REPO = pushes.REPO
POLICY = (pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* create update force with forge\n"
          "deny push https://g.test/acme/app paths .github/**\n")
CLONE = pushes.CLONE
GROW = CLONE + "git checkout -q fix/1; mkdir -p %s; echo x > %s/x; git add .; git commit -qm x; git push origin HEAD:fix/1 || echo refused-$?; git rev-parse HEAD\n"
GOOD, BAD = GROW % ("src", "src"), GROW % (".github", ".github")


def commit(git, ref, parent, paths):
    """Makes a commit that gives these files other contents, points ref at it, and returns its id."""
    git.git(REPO, "fast-import", "--quiet", stdin=(
        "commit %s\ncommitter S <s@example.com> 1700000000 +0000\ndata 2\nm\nfrom %s\n" % (ref, parent)
        + "".join("M 644 inline %s\ndata %d\n%s\n" % (path, len(ref), ref) for path in paths)).encode())
    return git.git(REPO, "rev-parse", ref).strip()


def serve(t, **options):
    """main and fix/1, with trees in one another, of which a push brings a part."""
    git = asks.serve(t, **options)
    git.line.append(commit(git, "refs/heads/main", git.line[-1], (".github/ci", "src/a/b/c", "docs/d")))
    git.git(REPO, "update-ref", "refs/heads/fix/1", "refs/heads/main")
    return git


def at(git):
    return git.refs(REPO)["refs/heads/fix/1"]


def passes(git, r):
    tap.lacks(r.out, "refused-", str(r))
    tap.equal(at(git), r.out.split()[-1], str(r))


def refused(git, r, old, *words):
    tap.contains(r.out, "refused-1", str(r))
    for word in words:
        tap.contains(r.err, word, str(r))
    tap.equal(at(git), old)


@tap.test(timeout=200)
def trees_that_the_push_does_not_bring(t):
    for options in ({}, {"sha256": True}, {"config": {"uploadpack.allowFilter": "false"}}):
        git = serve(t, **options)
        passes(git, pushes.run(git, POLICY, GOOD))
        old = at(git)
        asked = asks.asked(git)
        tap.ok(len(asked) >= 2, asked)
        tap.equal({(h.user, h.password) for h in asked}, {("x-access-token", pushes.SECRET)})
        refused(git, pushes.run(git, POLICY, BAD), old, ".github/x")


@tap.test(timeout=400)
def a_server_that_withholds(t):
    """A server that lies about trees can have a push refused, and let none through that changes a protected path."""
    git = serve(t)
    lies = asks.lies(git)
    lies["only the commit"] = raw.response(200, asks.packed(asks.pack_of(git, git.line[-1])), asks.RESULT)
    old = at(git)
    for name, lie in lies.items():
        backend = git._backend
        asks.instead(git, lie)
        r = pushes.run(git, POLICY, GOOD)
        if name in ("an empty pack", "another commit", "the old one", "only the commit"):
            tap.contains(r.err, "it did not send all", str(r))
            tap.ok(len(asks.asked(git)) <= 3, asks.asked(git))
        print("# %s: %s" % (name, "".join(line[28:] for line in r.err.split("\n") if "push refused" in line)))
        refused(git, r, old)
        git._backend = backend
        git.hits.clear()


@tap.test(timeout=200)
def a_server_that_hangs(t):
    git = serve(t)
    old = at(git)
    asks.instead(git, lambda connection: time.sleep(100))
    r = pushes.run(git, POLICY, GOOD)
    refused(git, r, old, "within 1")


# A push by hand, of no objects: fix/1 from an old id that is not its own, and fix/2 created at that.
BORROWED = r"""cat > ../b.py <<'END'
import hashlib
pack = b"PACK\0\0\0\2\0\0\0\0"
lines = [b"BAD UPON refs/heads/fix/1\0 report-status", b"%s BAD refs/heads/fix/2" % (b"0" * 40)]
body = b"".join(b"%04x" % (len(line) + 4) + line for line in lines) + b"0000" + pack + hashlib.sha1(pack).digest()
open("../body", "wb").write(body)
END
python3 ../b.py; curl -sS -H 'Content-Type: application/x-git-receive-pack-request' -H 'Expect:' \
    --data-binary @../body https://g.test/acme/app.git/git-receive-pack | tr -d '\000'; echo
"""


@tap.test(timeout=200)
def the_old_id_of_another_ref_excuses_nothing(t):
    git = serve(t)
    bad = commit(git, "refs/keep/bad", git.line[-1], (".github/ci", "README"))
    upon = commit(git, "refs/keep/upon", bad, ("README",))
    r = pushes.run(git, POLICY, CLONE + BORROWED.replace("BAD", bad).replace("UPON", upon))
    reason = [line for line in r.out.split("\n") if "ng refs/heads/fix/2 exeat: " in line]
    tap.equal(len(reason), 1, str(r))
    tap.contains(reason[0], ".github/ci", str(r))
    tap.lacks(git.refs(REPO), "refs/heads/fix/2")


if __name__ == "__main__":
    tap.main()
