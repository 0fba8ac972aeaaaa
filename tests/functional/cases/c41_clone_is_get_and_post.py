"""C41: a fetch is a GET and a POST, and a rule for it permits both and nothing else."""
import pushes
import tap


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


tap.main()
