"""C53: ids of 64 digits are ids, and one push has ids of one length."""
import pushes
import tap

POLICY = "allow fetch https://g.test/acme/sha with forge\nallow push https://g.test/acme/sha refs/heads/fix/* create delete with forge\n"


@tap.test
def a_sha256_repository(t):
    git = pushes.serve(t, repo=False)
    git.create("acme/sha.git", sha256=True)
    r = pushes.run(git, POLICY, "set -e; cd; git clone -q https://g.test/acme/sha.git w; cd w; echo x >> README; git commit -qam x; "
                   "git push -q origin HEAD:refs/heads/fix/1 HEAD:refs/heads/fix/2; git push -q origin :refs/heads/fix/2; "
                   "set +e; git push origin HEAD:refs/heads/no :refs/heads/main; echo $?")
    tap.equal(r.out.split(), ["1"], r.err)
    tap.equal(sorted(git.refs("acme/sha.git")), ["refs/heads/fix/1", "refs/heads/main"])
    tap.contains(r.err, "! [remote rejected] HEAD -> no (exeat: ")
    deleted = [ref for v in pushes.judged(r) for ref in v["git"]["refs"] if ref["ref"] == "refs/heads/fix/2"]
    tap.equal([(ref["op"], len(ref["new"])) for ref in deleted], [("create", 64), ("delete", 64)])


@tap.test
def lengths_are_not_mixed(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        for body in (command("refs/heads/fix/a", caps=CAPS) + command("refs/heads/fix/b", old="0" * 64, new="1" * 64),
                     command("refs/heads/fix/a", new="1" * 64, caps=CAPS), command("refs/heads/fix/a", old="0" * 64, new="1" * 64, caps=CAPS),
                     command("refs/heads/fix/a", caps=CAPS + " object-format=sha256"), command("refs/heads/fix/a", new="1" * 63, caps=CAPS),
                     command("refs/heads/fix/a", caps=CAPS + " object-format=sha1 object-format=sha256")):
            a = push(body + b"0000PACK")
            report(a.status, b"exeat" in a.body)
    ''')
    tap.equal(r.reports, [[200, True]] * 6)
    tap.equal(git.hits, [])


tap.main()
