"""What a push changes is judged by its trees: real histories, pushed by git to a real server, with rules about paths, sizes, identities, numbers and signatures."""
import subprocess

import pushes
import tap
import work
from gitserver import ENV

REPO = pushes.REPO
RULES = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* create update force with forge\n"
POLICY = RULES + "deny push https://g.test/acme/app paths .github/** .gitmodules note \"workflows are not for agents\"\n"
CLONE = pushes.CLONE.replace("cd w; ", "cd w; git config advice.detachedHead false; ")
BIG = "head -c 3000000 /dev/urandom > big; git add big; git commit -qm big; "
PUT = "put() { mkdir -p $(dirname $1); echo \"$2\" > $1; git add -A; }; ci() { git commit -q --allow-empty -m \"$1\"; }; "


def serve(t, sha256=False, config=None):
    """main has three commits that change .github/ci and src/m; fix/1 has one of its own upon the first."""
    git = pushes.serve(t, repo=False)
    git.create(REPO, sha256=sha256, empty=True, config=config)
    script = PUT + """
        git init -q %s -b main .; put .github/ci v1; put .github/keep 1; put src/a 1; put src/m 1; put docs/x 1; ci base; git tag base
        put .github/ci v2; put src/m 2; ci v2; git tag v2; put .github/ci v3; put src/m 3; ci v3; git tag v3
        git checkout -q -b fix/1 base; put mine 1; ci f1; git push -q %s main fix/1 --tags
    """ % ("--object-format=sha256" if sha256 else "", git.path(REPO))
    subprocess.run(["sh", "-ec", script], cwd=work.folder("made."), env=ENV, check=True)
    return git


def push(git, policy, script, ref="fix/1", options="", **more):
    return pushes.run(git, policy, CLONE + PUT + "git checkout -q fix/1; %s\ngit push -q %s origin HEAD:%s && echo passed || echo refused-$?; git rev-parse HEAD"
                      % (script, options, ref), **more)


def passes(git, r, ref="refs/heads/fix/1"):
    tap.contains(r.out, "passed", str(r))
    tap.equal(git.refs(REPO)[ref], r.out.split()[-1], str(r))


def refused(git, r, refs, *words):
    tap.contains(r.out, "refused-1", str(r))
    tap.contains(r.err, "! [remote rejected]")
    for word in words:
        tap.contains(r.err, word, str(r))
    tap.equal(git.refs(REPO), refs)


# What is done upon fix/1, and the protected path that it changes; None: nothing of it.
CASES = [
    ("another file", "put src/a 2; put n/x 1; ci c", None),
    ("an addition", "put .github/new 1; ci c", ".github/new"),
    ("a change", "put .github/ci mine; ci c", ".github/ci"),
    ("a deletion", "git rm -q .github/keep; ci c", ".github/keep"),
    ("of all of it", "git rm -qr .github; ci c", ".github/"),
    ("a rename away", "git mv .github/keep kept; ci c", ".github/keep"),
    ("a rename into it", "git mv docs/x .github/x; ci c", ".github/x"),
    ("a mode", "chmod +x .github/ci; ci c; git add -A; git commit -qm mode", ".github/ci"),
    ("a link in it", "ln -s /etc/passwd .github/l; git add -A; ci c", ".github/l"),
    ("a link instead of it", "git rm -qr .github; ln -s docs .github; git add -A; ci c", ".github"),
    ("a submodule in it", "git update-index --add --cacheinfo 160000,$(git rev-parse base),.github/sub; ci c", ".github/sub"),
    ("a submodule elsewhere", "git update-index --add --cacheinfo 160000,$(git rev-parse base),sub; ci c", None),
    ("a submodule's file", "put .gitmodules x; ci c", ".gitmodules"),
    ("in other letters", "put .GitHub/ci x; ci c", ".GitHub/ci"),
    ("come and gone", "put .github/new 1; ci c; git rm -q .github/new; ci d", ".github/new"),
    ("history put back", "git checkout -q v2 -- .github; ci c", ".github/ci"),
    ("a tree of history put back", "git rm -qr src; git read-tree --prefix=.github/src v2:docs; ci c; git reset -q --hard", ".github/src/x"),
    ("main merged", "git merge -q -m m origin/main", None),
    ("main merged, then more", "git merge -q -m m origin/main; put mine 2; ci c", None),
    ("a part of main merged", "git merge -q -m m v2", None),
    ("a merge that invents", "git merge -q --no-commit origin/main >/dev/null 2>&1; put .github/evil 1; ci evil", ".github/evil"),
    ("a merge that changes", "git merge -q --no-commit origin/main >/dev/null 2>&1; put .github/ci evil; ci evil", ".github/ci"),
    ("a merge that takes what is old", "git merge -q --no-commit origin/main >/dev/null 2>&1; git checkout -q v2 -- .github; ci evil", ".github/ci"),
    ("a merge that drops", "git merge -q -s ours -m m origin/main", ".github/ci"),
    ("a merge of its own branches", "put p 1; ci p; git checkout -q -b q HEAD~1; put q 1; ci q; git merge -q -m m fix/1", None),
    ("nothing at all", "ci empty", None),
]


def run_case(git, before, script, path):
    r = push(git, POLICY, script)
    if path:
        refused(git, r, before, "denied by", "commit ", " changes " + path, "workflows are not for agents")
        tap.equal(r.verdict(verdict="deny")["code"], "denied-by-rule")
    else:
        passes(git, r)
        git.git(REPO, "fsck", "--strict")
        git.git(REPO, "update-ref", "refs/heads/fix/1", before["refs/heads/fix/1"])


def run_cases(t, cases, big="", **options):
    """All of them, so that it is seen which fail."""
    git = serve(t, **options)
    before, wrong = git.refs(REPO), []
    for name, script, path in cases:
        try:
            run_case(git, before, big + script, path)
        except AssertionError as error:
            wrong.append("%s: %s" % (name, error))
            git.git(REPO, "update-ref", "refs/heads/fix/1", before["refs/heads/fix/1"])
    tap.ok(not wrong, "\n".join(wrong))


@tap.test(timeout=500)
def each_kind_of_change_is_seen(t):
    run_cases(t, CASES)


@tap.test(timeout=500)
def in_a_push_that_streams_too(t):
    run_cases(t, CASES[1::3], big=BIG)


@tap.test(timeout=500)
def in_a_repository_of_sha256_too(t):
    run_cases(t, CASES[::3], sha256=True)


@tap.test(timeout=200)
def what_is_no_fast_forward_takes_nothing_back(t):
    git = serve(t)
    git.git(REPO, "update-ref", "refs/heads/fix/1", git.refs(REPO)["refs/tags/v3"])
    before = git.refs(REPO)
    r = push(git, POLICY, "git reset -q --hard v2", options="--force")
    refused(git, r, before, ".github/ci")
    r = push(git, POLICY, "git reset -q --hard v2; put n 1; ci n", options="--force")
    refused(git, r, before, ".github/ci")
    r = push(git, POLICY, "git reset -q --hard v3; put n 1; ci n", options="--force")
    passes(git, r)
    r = push(git, POLICY, "git commit -q --amend -m other", options="--force")
    passes(git, r)


@tap.test(timeout=200)
def a_branch_is_created_upon_what_the_server_has(t):
    git = serve(t)
    before = git.refs(REPO)
    r = push(git, POLICY, "git checkout -q v3; put n 1; ci n", ref="refs/heads/fix/2")
    passes(git, r, "refs/heads/fix/2")
    git.git(REPO, "update-ref", "-d", "refs/heads/fix/2")
    r = push(git, POLICY, "git checkout -q v3", ref="refs/heads/fix/2")
    passes(git, r, "refs/heads/fix/2")
    git.git(REPO, "update-ref", "-d", "refs/heads/fix/2")
    r = push(git, POLICY, "git checkout -q v3; put .github/ci 4; ci n", ref="refs/heads/fix/2")
    refused(git, r, before, " changes .github/ci")
    r = push(git, POLICY, "git checkout -q --orphan o; ci o", ref="refs/heads/fix/2")
    refused(git, r, before, " changes .github/")


@tap.test(timeout=200)
def what_lies_at_the_server_is_not_trusted_for_that(t):
    """A commit of a fork is at the same server, and no branch of the repository's own has it."""
    git = serve(t)
    script = PUT + "git clone -q %s .; git checkout -q base; put .github/ci theirs; ci theirs; git push -q origin HEAD:refs/pull/7/head" % git.path(REPO)
    subprocess.run(["sh", "-ec", script], cwd=work.folder("fork."), env=ENV, check=True)
    before = git.refs(REPO)
    fetch = "git fetch -q origin refs/pull/7/head; "
    for script in ("git reset -q --hard FETCH_HEAD", "git reset -q --hard FETCH_HEAD; put n 1; ci n", "git merge -q -m m FETCH_HEAD"):
        r = push(git, POLICY, fetch + script, options="--force")
        refused(git, r, before, " changes .github/ci")
    r = push(git, POLICY, fetch + "git checkout -q FETCH_HEAD", ref="refs/heads/fix/2")
    refused(git, r, before, " changes .github/ci")


@tap.test(timeout=200)
def what_main_holds_and_is_sent_once_more_is_not_brought(t):
    """git does not know the tip that main has by now, so it sends what main holds with its own commit."""
    git = serve(t)
    git.git(REPO, "tag", "-d", "base", "v2", "v3")
    before = git.refs(REPO)
    old = ("git checkout -q -b n origin/main~1; %s git branch -D -q main fix/1; git remote remove origin; git remote add origin https://g.test/acme/app.git; "
           "rm -rf .git/logs .git/FETCH_HEAD .git/ORIG_HEAD; git gc -q --prune=now; git rev-list HEAD | wc -l; ")
    for policy in (POLICY, pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* create max-commits 1 with forge\n"):
        r = push(git, policy, old % "put mine 2; ci own;", ref="refs/heads/fix/n")
        passes(git, r, "refs/heads/fix/n")
        tap.equal(r.out.split()[0], "3")
        tap.equal([e["reason"] for e in r.events("errand")], ["to see what a push changes"] * 3)
        git.git(REPO, "update-ref", "-d", "refs/heads/fix/n")
    # but what it does itself, and history that only looks like main's, is
    for own in ("put .github/ci evil; ci own;", "put mine 2; ci own; git filter-branch -f --msg-filter 'sed s/v2/v2x/' HEAD 2>/dev/null >&2; rm -rf .git/refs/original;"):
        r = push(git, POLICY, old % own, ref="refs/heads/fix/n")
        refused(git, r, before, ".github/ci")


@tap.test(timeout=200)
def nor_are_those_who_made_it(t):
    """Authors and committers of what main holds are not asked about where git sends it once more; of all else they are."""
    git = serve(t)
    git.git(REPO, "tag", "-d", "base", "v2", "v3")
    before = git.refs(REPO)
    old = ("git checkout -q -b n origin/main~1; export GIT_AUTHOR_EMAIL=own@x GIT_COMMITTER_EMAIL=own@x; put mine 2; ci own; %s git branch -D -q main fix/1; "
           "git remote remove origin; git remote add origin https://g.test/acme/app.git; rm -rf .git/logs .git/FETCH_HEAD .git/ORIG_HEAD; git gc -q --prune=now; git rev-list HEAD | wc -l; ")
    again = "git filter-branch -f --msg-filter 'sed s/v2/v2x/' HEAD 2>/dev/null >&2; rm -rf .git/refs/original;"
    for who in ("author", "committer"):
        policy = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* create %s *<own@x> with forge\n" % who
        r = push(git, policy, old % "", ref="refs/heads/fix/n")
        passes(git, r, "refs/heads/fix/n")
        tap.equal(r.out.split()[0], "3")
        git.git(REPO, "update-ref", "-d", "refs/heads/fix/n")
        r = push(git, policy, old % again, ref="refs/heads/fix/n")
        refused(git, r, before, "has the %s " % who)


@tap.test(timeout=200)
def nor_is_a_branch_trusted_for_the_options_of_this_push(t):
    """What may be pushed to without an option is no more the server's own when a push has one."""
    git = serve(t)
    policy = pushes.FETCH + ("allow push https://g.test/acme/app refs/heads/main update paths src/** options topic=* with forge\n"
                             "allow push https://g.test/acme/app refs/heads/tmp/* create with forge\n")
    main = git.refs(REPO)["refs/heads/main"]
    r = push(git, policy, "git checkout -q main; put .github/ci evil; ci evil", ref="refs/heads/tmp/1")
    passes(git, r, "refs/heads/tmp/1")
    for options in ("", "-o topic=x"):
        r = push(git, policy, "git checkout -q origin/tmp/1", ref="main", options=options)
        refused(git, r, {**git.refs(REPO), "refs/heads/main": main}, " changes .github/ci")
        r = push(git, policy, "git checkout -q main; put src/a '2 %s'; ci c" % options, ref="main", options=options)
        passes(git, r, "refs/heads/main")
        git.git(REPO, "update-ref", "refs/heads/main", main)


GZIPPED = r"""cat > ../g.py <<'END'
import gzip, subprocess
def git(*a, stdin=None): return subprocess.run(("git",) + a, input=stdin, stdout=subprocess.PIPE, check=True).stdout
old, new = git("rev-parse", "origin/fix/1", "HEAD").decode().split()
line = ("%s %s refs/heads/fix/1\0 report-status" % (old, new)).encode()
pack = git("pack-objects", "-q", "--revs", "--thin", "--stdout", stdin=("%s\n^%s\n" % (new, old)).encode())
open("../body", "wb").write(gzip.compress(b"%04x%s0000" % (len(line) + 4, line) + pack))
END
python3 ../g.py; curl -sS -H 'Content-Encoding: gzip' -H 'Content-Type: application/x-git-receive-pack-request' -H 'Expect:' \
    --data-binary @../body https://g.test/acme/app.git/git-receive-pack | tr -d '\000'; echo; git rev-parse HEAD
"""


@tap.test
def a_push_in_a_gzip_body(t):
    """Short and long: judged whole, and as it streams."""
    git = serve(t)
    before = git.refs(REPO)
    start = CLONE + PUT + "git checkout -q fix/1; "
    for more in ("", BIG):
        r = pushes.run(git, POLICY, start + more + "put .github/ci mine; ci c; " + GZIPPED)
        tap.contains(r.out, "ng refs/heads/fix/1 exeat: ", str(r))
        tap.contains(r.verdict(verdict="deny")["reason"], " changes .github/ci")
        tap.equal(git.refs(REPO), before)
    r = pushes.run(git, POLICY, start + "put src/a 2; ci c; " + GZIPPED)
    tap.contains(r.out, "ok refs/heads/fix/1", str(r))
    tap.equal(git.refs(REPO)["refs/heads/fix/1"], r.out.split()[-1])


@tap.test(timeout=200)
def all_refs_stand_or_fall_together(t):
    git = serve(t)
    before = git.refs(REPO)
    r = push(git, POLICY, "put a 1; ci a; git branch good; put .github/ci 1; ci b", ref="refs/heads/fix/2 good:refs/heads/fix/3")
    refused(git, r, before, "fix/2 (exeat: denied by", "fix/3 (exeat: refused with the rest of this push")
    r = push(git, POLICY, "put a 1; ci a; git branch good; put b 1; ci b", ref="refs/heads/fix/2 good:refs/heads/fix/3")
    passes(git, r, "refs/heads/fix/2")


@tap.test(timeout=300)
def only_some_paths_are_allowed(t):
    policy = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* paths docs/** *.md with forge\n"
    git = serve(t)
    before = git.refs(REPO)
    r = push(git, policy, "put docs/y 1; put README.md 1; ci c")
    passes(git, r)
    git.git(REPO, "update-ref", "refs/heads/fix/1", before["refs/heads/fix/1"])
    r = push(git, policy, "put docs/y 1; put src/a 2; ci c")
    refused(git, r, before, "would permit it, but for `paths`: commit ", " changes src/a")
    r = push(git, policy, "put docs/y 1; ci c; put src/a 2; ci d; put src/a 1; ci e")
    refused(git, r, before, " changes src/a")


LIMITS = [
    ("max-size 100KiB", "put n 1; ci n", "head -c 3000000 /dev/urandom > n; git add n; ci n", "max-size"),
    ("max-blob 100KiB", "head -c 90000 /dev/urandom > n; cp n m; cp n o; git add -A; ci n", "head -c 110000 /dev/urandom > n; git add n; ci n", "max-blob"),
    ("max-blob 100KiB", "put n 1; ci n", "head -c 9000000 /dev/urandom > n; git add n; ci n", "max-blob"),
    ("max-commits 3", "ci 1; ci 2; ci 3", "ci 1; ci 2; ci 3; ci 4", "max-commits"),
    ('author "*<*@example.com>"', "git commit -q --allow-empty --author 'A B <a@example.com>' -m a", "git commit -q --allow-empty --author 'A <a@example.org>' -m a",
     "has the author A <a@example.org>"),
    ("committer *<c@x>", "GIT_COMMITTER_EMAIL=c@x git commit -q --allow-empty -m a", "GIT_COMMITTER_EMAIL=d@x git commit -q --allow-empty -m a", "<d@x>"),
]


@tap.test(timeout=300)
def limits_and_identities(t):
    git = serve(t)
    before = git.refs(REPO)
    for option, good, bad, word in LIMITS:
        policy = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* %s with forge\n" % option
        r = push(git, policy, "" + good)
        passes(git, r)
        git.git(REPO, "update-ref", "refs/heads/fix/1", before["refs/heads/fix/1"])
        hits = len(git.hits)
        r = push(git, policy, "" + bad)
        refused(git, r, before, "would permit it, but for `%s`" % option.split()[0], word)
        tap.equal(r.verdict(verdict="deny")["code"], option.split()[0])


@tap.test(timeout=300)
def what_is_too_large_is_cut_off_at_once(t):
    """Of sixty megabytes not one more reaches the server than the rule permits, and what was on the way."""
    git = serve(t)
    before = git.refs(REPO)
    policy = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* max-size 2MiB with forge\n"
    r = push(git, policy, "head -c 60000000 /dev/urandom > n; git add n; ci n")
    refused(git, r, before, "max-size")
    tap.equal(git.git(REPO, "count-objects", "-v").split("size-garbage")[0].count("garbage: 0"), 1)


SIGN = """cat > ../gpg <<'END'
#!/bin/sh
cat > /dev/null; printf '\\n[GNUPG:] SIG_CREATED ' >&2; printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'
END
chmod +x ../gpg; git config gpg.program $PWD/../gpg; git config user.signingkey x; """


@tap.test(timeout=200)
def every_commit_is_signed(t):
    git = serve(t)
    before = git.refs(REPO)
    policy = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* signed with forge\n"
    r = push(git, policy, SIGN + "git commit -q -S --allow-empty -m a; git commit -q --allow-empty -m b")
    refused(git, r, before, "`signed`")
    r = push(git, policy, SIGN + "git commit -q -S --allow-empty -m a; git commit -q -S --allow-empty -m b")
    passes(git, r)


@tap.test(timeout=200)
def a_server_that_does_not_answer_leaves_it_unknown(t):
    git = serve(t)
    before = git.refs(REPO)
    backend = git._backend

    def mute(connection, request, hit):
        if any(v.startswith("exeat/") for v in request.all("user-agent")):
            connection.close()
        else:
            backend(connection, request, hit)
    git._backend = mute
    r = push(git, POLICY, "put src/a 2; ci c")
    refused(git, r, before, "denied by", "the server was asked in vain")


@tap.test(timeout=200)
def a_deletion_brings_nothing(t):
    git = serve(t)
    policy = POLICY + "allow push https://g.test/acme/app refs/heads/fix/* delete with forge\n"
    r = pushes.run(git, policy, CLONE + "git push -q origin :fix/1 && echo passed")
    tap.contains(r.out, "passed", str(r))
    tap.lacks(git.refs(REPO), "refs/heads/fix/1")


if __name__ == "__main__":
    tap.main()
