#!/usr/bin/env python3
"""A fetch that is kept to some refs: what real git sees and gets in protocol versions 0, 1 and 2, and what is refused when it
is asked for by hand."""
import gzip
import json
import os
import textwrap

import exeat
import pushes
import tap
import work
from servers import RawServer, response

LIMITED = "allow fetch https://g.test/acme/app refs/heads/main refs/heads/rel/* refs/tags/v* with forge\n"
DENIED = pushes.FETCH + "deny fetch https://g.test/acme/app refs/heads/hidden refs/tags/secret\n"
URL = "https://g.test/acme/app.git"
VERSIONS = [0, 1, 2]


class Repository:
    """acme/app.git: main of four commits, rel/1 on its first, a hidden branch on its second, a tag of each kind."""

    def __init__(self, t, **options):
        self.git = pushes.serve(t, repo=False)
        self.git.create(pushes.REPO, **options)
        for key in ("uploadpack.allowAnySHA1InWant", "uploadpack.allowRefInWant", "uploadpack.advertiseBundleURIs"):
            self.git.git(pushes.REPO, "config", key, "true")
        self.main = [self.git.refs(pushes.REPO)["refs/heads/main"]]
        for i in range(3):
            self.main.append(self.commit("refs/heads/main", {"README": "hello %d\n" % i}, self.main[-1]))
        self.git.git(pushes.REPO, "update-ref", "refs/heads/rel/1", self.main[0])
        self.middle = self.commit("refs/heads/hidden", {"README": "x\n", "secret": "SECRET-MIDDLE\n"}, self.main[1])
        self.hidden = self.commit("refs/heads/hidden", {"README": "x\n", "secret": "SECRET-TIP\n"}, self.middle)
        for name, what in (("v1", "refs/heads/main"), ("secret", "refs/heads/hidden")):
            self.git.git(pushes.REPO, "tag", "-a", "-m", "tag " + name, name, what)
        # a tag whose commit is part of main, so that git would send it along
        self.git.git(pushes.REPO, "tag", "-a", "-m", "SECRET-TAG", "internal", self.main[1])
        self.blob = self.git.git(pushes.REPO, "rev-parse", "refs/heads/hidden:secret").strip()
        self.readme = self.git.git(pushes.REPO, "rev-parse", "refs/heads/main:README").strip()

    def commit(self, ref, files, parent):
        return self.git.commit(pushes.REPO, ref, files, parent=parent)

    def tag(self, name):
        return self.git.git(pushes.REPO, "rev-parse", "refs/tags/" + name).strip()

    def run(self, command, policy=LIMITED, version=2, **options):
        command = "set -e; cd; git config --global protocol.version %d; git config --global advice.detachedHead false\n%s" % (version, command)
        return pushes.run(self.git, policy, command, **options)


def names(r):
    """What ls-remote printed."""
    return sorted(line.split("\t")[1] for line in r.out.splitlines() if "\t" in line)


def each_version(function):
    for version in VERSIONS:
        def one(t, version=version):
            function(t, version)
        tap.test(one, name="%s, version %d" % (function.__name__.replace("_", " "), version))
    return function


SEEN = ["HEAD", "refs/heads/main", "refs/heads/rel/1", "refs/tags/v1", "refs/tags/v1^{}"]


@each_version
def only_permitted_refs_are_listed(t, version):
    repo = Repository(t)
    r = repo.run("git ls-remote " + URL, version=version)
    tap.equal(names(r), SEEN)
    r = repo.run("git ls-remote --symref %s HEAD" % URL, version=version)
    tap.contains(r.out, "ref: refs/heads/main\tHEAD")
    r = repo.run("git ls-remote " + URL, policy=DENIED, version=version)
    tap.equal(names(r), sorted(SEEN + ["refs/tags/internal", "refs/tags/internal^{}"]))
    r = repo.run("git ls-remote " + URL, policy=pushes.FETCH, version=version)
    tap.contains(names(r), "refs/heads/hidden")


@each_version
def a_clone_holds_what_permitted_refs_lead_to(t, version):
    repo = Repository(t)
    r = repo.run("git clone -q %s w; cd w; cat README; git branch -r; git tag; git symbolic-ref refs/remotes/origin/HEAD; git rev-list --objects --all; "
                 "git fsck --full; git cat-file --batch-check --batch-all-objects" % URL, version=version)
    tap.equal(r.code, 0)
    for word in ("hello 2", "origin/main", "origin/rel/1", "v1", "refs/remotes/origin/main", repo.main[0]):
        tap.contains(r.out, word)
    for word in ("hidden", "secret", "internal", repo.hidden, repo.middle, repo.blob, repo.tag("internal"), repo.tag("secret")):
        tap.lacks(r.out, word)
    # one decision a request, and the server never saw the ones that stayed here
    tap.equal({v["verdict"] for v in r.verdicts()}, {"allow"})


@each_version
def a_hidden_tag_of_a_permitted_commit_stays_hidden(t, version):
    repo = Repository(t)
    # git asks for the tags of what it gets, and the server would send each that it has
    r = repo.run("git clone -q --single-branch --branch main %s w; cd w; git cat-file --batch-check --batch-all-objects; git fetch -q --tags; git tag" % URL, version=version)
    tap.equal((r.code, r.out.splitlines()[-1]), (0, "v1"))
    tap.lacks(r.out, repo.tag("internal"))
    r = repo.run("git clone -q --single-branch --branch main %s w; cd w; git tag" % URL, policy=pushes.FETCH, version=version)
    tap.equal(r.out.split(), ["internal", "v1"])


@each_version
def one_branch_and_shallow_clones(t, version):
    repo = Repository(t)
    r = repo.run("git clone -q --depth 1 --branch main %s w; cd w; git rev-list HEAD | wc -l; git fetch -q --deepen 1; git rev-list HEAD | wc -l; "
                 "git fetch -q --depth 3; git rev-list HEAD | wc -l; git fetch -q --unshallow; git rev-list HEAD | wc -l; "
                 "git fetch -q origin rel/1; git rev-parse FETCH_HEAD; git fetch -q --shallow-exclude=refs/heads/rel/1 %s main; git rev-list FETCH_HEAD | wc -l" % (URL, URL),
                 version=version)
    tap.equal(r.out.split(), ["1", "2", "3", "4", repo.main[0], "3"])


@each_version
def a_hidden_branch_is_none(t, version):
    repo = Repository(t)
    r = repo.run("git init -q w; cd w; set +e; git fetch %s hidden; echo exit $?; git fetch %s refs/heads/main refs/heads/hidden; echo exit $?" % (URL, URL), version=version)
    tap.equal(r.out.split(), ["exit", "128", "exit", "128"])
    tap.contains(r.err, "couldn't find remote ref hidden")


class ById(Repository):
    """Of a server that is asked for objects by their ids alone, as most are."""

    def __init__(self, t, **options):
        super().__init__(t, **options)
        self.git.git(pushes.REPO, "config", "uploadpack.allowRefInWant", "false")


def told(verdict):
    """What the record of a request to git-upload-pack says of it."""
    git = verdict["git"]
    return git["command"], [(ref["ref"], ref.get("new")) for ref in git.get("refs", [])], git.get("omitted", 0)


@each_version
def the_record_tells_what_was_fetched(t, version):
    repo = ById(t)
    names = {("refs/heads/main", repo.main[3]), ("refs/heads/rel/1", repo.main[0]), ("refs/tags/v1", repo.tag("v1")), ("refs/tags/v1", repo.main[3])}
    hidden = {("refs/heads/hidden", repo.hidden), ("refs/tags/secret", repo.tag("secret")), ("refs/tags/secret", repo.hidden), ("refs/tags/internal", repo.tag("internal"))}
    for policy in (LIMITED, pushes.FETCH):
        r = repo.run("git clone -q %s w; git init -q x; cd x; git fetch -q --no-tags %s rel/1; git fetch -q --no-tags --depth=1 %s HEAD" % (URL, URL, URL),
                     policy=policy, version=version, workers=3)
        posted = [told(v) for v in r.verdicts(method="POST")]
        fetched = [(set(refs), omitted) for command, refs, omitted in posted if command == "fetch"]
        # of an object all that the list said: the one for HEAD alone said nothing of tags
        head = {ref for ref in names if ref[1] == repo.main[3] and (version < 2 or ref[0] == "refs/heads/main")}
        for refs in (names if policy == LIMITED else names | hidden, {("refs/heads/rel/1", repo.main[0])}, head):
            tap.contains(fetched, (refs, 0))
        tap.equal({len(refs) for refs, _ in fetched}, {len(names if policy == LIMITED else names | hidden), 1, len(head)})
        tap.equal([p for p in posted if p[0] != "fetch"], [("ls-refs", [], 0)] * (3 if version == 2 else 0))


@tap.test
def the_record_tells_refs_that_were_fetched_by_name(t):
    repo = Repository(t)
    r = repo.run("git clone -q --no-tags %s w; git init -q x; cd x; git fetch -q --no-tags %s HEAD" % (URL, URL), policy=pushes.FETCH, workers=2)
    fetched = [told(v)[1:] for v in r.verdicts(method="POST") if told(v)[0] == "fetch"]
    refs, omitted = fetched[0]
    tap.equal(({ref for ref, _ in refs}, {id for _, id in refs}, omitted), ({"refs/heads/main", "refs/heads/rel/1", "refs/heads/hidden"}, {None}, 0))
    tap.equal(fetched[1], ([("refs/heads/main", None)], 0))


@tap.test
def the_record_tells_all_names_of_what_was_fetched(t):
    repo = ById(t)
    for name in ("a", "z"):
        repo.git.git(pushes.REPO, "branch", name, "main")
    r = repo.run("git init -q w; cd w; git fetch -q --no-tags %s main; git init -q ../x; cd ../x; git fetch -q --no-tags %s %s" % (URL, URL, repo.main[2]),
                 policy=pushes.FETCH)
    # what the last list said: of the branch that was asked for; and what was shown by no name
    tap.equal([told(v)[1:] for v in r.verdicts(method="POST") if told(v)[0] == "fetch"], [([("refs/heads/main", repo.main[3])], 0), ([], 1)])
    # a clone shows them all
    r = repo.run("git clone -q --single-branch %s w" % URL, policy=pushes.FETCH)
    tap.equal([told(v)[1] for v in r.verdicts(method="POST") if told(v)[0] == "fetch"],
              [[(ref, repo.main[3]) for ref in ("refs/heads/a", "refs/heads/main", "refs/heads/z", "refs/tags/v1")]])
    # one of its names is permitted, and so was the clone
    r = repo.run("git clone -q --no-tags %s w" % URL, policy="allow fetch https://g.test/acme/app refs/heads/z with forge\n")
    tap.equal([told(v)[1] for v in r.verdicts(method="POST") if told(v)[0] == "fetch"], [[("refs/heads/z", repo.main[3])]])


def replayed(log, policy):
    """What `policy replay` says of a log."""
    folder = work.folder("replay.", user=exeat.as_user(), mode=0o755)
    work.write(os.path.join(folder, "p.policy"), policy + "\n")
    return json.loads(exeat.call("policy", "replay", "--json", log, os.path.join(folder, "p.policy")).out)


@tap.test
def more_refs_than_a_record_takes_are_counted(t):
    repo = ById(t)
    repo.git.git(pushes.REPO, "update-ref", "--stdin", stdin="".join("create refs/heads/same/%04d %s\n" % (i, repo.middle) for i in range(1200)).encode())
    r = repo.run("git clone -q --no-tags %s w; cd w; git branch -r | wc -l" % URL, policy=pushes.FETCH)
    tap.equal(r.out.split(), ["1204"])
    refs, omitted = [told(v)[1:] for v in r.verdicts(method="POST") if told(v)[0] == "fetch"][0]
    # the many names of one object do not fit: none of them is told, so that no other one is taken for all
    tap.equal((sorted(ref for ref, _ in refs), omitted), (["refs/heads/hidden", "refs/heads/main", "refs/heads/rel/1"], 1))
    now = replayed(r.log, "allow fetch https://g.test/acme/app refs/heads/** with forge")
    tap.equal((now["differ"], now["untold"]), (0, 1))
    now = replayed(r.log, "allow fetch https://g.test/acme/app refs/heads/main with forge")
    tap.equal((now["differ"], now["untold"]), (1, 0))


@tap.test
def replay_judges_recorded_fetches_by_their_refs(t):
    repo = ById(t)
    r = repo.run("git clone -q %s w; git init -q x; cd x; git fetch -q --no-tags %s rel/1; git fetch -q --no-tags %s main; git fetch -q --no-tags %s %s"
                 % (URL, URL, URL, URL, repo.middle), policy=pushes.FETCH)
    for policy, differ, untold in (
            (pushes.FETCH, [], 0),
            (pushes.FETCH + "deny fetch https://g.test/acme/app refs/heads/none", [], 1),
            ("allow fetch https://g.test/acme/app refs/heads/main refs/heads/rel/* with forge", ["refs/heads/hidden"], 1),
            ("allow fetch https://g.test/acme/app refs/heads/main with forge", ["refs/heads/hidden", "refs/heads/rel/1"], 1)):
        now = replayed(r.log, policy)
        tap.equal(sorted(g["example"].split(" ")[-1] for g in now["groups"] if g["verdict_now"] == "deny"), differ, policy)
        tap.equal(now["untold"], untold, policy)
        tap.equal(now["differ"], len(differ), policy)


@tap.test
def an_object_by_its_id(t):
    repo = Repository(t)
    r = repo.run("git init -q w; cd w; set +e; for id in %s %s %s; do git fetch -q %s $id; echo exit $?; done" % (repo.hidden, repo.middle, repo.blob, URL))
    tap.equal(r.out.split(), ["exit", "128"] * 3)
    for id in (repo.hidden, repo.middle, repo.blob):
        tap.contains(r.err, "fatal: remote error: exeat: denied: no ref that may be fetched leads to object %s; to permit: allow fetch https://g.test/acme/app also any-object [" % id[:12])
    denied = r.verdicts(verdict="deny")
    tap.equal([v["code"] for v in denied], ["object-not-shown"] * 3)
    tap.contains(r.err, denied[0]["id"])
    # all that the server was asked for is its refs: by git, and by exeat before it said no
    tap.equal(len(pushes.posts(repo.git, "git-upload-pack")), 6)
    tap.equal([e["reason"] for e in r.events("errand")], ["to see which refs there are"] * 3)


PUSHES = LIMITED + ("allow fetch https://g.test/acme/app refs/heads/fix/* with forge\n"
                    "allow push https://g.test/acme/app refs/heads/fix/* refs/heads/own create update delete with forge\n")


@tap.test
def a_push_is_not_shown_more_than_a_fetch(t):
    """Of the refs that are there a push is shown those that may be fetched or pushed to. By another's id one could push on top of it, and fetch it."""
    repo = Repository(t)
    own = repo.commit("refs/heads/own", {"README": "own\n"}, repo.main[0])
    look = "for v in 0 1 2; do curl -sS -H \"Git-Protocol: version=$v\" '%s/info/refs?service=git-receive-pack' | tr -d '\\000'; echo; done; " % URL
    r = repo.run(look, policy=PUSHES)
    tap.equal(sorted(word for word in r.out.replace("report-status", " ").split() if word.startswith("refs/")),
              sorted(["refs/heads/main", "refs/heads/own", "refs/heads/rel/1", "refs/tags/v1"] * 3))
    for word in ("hidden", "secret", "internal", repo.hidden, repo.middle, repo.tag("secret"), repo.tag("internal")):
        tap.lacks(r.out, word)
    tap.equal((r.out.count("side-band-64k"), r.out.count("version 1")), (3, 1))
    r = repo.run(look, policy=pushes.PUSH)
    tap.equal(r.out.count(repo.hidden + " refs/heads/hidden"), 3)
    # what is shown to push to is not given away
    r = repo.run(look + "git init -q w; cd w; set +e; git fetch -q --no-tags %s %s; echo exit $?" % (URL, own), policy=PUSHES)
    tap.contains(r.out, "exit 128")
    # and a push works as ever
    r = repo.run("git clone -q %s w; cd w; git commit -q --allow-empty -m a; git push -q origin HEAD:fix/1; git commit -q --allow-empty -m b; git push -q origin HEAD:fix/1; "
                 "git push -q origin HEAD:fix/2 :fix/1 :own; git rev-parse HEAD" % URL, policy=PUSHES)
    refs = repo.git.refs(pushes.REPO)
    tap.equal((refs["refs/heads/fix/2"], [ref for ref in refs if ref in ("refs/heads/own", "refs/heads/fix/1")]), (r.out.strip(), []), r)


@tap.test
def a_tip_by_its_id(t):
    for sha256 in (False, True):
        repo = Repository(t, sha256=sha256)
        init = "git init -q %s w; cd w; " % ("--object-format=sha256" if sha256 else "")
        # the list may have been seen by another worker
        r = repo.run(init + "git ls-remote %s >/dev/null; git fetch -q --no-tags %s %s; git rev-list FETCH_HEAD | wc -l" % (URL, URL, repo.main[3]), workers=4)
        tap.equal(r.out.split(), ["4"])
        tap.equal(r.events("errand"), [])
        # or by none, as CI fetches: then exeat looks
        r = repo.run(init + "git fetch -q --no-tags --depth=1 %s +%s:refs/remotes/origin/main; git rev-list origin/main | wc -l" % (URL, repo.main[3]))
        tap.equal(r.out.split(), ["1"])
        tap.equal(len(r.events("errand")), 1)


@tap.test
def a_server_that_can_t_be_asked(t):
    for answer, why in ((response(500, "x"), "it answers with status 500"),
                        (response(200, b"PACK", [("Content-Type", "x")]), "it is not made of pkt-lines"),
                        (response(200, packets("ERR no")[:-4], [("Content-Type", "x")]), "")):
        r, server = scripted(t, answer, LIMITED, """report(fetch(v2("fetch", "want " + ONE, "done"))[2])""")
        tap.contains(r.reports[0], "ERR exeat: denied: no ref that may be fetched leads to object 111111111111" + ("; the server could not be asked: " + why if why else ";"))
        tap.equal(len(server.requests), 1)
        tap.contains(server.requests[0].body, b"command=ls-refs")


@each_version
def a_fetch_with_many_haves_comes_in_gzip(t, version):
    repo = Repository(t)
    more = "".join("commit refs/heads/main\ncommitter S <s@example.com> %d +0000\ndata 2\nc\n%s\n"
                   % (2000000000 + i, "" if i else "from refs/heads/main^0\n") for i in range(300))
    r = repo.run("git clone -q --single-branch --no-tags %s w; cd w; git fast-import --quiet <<'END'\n%sEND\n"
                 "GIT_TRACE_CURL=1 git fetch -q origin +refs/heads/rel/1:refs/heads/again refs/tags/v1; "
                 "git rev-parse again" % (URL, more), version=version)
    tap.contains(r.err.lower(), "send header: content-encoding: gzip")
    tap.equal(r.out.split(), [repo.main[0]])
    # what was judged is what went on
    tap.ok(not any(h.request.all("content-encoding") for h in repo.git.hits))


@tap.test
def a_partial_clone_is_whole_where_refs_are_limited(t):
    repo = Repository(t)
    r = repo.run("git clone -q --filter=blob:none %s w; cd w; cat README; git rev-list --objects --missing=print HEAD | grep -c '^?' || true" % URL)
    tap.equal(r.out.split(), ["hello", "2", "0"])
    tap.contains(r.err, "filtering not recognized by server, ignoring")


@tap.test
def a_partial_clone_with_any_object_and_without_ref_rules(t):
    repo = Repository(t)
    command = "git clone -q --no-checkout --filter=blob:none %s w; cd w; git rev-list --objects --missing=print HEAD | grep -c '^?'; git checkout -q; cat README" % URL
    for policy in (LIMITED.replace(" with", " also any-object with"), pushes.FETCH):
        r = repo.run(command, policy=policy)
        tap.equal(r.code, 0)
        tap.equal(r.out.split(), ["4", "hello", "2"])
    r = repo.run("git init -q w; cd w; git fetch -q %s %s; git cat-file -p FETCH_HEAD:secret" % (URL, repo.hidden), policy=LIMITED.replace(" with", " also any-object with"))
    tap.contains(r.out, "SECRET-TIP")


@tap.test
def what_a_partial_clone_fetches_later_is_refused_by_name(t):
    """A clone that was made partial elsewhere: git asks for the missing blob by its id, and shows what would permit it."""
    repo = Repository(t)
    blob = repo.git.git(pushes.REPO, "rev-parse", repo.main[1] + ":README").strip()
    r = repo.run("git init -q w; cd w; git remote add origin %s; git fetch -q --depth=1 origin refs/heads/main; git config remote.origin.promisor true; "
                 "git config remote.origin.partialclonefilter blob:none; set +e; git cat-file -p %s; echo exit $?" % (URL, blob))
    tap.equal(r.out.split()[-2:], ["exit", "128"])
    line = [text for text in r.err.split("\n") if "exeat: denied: " in text and text.startswith("fatal: remote error")]
    tap.equal(len(line), 1, r.err)
    tap.contains(line[0], "to permit: allow fetch https://g.test/acme/app also any-object [")


@each_version
def a_repository_in_sha256(t, version):
    repo = Repository(t, sha256=True)
    r = repo.run("git ls-remote %s; git clone -q %s w; cd w; git rev-list HEAD | wc -l; git rev-parse HEAD" % (URL, URL), version=version)
    tap.equal(names(r), SEEN)
    tap.equal(r.out.split()[-2:], ["4", repo.main[3]])


@each_version
def a_repository_with_no_permitted_ref_and_one_without_any(t, version):
    repo = Repository(t)
    r = repo.run("git ls-remote %s; git clone -q %s w; git -C w branch -a; echo cloned" % (URL, URL), policy="allow fetch https://g.test/acme/app refs/heads/none with forge\n", version=version)
    tap.equal((r.code, r.out), (0, "cloned\n"))
    empty = pushes.serve(t, repo=False)
    empty.create(pushes.REPO, empty=True)
    r = pushes.run(empty, LIMITED, "cd; git -c init.defaultBranch=master -c protocol.version=%d clone -q %s w; git -C w symbolic-ref HEAD" % (version, URL))
    tap.equal((r.code, r.out), (0, "refs/heads/%s\n" % ("main" if version == 2 else "master")))


BODIES = '''
    import gzip
    def v2(command, *arguments, caps=()):
        lines = [pkt("command=" + command)] + [pkt(c) for c in caps] + [b"0001"] + [pkt(a) for a in arguments]
        return b"".join(lines) + b"0000"
    def old(*lines):
        return b"".join(pkt(l) for l in lines) + b"0000" + pkt("done\\n")
    def fetch(body, extra="Git-Protocol: version=2\\r\\n"):
        a = push(body, extra, path="/acme/app.git/git-upload-pack", kind=FETCH_TYPE)
        return [a.status, a.header("content-type"), a.body[:400].decode("latin-1")]
    def listing(version=2, extra=""):
        c = tls("g.test")
        c.send("GET /acme/app.git/info/refs?service=git-upload-pack HTTP/1.1\\r\\nHost: g.test\\r\\nGit-Protocol: version=%d\\r\\n%s\\r\\n" % (version, extra))
        a = c.answer()
        return [a.status, a.header("content-type"), a.body.decode("latin-1")]
'''


@tap.test
def what_is_crafted_by_hand_is_refused(t):
    repo = Repository(t)
    h, tip = repo.hidden, repo.main[3]
    requests = [
        'fetch(v2("fetch", "want %s", "done"))' % h,
        'fetch(v2("fetch", "want %s\\n", "want %s\\n", "done\\n"))' % (tip, h),
        'fetch(v2("fetch", "want-ref refs/heads/hidden", "done"))',
        'fetch(v2("fetch", "want-ref HEAD", "done"))',
        'fetch(old("want %s ofs-delta\\n"), "")' % h,
        'fetch(old("want %s ofs-delta\\n", "want %s\\n"), "")' % (tip, h),
        # to give an unknown border and ask for what lies beyond it is to ask for what it leads to
        'fetch(v2("fetch", "want %s", "shallow %s", "deepen 2147483647", "done"))' % (tip, h),
        'fetch(v2("fetch", "want %s", "shallow %s", "deepen-relative", "deepen 1", "done"))' % (tip, h),
        'fetch(old("want %s deepen-relative\\n", "shallow %s\\n", "deepen 1\\n"), "")' % (tip, h),
        'fetch(v2("fetch", "want %s", "deepen-not refs/heads/hidden", "done"))' % tip,
        'fetch(v2("fetch", "want %s", "deepen-not hidden", "done"))' % tip,
        'fetch(v2("fetch", "want %s", "filter sparse:oid=refs/heads/hidden:secret", "done"))' % tip,
        'fetch(v2("fetch", "want %s", "packfile-uris https", "done"))' % tip,
        'fetch(v2("fetch", "want %s", "new-argument", "done"))' % tip,
        'fetch(v2("object-info", "size", "oid %s"))' % repo.blob,
        'fetch(v2("bundle-uri"))',
        'fetch(v2("new-command"))',
        'fetch(v2("ls-refs", "ref-prefix refs/", caps=["server-option=x"]))',
        'fetch(pkt("agent=x") + v2("bundle-uri"))',
        'fetch(v2("ls-refs") + v2("bundle-uri"))',
        'fetch(v2("ls-refs")[:-4])',
        'fetch(b"PACK")',
        'fetch(gzip.compress(v2("fetch", "want %s", "done")), "Git-Protocol: version=2\\r\\nContent-Encoding: gzip\\r\\n")' % h,
        'fetch(gzip.compress(old("want %s ofs-delta\\n", "want %s\\n")), "Content-Encoding: gzip\\r\\n")' % (tip, h),
        'fetch(gzip.compress(v2("fetch", "want %s", "done"))[:-9], "Content-Encoding: gzip\\r\\n")' % tip,
    ]
    r = pushes.by_hand(repo.git, LIMITED, BODIES + "\n    listing(2); fetch(v2('ls-refs', 'ref-prefix refs/'))\n" + "".join("    report(%s)\n" % q for q in requests))
    tap.equal(len(r.reports), len(requests))
    for request, (status, kind, body) in zip(requests, r.reports):
        tap.ok(status == 200 and kind == "application/x-git-upload-pack-result" and body[4:].startswith("ERR exeat: denied: ") and body.count("\n") == 1, "%s: %s %s %r" % (request, status, kind, body))
    # all that the server was asked for is its refs
    tap.equal(len(pushes.posts(repo.git, "git-upload-pack")), 1 + len(r.events("errand")))
    text = "\n".join(body for _, _, body in r.reports)
    tap.contains(text, "refs/heads/hidden: no rule allows a fetch of this ref; to permit: allow fetch https://g.test/acme/app refs/heads/hidden [")
    tap.contains(text, "no rule about this repository permits `also packfile-uris`")
    tap.contains(text, "a command of git's protocol that is not known")
    # nothing of it was even said to be there
    for _, _, body in r.reports:
        tap.lacks(body, "SECRET")


@tap.test
def without_ref_rules_a_fetch_goes_through_untouched(t):
    repo = Repository(t)
    body = 'v2("fetch", "thin-pack", "include-tag", "ofs-delta", "want %s", "done")' % repo.hidden
    r = pushes.by_hand(repo.git, pushes.FETCH, BODIES + '''
    body = %s
    report(fetch(body)[0:2] + [len(body)])
    report(fetch(v2("bundle-uri")))
    report(fetch(v2("new-command")))
    report(fetch(v2("fetch", "packfile-uris https", "want %s", "done")))
''' % (body, repo.hidden))
    tap.equal(r.reports[0][:2], [200, "application/x-git-upload-pack-result"])
    for report, word in zip(r.reports[1:], ("also bundle-uri", "is not known", "also packfile-uris")):
        tap.contains(report[2], word)
    tap.equal(r.outcomes()[0]["sent"], int(pushes.posts(repo.git, "git-upload-pack")[0].request.header("content-length")))
    tap.equal(r.outcomes()[0]["sent"], r.reports[0][2])


def packets(*lines):
    return b"".join(b"%04x" % (len(line) + 4) + line.encode() for line in lines) + b"0000"


OFFER = ["version 2\n", "agent=git/2.50\n", "ls-refs=unborn\n", "fetch=shallow wait-for-done filter packfile-uris new-feature\n", "server-option\n",
         "object-format=sha1\n", "object-info\n", "bundle-uri\n", "promisor-remote=name=x\n", "new-thing=1\n"]


def scripted(t, answer, policy, code="report(listing(2, 'Accept-Encoding: gzip\\r\\nRange: bytes=0-9\\r\\n'))"):
    """What a server with a will of its own is heard to say."""
    server = t.use(RawServer(answer, tls=pushes.pki().leaf("g.test")))
    r = pushes.by_hand(server, policy, BODIES + textwrap.indent(textwrap.dedent(code), "    "))
    return r, server


def advertisement(body, *headers, status=200, kind="application/x-git-upload-pack-advertisement"):
    return response(status, body, [("Content-Type", kind), *headers])


@tap.test
def what_may_bring_more_is_taken_out_of_the_offer(t):
    answer = advertisement(packets("# service=git-upload-pack\n") + packets(*OFFER))
    for policy, fetch, others in (
            (pushes.FETCH, "fetch=shallow wait-for-done filter\n", ["server-option\n", "object-format=sha1\n", "object-info\n"]),
            (LIMITED, "fetch=shallow wait-for-done\n", ["object-format=sha1\n"]),
            (LIMITED.replace(" with", " also any-object bundle-uri packfile-uris with"), "fetch=shallow wait-for-done filter packfile-uris\n",
             ["object-format=sha1\n", "bundle-uri\n"])):
        r, server = scripted(t, answer, policy)
        tap.equal(r.reports[0][0], 200)
        tap.equal(r.reports[0][2].encode(), packets("# service=git-upload-pack\n") + packets(*OFFER[:3], fetch, *others))
        tap.equal(server.requests[0].all("accept-encoding"), ["identity"])
        tap.equal(server.requests[0].all("range"), [])


@tap.test
def an_answer_that_can_t_be_read_shows_nothing(t):
    hidden = "%s refs/heads/hidden\0multi_ack\n" % ("2" * 40)
    listed = packets("# service=git-upload-pack\n") + packets("%s refs/heads/main\0multi_ack symref=HEAD:refs/heads/hidden\n" % ("1" * 40), hidden.replace("\0multi_ack", ""))
    for answer in (advertisement(listed, kind="text/plain"), advertisement(gzip.compress(listed), ("Content-Encoding", "gzip")),
                   advertisement(listed, ("Content-Range", "bytes 0-9/10"), status=206), advertisement(listed[:-4]), advertisement(listed + packets(hidden)),
                   advertisement(b"PACK"), advertisement(("2" * 40 + "\trefs/heads/hidden\n").encode()), advertisement(b"0000")):
        r, _ = scripted(t, answer, LIMITED)
        status, _, body = r.reports[0]
        tap.lacks(body, "hidden")
        tap.lacks(body, "2222")
        tap.ok(status == 502 or "ERR exeat: the server's refs can't be read: " in body, "%r %r" % (status, body))
        tap.equal(r.outcomes()[0]["code"], "git-answer")
    # what it says instead of refs goes through
    for answer in (advertisement(packets("ERR no such repository\n") + packets(hidden)), response(404, "not here")):
        r, _ = scripted(t, answer, LIMITED)
        tap.lacks(r.reports[0][2], "hidden")
        tap.ok("ERR no such repository" in r.reports[0][2] or r.reports[0][0] == 404)


@tap.test
def archives_and_the_dumb_protocol(t):
    for policy in (LIMITED, pushes.FETCH):
        r, server = scripted(t, response(200, "an archive"), policy, """
        report(push(pkt("argument HEAD\\n") + b"0000", path="/acme/app.git/git-upload-archive", kind="application/x-git-upload-archive-request").body.decode())
        for path in ("info/refs", "objects/info/packs", "objects/pack/pack-" + ONE + ".pack", "objects/12/" + ONE[2:]):
            a = tls("g.test").get("/acme/app.git/" + path, host="g.test")
            report([a.status, a.body.decode()])
    """)
        tap.contains(r.reports[0], "no rule about this repository permits `also archive`; to permit: allow fetch https://g.test/acme/app also archive [")
        for status, body in r.reports[1:]:
            tap.ok(status == 403 and "dumb" in body, "%r %r" % (status, body))
        tap.equal(server.requests, [])
    r, server = scripted(t, response(200, "an archive"), pushes.FETCH.replace(" with", " also archive with"), """
        report(push(pkt("argument HEAD\\n") + b"0000", path="/acme/app.git/git-upload-archive", kind="application/x-git-upload-archive-request").body.decode())
    """)
    tap.equal(r.reports, ["an archive"])
    tap.contains(server.requests[0].all("authorization")[0], "Basic ")


@tap.test
def the_policy_tells_before_it_is_tried(t):
    r = pushes.by_hand(pushes.serve(t), LIMITED + "allow push https://g.test/acme/app refs/heads/fix/* create with forge\n", """
        def page(accept):
            return tls("exeat.internal").get("/policy", host="exeat.internal", extra="Accept: %s\\r\\n" % accept).body.decode()
        report(page("text/plain"))
        report(json.loads(page("application/json"))["rules"])
    """)
    tap.contains(r.reports[0], "allow fetch https://g.test/acme/app refs/heads/main refs/heads/rel/* refs/tags/v* with forge")
    tap.contains(r.reports[0], "allow push https://g.test/acme/app refs/heads/fix/* create with forge")
    tap.equal([(rule["git"], rule["refs"]) for rule in r.reports[1]], [("fetch", ["refs/heads/main", "refs/heads/rel/*", "refs/tags/v*"]), ("push", ["refs/heads/fix/*"])])


tap.main()
