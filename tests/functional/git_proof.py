"""Fast-forwards are proved by the pack that a push brings; what is not proved is refused, and leaves nothing behind."""
import os
import random
import time

import exeat
import pushes
import raw
import tap
from memory import resident

REPO = pushes.REPO
POLICY = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* create update delete with forge\n"
CLONE = pushes.CLONE
STRICT = {"receive.fsckObjects": "true", "receive.unpackLimit": "1"}
LOOSE = {"receive.fsckObjects": "true", "receive.unpackLimit": "1000000"}
FILE = "head -c 3000000 /dev/urandom > big; git add big;"
BIG = "head -c %d /dev/urandom > big; git add big; git commit -qm big; "


def serve(t, config=None):
    """A server whose fix/1 has three commits."""
    git = pushes.serve(t, repo=False)
    git.create(REPO, config=config)
    at = git.refs(REPO)["refs/heads/main"]
    for i in range(3):
        at = git.commit(REPO, "refs/heads/fix/1", {"README": "hello\n", "work": "%d\n" % i}, "work %d" % i, parent=at)
    return git


def ref_of(r, name, verdict):
    """The record's entry about the ref, from the one push with this verdict."""
    found = [ref for ref in pushes.refs(r, verdict) if ref["ref"] == name]
    tap.equal(len(found), 1, r)
    return found[0]


def objects(git):
    return git.git(REPO, "cat-file", "--batch-all-objects", "--batch-check")


def untouched(git, refs, before):
    tap.equal(git.refs(REPO), refs)
    tap.equal(objects(git), before)


def reached(git):
    """Bodies of pushes that came to the server (not git's probe)."""
    return [h for h in pushes.posts(git, "git-receive-pack") if h.request.header("content-length") != "4"]


@tap.test
def a_fast_forward_passes_where_updates_are_permitted(t):
    for config in (STRICT, LOOSE):
        git = serve(t, config)
        r = pushes.run(git, POLICY, CLONE + "git checkout -q fix/1; echo a > a; git add a; git commit -qm a; git push -q origin fix/1; "
                                            "git rev-parse HEAD")
        tap.equal(r.code, 0, r)
        tap.equal(git.refs(REPO)["refs/heads/fix/1"], r.out.strip())
        ref = ref_of(r, "refs/heads/fix/1", "allow")
        tap.equal((ref["op"], ref["proof"]), ("update", "pack"))


@tap.test
def a_large_one_streams_and_passes(t):
    for config in (STRICT, LOOSE):
        git = serve(t, config)
        r = pushes.run(git, POLICY, CLONE + "git checkout -q fix/1; " + BIG % 5000000 + "git push -q origin fix/1; git rev-parse HEAD")
        tap.equal(r.code, 0, r)
        tap.equal(git.refs(REPO)["refs/heads/fix/1"], r.out.strip())
        tap.equal([h.request.header("transfer-encoding") for h in reached(git)], ["chunked"])
        tap.equal(ref_of(r, "refs/heads/fix/1", "allow")["proof"], "pack")
        git.git(REPO, "fsck", "--strict")


# How history can be thrown away; each leaves HEAD at what is pushed to fix/1.
REWRITES = {
    "amend": "git checkout -q fix/1; %s git commit -q --amend --allow-empty -m amended",
    "rewind": "git checkout -q fix/1; git reset -q --hard HEAD~1; %s true",
    "main": "git checkout -q -b other origin/main; %s true",
    "orphan": "git checkout -q --orphan other; echo o > o; git add o; %s git commit -qm orphan",
    "grown": "git checkout -q fix/1; git reset -q --hard HEAD~2; echo g > g; git add g; %s git commit -qm grown",
}


@tap.test(timeout=200)
def a_small_rewrite_is_refused_before_a_byte_reaches_the_server(t):
    git = serve(t)
    refs, before = git.refs(REPO), objects(git)
    for name, command in REWRITES.items():
        r = pushes.run(git, POLICY, CLONE + command % "" + "; git push --force origin HEAD:fix/1 || echo refused-$?")
        tap.contains(r.out, "refused-1", name)
        tap.contains(r.err, "! [remote rejected]")
        tap.contains(r.err, "(exeat: ")
        tap.contains(r.err, r.verdict(verdict="deny")["id"])
        ref = ref_of(r, "refs/heads/fix/1", "deny")
        tap.equal(ref["op"], "force", name)
        untouched(git, refs, before)
    tap.equal(reached(git), [])


@tap.test(timeout=200)
def a_large_rewrite_is_cut_off_and_leaves_nothing_at_the_server(t):
    for config in (STRICT, LOOSE):
        git = serve(t, config)
        refs, before = git.refs(REPO), objects(git)
        names = ["amend", "orphan", "grown"]
        for name in names:
            r = pushes.run(git, POLICY, CLONE + REWRITES[name] % FILE
                           + "; git push --force origin HEAD:fix/1 || echo refused-$?")
            tap.contains(r.out, "refused-1")
            tap.contains(r.err, "! [remote rejected] HEAD -> fix/1 (exeat: ")
            tap.contains(r.err, "remote: exeat: push refused: ")
            tap.contains(r.err, r.verdict(verdict="deny")["id"])
            tap.equal(ref_of(r, "refs/heads/fix/1", "deny")["op"], "force", name)
            time.sleep(0.3)
            untouched(git, refs, before)
        tap.equal(len(reached(git)), len(names))


@tap.test
def all_refs_of_a_push_stand_or_fall_by_the_proof(t):
    git = serve(t)
    for name in ("fix/2", "fix/3"):
        git.git(REPO, "update-ref", "refs/heads/" + name, "refs/heads/fix/1")
    refs, before = git.refs(REPO), objects(git)
    grow = "for b in 1 2; do git checkout -q fix/$b; echo $b > new; git add new; git commit -qm new; done; "
    r = pushes.run(git, POLICY, CLONE + grow + "git checkout -q fix/3; git commit -q --amend -m amended; "
                   "git push --force origin fix/1 fix/2 fix/3 fix/1:fix/new || echo refused-$?")
    tap.contains(r.out, "refused-1")
    tap.equal(r.err.count("! [remote rejected]"), 4, r)
    tap.contains(r.err, "refused with the rest of this push")
    tap.equal([ref_of(r, "refs/heads/fix/%d" % i, "deny")["op"] for i in (1, 2, 3)], ["update", "update", "force"])
    untouched(git, refs, before)
    for atomic in ("--atomic", ""):
        r = pushes.run(git, POLICY, CLONE + grow.replace("new", "n" + atomic[2:]) +
                       "git push -q %s origin fix/1 fix/2 fix/1:fix/new%s :fix/3 2>&1; git fetch -q origin; git rev-parse fix/1 origin/fix/1"
                       % (atomic, len(atomic)))
        tap.equal(len(set(r.out.split())), 1, r)
        git.git(REPO, "update-ref", "refs/heads/fix/3", "refs/heads/main")


@tap.test
def what_is_refused_whatever_the_pack_proves_is_refused_at_once(t):
    git = serve(t)
    refs = git.refs(REPO)
    r = pushes.run(git, POLICY, CLONE + "git checkout -q fix/1; " + BIG % 3000000
                   + "git push origin fix/1 fix/1:refs/heads/no || echo refused-$?")
    tap.contains(r.out, "refused-1")
    tap.equal((reached(git), git.refs(REPO)), ([], refs))
    tap.equal(ref_of(r, "refs/heads/fix/1", "deny")["proof"], "none")


@tap.test
def force_where_it_is_permitted_needs_no_proof(t):
    git = serve(t)
    policy = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* force with forge\n"
    r = pushes.run(git, policy, CLONE + REWRITES["amend"] % "" + "; git push -q --force origin HEAD:fix/1; git rev-parse HEAD")
    tap.equal(git.refs(REPO)["refs/heads/fix/1"], r.out.split()[-1])
    ref = ref_of(r, "refs/heads/fix/1", "allow")
    tap.equal((ref["op"], ref["proof"]), ("force", "none"))


@tap.test
def sha256_is_proved_too(t):
    git = pushes.serve(t, repo=False)
    git.create(REPO, sha256=True)
    git.commit(REPO, "refs/heads/fix/1", {"README": "x\n"}, "work", parent=git.refs(REPO)["refs/heads/main"])
    r = pushes.run(git, POLICY, CLONE + "git checkout -q fix/1; echo a > a; git add a; git commit -qm a; git push -q origin fix/1; "
                                        "git commit -q --amend -m b; git push --force origin fix/1 || echo refused-$?; git rev-parse HEAD@{1}")
    tap.contains(r.out, "refused-1")
    tap.equal(git.refs(REPO)["refs/heads/fix/1"], r.out.split()[-1])


GZIPPED = r"""cat > ../g.py <<'EOF'
import gzip, subprocess
def git(*a, stdin=None): return subprocess.run(("git",) + a, input=stdin, stdout=subprocess.PIPE, check=True).stdout
old, new = git("rev-parse", "origin/fix/1", "HEAD").decode().split()
line = b"%s %s refs/heads/fix/1\0 report-status" % (old.encode(), new.encode())
pack = git("pack-objects", "-q", "--revs", "--stdout", stdin=b"HEAD\n^origin/fix/1\n")
open("../body", "wb").write(gzip.compress(b"%04x%s0000" % (len(line) + 4, line) + pack, 1))
EOF
python3 ../g.py; curl -sS -H 'Content-Encoding: gzip' -H 'Content-Type: application/x-git-receive-pack-request' -H 'Expect:' \
    --data-binary @../body https://g.test/acme/app.git/git-receive-pack | tr -d '\000'; echo; git rev-parse HEAD
"""


@tap.test
def a_gzip_body_is_read_and_goes_on_as_it_came(t):
    for data in ("", FILE):
        git = serve(t)
        refs, before = git.refs(REPO), objects(git)
        r = pushes.run(git, POLICY, CLONE + REWRITES["grown"] % data + "\n" + GZIPPED)
        tap.contains(r.out, "ng refs/heads/fix/1 exeat: ")
        tap.equal(ref_of(r, "refs/heads/fix/1", "deny")["op"], "force")
        time.sleep(0.3)
        untouched(git, refs, before)
        r = pushes.run(git, POLICY, CLONE + "git checkout -q fix/1; echo g > g; git add g; %s git commit -qm more\n" % data + GZIPPED)
        tap.contains(r.out, "ok refs/heads/fix/1")
        tap.equal(git.refs(REPO)["refs/heads/fix/1"], r.out.split()[-1])
        tap.equal(reached(git)[-1].request.header("content-encoding"), "gzip")


@tap.test
def an_answer_that_comes_early_waits_for_the_verdict(t):
    """A server that takes no more before the pack's end: its answer is passed on if the push is permitted, and only then."""
    git = serve(t)
    backend = git._backend

    def refuse(connection, request, hit):
        if hit.method == "POST" and hit.path.endswith("receive-pack") and request.header("content-length") != "4":
            connection.send(raw.response(413, "too much", [], "No"))
            connection.close()
        else:
            backend(connection, request, hit)
    git._backend = refuse
    r = pushes.run(git, POLICY, CLONE + "git checkout -q fix/1; " + BIG % 4000000 + "git push origin fix/1 || echo refused-$?")
    tap.contains(r.err, "413")
    tap.equal(ref_of(r, "refs/heads/fix/1", "allow")["proof"], "pack")
    r = pushes.run(git, POLICY, CLONE + REWRITES["grown"] % FILE + "; git push --force origin HEAD:fix/1 || echo refused-$?")
    tap.contains(r.err, "! [remote rejected] HEAD -> fix/1 (exeat: ")
    tap.lacks(r.err, "413")


@tap.test(timeout=200)
def a_hundred_megabytes_stream_in_bounded_memory(t):
    git = serve(t)
    command = CLONE + "git checkout -q fix/1; " + BIG % 100000000 + "git -c core.compression=0 push -q origin fix/1; git rev-parse HEAD"
    most = 0
    with exeat.Sandbox(POLICY, command, **pushes.options(git)) as sandbox:
        base = 0
        while sandbox.process.poll() is None:
            now = resident(sandbox.pid)
            base = base or now
            most = max(most, now)
            time.sleep(0.05)
        r = sandbox.wait(30)
    tap.equal((r.code, git.refs(REPO)["refs/heads/fix/1"]), (0, r.out.strip()), r)
    print("# %d KiB at first, %d KiB at most" % (base, most))
    tap.ok(most < base + 16384, "%d KiB at first, %d KiB at most" % (base, most))


@tap.test(timeout=400)
def at_random_exeat_agrees_with_git(t):
    """History of any shape, updates to and from anywhere in it: what passes is a fast-forward by git's own word, and a
    fast-forward to new commits always passes."""
    seed = int(os.environ.get("EXEAT_SEED", "0")) or random.randrange(1 << 30)
    print("# EXEAT_SEED=%d" % seed)
    rnd = random.Random(seed)
    git = serve(t)
    start = git.refs(REPO)["refs/heads/fix/1"]
    script, tries = [CLONE, "git config advice.detachedHead false; : > log"], 8
    for i in range(tries):
        script.append("git checkout -q %s; git tag base%d" % (start if i == 0 else rnd.choice(["origin/fix/1", "top%d" % rnd.randrange(i)]), i))
        for k in range(rnd.randint(1, 4)):
            kind = rnd.random()
            if kind < 0.2 and i:
                script.append("git merge -q -s ours --allow-unrelated-histories -m merge top%d || true" % rnd.randrange(i))
            elif kind < 0.3:
                script.append("git reset -q --hard HEAD~1 2>/dev/null || true")
            elif kind < 0.4:
                script.append("git checkout -q --orphan o%d-%d; git commit -q --allow-empty -m orphan" % (i, k))
            script.append("git commit -q --allow-empty -m c%d-%d" % (i, k))
        script.append("git tag top%d; old=$(git rev-parse refs/remotes/origin/fix/1); new=$(git rev-parse HEAD); "
                      "git merge-base --is-ancestor $old $new && ff=yes || ff=no; "
                      "git push -q --force origin HEAD:fix/1 2>/dev/null && ok=yes || ok=no; git fetch -q origin; "
                      "[ $(git rev-parse refs/remotes/origin/fix/1) = $new ] && at=new || at=old; echo $ff $ok $at" % i)
    r = pushes.run(git, POLICY, "\n".join(script).replace("set -e; ", ""), timeout=300)
    rows = [line.split() for line in r.out.split("\n") if len(line.split()) == 3]
    tap.equal(len(rows), tries, r)
    print("# " + "; ".join(" ".join(row) for row in rows))
    for ff, ok, at in rows:
        tap.equal(at, "new" if ok == "yes" else "old", rows)
        tap.equal(ok, ff, rows)
    git.git(REPO, "fsck", "--strict")


if __name__ == "__main__":
    tap.main()
