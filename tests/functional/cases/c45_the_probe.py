"""C45: the four bytes 0000 before a big request are no malformed push: they go through where the repository does."""
import pushes
import tap

BIG = "head -c 2500000 /dev/urandom > big; git add big; git commit -qm big; "


@tap.test
def a_big_push_probes_and_arrives(t):
    git = pushes.serve(t)
    r = pushes.run(git, pushes.PUSH, pushes.CLONE + BIG + "git push -q origin HEAD:refs/heads/fix/big")
    tap.equal(r.code, 0, r.err)
    lengths = [h.request.header("content-length") for h in pushes.posts(git, "receive-pack")]
    tap.equal(lengths, ["4", None])
    tap.ok(all(h.user == "x-access-token" for h in git.hits))
    tap.ok("refs/heads/fix/big" in git.refs(pushes.REPO))


@tap.test
def also_with_a_credential_helper_inside(t):
    git = pushes.serve(t)
    helper = "-c credential.helper='!f() { echo username=x; echo password=PLACEHOLDER; }; f'"
    r = pushes.run(git, pushes.PUSH, pushes.CLONE + BIG + "git %s push -q origin HEAD:refs/heads/fix/big" % helper)
    tap.equal(r.code, 0, r.err)
    tap.ok(all(h.authorization and h.user == "x-access-token" and h.password == pushes.SECRET for h in git.hits), git.hits)


@tap.test
def a_fetch_with_many_refs_probes_too(t):
    git = pushes.serve(t)
    stream = "".join("commit refs/heads/n%d\ncommitter S <s@example.com> %d +0000\ndata 1\nx\n" % (i, i) for i in range(2000))
    git.git(pushes.REPO, "fast-import", "--quiet", stdin=stream.encode())
    r = pushes.run(git, pushes.FETCH, "set -e; cd; git -c protocol.version=0 -c http.postBuffer=1024 clone -q "
                   "https://g.test/acme/app.git v; cd v; git branch -r | wc -l")
    tap.equal(r.code, 0, r.err)
    tap.ok(int(r.out) >= 2000, r.out)
    requests = [h.request for h in pushes.posts(git, "upload-pack")]
    # what git sent in chunks was read whole before it went on, with its length
    lengths = sorted(int(q.header("content-length")) for q in requests)
    tap.ok(lengths[0] == 4 and lengths[-1] > 2000 * 50, lengths)


@tap.test
def by_hand(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        report(push(b"0000").status)
        report(push(b"0000", path="/acme/other.git/git-receive-pack").status)
    ''')
    tap.equal(r.reports[0], 200)
    tap.equal([h.path for h in git.hits], ["/acme/app.git/git-receive-pack"])


tap.main()
