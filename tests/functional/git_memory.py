"""Looking through a push takes no more memory than the operator has set: what needs more is refused, and says so."""
import time

import exeat
import pushes
import tap
from memory import resident

REPO = pushes.REPO
POLICY = pushes.FETCH + """allow push https://g.test/acme/app refs/heads/fix/* create update with forge
deny push https://g.test/acme/app paths .github/**
"""
CLONE = pushes.CLONE + "git config advice.detachedHead false; "
NEEDS = "this push needs more than %d MiB of memory to be looked through; the operator may permit more (exeat run --push-memory)"

# A history as git fast-import reads it: so many commits, each of which adds so many files below a folder.
HISTORY = r"""cat > ../h.py <<'EOF'
import sys
commits, files, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
out = sys.stdout
for c in range(commits):
    out.write("commit refs/heads/fix/h\ncommitter A <a@b.test> %%d +0000\ndata 200\n%%s\n" %% (c + 1700000000, "x" * 200))
    if c == 0:
        out.write("from refs/remotes/origin/main\n")
    for f in range(files):
        out.write("M 100644 inline %%s/%%d/%%d/%%d\ndata 1\nx\n" %% (folder, c, f // 100, f))
out.write("done\n")
EOF
python3 ../h.py %d %d %s | git fast-import --quiet --done; git push -q origin fix/h && echo passed || echo refused-$?
"""

# A pack that is small and makes much, made by hand and sent by curl: of deltas, or of zeros.
BOMB = r"""cat > ../b.py <<'EOF'
import hashlib, struct, subprocess, sys, zlib
def git(*args):
    return subprocess.run(("git", *args), stdout=subprocess.PIPE, check=True).stdout
def sized(kind, n):
    c, n, out = kind << 4 | n & 15, n >> 4, b""
    while n:
        out, c, n = out + bytes([c | 0x80]), n & 127, n >> 7
    return out + bytes([c])
def number(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])
def back(n):
    out = bytes([n & 127])
    while n > 127:
        n = (n >> 7) - 1
        out = bytes([n & 127 | 128]) + out
    return out
def copy(n):
    return bytes([0x80 | 0x70, *struct.pack("<I", n)[:3]])
def deltas():
    "Each makes twice what the one before it makes, up to 8 MiB, and then as much once more."
    base = git("cat-file", "commit", "HEAD") + b"x" * 60000
    objects, size = [sized(1, len(base)) + zlib.compress(base)], len(base)
    for i in range(100):
        new = bytes([9]) + b"%%09d" %% i
        made, steps = (2 * size + 9, copy(size) * 2 + new) if size < 4 << 20 else (size, copy(size - 9) + new)
        delta = number(size) + number(made) + steps
        objects.append(sized(6, len(delta)) + back(len(objects[-1])) + zlib.compress(delta))
        size = made
    return objects
def zeros():
    z, n = zlib.compressobj(1), 1 << 20
    return [sized(3, 1300 * n) + b"".join(z.compress(bytes(n)) for i in range(1300)) + z.flush()]
objects = deltas() if sys.argv[1] == "deltas" else zeros()
pack = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
line = b"%%s %%s refs/heads/fix/bomb\0 report-status side-band-64k" %% (b"0" * 40, git("rev-parse", "HEAD").strip())
open("../body", "wb").write(b"%%04x%%s0000" %% (len(line) + 4, line) + pack + hashlib.sha1(pack).digest())
EOF
python3 ../b.py %s; wc -c < ../body
curl -sS -H 'Content-Type: application/x-git-receive-pack-request' -H 'Expect:' -H 'Transfer-Encoding: chunked' --data-binary @../body \
    https://g.test/acme/app.git/git-receive-pack | tr -d '\000'
"""


def measured(git, script, mib):
    """The result, and the KiB that exeat took beyond those at first."""
    most, base = 0, 0
    with exeat.Sandbox(POLICY, CLONE + script, flags=["--push-memory", str(mib)], **pushes.options(git)) as sandbox:
        while sandbox.process.poll() is None:
            now = resident(sandbox.pid)
            base = base or now
            most = max(most, now)
            time.sleep(0.02)
        r = sandbox.wait(30)
    print("# %d MiB permitted, %d KiB taken" % (mib, most - base))
    return r, most - base


def check(git, script, few, enough):
    """With `few` MiB it is refused. The result with `enough`; no more than that is taken either time."""
    refs = git.refs(REPO)
    for mib in (few, enough):
        r, took = measured(git, script, mib)
        tap.ok(took < mib * 1024 * 3 // 2 + 12288, "%d KiB" % took)
        if mib == few:
            tap.contains(r.err + r.out, NEEDS % mib)
            tap.equal(git.refs(REPO), refs)
    return r


@tap.test(timeout=200)
def many_commits(t):
    r = check(pushes.serve(t), HISTORY % (20000, 0, "a"), 2, 64)
    tap.contains(r.out, "passed")


@tap.test(timeout=200)
def many_trees(t):
    r = check(pushes.serve(t), HISTORY % (60, 300, "a/folder/with/a/name"), 1, 64)
    tap.contains(r.out, "passed")


@tap.test(timeout=200)
def many_changes(t):
    """What is kept of the pack has room, and what it changes has not: a tree names a file once, a change all that leads there."""
    git = pushes.serve(t)
    script = HISTORY % (1, 10000, "/".join([13 * "d" + 200 * "e"] * 12))
    r, took = measured(git, script, 16)
    tap.contains(r.err, NEEDS % 16, str(r))
    tap.ok(took < 36864, "%d KiB" % took)
    r, took = measured(git, script, 256)
    tap.contains(r.out, "passed")


@tap.test(timeout=200)
def deltas_of_deltas(t):
    r = check(pushes.serve(t), BOMB % "deltas", 16, 256)
    tap.contains(r.out, NEEDS % 256)


@tap.test(timeout=200)
def what_inflates_without_end(t):
    git = pushes.serve(t)
    r, took = measured(git, BOMB % "zeros", 1)
    tap.contains(r.out, "it inflates to more than 200 times its size")
    tap.ok(took < 8192, "%d KiB" % took)
    tap.lacks(str(git.refs(REPO)), "fix/bomb")


if __name__ == "__main__":
    tap.main()
