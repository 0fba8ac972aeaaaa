"""What the user sees: for each kind of refusal everything that git prints, to the letter. It says which ref, by which rule
(file:line) or by the lack of which, what would be permitted, and the decision's id, one line each."""
import re

import raw
import tap
from gitserver import GitServer, Narrow
from pushes import CLONE, FETCH, REPO, run, serve

PUSH = "allow push https://g.test/acme/app "
CHANGE = "echo change >> README; git commit -qam change; "
SENT = "remote: exeat: sandbox SANDBOX, decision ID\nTo https://g.test/acme/app.git\n"
LONG = ("for i in 1 2 3 4; do head -c 900000 /dev/urandom | base64 > ../m; git commit -q --allow-empty -F ../m; done; ")
FAILED = "error: failed to push some refs to 'https://g.test/acme/app.git'\n"
NO_RULE = "no rule allows a push to this ref"
WITH_THE_REST = "refused with the rest of this push"


def rejected(what, why):
    return " ! [remote rejected] %s (exeat: %s [ID])\n" % (what, why)


def shown(r):
    """What git printed, without what exeat itself says on standard error."""
    text = re.sub(r"^exeat: .*\n", "", r.err, flags=re.M)
    text = re.sub(r"01[0-9A-Z]{24}", "ID", text)
    text = re.sub(r"sandbox [\w-]+,", "sandbox SANDBOX,", text)
    text = re.sub(r"again in \d+ s", "again in N s", text)
    text = re.sub(r"commit [0-9a-f]{12}", "commit COMMIT", text)
    text = re.sub(r"object [0-9a-f]{12}", "object OBJECT", text)
    text = re.sub(r"it has [0-9]{3} bytes or more", "SIZE", text)
    text = re.sub(r"max-size [0-9]{3}\b", "max-size BYTES", text)
    return re.sub(r" +$", "", text, flags=re.M)


def check(git, policy, command, want, **options):
    r = run(git, policy, command, **options)
    got = shown(r)
    if got != want:
        tap.note(r)
        tap.fail("git printed\n%s\ninstead of\n%s" % (got, want))
    ids = set(re.findall(r"01[0-9A-Z]{24}", r.err))
    denied = {v["id"] for v in r.verdicts(verdict="deny")}
    tap.ok(denied <= ids and ids <= {d["id"] for d in r.decisions}, (ids, denied))
    return r


def repository(t, cls=GitServer):
    git = serve(t, cls=cls)
    git.commit(REPO, "refs/heads/main", {"README": "two\n"}, parent=git.refs(REPO)["refs/heads/main"])
    git.git(REPO, "update-ref", "refs/heads/x", "refs/heads/main")
    return git


def case(t, rules, refs, want, before=CHANGE, cls=GitServer):
    check(repository(t, cls), FETCH + rules + "\n", CLONE + before + "git push origin %s || exit 0" % refs, want)


@tap.test
def a_ref_that_no_rule_names(t):
    case(t, PUSH + "refs/heads/fix/* with forge", "HEAD:main",
         "remote: exeat: push refused: refs/heads/main: " + NO_RULE + "\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/main force  # update, if it is a fast-forward\n"
         + SENT + rejected("HEAD -> main", NO_RULE) + FAILED)


@tap.test
def an_operation_that_no_rule_names(t):
    case(t, PUSH + "refs/heads/* create with forge", "--delete x",
         "remote: exeat: push refused: refs/heads/x: no rule allows delete of this ref\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/x delete\n"
         + SENT + rejected("x", "no rule allows delete of this ref") + FAILED)


@tap.test
def a_rewrite(t):
    case(t, PUSH + "refs/heads/* create update with forge", "--force HEAD:x",
         "remote: exeat: push refused: refs/heads/x: no rule allows force of this ref\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/x force\n"
         + SENT + rejected("HEAD -> x", "no rule allows force of this ref") + FAILED,
         before="git reset -q --hard HEAD~1; " + CHANGE)


@tap.test
def a_rewrite_where_paths_are_denied_too(t):
    """force is the reason, not that nobody looked at what it brings"""
    case(t, PUSH + "refs/heads/* create update with forge\ndeny push https://g.test/acme/app paths x/**", "--force HEAD:x",
         "remote: exeat: push refused: refs/heads/x: no rule allows force of this ref\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/x force\n"
         + SENT + rejected("HEAD -> x", "no rule allows force of this ref") + FAILED,
         before="git reset -q --hard HEAD~1; " + CHANGE)


@tap.test
def a_rewrite_that_a_rule_denies(t):
    denied = "denied by test.policy:3: history stays"
    case(t, PUSH + "refs/heads/* create update force with forge\ndeny push https://g.test/acme/app force note \"history stays\"", "--force HEAD:x",
         "remote: exeat: push refused: refs/heads/x: " + denied + "\n" + SENT + rejected("HEAD -> x", denied) + FAILED,
         before="git reset -q --hard HEAD~1; " + CHANGE)


class Unhelpful(GitServer):
    """It gives exeat itself no history."""

    def _backend(self, connection, request, hit):
        if request.header("user-agent").startswith("exeat"):
            connection.read_body(request)
            connection.send(raw.response(500, "no", reason="No"))
            return
        super()._backend(connection, request, hit)


@tap.test
def an_update_that_can_not_be_proved(t):
    git = serve(t, cls=Unhelpful)
    first = git.refs(REPO)["refs/heads/main"]
    git.git(REPO, "update-ref", "refs/heads/x", first)
    git.commit(REPO, "refs/heads/main", {"README": "two\n"}, parent=first)
    unproved = "no rule allows force of this ref, and an update counts as force until it is proved a fast-forward"
    check(git, FETCH + PUSH + "refs/heads/* update with forge\n", CLONE + "git push origin main:x || exit 0",
          "remote: exeat: push refused: refs/heads/x: " + unproved + "\n"
          "remote: exeat: the server was asked in vain: the server answers with status 500\n"
          "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/x force\n"
          + SENT + rejected("main -> x", unproved) + FAILED)


@tap.test
def a_deny_rule_and_what_falls_with_it(t):
    case(t, PUSH + "refs/heads/* with forge\ndeny push https://g.test/acme/app refs/heads/release/*", "HEAD:release/1 HEAD:a",
         "remote: exeat: push refused: refs/heads/release/1: denied by test.policy:3\n"
         + SENT + rejected("HEAD -> release/1", "denied by test.policy:3") + rejected("HEAD -> a", WITH_THE_REST) + FAILED)


@tap.test
def a_path_that_may_not_be_changed(t):
    """a path that may not be changed, and one beside those that may"""
    denied = "denied by test.policy:3: commit COMMIT changes README"
    case(t, PUSH + "refs/heads/* with forge\ndeny push https://g.test/acme/app paths READ*", "HEAD:a",
         "remote: exeat: push refused: refs/heads/a: " + denied + "\n" + SENT + rejected("HEAD -> a", denied) + FAILED)
    beside = "test.policy:2 would permit it, but for `paths`: commit COMMIT changes README"
    case(t, PUSH + "refs/heads/* with forge paths docs/**", "HEAD:a",
         "remote: exeat: push refused: refs/heads/a: " + beside + "\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/a create paths README\n"
         + SENT + rejected("HEAD -> a", beside) + FAILED)


@tap.test
def a_push_that_is_too_large(t):
    large = "test.policy:2 would permit it, but for `max-size`: SIZE"
    case(t, PUSH + "refs/heads/* with forge max-size 100", "HEAD:a",
         "remote: exeat: push refused: refs/heads/a: " + large + "\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/a create max-size BYTES\n"
         + SENT + rejected("HEAD -> a", large) + FAILED)


def part(t, words, refs, why, hint, before=CHANGE):
    """A part of the rule that would permit it is not met."""
    text = "test.policy:2 would permit it, but for `%s`%s" % (words.split(" ")[0], why)
    case(t, PUSH + "refs/heads/* with forge " + words, refs,
         "remote: exeat: push refused: refs/heads/a: " + text + "\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/a create" + hint + "\n"
         + SENT + rejected("HEAD -> a", text) + FAILED, before=before)


@tap.test
def a_file_that_is_too_large(t):
    # long enough that it is refused before all of its pack has come, so that no size is proposed
    part(t, "max-blob 1KiB", "HEAD:a", ": a file has 500000 bytes or more", "", before="head -c 500000 /dev/urandom > f; git add f; git commit -qm f; ")


@tap.test
def too_many_commits(t):
    part(t, "max-commits 1", "HEAD:a", ": it brings 3 commits", " max-commits 3")


@tap.test
def a_commit_of_somebody_else(t):
    """an author and a committer that are not permitted"""
    for word in ("author", "committer"):
        part(t, word + " *@corp.test", "HEAD:a", ": commit COMMIT has the %s T <t@example.com>" % word,
             ' %s "T <t@example.com>" "S <s@example.com>"' % word)


@tap.test
def a_commit_without_a_signature(t):
    part(t, "signed", "HEAD:a", ": 3 of its 3 commits have no signature", "")


@tap.test
def a_push_option(t):
    why = "test.policy:2 would permit it, but for `ci.variable`: a push option that it does not name"
    case(t, PUSH + "refs/heads/* with forge", "-o ci.variable=x HEAD:a",
         "remote: exeat: push refused: refs/heads/a: " + why + "\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/a create options ci.variable=x\n"
         + SENT + rejected("HEAD -> a", why) + FAILED)


@tap.test
def a_tag(t):
    case(t, PUSH + "refs/heads/** with forge", "v1",
         "remote: exeat: push refused: refs/tags/v1: " + NO_RULE + "\n"
         "remote: exeat: to permit: allow push https://g.test/acme/app refs/tags/v1 create\n"
         + SENT + rejected("v1 -> v1", NO_RULE) + FAILED, before="git tag -a -m t v1; ")


@tap.test
def what_the_server_does_not_tell(t):
    """paths that can't be compared, since the server gives no trees"""
    unknown = "denied by test.policy:3: the server was asked in vain: the server answers with status 500"
    case(t, PUSH + "refs/heads/* with forge\ndeny push https://g.test/acme/app paths x/**", "HEAD:a",
         "remote: exeat: push refused: refs/heads/a: " + unknown + "\n" + SENT + rejected("HEAD -> a", unknown) + FAILED, cls=Unhelpful)


@tap.test
def more_memory_than_there_may_be(t):
    """more than may be kept of a push: commits that are large, and a pack that makes much of little (deltas of deltas)"""
    need = "this push needs more than 1 MiB of memory to be looked through; the operator may permit more (exeat run --push-memory)"
    proof = "no rule allows force of this ref, and an update counts as force until it is proved a fast-forward"
    r = check(repository(t), FETCH + PUSH + "refs/heads/* update with forge\n", CLONE + LONG + "git push origin HEAD:x || exit 0",
              "remote: exeat: push refused: refs/heads/x: " + proof + "\n"
              "remote: exeat: the pack can't be looked through: " + need + "\n"
              "remote: exeat: to permit: allow push https://g.test/acme/app refs/heads/x force\n"
              + SENT + rejected("HEAD -> x", proof) + FAILED, flags=["--push-memory", "1"])
    tap.equal([v["code"] for v in r.verdicts(verdict="deny")], ["update-not-proved"])


@tap.test
def many_refs_are_no_wall(t):
    names = "abcdefg"
    case(t, PUSH + "refs/heads/fix/* with forge", "HEAD:fix/1 " + " ".join("HEAD:" + n for n in names),
         "".join("remote: exeat: push refused: refs/heads/%s: %s\n" % (n, NO_RULE) for n in names[:4])
         + "remote: exeat: push refused: and 3 more refs\n"
         + "".join("remote: exeat: %s allow push https://g.test/acme/app refs/heads/%s create with forge\n"
                   % ("          " if n != "a" else "to permit:", n) for n in names[:4])
         + "remote: exeat:            and so on\n" + SENT
         + rejected("HEAD -> fix/1", WITH_THE_REST) + "".join(rejected("HEAD -> " + n, NO_RULE) for n in names) + FAILED)


@tap.test
def a_limit(t):
    used = "test.policy:2 permits 1 request an hour, and no more: again in N s"
    case(t, PUSH + "refs/heads/* with forge limit 1/h", "HEAD:a && git push origin HEAD:b",
         "To https://g.test/acme/app.git\n * [new branch]      HEAD -> a\n"
         "remote: exeat: push refused: " + used + "\n" + SENT + rejected("HEAD -> b", used) + FAILED)


@tap.test
def a_person_to_be_asked(t):
    asks = "test.policy:3 asks a person; this version can't wait for one yet"
    case(t, PUSH + "refs/heads/* with forge\nask push https://g.test/acme/app refs/heads/release/*", "HEAD:release/1",
         "remote: exeat: push refused: refs/heads/release/1: " + asks + "\n" + SENT + rejected("HEAD -> release/1", asks) + FAILED)


@tap.test
def refs_with_different_credentials(t):
    differ = "the refs of this push are permitted with different credentials: push them one by one"
    case(t, PUSH + "refs/heads/a with forge\n" + PUSH + "refs/heads/b", "HEAD:a HEAD:b",
         "remote: exeat: push refused: " + differ + "\n" + SENT + rejected("HEAD -> a", differ) + rejected("HEAD -> b", differ)
         + FAILED)


@tap.test
def a_push_that_can_not_be_read(t):
    long = "refs/heads/" + "r" * 1100
    why = "a ref's name of more than 1024 bytes"
    case(t, PUSH + "refs/heads/** with forge", "HEAD:a HEAD:" + long,
         "remote: exeat: push refused: " + why + "\n" + SENT + rejected("HEAD -> a", why)
         + " ! [remote failure]  HEAD -> %s (remote failed to report status)\n" % long[11:] + FAILED)


@tap.test
def a_repository_that_nothing_may_be_pushed_to(t):
    case(t, "", "HEAD:a",
         "remote: exeat: denied: no rule allows push to this repository; to permit: "
         "allow push https://g.test/acme/app refs/heads/BRANCH [ID]\n"
         "fatal: unable to access 'https://g.test/acme/app.git/': The requested URL returned error: 403\n")


# ---- permitted, and did not work ----

class Gone(GitServer):
    """It goes away when something is pushed."""

    def _backend(self, connection, request, hit):
        if hit.method == "POST" and hit.path.endswith("git-receive-pack"):
            connection.read_body(request)
            connection.close("abrupt")
            return
        super()._backend(connection, request, hit)


@tap.test
def a_server_that_goes_away(t):
    gone = ("the upstream ended the connection without an answer; whether it has acted on the request is not known, "
            "so it was not sent again")
    case(t, PUSH + "refs/heads/* with forge", "HEAD:a",
         "remote: exeat: push failed: " + gone + "\n" + SENT + rejected("HEAD -> a", gone) + FAILED, cls=Gone)


@tap.test
def a_credential_that_is_not_good_for_pushes(t):
    refused = "g.test refused the credential forge (status 401)"
    case(t, PUSH + "refs/heads/* with forge", "HEAD:a",
         "remote: exeat: push failed: " + refused + "\n" + SENT + rejected("HEAD -> a", refused) + FAILED, cls=Narrow)


# ---- fetches ----

@tap.test
def a_fetch_that_no_rule_names(t):
    check(serve(t), "allow fetch https://g.test/other\n", "git ls-remote https://g.test/acme/app || exit 0",
          "remote: exeat: denied: no rule allows fetch from this repository; to permit: "
          "allow fetch https://g.test/acme/app [ID]\n"
          "fatal: unable to access 'https://g.test/acme/app/': The requested URL returned error: 403\n")


@tap.test
def what_no_permitted_ref_leads_to(t):
    """an object by its id, a shallow and a partial fetch of it, where refs are limited"""
    git = repository(t)
    hidden = git.commit(REPO, "refs/heads/hidden", {"secret": "s\n"})
    for words in ("", "--depth=1 ", "--filter=blob:none "):
        check(git, "allow fetch https://g.test/acme/app refs/heads/main with forge\n",
              "cd; git init -q w; cd w; git fetch -q %shttps://g.test/acme/app %s || exit 0" % (words, hidden),
              ("warning: filtering not recognized by server, ignoring\n" if "filter" in words else "")
              + "fatal: remote error: exeat: denied: no ref that may be fetched leads to object OBJECT; to permit: "
              "allow fetch https://g.test/acme/app also any-object [ID]\n")


@tap.test
def the_dumb_protocol(t):
    check(serve(t), FETCH, "GIT_SMART_HTTP=0 git clone -q https://g.test/acme/app.git c || exit 0",
          "remote: exeat: denied: git's dumb HTTP protocol is not let through [ID]\n"
          "fatal: unable to access 'https://g.test/acme/app.git/': The requested URL returned error: 403\n")


@tap.test
def a_fetch_over_the_limit(t):
    for version in ("0", "2"):
        r = run(serve(t), FETCH.strip() + " limit 1/h\n",
                "cd; g='git -c protocol.version=%s'; for d in a b c; do $g clone -q https://g.test/acme/app.git $d; done; exit 0" % version)
        lines = shown(r).split("\n")
        tap.equal(lines[0], "fatal: remote error: exeat: denied: test.policy:1 permits 1 request an hour, "
                            "and no more: again in N s [ID]", r)
        tap.ok(set(lines) <= {lines[0], "", "fatal: the remote end hung up unexpectedly"}, r)


tap.main()
