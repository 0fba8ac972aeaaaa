"""C44: git prints who refused, by which rule or by the lack of one, and asks for no password."""
import h2
import pushes
import tap

DENY = "allow fetch https://g.test/acme/app with forge\ndeny fetch https://g.test/acme/secret\ndeny push https://g.test/acme/app refs/heads/main\n"


def refused(t, command, policy=DENY):
    git = pushes.serve(t)
    r = pushes.run(git, policy, command)
    tap.ok(r.code != 0)
    tap.contains(r.err, "exeat")
    tap.lacks(r.err, "hash algorithm")
    tap.lacks(r.err, "up-to-date")
    return git, r


@tap.test
def ls_remote_of_a_denied_repository(t):
    git, r = refused(t, "git ls-remote https://g.test/acme/secret.git")
    tap.contains(r.err, "remote: exeat")
    tap.contains(r.err, "policy:2")
    tap.contains(r.err, r.verdict(verdict="deny")["id"])
    tap.equal(git.hits, [])


@tap.test
def clone_of_a_repository_that_no_rule_names(t):
    _, r = refused(t, "cd; git clone https://g.test/acme/other.git")
    tap.contains(r.err, "remote: exeat")
    tap.contains(r.err, r.verdict(verdict="deny")["id"])


@tap.test
def push_where_no_push_is_permitted(t):
    git, r = refused(t, pushes.CLONE + "echo x >> README; git commit -qam x; git push origin HEAD:refs/heads/x", policy=pushes.FETCH)
    tap.contains(r.err, "remote: exeat")
    tap.equal(pushes.posts(git, "receive-pack"), [])


@tap.test
def push_to_a_ref_that_is_not_permitted(t):
    git, r = refused(t, pushes.CLONE + "echo x >> README; git commit -qam x; git push origin HEAD:refs/heads/no", policy=pushes.PUSH)
    tap.contains(r.err, "! [remote rejected] HEAD -> no (exeat: ")
    tap.contains(r.err, r.verdict(verdict="deny")["id"])
    tap.equal(pushes.posts(git, "receive-pack"), [])


@tap.test
def push_to_a_ref_that_a_rule_denies(t):
    git, r = refused(t, pushes.CLONE + "echo x >> README; git commit -qam x; git push origin HEAD:refs/heads/main HEAD:refs/heads/fix/1",
                     policy=pushes.PUSH + "deny push https://g.test/acme/app refs/heads/main\n")
    tap.contains(r.err, "! [remote rejected] HEAD -> main (exeat: ")
    tap.contains(r.err, "! [remote rejected] HEAD -> fix/1 (exeat: ")
    tap.contains(r.err, "policy:3")
    tap.equal(pushes.posts(git, "receive-pack"), [])


@tap.test
def no_operation_asks_at_a_terminal_or_misleads(t):
    for version in ("HTTP/2", "HTTP/1.1"):
        env = pushes.over(version)
        for protocol in (0, 1, 2):
            git = pushes.serve(t)
            r = pushes.run(git, DENY, "cd; git init -q e; cd e; git commit -q --allow-empty -m x; u=https://g.test/acme/secret.git; "
                           "for c in 'ls-remote '$u 'clone '$u' x' 'clone --depth 1 '$u' x' 'clone --mirror '$u' x' 'fetch '$u 'pull '$u 'submodule add '$u "
                           "'push '$u' HEAD:main' 'push --delete '$u' main' 'push --mirror '$u; do echo \"== $c\"; "
                           "script -qec \"git -c protocol.version=%d $c\" /dev/null </dev/null; echo status $?; done" % protocol, env=env)
            parts = r.out.split("== ")[1:]
            tap.equal(len(parts), 10, r)
            for part in parts:
                tap.contains(part, "remote: exeat: denied: ", part)
                tap.ok("status 0" not in part and "status" in part, part)
                for word in ("hash algorithm", "up-to-date", "not valid", "terminal prompts", "Username", "Password", "<html", "{"):
                    tap.lacks(part, word)
            tap.equal({o["status"] for o in r.outcomes()}, {403})
            tap.equal({o["protocol"] for o in r.outcomes()}, {"h2" if version == "HTTP/2" else "http/1.1"})
            tap.equal(git.hits, [])


@tap.test
def the_refusals_themselves(t):
    """403 with text of one line; where a fetch has begun, git's own words. Both versions of HTTP alike."""
    h2.needed()
    git = pushes.serve(t)
    r = pushes.by_hand(git, DENY, [h2.CLIENT, '''
        for service in ("git-upload-pack", "git-receive-pack"):
            target = "/acme/secret.git/info/refs?service=" + service
            for a in (tls("g.test").get(target, host="g.test"), h2("g.test").get(target, authority="g.test")):
                fields = {n.lower(): v for n, v in a.headers}
                report(a.status, fields["content-type"], a.body.decode(), "www-authenticate" in fields)
        body = pkt("0032want " + "1" * 40)[4:] + b"00000009done\\n"
        for path, kind, body in (("git-upload-pack", FETCH_TYPE, body), ("git-receive-pack", PUSH_TYPE, command("refs/heads/x", caps=CAPS) + b"0000")):
            c = h2("g.test")
            s = c.request("/acme/secret.git/" + path, "POST", end=False, authority="g.test", fields=[("content-type", kind), ("content-length", str(len(body)))])
            c.data(s, body, end=True)
            for a in (push(body, path="/acme/secret.git/" + path, kind=kind), c.answer(s)):
                fields = {n.lower(): v for n, v in a.headers}
                report(a.status, fields["content-type"], a.body.decode("latin-1"), "www-authenticate" in fields)
    '''])
    tap.equal(len(r.reports), 8)
    for i, (status, kind, body, asked) in enumerate(r.reports):
        tap.contains(body, "exeat")
        tap.ok(not asked)
        if i < 4 or i > 5:
            tap.ok(status == 403 and kind.startswith("text/plain") and body.count("\n") == 1 and body.endswith("\n"), body)
        else:
            tap.ok((status, kind) == (200, "application/x-git-upload-pack-result"), "%r %r %r" % (status, kind, body))
    tap.equal(git.hits, [])


tap.main()
