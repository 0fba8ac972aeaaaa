"""Pushes of many refs whose proofs the server is asked for: all in a few questions, whichever way the refs lie."""
import asks
import pushes
import tap

REPO = pushes.REPO
RULE = "allow push https://g.test/acme/app refs/heads/fix/* update with forge\n"
POLICY = pushes.FETCH + RULE
N = 200


def serve(t):
    """A server with a line of N commits upon main that no branch holds, and a branch beside each of them."""
    git = asks.serve(t)
    stream = []
    for i in range(N):
        stream.append("commit refs/side/line\nmark :%d\ncommitter S <s@example.com> %d +0000\ndata 2\nc\nfrom %s\n"
                      "M 100644 inline c/%d\ndata 2\nc\n" % (i + 1, 1700000000 + i, ":%d" % i if i else git.line[5], i))
        stream.append("commit refs/side/%d\nmark :%d\ncommitter S <s@example.com> %d +0000\ndata 2\ns\nfrom :%d\n"
                      "M 100644 inline s/%d\ndata 2\ns\n" % (i, N + i + 1, 1700000000 + i, i + 1, i))
    git.git(REPO, "fast-import", "--quiet", stdin="".join(stream).encode())
    git.long = git.git(REPO, "rev-list", "--reverse", git.line[5] + "..refs/side/line").split()
    git.side = [git.git(REPO, "rev-parse", "refs/side/%d" % i).strip() for i in range(N)]
    return git


def set_refs(git, olds):
    git.git(REPO, "update-ref", "--stdin", stdin="".join("update refs/heads/fix/%d %s\n" % (i, old) for i, old in enumerate(olds)).encode())


def push(git, news, policy=POLICY):
    """All refs are pushed at once; exeat's questions beforehand are forgotten."""
    before = len(asks.asked(git))
    script = pushes.CLONE + "git fetch -q origin 'refs/side/*:refs/side/*'; xargs git push -q --force origin <<'END' && echo passed || echo refused-$?\n"
    r = pushes.run(git, policy, script + "".join("%s:refs/heads/fix/%d\n" % (new, i) for i, new in enumerate(news)) + "END\n", timeout=200)
    questions = len(asks.asked(git)) - before
    print("# %d questions, %.1f s" % (questions, r.seconds))
    return r, questions


SHAPES = {
    "from one commit to another": lambda git: ([git.line[5]] * N, [git.long[-1]] * N),
    "each to the next of a line": lambda git: (git.long[:-1], git.long[1:]),
    "from all along a line to its end": lambda git: (git.long[:-1], [git.long[-1]] * (N - 1)),
    "from one commit to all along a line": lambda git: ([git.line[5]] * N, git.long),
    "to commits beside a line": lambda git: (git.long, git.side),
    "from one commit to commits beside a line": lambda git: ([git.line[5]] * N, git.side),
}


@tap.test(timeout=400)
def many_refs_are_proved_in_few_questions(t):
    git = serve(t)
    for name, shape in SHAPES.items():
        olds, news = shape(git)
        set_refs(git, olds)
        r, questions = push(git, news)
        tap.contains(r.out, "passed", name + str(r))
        refs = git.refs(REPO)
        tap.equal([refs["refs/heads/fix/%d" % i] for i in range(len(news))], news, name)
        tap.ok(questions <= 20, name)
        proofs = {ref["proof"] for ref in pushes.refs(r, "allow")}
        tap.equal(proofs, {"server"}, name)


@tap.test(timeout=400)
def one_that_is_none_among_them(t):
    """Whichever it is, and wherever it goes: all are refused, and that one is told as the reason."""
    git = serve(t)
    first = min(range(N - 1), key=git.long.__getitem__)  # of a line's refs, the server is asked for the one with the least id
    for name, where, to in (("from one commit to another", 7, git.line[0]), ("from all along a line to its end", 100, git.long[20]),
                            ("each to the next of a line", 60, git.side[10]), ("each to the next of a line", first, git.line[0]), ("to commits beside a line", 199, git.side[3])):
        olds, news = SHAPES[name](git)
        set_refs(git, olds)
        news = list(news)
        news[where] = to
        r, questions = push(git, news)
        tap.contains(r.out, "refused-", name + str(r))
        tap.contains(r.err, "remote: exeat: push refused: refs/heads/fix/%d: no rule allows force" % where, name)
        tap.lacks(r.err, "until it is proved", name)
        reasons = [v["reason"] for v in pushes.judged(r, verdict="deny")]
        tap.equal(reasons, ["refs/heads/fix/%d: no rule allows force of this ref" % where], name)
        refs = git.refs(REPO)
        tap.equal([refs["refs/heads/fix/%d" % i] for i in range(len(olds))], olds, name)
        tap.ok(questions <= 20, name)


@tap.test(timeout=400)
def many_refs_that_bring_the_same_are_looked_at_once(t):
    git = serve(t)
    policy = POLICY + "deny push https://g.test/acme/app paths %s\n"
    olds, news = SHAPES["from one commit to another"](git)
    for path, word in ((".github/**", "passed"), ("c/7", "refused-")):
        set_refs(git, olds)
        r, questions = push(git, news, policy % path)
        tap.contains(r.out, word, str(r))
        tap.ok(questions <= 10)


if __name__ == "__main__":
    tap.main()
