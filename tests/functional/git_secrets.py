"""No push brings a secret of the vault's to a server: it is found in files of any size, in what a delta adds, in messages and
names, in base64, whoever it would be lent to; and nobody but the keeper has it for that."""
import base64
import os
import re
import time

import exeat
import pushes
import tap
import work
from gitserver import GitServer
from lfsserver import TYPE, LfsServer

REPO = pushes.REPO
LENT = "SECRET-lent-9f3Kq7Lm2Xz8Rt5Vb1Nc6Pw4"  # 36 bytes
UNLENT = "SECRET-head-that-two-have-8d7c6b5a-Zx9Yw8Vu7Ts6Rq5Po4"
SHORT = "SECRET-A"
POLICY = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* refs/tags/* create update delete with forge\n"
LOOKING = POLICY + "deny push https://g.test/acme/app paths .github/**\n"
VAULT = (pushes.VAULT + "credential helped\n    for https://other.test\n    from exec /bin/echo %s\n    inject bearer\n" % UNLENT
         + "credential short\n    for https://other.test\n    from env SHORT_TOKEN\n    inject header X-Key\n")
ENV = {"FORGE_TOKEN": LENT, "SHORT_TOKEN": SHORT}
COMMIT = "git add -A; git commit -qm work; "
PUSH = "git push origin HEAD:refs/heads/fix/1 2>&1 || echo refused-$?"


def serve(t, **repository):
    git = t.use(GitServer(tls=pushes.pki().leaf("g.test"), users={"x-access-token": LENT}))
    git.create(REPO, **repository)
    return git


def coded(secret, before=""):
    return base64.b64encode((before + secret).encode()).decode()


def run(git, command, policy=POLICY, **more):
    """Nothing that anybody may read holds a secret."""
    log = os.path.join(work.folder("log."), "log")
    os.chmod(os.path.dirname(log), 0o777)
    r = exeat.run(policy, pushes.CLONE + command,
                  **pushes.options(git, **{"timeout": 120, "vault": VAULT, "env": ENV, "log": log, **more}))
    texts = r.out + r.err
    for folder, _, files in os.walk(os.path.dirname(log)):
        for name in files:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                texts += f.read()
    for secret in (LENT, UNLENT, LENT[18:], UNLENT[27:]):
        for word in (secret, coded(secret), coded("x-access-token:" + secret)):
            tap.lacks(texts, word)
    return r


def objects(git):
    return git.git(REPO, "cat-file", "--batch-all-objects", "--batch-check")


def refused(r, where, name="forge", code="secret"):
    """The one push was refused for this credential's secret, in such a place. Returns the record."""
    tap.contains(r.out, "refused-1", r)
    verdict = r.verdict(verdict="deny")
    tap.equal(verdict["code"], code, r)
    tap.contains(verdict["reason"], "the secret of credential '%s' is in " % name)
    if not re.search(where, verdict["reason"]):
        raise AssertionError("%r is not in %r" % (where, verdict["reason"]))
    tap.contains(r.out, "(exeat: %s [%s])" % (verdict["reason"], verdict["id"]))
    return verdict


@tap.test
def git_says_which_credential_and_where(t):
    git = serve(t)
    before = objects(git)
    r = run(git, "printf 'token = %s\\n' > config; " % LENT + COMMIT + "git rev-parse HEAD:config; " + PUSH)
    verdict = refused(r, "blob [0-9a-f]{40}$")
    blob = r.out.split("\n")[0]
    lines = [line.rstrip() for line in r.out.replace("remote: ", "remote: ").split("\n")]
    tap.equal(lines[1:], [
        "remote: exeat: push refused: the secret of credential 'forge' is in blob %s" % blob,
        "remote: exeat: to find it: git log --all --find-object=%s" % blob,
        "remote: exeat: sandbox %s, decision %s" % (verdict["sandbox"], verdict["id"]),
        "To https://g.test/acme/app.git",
        " ! [remote rejected] HEAD -> fix/1 (exeat: the secret of credential 'forge' is in blob %s [%s])" % (blob, verdict["id"]),
        "error: failed to push some refs to 'https://g.test/acme/app.git'",
        "refused-1", ""])
    tap.equal(verdict["git"]["refs"][0]["ref"], "refs/heads/fix/1")
    tap.equal(objects(git), before)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/main"])
    # one byte of it is another, and it passes
    r = run(git, "printf 'token = %s\\n' > config; " % (LENT[:-1] + "x") + COMMIT + PUSH + "; git rev-parse HEAD >&2")
    tap.lacks(r.out, "refused", r)
    tap.equal(git.refs(REPO)["refs/heads/fix/1"], r.err.strip().split("\n")[-1])


PLACES = {
    "base64": ("echo %s > f; " % coded(LENT) + COMMIT, "blob .*, in base64$"),
    "a header": ("echo 'Authorization: Basic %s' > f; " % coded(LENT, "x-access-token:") + COMMIT, "blob .*, in base64$"),
    "base64 of something larger": ("echo '{\"k\": \"%s\"}' | base64 -w0 > f; " % LENT + COMMIT, "blob .*, in base64$"),
    "a binary file": ("head -c 70000 /dev/urandom > f; printf %s >> f; head -c 999 /dev/urandom >> f; " % LENT + COMMIT, "blob [0-9a-f]{40}$"),
    "a message": ("git commit -q --allow-empty -m 'use %s'; " % LENT, "commit [0-9a-f]{40}$"),
    "a name": ("echo > %s.txt; " % LENT + COMMIT, "tree [0-9a-f]{40}$"),
    "a removed file": ("echo %s > f; " % LENT + COMMIT + "git rm -q f; git commit -qm gone; ", "blob [0-9a-f]{40}$"),
}


@tap.test(timeout=300)
def it_is_found_wherever_it_is(t):
    git = serve(t)
    before = objects(git)
    for name, (command, where) in PLACES.items():
        r = run(git, command + PUSH)
        try:
            refused(r, where)
        except AssertionError as e:
            raise AssertionError("%s: %s" % (name, e)) from e
    tap.equal(objects(git), before)


@tap.test
def a_tag_is_looked_through(t):
    git = serve(t)
    r = run(git, "git tag -a -m 'it is %s' v1; git push origin v1 2>&1 || echo refused-$?" % LENT)
    refused(r, "tag [0-9a-f]{40}$")
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/main"])


@tap.test(timeout=200)
def a_file_of_fifty_mebibytes_is_looked_through_while_it_streams(t):
    git = serve(t)
    before = objects(git)
    big = "head -c 26214400 /dev/urandom > f; printf %s >> f; head -c 26214364 /dev/urandom >> f; "
    for policy in (POLICY, LOOKING):
        r = run(git, big % LENT + COMMIT + PUSH, policy=policy)
        refused(r, "in a blob of 52428800 bytes$")
        time.sleep(0.3)
        tap.equal(objects(git), before)
    r = run(git, big % (LENT[:-1] + "x") + COMMIT + PUSH + "; git rev-parse HEAD >&2")
    tap.lacks(r.out, "refused", r)
    tap.equal(git.refs(REPO)["refs/heads/fix/1"], r.err.strip().split("\n")[-1])


@tap.test(timeout=200)
def what_a_delta_adds_is_looked_through(t):
    git = serve(t)
    lines = "".join("line %d of a file that is long enough for deltas\n" % i for i in range(400))
    at = git.commit(REPO, "refs/heads/fix/1", {"f": lines + "old: %s\n" % (UNLENT[:27] + "another-one-than-that-0123") + lines})
    before = objects(git)
    change = "git checkout -q fix/1; sed -i '%s' f; " + COMMIT
    # the one that a helper printed, which no rule lends; its head is a part of the file that the server has
    for edit, name in (("200s/$/ %s/" % LENT, "forge"), ("401s/.*/old: %s/" % UNLENT, "helped")):
        r = run(git, change % edit + PUSH)
        refused(r, "in what was changed in a file of now [0-9]+ bytes$", name=name)
    tap.equal(objects(git), before)
    tap.equal(git.refs(REPO)["refs/heads/fix/1"], at)
    r = run(git, change % "200s/$/ nothing/" + PUSH)
    tap.lacks(r.out, "refused", r)


@tap.test
def sha256_and_several_refs(t):
    git = serve(t, sha256=True)
    r = run(git, "echo %s > f; " % UNLENT + COMMIT + "git push origin HEAD:refs/heads/fix/1 HEAD:refs/heads/fix/2 2>&1 || echo refused-$?")
    refused(r, "blob [0-9a-f]{64}$", name="helped")
    tap.equal(r.out.count("[remote rejected]"), 2)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/main"])


@tap.test
def what_brings_nothing_passes(t):
    git = serve(t)
    r = run(git, "git push -q origin HEAD:refs/heads/fix/1; git push -q origin :refs/heads/fix/1; git push -q origin HEAD:refs/heads/fix/2")
    tap.equal(r.code, 0, r)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/fix/2", "refs/heads/main"])


@tap.test
def a_short_one_is_said_not_to_be_looked_for(t):
    git = serve(t)
    r = run(git, "echo %s > f; " % SHORT + COMMIT + PUSH)
    tap.lacks(r.out, "refused", r)
    tap.contains(r.err, "exeat: not looked for in pushes, since it is too short or too simple: the secret of 'short'\n")
    # without a rule for pushes it is nobody's concern
    tap.lacks(run(git, "true", policy=pushes.FETCH).err, "not looked for")


# ---- the command list ----

def told(r, ref):
    verdict = r.verdict(verdict="deny")
    why = "the secret of credential 'forge' is in the name of a ref or an option of the push"
    tap.equal(r.out.replace(LENT, "LENT").split("\n"), [
        "remote: exeat: push refused: " + why,
        "remote: exeat: sandbox %s, decision %s" % (verdict["sandbox"], verdict["id"]),
        "To https://g.test/acme/app.git",
        " ! [remote rejected] %s (exeat: %s [%s])" % (ref, why, verdict["id"]),
        "error: failed to push some refs to 'https://g.test/acme/app.git'", "refused-1", ""])
    tap.equal((verdict["code"], verdict["reason"]), ("secret", why))
    tap.ok("refs" not in verdict["git"] and "options" not in verdict["git"], verdict)


@tap.test
def the_name_of_a_ref_and_an_option_are_looked_through(t):
    git = serve(t)
    git.git(REPO, "update-ref", "refs/heads/fix/" + LENT, "refs/heads/main")
    before = git.refs(REPO)
    # the clone is shown no ref but main: the record of a fetch tells those that it is for
    limited = POLICY.replace("acme/app with", "acme/app refs/heads/main with", 1)
    push = "git push %s 2>&1 | sed 's/ *$//; s/%s/LENT/g'; echo refused-1"
    for words, ref in (("origin HEAD:refs/heads/fix/1-" + LENT, "HEAD -> fix/1-LENT"), ("-o token=%s origin HEAD:refs/heads/fix/1" % LENT, "HEAD -> fix/1"),
                       ("origin :refs/heads/fix/" + LENT, "fix/LENT")):
        told(run(git, push % (words, LENT), policy=limited.strip() + " options **\n"), ref)
    tap.equal(git.refs(REPO), before)
    # what the policy refuses anyway is not looked through, but no option's value is recorded
    r = run(git, push % ("-o token=%s origin HEAD:refs/heads/fix/1" % LENT, LENT), policy=limited)
    tap.equal(r.verdict(verdict="deny")["reason"], "refs/heads/fix/1: test.policy:2 would permit it, but for `token`: a push option that it does not name")
    # what looks like one and is none: the keeper is asked, and it passes, with a pack and without
    other = LENT[:-1] + "x"
    r = run(git, "git push -q -o %s origin HEAD:refs/heads/fix/%s; git push -q origin :refs/heads/fix/%s" % (other, other, other),
            policy=limited.strip() + " options **\n")
    tap.equal(r.code, 0, r)
    tap.equal([v["git"]["refs"][0]["ref"] for v in pushes.judged(r, verdict="allow")], ["refs/heads/fix/" + other] * 2)


# ---- Git LFS ----

LARGE = POLICY + "allow lfs https://g.test/acme/app download upload with forge\nallow GET,PUT https://store.test/store/*\n"
TRACK = "git lfs install --local >/dev/null; git config lfs.transfer.maxretries 1; git lfs track '*.bin' >/dev/null; "
OBJECT = "the secret of credential 'forge' is in this object of Git LFS"


def serve_lfs(t, **options):
    work.need("git-lfs")
    lfs = t.use(LfsServer(tls=pushes.pki().leaf("g.test", "store.test"), users={"x-access-token": LENT}, **options))
    lfs.create(REPO)
    return lfs


def run_lfs(lfs, command, **more):
    return run(lfs, TRACK + command, policy=LARGE, resolve=[lfs.resolve("g.test"), lfs.resolve("store.test")], **more)


def puts(lfs):
    return [h.status for h in lfs.hits if h.method == "PUT"]


@tap.test(timeout=200)
def an_object_of_git_lfs_is_looked_through(t):
    """an object of Git LFS is looked through, whether or not its server hands out a token for it"""
    for fields in (True, False):
        lfs = serve_lfs(t, fields=fields)
        r = run_lfs(lfs, "printf 'key = %s\n' > a.bin; " % LENT + COMMIT + PUSH)
        denied = r.verdicts(verdict="deny")  # git-lfs tries once more
        tap.equal({(v["code"], v["reason"], v["method"]) for v in denied}, {("secret", OBJECT, "PUT")})
        lines = [line for line in r.out.split("\n") if "Uploading LFS objects" not in line]  # progress, now and then
        tap.equal(lines[-4:], ["LFS: exeat: denied: %s [%s]" % (OBJECT, denied[-1]["id"]),
                               "error: failed to push some refs to 'https://g.test/acme/app.git'", "refused-1", ""])
        tap.equal((lfs.objects, sorted(lfs.refs(REPO)), [s for s in puts(lfs) if s]), ({}, ["refs/heads/main"], []))
        r = run_lfs(lfs, "printf 'key = %s\n' > a.bin; : > empty.bin; " % (LENT[:-1] + "x") + COMMIT + PUSH)
        tap.lacks(r.out, "refused", r)
        tap.equal(([len(o) for o in lfs.objects.values()], puts(lfs)[-1:]), ([43], [200]))
        sent = [h for h in lfs.hits if h.method == "PUT" and h.status][0].request
        tap.equal((len(sent.all("authorization")), sent.all("x-exeat-upload")), (fields, []))
        tap.equal([v.get("lfs") for v in r.verdicts(method="PUT")], [{"fields": 2} if fields else None])


@tap.test(timeout=200)
def a_large_object_of_git_lfs_streams_and_its_end_is_held_back(t):
    lfs = serve_lfs(t)
    big = "head -c 30000000 /dev/urandom > a.bin; printf %s >> a.bin; "
    r = run_lfs(lfs, big % LENT + COMMIT + PUSH)
    tap.contains(r.out, "exeat: denied: " + OBJECT)
    tap.equal((lfs.objects, [s for s in puts(lfs) if s]), ({}, []))
    tap.ok(max(len(c.received) for c in lfs.connections) > 20000000, "it did not stream")
    r = run_lfs(lfs, big % (LENT[:-1] + "x") + COMMIT + PUSH)
    tap.lacks(r.out, "refused", r)
    tap.equal([len(o) for o in lfs.objects.values()], [30000036])
    outcome = r.outcome_of(r.verdict(method="PUT"))
    tap.equal((outcome["status"], outcome["sent"]), (200, 30000036))


@tap.test
def an_object_in_chunks_and_one_that_waits_for_a_word(t):
    """an object that comes in chunks, and one that waits for a word (Expect), in either version of HTTP"""
    lfs = serve_lfs(t)
    batch = ("curl -sS -H 'Accept: %s' -H 'Content-Type: %s' -d '{\"operation\":\"upload\",\"objects\":[{\"oid\":\"'$o'\",\"size\":9}]}' "
             "https://g.test/acme/app.git/info/lfs/objects/batch >/dev/null; " % (TYPE, TYPE))
    put = ("curl -sS %s -w '%%{http_code}\n' -H 'Authorization: kept-by-exeat' https://store.test/store/$o; ")
    for version in ("--http1.1 ", "--http2 "):
        for i, words in enumerate((version + "-H 'Expect:' -H 'Transfer-Encoding: chunked' -T f", version + "-H 'Expect: 100-continue' -T f")):
            for secret, status in ((LENT, "403"), (LENT[:-1] + str(i), "200")):
                r = run(lfs, "head -c 200000 /dev/urandom > f; printf %s%s >> f; o=$(sha256sum f | cut -c1-64); " % (i, secret) + batch + put % words,
                        policy=LARGE, resolve=[lfs.resolve("g.test"), lfs.resolve("store.test")])
                tap.equal(r.out.strip()[-3:], status, (words, r))
    tap.equal((len(lfs.objects), [s for s in puts(lfs) if s]), (4, [200] * 4))


if __name__ == "__main__":
    tap.main()
