"""Options of a push (git push -o), by which forges open, merge and write, pass where a rule names them."""
import os

import exeat
import pushes
import tap
import work

NAMED = pushes.FETCH + "allow push https://g.test/acme/app refs/heads/fix/* create with forge options merge_request.create topic=*\n"
PUSH = pushes.CLONE + "git push %s origin HEAD:refs/heads/fix/1 || echo refused-$?\n"


def push(t, policy, options):
    git = pushes.serve(t)
    return git, pushes.run(git, policy, ["sh", "-c", PUSH % options])


@tap.test
def an_option_that_no_rule_names_is_refused_in_gits_words(t):
    for policy in (pushes.PUSH, NAMED):
        git, r = push(t, policy, "-o ci.skip -o merge_request.merge_when_pipeline_succeeds")
        tap.contains(r.out, "refused-1", str(r))
        tap.contains(r.err, "a push option that it does not name")
        tap.contains(r.err, "`merge_request.merge_when_pipeline_succeeds`")
        tap.contains(r.err, "! [remote rejected] HEAD -> fix/1")
        tap.contains(r.err, "to permit: allow push https://g.test/acme/app refs/heads/fix/1 create options merge_request.merge_when_pipeline_succeeds")
        tap.ok("refs/heads/fix/1" not in git.refs(pushes.REPO), git.refs(pushes.REPO))
        tap.equal(pushes.posts(git, "git-receive-pack"), [])
        tap.equal(r.verdict(verdict="deny")["code"], "push-option")


@tap.test
def options_that_are_named_or_write_nothing_pass(t):
    for policy, options in ((pushes.PUSH, "-o ci.skip"), (NAMED, "-o merge_request.create -o topic=x -o ci.skip"), (NAMED, "")):
        git, r = push(t, policy, options)
        tap.lacks(r.out, "refused-", str(r))
        tap.ok("refs/heads/fix/1" in git.refs(pushes.REPO), git.refs(pushes.REPO))


@tap.test
def the_record_names_options_and_replay_judges_them(t):
    _, r = push(t, NAMED, "-o merge_request.create -o topic=SECRET-A -o ci.skip")
    told = [v["git"]["options"] for v in r.verdicts() if "options" in v.get("git", {})]
    tap.equal(told, [["merge_request.create", "topic=*", "ci.skip"]])
    with open(r.log, encoding="utf-8") as f:
        tap.lacks(f.read(), "SECRET-A")
    _, refused = push(t, pushes.PUSH, "-o merge_request.create")
    deny = pushes.FETCH + "allow push https://g.test/acme/app with forge options **\n"
    for log, policy, code, says in (
            (r.log, NAMED, 1, "1 permitted then, can't be told now"),
            (r.log, pushes.PUSH, 1, "1 permitted then, denied now"),
            (r.log, deny + "deny push https://g.test/acme/app options merge_request.*\n", 1, "1 permitted then, denied now"),
            (r.log, deny + "deny push https://g.test/acme/app options topic=SECRET-A\n", 1, "1 permitted then, can't be told now"),
            (refused.log, pushes.PUSH, 0, " 0 differ, 0 can't be told"), (refused.log, NAMED, 1, "1 denied then, permitted now")):
        path = work.write(os.path.join(work.folder("replay.", user=exeat.as_user(), mode=0o755), "p.policy"), policy, 0o644, exeat.as_user())
        replay = exeat.call("policy", "replay", log, path)
        tap.equal(replay.code, code, replay.out + policy)
        tap.contains(replay.out, says)


@tap.test
def a_deny_takes_one_option_among_many(t):
    git, r = push(t, pushes.FETCH + "allow push https://g.test/acme/app with forge options **\ndeny push https://g.test/acme/app options *merge_when*\n",
                  "-o a -o merge_request.merge_when_pipeline_succeeds -o b")
    tap.contains(r.out, "refused-1", str(r))
    tap.contains(r.err, "denied by test.policy:3")


@tap.test
def options_in_the_name_of_a_ref_count(t):
    policy = pushes.FETCH + "allow push https://g.test/acme/app refs/for/* create with forge%s\n"
    command = pushes.CLONE + "git push origin HEAD:refs/for/main%%%s || echo refused-$?\n"
    for rule, what, passes in (("", "submit", False), (" options topic=*", "topic=a,submit", False), (" options topic=*", "topic=a", True)):
        git = pushes.serve(t)
        r = pushes.run(git, policy % rule, ["sh", "-c", command % what])
        tap.equal("refused-1" in r.out, not passes, str(r))
        tap.equal(any(name.startswith("refs/for/") for name in git.refs(pushes.REPO)), passes)


if __name__ == "__main__":
    tap.main()
