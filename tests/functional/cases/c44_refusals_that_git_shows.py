"""C44: git prints who refused, by which rule or by the lack of one, and asks for no password."""
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


tap.main()
