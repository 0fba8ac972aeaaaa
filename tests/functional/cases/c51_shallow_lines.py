"""C51: what a shallow clone says before its commands is part of the list."""
import pushes
import tap


@tap.test
def a_shallow_clone_pushes(t):
    git = pushes.serve(t)
    git.commit(pushes.REPO, "refs/heads/main", {"README": "two\n"}, parent=git.refs(pushes.REPO)["refs/heads/main"])
    r = pushes.run(git, pushes.PUSH, "set -e; cd; git clone -q --depth 1 https://g.test/acme/app.git w; cd w; test -f .git/shallow; echo x >> README; "
                   "git commit -qam x; git push -q origin HEAD:refs/heads/fix/1; set +e; git push origin HEAD:refs/heads/no; echo $?")
    tap.contains(r.out, "1")
    tap.ok("refs/heads/fix/1" in git.refs(pushes.REPO) and "refs/heads/no" not in git.refs(pushes.REPO), r)


@tap.test
def shallow_lines_alone_and_before_a_denied_command(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        shallow = pkt("shallow " + "1" * 40 + "\\n")
        report(push(shallow + b"0000").status)
        a = push(shallow * 3 + command("refs/heads/main", caps=CAPS) + b"0000PACK")
        report(a.status, named(a))
        a = push(pkt("shallow 123") + command("refs/heads/fix/a", caps=CAPS) + b"0000PACK")
        report(a.status, b"exeat" in a.body)
    ''')
    tap.equal(r.reports[1:], [[200, ["refs/heads/main"]], [200, True]])
    tap.equal(len(git.hits), 1)


tap.main()
