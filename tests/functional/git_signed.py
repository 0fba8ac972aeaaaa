#!/usr/bin/env python3
"""Signed pushes: the commands that count stand inside the certificate."""
import pushes
import tap
import work

SIGNING = ("set -e; cd; ssh-keygen -q -t ed25519 -N '' -f key; git config --global gpg.format ssh; git config --global user.signingkey $HOME/key.pub; "
           "git clone -q https://g.test/acme/app.git w; cd w; echo x >> README; git commit -qam x; set +e; ")


def serve(t):
    git = pushes.serve(t, repo=False)
    git.create(pushes.REPO, config={"receive.certNonceSeed": "seed"})
    return git


@tap.test
def a_signed_push_is_judged_inside_its_certificate(t):
    work.need("ssh-keygen")
    git = serve(t)
    r = pushes.run(git, pushes.PUSH, SIGNING + "git push -q --signed=yes origin HEAD:refs/heads/fix/1; echo $?; "
                   "git push --signed=yes origin HEAD:refs/heads/no HEAD:refs/heads/fix/2; echo $?; "
                   "git push -q --signed=yes -o ci.skip --atomic origin HEAD:refs/heads/fix/3 :refs/heads/fix/1; echo $?")
    tap.equal(r.out.split(), ["0", "1", "0"], r.err)
    tap.contains(r.err, "! [remote rejected] HEAD -> no (exeat: ")
    tap.contains(r.err, "! [remote rejected] HEAD -> fix/2 (exeat: ")
    tap.equal(sorted(git.refs(pushes.REPO)), ["refs/heads/fix/3", "refs/heads/main"])
    refs = [[(ref["op"], ref["ref"]) for ref in v["git"]["refs"]] for v in pushes.judged(r)]
    tap.equal([sorted(x) for x in refs], [[("create", "refs/heads/fix/1")], [("create", "refs/heads/fix/2"), ("create", "refs/heads/no")],
                                          [("create", "refs/heads/fix/3"), ("delete", "refs/heads/fix/1")]])


@tap.test
def a_certificate_hides_no_command(t):
    git = serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        def cert(commands, behind=b"", signature=("-----BEGIN SSH SIGNATURE-----\\n", "U1NI\\n", "-----END SSH SIGNATURE-----\\n")):
            lines = ["certificate version 0.1\\n", "pusher t@example.com 1 +0000\\n", "nonce 1-2\\n", "\\n"]
            lines += ["%s %s %s\\n" % (ZERO, ONE, ref) for ref in commands] + list(signature) + ["push-cert-end\\n"]
            return pkt("push-cert" + CAPS) + b"".join(pkt(x) for x in lines) + behind + b"0000PACK"
        late = "%s %s refs/heads/main\\n" % (ZERO, ONE)
        for body in (cert(["refs/heads/fix/a", "refs/heads/main"]), cert(["refs/heads/fix/a"], command("refs/heads/main")),
                     command("refs/heads/fix/a", caps=CAPS) + cert(["refs/heads/main"]),
                     cert(["refs/heads/fix/a"], signature=("-----BEGIN SSH SIGNATURE-----\\n", late, "-----BEGIN PGP SIGNATURE-----\\n")),
                     cert(["refs/heads/fix/a\\n" + late[:-1]]), cert(["refs/heads/fix/a"], signature=()), cert([])):
            a = push(body)
            report(a.status, b"exeat" in a.body)
    ''')
    tap.equal(r.reports, [[200, True]] * 7)
    tap.equal(git.hits, [])


tap.main()
