"""C41: a fetch is a GET and a POST, and a rule for it permits both and nothing else."""
import exeat
import h2
import pushes
import tap
from gitserver import GitServer


@tap.test
def a_fetch_rule_lets_clone_through_and_no_push(t):
    git = pushes.serve(t)
    r = pushes.run(git, pushes.FETCH, pushes.CLONE + "echo x >> README; git commit -qam x; set +e; git push origin HEAD:refs/heads/fix/1; echo push $?")
    tap.contains(r.out, "push 128")
    tap.contains(r.err, "remote: exeat")
    tap.ok("refs/heads/fix/1" not in git.refs(pushes.REPO))
    tap.equal([h for h in git.hits if "receive-pack" in h.path + h.query], [])


@tap.test
def an_http_rule_is_no_way_to_git(t):
    git = pushes.serve(t)
    r = pushes.run(git, "allow * https://g.test/**\n", "git ls-remote https://g.test/acme/app.git")
    tap.ok(r.code != 0)
    tap.contains(r.err, "remote: exeat")
    tap.equal(git.hits, [])


@tap.test
def the_service_is_parsed_and_one(t):
    git = pushes.serve(t)
    base = "/acme/app.git/info/refs?"
    refused = ["service=git-upload-pack&service=git-receive-pack", "service=git-receive-pack&service=git-upload-pack",
               "service=git-upload-pack&service=git-upload-pack", "service=git%2dreceive-pack", "service=git-receive-pack",
               "service=git-upload-pack&%73ervice=git-receive-pack", "service=git-upload-pack;service=git-receive-pack", "service=git-upload-archive",
               "service=", "", "x=y", "service=git-upload-pack%00", "Service=git-upload-pack", "service=git-upload-pack&service[]=git-receive-pack"]
    r = pushes.by_hand(git, pushes.FETCH, '''
        for query in %r:
            a = tls("g.test").get(%r + query, host="g.test")
            report(query, a.status, a.header("content-type"), len(a.body.split(b"\\n")))
        a = tls("g.test").get(%r + "x=1&service=git-upload-pack", host="g.test")
        report(a.status, a.body[:30].decode())
    ''' % (refused, base, base))
    for query, status, kind, lines in r.reports[:-1]:
        tap.ok(status in (400, 403) and kind.startswith("text/plain") and lines <= 2, "%s: %r %r %r" % (query, status, kind, lines))
    tap.equal(r.reports[-1], [200, "001e# service=git-upload-pack\n"])
    tap.equal(len(git.hits), 1)


@tap.test
def a_push_without_a_discovery_is_judged_too(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.FETCH, '''
        a = push(command("refs/heads/fix/1", caps=CAPS) + b"0000PACK")
        report(a.status, a.body.decode("latin-1"))
        a = push(b"0032want " + b"1" * 40 + b"\\n00000009done\\n", path="/acme/other.git/git-upload-pack", kind=FETCH_TYPE)
        report(a.status, a.body.decode("latin-1"))
    ''')
    tap.ok(r.reports[0][0] == 403 or "ng refs/heads/fix/1" in r.reports[0][1], r.reports)
    tap.contains(r.reports[1][1], "ERR exeat: denied: no rule allows fetch from this repository")
    tap.equal(git.hits, [])


OPERATIONS = """set -e; cd; u=https://g.test/acme/app
for v in 0 1 2; do git -c protocol.version=$v ls-remote -q $u.git >/dev/null; git -c protocol.version=$v clone -q $u.git v$v; done
git clone -q $u without-the-suffix; git clone -q --bare $u.git bare; git clone -q --mirror $u.git mirror; git clone -q --depth 1 $u.git shallow
git -C shallow fetch -q --unshallow; git -C v0 fetch -q; git -C v1 pull -q; git -C mirror remote update >/dev/null 2>&1
git init -q outer; cd outer; git -c protocol.file.allow=never submodule --quiet add $u.git inner; git submodule --quiet update --init; cat inner/README"""


@tap.test
def every_operation_of_git_that_reads(t):
    git = pushes.serve(t)
    for version in ("HTTP/2", "HTTP/1.1"):
        env = pushes.over(version)
        r = pushes.run(git, pushes.FETCH, OPERATIONS, env=env)
        tap.equal((r.code, r.out), (0, "hello\n"), r)
        tap.equal({v["verdict"] for v in r.verdicts()}, {"allow"})
        tap.equal({o["protocol"] for o in r.outcomes()}, {"h2" if version == "HTTP/2" else "http/1.1"})
    tap.equal({h.method for h in git.hits}, {"GET", "POST"})


@tap.test
def other_methods_and_other_paths_of_the_repository(t):
    h2.needed()
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.FETCH, [h2.CLIENT, '''
        discovery, fetch = "/acme/app.git/info/refs?service=git-upload-pack", "/acme/app.git/git-upload-pack"
        odd = [(m, discovery) for m in ("POST", "PUT", "DELETE", "OPTIONS")] + [(m, fetch) for m in ("GET", "PUT", "DELETE", "HEAD")]
        odd += [("GET", "/acme/app.git" + rest) for rest in (
            "", "/", "/HEAD", "/config", "/objects/info/packs", "/info/refs", "/info%2frefs?service=git-upload-pack", "//info/refs?service=git-upload-pack",
            "/./info/refs?service=git-upload-pack", "/../other.git/info/refs?service=git-upload-pack", "%2finfo/refs?service=git-upload-pack",
            "/info/refs/?service=git-upload-pack", "/INFO/refs?service=git-upload-pack", "/x/info/refs?service=git-upload-pack")]
        odd += [("GET", "/acme/" + name + "/info/refs?service=git-upload-pack") for name in ("app.git.git", "app2", "ap%70.git%2f", "..%2facme%2fapp.git")]
        odd += [("POST", "/acme/app.git/" + name) for name in ("git-upload-pack/", "git-receive-pack", "git-upload-archive", "git-upload-pack%2f", "git-upload-pack;x")]
        for method, target in odd:
            length = "Content-Length: 0\\r\\n"
            a = tls("g.test").get(target, host="g.test", method=method, extra=length)
            c = h2("g.test")
            b = c.answer(c.request(target, method, authority="g.test", fields=[("content-length", "0")]))
            report(method, target, a.status, b.status or -1, a.body.decode("latin-1"), b.body.decode("latin-1"))
        c = h2("g.test")
        report(c.get(discovery, authority="g.test").status)
    '''])
    tap.equal(r.reports.pop(), 200)
    for method, target, *statuses, one, other in r.reports:
        for status, text in zip(statuses, (one, other)):
            # a fetch or a push is answered in git's own words, which come with a 200
            tap.ok(status in (400, 403, 405) or method == "POST" and status == 200 and "exeat" in text, "%s %s: %r %r" % (method, target, status, text))
    tap.equal([(h.method, h.path) for h in git.hits], [("GET", "/acme/app.git/info/refs")])


@tap.test
def a_push_rule_opens_no_fetch(t):
    git = pushes.serve(t)
    git.create("acme/open.git")
    r = pushes.run(git, "allow push https://g.test/acme/app refs/heads/fix/* create with forge\n", "git ls-remote https://g.test/acme/app.git; echo $?; "
                   "cd; git init -q e; cd e; git commit -q --allow-empty -m x; git push -q https://g.test/acme/app.git HEAD:refs/heads/fix/1; echo $?")
    tap.equal(r.out.split(), ["128", "0"])
    tap.contains(r.err, "remote: exeat: denied: ")
    tap.ok("refs/heads/fix/1" in git.refs(pushes.REPO))
    tap.equal([h for h in git.hits if "upload-pack" in h.path + h.query], [])


@tap.test
def the_same_in_the_clear(t):
    git = t.use(GitServer())
    git.create(pushes.REPO)
    r = exeat.run("allow fetch http://g.test/acme/app\n", "set -e; cd; git clone -q http://g.test/acme/app.git w; cd w; cat README; echo x > x; git add x; "
                  "git commit -qm x; set +e; git push -q origin HEAD:refs/heads/fix/1; echo push $?", resolve="g.test:80:127.0.0.1:%d" % git.port)
    tap.equal(r.out, "hello\npush 128\n", r)
    tap.contains(r.err, "remote: exeat")
    tap.equal([h for h in git.hits if "receive-pack" in h.path + h.query], [])


tap.main()
