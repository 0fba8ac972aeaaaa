"""C49: one command that is not permitted refuses the push, wherever in the list it stands, and each is named."""
import itertools

import pushes
import tap


@tap.test
def in_every_order_with_and_without_atomic(t):
    git = pushes.serve(t)
    orders = list(itertools.permutations(["HEAD:refs/heads/fix/1", "HEAD:refs/heads/denied", ":refs/heads/main"]))
    script = pushes.CLONE + "set +e; "
    for i, order in enumerate(orders):
        script += "git push %s origin %s; echo $?; " % ("--atomic" if i % 2 else "", " ".join(order))
    r = pushes.run(git, pushes.PUSH, script, timeout=100)
    tap.equal(r.out.split(), ["1"] * len(orders))
    tap.equal(r.err.count("! [remote rejected] HEAD -> denied (exeat: "), len(orders))
    tap.equal(r.err.count("! [remote rejected] HEAD -> fix/1 (exeat: "), len(orders))
    tap.equal(list(git.refs(pushes.REPO)), ["refs/heads/main"])
    tap.equal(pushes.posts(git, "receive-pack"), [])


@tap.test
def capabilities_belong_to_the_first_command(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        for body in (command("refs/heads/fix/a", caps=CAPS) + command("refs/heads/fix/b", caps=CAPS) + b"0000PACK",
                     command("refs/heads/fix/a", caps=CAPS) + command("refs/heads/fix/a") + b"0000PACK",
                     command("refs/heads/fix/a\\0refs/heads/main", caps=CAPS) + b"0000PACK",
                     command("refs/heads/fix/../main", caps=CAPS) + b"0000PACK",
                     command("refs/heads/fix/a\\nx", caps=CAPS) + b"0000PACK",
                     command("refs/heads/fix/a", caps=CAPS) + b"0001" + command("refs/heads/main") + b"0000PACK"):
            a = push(body)
            report(a.status, b"exeat" in a.body)
    ''')
    tap.equal(len(r.reports), 6)
    tap.ok(all(status in (200, 403) and said for status, said in r.reports), r.reports)
    tap.equal(git.hits, [])


@tap.test
def five_thousand_refs_in_one_push(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        good = [command("refs/heads/fix/n%d" % i, caps=CAPS if i == 0 else "") for i in range(5000)]
        pack = b"0000PACK" + b"\\0\\0\\0\\2\\0\\0\\0\\0" + bytes.fromhex("029d08823bd8a8eab510ad6ac75c823cfd3ed31e")
        report(push(b"".join(good) + pack).status)
        for place in (1, 2500, 4999):
            a = push(b"".join(good[:place]) + command("refs/heads/no") + b"".join(good[place:]) + pack)
            report(a.status, len(named(a)), b"exeat" in a.body)
        a = push(command("refs/heads/no", caps=CAPS) + b"".join([command("refs/heads/fix/n0")] + good[1:]) + pack)
        report(a.status, len(named(a)), b"exeat" in a.body)
    ''')
    tap.equal([h.path for h in git.hits], ["/acme/app.git/git-receive-pack"])
    tap.equal(r.reports, [200] + [[200, 5001, True]] * 4)


tap.main()
