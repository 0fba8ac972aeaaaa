"""Random repositories and random pushes: what exeat calls a fast-forward, and which paths it calls changed, is what git says.

Each repository has a policy of its own: some permit forced updates and deny some paths at random, some permit no forced
update. git's own word is `git merge-base --is-ancestor`, `git merge-base --all` and `git diff-tree -r -m`, by the rules of
exeat-policy(5), "What a push brings", on a repository that has both the server's commits and the pushed ones.
EXEAT_SEED repeats a run, EXEAT_ROUNDS makes it longer.
"""
import os
import random
import subprocess

import pushes
import tap
import work
from gitserver import ENV

REPOSITORIES, PUSHES = 5, 12
ROUNDS = int(os.environ.get("EXEAT_ROUNDS", "1"))
NAMES = ["a", "b/a", "b/c/a", "b/c/d", "b.x", "e/a", "e/f/g", "B/a"]
LINKS = ["a", "b", "b/c", "e"]  # that may be a symbolic link or a submodule
ZERO = "0" * 40


class World:
    """A repository at the server, and one with all of that and what is to be pushed."""

    def __init__(self, git, rnd, number):
        self.git, self.rnd, self.name = git, rnd, "acme/r%d" % number
        git.create(self.name + ".git", empty=True)
        self.path = work.folder("world.")
        self.run("init", "-q", "--bare", ".")
        self.known, self.trees, self.listed, self.made = [], {}, {}, 0
        self.forces = number % 3 != 0
        self.denied = set(rnd.sample(NAMES, rnd.randint(1, 3))) if self.forces else set()

    def run(self, *args, stdin=None, check=True):
        p = subprocess.run(["git", "-C", self.path, *args], env=ENV, input=stdin, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, check=check, text=True)
        return p.stdout if check else p.returncode == 0

    # -- commits

    def change(self, tree):
        tree = dict(tree)
        for _ in range(self.rnd.choice([0, 1, 1, 2])):
            name, kind = self.rnd.choice(NAMES), self.rnd.random()
            if kind < 0.25:
                tree.pop(name, None)
            elif kind < 0.35:
                tree[name] = ("100755", "blob")
            elif kind < 0.45:
                link = self.rnd.choice(LINKS)
                tree = {k: v for k, v in tree.items() if not k.startswith(link + "/")}
                tree[link] = self.rnd.choice([("160000", "commit"), ("120000", "to")])
            elif kind < 0.55 and self.trees:
                tree[name] = self.rnd.choice(list(self.trees.values())).get(name, ("100644", "blob"))
            else:
                tree[name] = ("100644", "blob%d" % self.rnd.randrange(4))
        return self.possible(tree)

    @staticmethod
    def possible(tree):
        """Without files where there is a folder."""
        for name in list(tree):
            if any(other.startswith(name + "/") for other in tree):
                del tree[name]
        return tree

    def write(self, tree):
        index = os.path.join(self.path, "index")
        if os.path.exists(index):
            os.unlink(index)
        lines = []
        for name, (mode, kind) in tree.items():
            at = "1" * 40 if mode == "160000" else self.run("hash-object", "-w", "--stdin", stdin=kind).strip()
            lines.append("%s %s\t%s\n" % (mode, at, name))
        self.run("update-index", "--add", "--index-info", stdin="".join(lines))
        return self.run("write-tree").strip()

    def commit(self, parents):
        if parents:
            tree = self.trees[parents[0]]
            for other in parents[1:]:
                for name in NAMES + LINKS:  # of each side something: honest now and then
                    if self.rnd.random() < 0.5:
                        tree = {k: v for k, v in tree.items() if k != name}
                        if name in self.trees[other]:
                            tree[name] = self.trees[other][name]
            if len(parents) == 1 or self.rnd.random() < 0.3:
                tree = self.change(tree)
            tree = self.possible(tree)
        else:
            tree = self.change(self.change({"a": ("100644", "blob0")}))
        self.made += 1
        new = self.run("commit-tree", self.write(tree), "-m", "c%d" % self.made, *[w for p in parents for w in ("-p", p)]).strip()
        self.trees[new] = tree
        self.known.append(new)
        return new

    def merge(self, ours, theirs):
        """As git would, if it can."""
        if self.rnd.random() < 0.4 or self.run("merge-base", ours, theirs, check=False) is False:
            return self.commit([ours, theirs])
        folder = work.folder("merge.")
        script = ("git clone -q -n %s . && git checkout -q %s && git merge -q -m merge %s && git push -q origin HEAD:refs/tmp && git rev-parse HEAD"
                  % (self.path, ours, theirs))
        p = subprocess.run(["sh", "-c", script], cwd=folder, env={**ENV, "GIT_CONFIG_COUNT": "3", "GIT_CONFIG_KEY_2": "advice.detachedHead",
                                                                   "GIT_CONFIG_VALUE_2": "false"},
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        if p.returncode:
            return self.commit([ours, theirs])
        new = p.stdout.split()[-1]
        listed = [line.split(None, 3) for line in self.run("ls-tree", "-r", new).splitlines()]
        self.trees[new] = {name: (mode, kind if mode == "160000" else self.run("cat-file", "blob", at)) for mode, kind, at, name in listed}
        self.known.append(new)
        return new

    def grow(self, heads):
        kind = self.rnd.random()
        if not heads or kind < 0.05:
            return self.commit([])
        if kind < 0.55 or len(heads) < 2:
            return self.commit([self.rnd.choice(heads)])
        if kind < 0.85:
            return self.merge(*self.rnd.sample(heads, 2))
        if kind < 0.93:
            one, two = self.rnd.sample(heads, 2)  # criss-cross
            left, right = self.merge(one, two), self.merge(two, one)
            return self.merge(self.commit([left]), self.commit([right]))
        return self.commit(self.rnd.sample(heads, min(len(heads), self.rnd.randint(3, 4))))

    def build(self):
        """The server's history: main, and branches fix/N where the pushes begin. Then what is pushed."""
        for _ in range(10):
            self.grow(self.known[-6:])
        theirs = list(self.known)
        self.main = self.rnd.choice(theirs)
        self.olds = {"refs/heads/fix/%d" % i: self.rnd.choice(theirs) for i in range(3 * PUSHES) if self.rnd.random() < 0.7}
        refs = {"refs/heads/main": self.main, **self.olds, **{"refs/keep/%d" % i: c for i, c in enumerate(theirs) if self.rnd.random() < 0.5}}
        self.run("update-ref", "--stdin", stdin="".join("create %s %s\n" % (ref, at) for ref, at in refs.items()))
        self.run("push", "-q", self.git.path(self.name + ".git"), "refs/heads/*:refs/heads/*", "refs/keep/*:refs/keep/*")
        for _ in range(14):
            self.grow(self.known[-8:])
        self.run("update-ref", "--stdin", stdin="".join("create refs/all/%d %s\n" % (i, c) for i, c in enumerate(self.known)))

    def policy(self):
        url = "https://g.test/" + self.name
        lines = ["allow fetch %s with forge" % url,
                 "allow push %s refs/heads/fix/* refs/tags/* create update delete %s with forge" % (url, "force" if self.forces else "")]
        lines += ["deny push %s paths %s" % (url, name) for name in sorted(self.denied)]
        return "\n".join(lines) + "\n"

    # -- pushes

    def plan(self):
        """[(ref, old, new, what git is to push)] of each push."""
        free, plans = iter(range(3 * PUSHES)), []
        for i in range(PUSHES):
            plan = []
            for _ in range(self.rnd.choice([1, 1, 1, 2, 3])):
                ref = "refs/heads/fix/%d" % next(free)
                old, new = self.olds.get(ref, ZERO), self.rnd.choice(self.known)
                kind = self.rnd.random()
                if kind < 0.1:
                    ref, old, name = "refs/tags/t%d-%d" % (i, len(plan)), ZERO, "t%d-%d" % (i, len(plan))
                    self.run("tag", "-a", "-m", "t", name, new)
                    plan.append((ref, old, new, "%s:%s" % (self.run("rev-parse", "refs/tags/" + name).strip(), ref)))
                elif kind < 0.2 and old != ZERO:
                    plan.append((ref, old, ZERO, ":" + ref))
                elif new != old:
                    plan.append((ref, old, new, "%s:%s" % (new, ref)))
            if plan:
                plans.append(plan)
        return plans

    # -- git's word

    def diff(self, one, two):
        return set(self.run("diff-tree", "-r", "--no-renames", "--name-only", one, two).splitlines())

    def modes(self, commit):
        """The mode of each path."""
        if commit not in self.listed:
            lines = [line.split(None, 3) for line in self.run("ls-tree", "-r", commit).splitlines()]
            self.listed[commit] = {line[3]: line[0] for line in lines}
        return self.listed[commit]

    def marked(self, paths, *commits):
        """With "NAME/" besides for what is a symbolic link or a submodule in one of these: it stands for all below it."""
        return paths | {p + "/" for p in paths if any(self.modes(c).get(p) in ("120000", "160000") for c in commits)}

    def ancestors(self, commit):
        return set(self.run("rev-list", commit).split())

    def bases(self, one, two):
        """Common ancestors above which lies one of either side's own, git's merge bases among them."""
        mine, other = self.ancestors(one), self.ancestors(two)
        above = [{p for line in self.run("rev-list", "--parents", top).splitlines() if line.split()[0] not in both
                  for p in line.split()[1:]} | {top} for top, both in ((one, other), (two, mine))]
        found = mine & other & above[0] & above[1]
        p = subprocess.run(["git", "-C", self.path, "merge-base", "--all", one, two], env=ENV, stdout=subprocess.PIPE, text=True, check=False)
        tap.ok(set(p.stdout.split()) <= found, (one, two))
        return found

    def merged(self, new, one, two):
        """What a merge of two changes."""
        first, second = self.diff(one, new), self.diff(two, new)
        found, bases = first & second, self.bases(one, two)
        for other, taken in ((two, second - first), (one, first - second)):
            for base in bases:
                found |= taken & self.diff(base, other)
            if not bases:
                found |= taken & set(self.modes(other))
        return self.marked(found, new, one, two, *bases)

    def commit_changes(self, commit):
        parents = self.run("rev-list", "--parents", "-n1", commit).split()[1:]
        if not parents:
            return self.marked(set(self.modes(commit)), commit)
        if len(parents) == 2:
            return self.merged(commit, *parents)
        found = set(self.run("diff-tree", "-r", "-m", "--no-renames", "--no-commit-id", "--name-only", commit).splitlines())
        return found.union(*[self.marked(self.diff(parent, commit), parent, commit) for parent in parents])

    def changes(self, old, new):
        """Paths that the update changes, and whether it is a fast-forward."""
        if new == ZERO:
            return set(), True
        skip = ["^" + self.main] + (["^" + old] if old != ZERO else [])
        found = set()
        for commit in self.run("rev-list", new, *skip).split():
            found |= self.commit_changes(commit)
        ahead = old == ZERO or self.run("merge-base", "--is-ancestor", old, new, check=False)
        if not ahead:
            found |= self.merged(new, old, new)
        return found, ahead

    def hit(self, paths):
        """Is one of these denied, in whatever letters?"""
        denied = {name.lower() for name in self.denied}
        return any(p.lower() in denied or (p.endswith("/") and any(name.startswith(p.lower()) for name in denied)) for p in paths)

    def expected(self, plan):
        """Whether all of it is permitted."""
        good = True
        for _, old, new, _ in plan:
            paths, ahead = self.changes(old, new)
            good &= (ahead or self.forces) and not self.hit(paths)
        return good


def script(world, plans):
    lines = ["cp -r %s $HOME/%s; cd $HOME/%s" % (world.path, world.name.replace("/", "-"), world.name.replace("/", "-"))]
    for i, plan in enumerate(plans):
        lines.append("git push -q --force https://g.test/%s.git %s 2>err && echo %s %d pass || { grep -q 'exeat: ' err && echo %s %d deny || { echo %s %d fail; cat err >&2; }; }"
                     % (world.name, " ".join(p[3] for p in plan), world.name, i, world.name, i, world.name, i))
    return "\n".join(lines) + "\n"


def compare(world, plans, said):
    passed = denied = 0
    for i, plan in enumerate(plans):
        want = "pass" if world.expected(plan) else "deny"
        detail = [(ref, old, new, sorted(world.changes(old, new)[0]), world.changes(old, new)[1]) for ref, old, new, _ in plan]
        tap.equal(said.get((world.name, i)), want, "%s push %d: %s; denied %s, forces %s" % (world.name, i, detail, world.denied, world.forces))
        refs = world.git.refs(world.name + ".git")
        for ref, old, _, spec in plan:
            there = spec.split(":")[0] if want == "pass" else "" if old == ZERO else old
            tap.equal(refs.get(ref, ""), there, (world.name, i, ref))
        passed += want == "pass"
        denied += want == "deny"
    world.git.git(world.name + ".git", "fsck", "--strict", "--no-dangling")
    return passed, denied


@tap.test(timeout=600 * ROUNDS)
def at_random_exeat_agrees_with_git(t):
    seed = int(os.environ.get("EXEAT_SEED", "0")) or random.randrange(1 << 30)
    print("# EXEAT_SEED=%d" % seed)
    rnd = random.Random(seed)
    total = [0, 0]
    for _ in range(ROUNDS):
        git = pushes.serve(t, repo=False)
        worlds = [World(git, rnd, i) for i in range(REPOSITORIES)]
        plans = []
        for world in worlds:
            world.build()
            plans.append(world.plan())
        r = pushes.run(git, "".join(w.policy() for w in worlds), "".join(script(w, p) for w, p in zip(worlds, plans)), timeout=500)
        said = {(w[0], int(w[1])): w[2] for w in (line.split() for line in r.out.splitlines()) if len(w) == 3}
        for world, plan in zip(worlds, plans):
            for k, n in enumerate(compare(world, plan, said)):
                total[k] += n
    print("# %d pushes passed, %d were denied, as git says" % tuple(total))
    tap.ok(min(total) > PUSHES, total)


if __name__ == "__main__":
    tap.main()
