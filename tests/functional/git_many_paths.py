#!/usr/bin/env python3
"""Hundreds of refs pushed at once under a rule about paths: what the server has to be asked for is asked for all of them together."""
import asks
import pushes
import tap

REPO = pushes.REPO
N = 300
POLICY = pushes.FETCH + ("allow push https://g.test/acme/app refs/heads/fix/* create update with forge\n"
                         "deny push https://g.test/acme/app paths .github/**\n")
PUSH = r"""
python3 - <<'END' | git fast-import --quiet
for i in range(%d):
    path = ".github/ci" if i == %s else "src/%%d/f" %% i
    print("commit refs/heads/fix/%%d\ncommitter S <s@example.com> %%d +0000\ndata 2\nc\nfrom refs/remotes/origin/%s^0\nM 100644 inline %%s\ndata 7\nx%%06d\n"
          %% (i, 1700009000 + i, i, path, i))
END
git push -q --thin origin 'refs/heads/fix/*:refs/heads/fix/*' && echo passed || echo refused-$?
"""


def commits(refs, parent=""):
    """For fast-import: a commit upon each ref of the list, or upon a parent, that changes something in each of three folders."""
    return "".join("commit %s\ncommitter S <s@example.com> %d +0000\ndata 2\nm\n%sM 100644 inline .github/ci\ndata 6\n%06d\nM 100644 inline src/%d/a\ndata 2\na\nM 100644 inline docs/%d\ndata 2\na\n"
                   % (ref, 1700000000 + i, "from %s\n" % parent if parent else "", i, i, i) for i, ref in enumerate(refs)).encode()


def each_passes_or_all_are_refused(t, parent, own, most):
    git = pushes.serve(t, repo=False)
    git.create(REPO, empty=True)
    git.git(REPO, "fast-import", "--quiet", stdin=commits(["refs/heads/main"] * (N + 1)))
    if own:
        git.git(REPO, "fast-import", "--quiet", stdin=commits(["refs/heads/fix/%d" % i for i in range(N)], "refs/heads/main^0"))
    before = git.refs(REPO)
    for bad in (N - 7, None):
        asked = len(asks.asked(git))
        r = pushes.run(git, POLICY, pushes.CLONE + PUSH % (N, bad, parent), timeout=150)
        questions = len(asks.asked(git)) - asked
        print("# %d questions, %.1f s" % (questions, r.seconds))
        tap.ok(questions <= most, questions)
        if bad is None:
            tap.contains(r.out, "passed", str(r))
            tap.equal(len(set(git.refs(REPO).values()) - set(before.values())), N)
        else:
            tap.contains(r.out, "refused-1", str(r))
            tap.contains(r.err, "remote: exeat: push refused: refs/heads/fix/%d: " % bad)
            tap.contains(r.err, " changes .github/ci")
            tap.equal(git.refs(REPO), before)


@tap.test(timeout=400)
def each_upon_a_branch_of_its_own(t):
    each_passes_or_all_are_refused(t, "fix/%d", True, 12)


@tap.test(timeout=400)
def each_created_at_another_commit_of_main(t):
    each_passes_or_all_are_refused(t, "main~%d", False, 16)


FIRST = r"""
git checkout -q --orphan a; git rm -qrf .; mkdir -p %s; echo 1 > %s/x; git add -A; git commit -qm a
for i in 1 2 3; do git checkout -q -b b$i origin/main~$i; mkdir -p src; echo $i > src/b$i; git add -A; git commit -qm b; done
git push -q --thin origin %s && echo passed || echo refused-$?
"""


@tap.test(timeout=200)
def what_was_found_out_at_once_stays(t):
    """One ref needs no question, and others do: what it was found to be brought is judged all the same, whichever comes first."""
    git = pushes.serve(t, repo=False)
    git.create(REPO, empty=True)
    git.git(REPO, "fast-import", "--quiet", stdin=commits(["refs/heads/main"] * 5))
    before = git.refs(REPO)
    for refs in ("a:refs/heads/fix/1 b1:refs/heads/fix/2 b2:refs/heads/fix/3 b3:refs/heads/fix/4", "b1:refs/heads/fix/1 a:refs/heads/fix/2 b2:refs/heads/fix/3",
                 "b1:refs/heads/fix/1 b2:refs/heads/fix/2 a:refs/heads/fix/3", "a:refs/heads/fix/1 a:refs/heads/fix/2 b1:refs/heads/fix/3"):
        for folder in (".github", "docs"):
            r = pushes.run(git, POLICY, pushes.CLONE + FIRST % (folder, folder, refs))
            if folder == "docs":
                tap.contains(r.out, "passed", refs + str(r))
                git.git(REPO, "update-ref", "--stdin", stdin="".join("delete %s\n" % ref for ref in git.refs(REPO) if "/fix/" in ref).encode())
            else:
                tap.contains(r.out, "refused-1", refs + str(r))
                tap.contains(r.err, " changes .github/x", refs)
            tap.equal(git.refs(REPO), before)


LINE = r"""
python3 - <<'END' | git fast-import --quiet
for i in range(%d):
    print("commit refs/remotes/x\nmark :%%d\ncommitter S <s@example.com> %%d +0000\ndata 2\nc\nfrom %%s\n"
          %% (i + 1, 1700009000 + i, ":%%d" %% i if i else "refs/remotes/origin/main^0"))
    print("reset refs/heads/fix/%%d\nfrom :%%d\n" %% (i, i + 1))
END
git push -q origin 'refs/heads/fix/*:refs/heads/fix/*' && echo passed || echo refused-$?
"""


@tap.test(timeout=400)
def each_upon_the_one_before(t):
    """Each upon the one before: all in all far more commits than are looked at in one turn."""
    git = pushes.serve(t)
    n = 2 * N
    before = git.refs(REPO)
    for most in (n - 1, n):
        r = pushes.run(git, pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* create max-commits %d with forge\n" % most,
                       pushes.CLONE + LINE % n, timeout=150)
        if most < n:
            tap.contains(r.out, "refused-1", str(r))
            tap.contains(r.err, "`max-commits`: it brings %d commits" % n)
            tap.equal(git.refs(REPO), before)
        else:
            tap.contains(r.out, "passed", str(r))
            tap.equal(len(git.refs(REPO)), len(before) + n)


if __name__ == "__main__":
    tap.main()
