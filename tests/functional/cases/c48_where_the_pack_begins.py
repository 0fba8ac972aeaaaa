"""C48: the pack is where the packets end, not where the four letters are."""
import pushes
import tap


@tap.test
def a_ref_called_pack_hides_nothing_behind_it(t):
    git = pushes.serve(t)
    r = pushes.run(git, pushes.PUSH, pushes.CLONE + "set +e; git push origin main:refs/heads/JDK-PACK main:refs/heads/denied; echo $?; "
                   "git push -q origin main:refs/heads/JDK-PACK; echo $?; git push -q origin --delete JDK-PACK; echo $?")
    tap.equal(r.out.split(), ["1", "0", "0"], r.err)
    tap.contains(r.err, "! [remote rejected] main -> denied (exeat: ")
    tap.ok("refs/heads/denied" not in git.refs(pushes.REPO))


@tap.test
def it_is_found_in_any_cut(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        good = command("refs/heads/JDK-PACK", caps=CAPS) + b"0000PACK" + b"x" * 20
        bad = command("refs/heads/JDK-PACK", caps=CAPS) + command("refs/heads/PACK") + b"0000PACK" + b"x" * 20
        for piece in (1, 3, 4, 5, 100):
            a = push(bad, piece=piece)
            report(a.status, named(a))
        report(push(command("refs/heads/main", old=ONE, new=ZERO, caps=CAPS) + b"0000").status)
    ''')
    tap.equal(r.reports[:5], [[200, ["refs/heads/JDK-PACK", "refs/heads/PACK"]]] * 5)
    tap.equal(git.hits, [])


tap.main()
