"""Pushes at random, out of histories of any shape, to a real server: what exeat takes for a fast-forward and what it takes for
changed is what git says there (merge-base --is-ancestor, diff-tree -r -m).

EXEAT_SEED=N begins with that seed, EXEAT_SEEDS=N takes so many."""
import os
import random
import re
import subprocess

import exeat
import pushes
import tap
import work
from gitserver import ENV

REPO = pushes.REPO
PUSHES = 10
COMMITS = 36
FILES = ["a", "b", "c", "d/e/f", "d/g", "p/x", "p/y", "p/s/t", "q/z", "q/r", "r/s/t/u", "z", "D/g", "Q/r"]
LINKS = {"120000": "q", "160000": "1" * 40}  # a symbolic link, a submodule: each stands for all that may be below it
BASES_MAX = 8  # of one merge; with more of them nothing is excused
RULES = pushes.FETCH + """allow push https://g.test/acme/app refs/heads/fix/* create update delete %s with forge
allow push https://g.test/acme/app refs/tags/* create delete with forge
"""


def is_link(modes):
    """On either side of a line of diff-tree."""
    return any(mode in modes[:15] for mode in LINKS)


class History:
    """A repository with all that is pushed, and what git says of it."""

    def __init__(self, rnd, sha256):
        self.rnd, self.sha256 = rnd, sha256
        self.path = os.path.join(work.folder("history.", mode=0o755), "r.git")
        self.sh("git", "init", "-q", "--bare", "--object-format=" + ("sha256" if sha256 else "sha1"), self.path, cwd="/")
        self.made, self.ids, self.trees, self.parents = [], [], [], []
        for i in range(COMMITS):
            self.parents.append(self._parents(i))
            self.trees.append(self._tree(self.parents[i]))
            self.made.append(self._stream(i))
        self.sh("git", "fast-import", "--quiet", stdin="".join(self.made))
        self.ids = [self.git("rev-parse", "refs/all/%d" % i) for i in range(COMMITS)]
        self.tags = {}
        for i in range(0, COMMITS, 5):
            self.git("tag", "-a", "-m", "t", "t%d" % i, self.ids[i])
            self.tags["t%d" % i] = self.git("rev-parse", "refs/tags/t%d" % i)
        subprocess.run(["chmod", "-R", "a+rX", os.path.dirname(self.path)], check=True)
        self.diffs = self._diffs()

    def sh(self, *words, stdin=None, cwd=None):
        return subprocess.run(words, cwd=cwd or self.path, env=ENV, input=stdin, stdout=subprocess.PIPE, check=True, text=True).stdout

    def git(self, *words):
        return self.sh("git", *words).strip()

    def _parents(self, i):
        """Merges of what is near to one another, and of merges of the same: these criss-cross."""
        twins = [(a, b) for a in range(i) for b in range(a) if len(self.parents[a]) == 2 and set(self.parents[a]) == set(self.parents[b])]
        if i == 0 or self.rnd.random() < 0.06:
            return []
        if twins and self.rnd.random() < 0.25:
            return list(self.rnd.choice(twins))
        merges = [p for p in self.parents if len(p) == 2]
        if merges and self.rnd.random() < 0.15:
            return self.rnd.choice(merges)[::-1]
        near = list(range(max(0, i - 8), i))
        return self.rnd.sample(near, min(len(near), self.rnd.choice([1, 1, 1, 1, 2, 2, 2, 3, 4])))

    def _entry(self):
        """Of few contents, so that what was once there comes back."""
        return ("100755" if self.rnd.random() < 0.1 else "100644", "%d\n" % self.rnd.randrange(3))

    def _tree(self, parents):
        """Honest merges, and all others."""
        tree = {}
        if not parents:
            return {f: self._entry() for f in FILES if self.rnd.random() < 0.7}
        if len(parents) > 1 and self.rnd.random() < 0.6:
            for f in FILES + ["p"]:
                one = self.rnd.choice(parents)
                if f in self.trees[one]:
                    tree[f] = self.trees[one][f]
        else:
            tree = dict(self.trees[parents[0]])
        for _ in range(self.rnd.choice([0, 1, 1, 2]) if len(parents) == 1 or self.rnd.random() < 0.3 else 0):
            f = self.rnd.choice(FILES)
            if f in tree and self.rnd.random() < 0.3:
                del tree[f]
            else:
                tree[f] = self._entry()
        if self.rnd.random() < 0.08:
            tree["p"] = self.rnd.choice(list(LINKS.items()))
        if "p" in tree:  # a link, in the place of a directory
            if self.rnd.random() < 0.3:
                del tree["p"]
            else:
                tree = {f: e for f, e in tree.items() if not f.startswith("p/")}
        return tree

    def _stream(self, i):
        out = "commit refs/all/%d\nmark :%d\ncommitter S <s@example.com> %d +0000\ndata 2\nm\n" % (i, i + 1, 1700000000 + i)
        for k, parent in enumerate(self.parents[i]):
            out += "%s :%d\n" % ("merge" if k else "from", parent + 1)
        out += "deleteall\n"
        for f, (mode, content) in sorted(self.trees[i].items()):
            if mode == "160000":
                out += "M %s %s %s\n" % (mode, content + "1" * (24 if self.sha256 else 0), f)
            else:
                out += "M %s inline %s\ndata %d\n%s\n" % (mode, f, len(content), content)
        return out + "\n"

    # -- what git says

    def _diffs(self):
        """{id: [of each parent {path: is it a link on either side?}]}"""
        diffs, at = {}, None
        each = "".join("%s %s\n" % (i, self.ids[p]) for i, parents in zip(self.ids, self.parents) for p in parents)
        roots = "".join(i + "\n" for i, parents in zip(self.ids, self.parents) if not parents)
        text = self.sh("git", "diff-tree", "-r", "-m", "--root", "--always", "--no-renames", "--stdin", stdin=each + roots)
        for line in text.split("\n"):
            if re.fullmatch("[0-9a-f]{40,64}", line):
                at = {}
                diffs.setdefault(line, []).append(at)
            elif line:
                fields, path = line.split("\t")
                at[path] = is_link(fields)
        for i, parents in zip(self.ids, self.parents):
            assert len(diffs[i]) == (len(parents) or 1), (i, parents)
        return diffs

    def diff(self, old, new):
        out = {}
        for line in self.git("diff-tree", "-r", "--no-renames", old, new).split("\n"):
            if line:
                fields, path = line.split("\t")
                out[path] = is_link(fields)
        return out

    def tree(self, commit):
        return dict(reversed(line.split("\t")) for line in self.git("ls-tree", "-r", commit).split("\n") if line)

    def is_ancestor(self, old, new):
        return subprocess.run(["git", "merge-base", "--is-ancestor", old, new], cwd=self.path, env=ENV, check=False).returncode == 0

    def bases(self, a, b):
        """Common ancestors above which lies one of either side's own: git's merge bases, and more where histories are crooked."""
        mine, other = ({*self.git("rev-list", c).split()} for c in (a, b))
        above = []
        for top, both in ((a, other), (b, mine)):
            lines = [line.split() for line in self.git("rev-list", "--parents", top).split("\n")]
            above.append({top}.union(*[line[1:] for line in lines if line[0] not in both]))
        found = mine & other & above[0] & above[1]
        r = subprocess.run(["git", "merge-base", "--all", a, b], cwd=self.path, env=ENV, check=False, stdout=subprocess.PIPE, text=True)
        tap.ok(set(r.stdout.split()) <= found, (a, b))
        return sorted(found)

    # -- what that makes (proxy/codec/git_changes.h)

    def of_merge(self, made, one, two, of_one, of_two):
        bases = self.bases(one, two)
        trees = {c: self.tree(c) for c in (made, one, two, *bases)}
        below = [trees[b] for b in bases] or [{}]
        changed = {}
        for path, link in list(of_one.items()) + list(of_two.items()):
            taken = [other for mine, other in ((one, two), (two, one)) if trees[made].get(path) == trees[mine].get(path)
                     and all(trees[other].get(path) == t.get(path) for t in below)]
            if not taken or len(bases) > BASES_MAX:
                changed[path] = changed.get(path, False) or link
        return changed

    def brought(self, old, new, settled):
        """The paths that an update changes."""
        new = self.git("rev-parse", new + "^{commit}")
        changed = {}
        for commit in self.git("rev-list", new, "--not", *settled, *([old] if old else [])).split():
            parents = [self.ids[p] for p in self.parents[self.ids.index(commit)]]
            diffs = self.diffs[commit]
            if len(parents) == 2:
                diffs = [self.of_merge(commit, *parents, *diffs)]
            for diff in diffs:
                for path, link in diff.items():
                    changed[path] = changed.get(path, False) or link
        if old and not self.is_ancestor(old, new):
            for path, link in self.of_merge(new, old, new, self.diff(old, new), {}).items():
                changed[path] = changed.get(path, False) or link
        return changed


class Story:
    """One history, pushed out of piece by piece; what has to become of each push."""

    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.sha256 = self.rnd.random() < 0.2
        self.history = History(self.rnd, self.sha256)
        self.force = self.rnd.random() < 0.5
        self.guarded = self.rnd.choice(["p/**", "p/x", "p/s/**", "q/r", "d/**"])
        self.policy = RULES % ("force" if self.force else "")
        if self.rnd.random() < 0.8:
            self.policy += "deny push https://g.test/acme/app paths %s\n" % self.guarded
        else:
            self.guarded = ""
        self.main = self.history.ids[self.rnd.randrange(COMMITS // 2, COMMITS)]
        self.refs = {"refs/heads/main": self.main}

    def hits(self, path, link):
        """Is the path guarded, in whatever letters? Of a link what is below it, too."""
        path = path.lower()
        if not self.guarded:
            return False
        if self.guarded.endswith("**"):
            return path.startswith(self.guarded[:-2]) or (link and self.guarded.startswith(path + "/"))
        return path == self.guarded or (link and self.guarded.startswith(path + "/"))

    def choose(self):
        """[(ref, new id or '')], none of which is there already."""
        wishes, count = {}, self.rnd.choice([1, 1, 1, 2, 3, 12])
        for _ in range(count):
            kind = self.rnd.random()
            there = sorted(r for r in self.refs if r.startswith("refs/heads/fix/"))
            ref = "refs/heads/fix/%d" % self.rnd.randrange(3 if count < 12 else 40)
            if there and self.rnd.random() < 0.7:
                ref = self.rnd.choice(there)
            if kind < 0.1:
                name = self.rnd.choice(list(self.history.tags))
                ref, new = "refs/tags/" + name, self.history.tags[name]
                if ref in self.refs:
                    new = ""
            elif kind < 0.22 and ref in self.refs:
                new = ""
            elif kind < 0.6 and ref in self.refs:
                new = self.onwards(self.refs[ref])
            else:
                new = self.rnd.choice(self.history.ids)
            if self.refs.get(ref, "") != new:
                wishes[ref] = new
        return sorted(wishes.items())

    def onwards(self, old):
        young = [i for i in self.history.ids[self.history.ids.index(old) + 1:] if self.history.is_ancestor(old, i)]
        return self.rnd.choice(young) if young else self.rnd.choice(self.history.ids)

    def judge(self, wishes):
        """(permitted?, {ref: op}, {ref: changed paths})"""
        good, ops, changed = True, {}, {}
        for ref, new in wishes:
            old = self.refs.get(ref)
            ops[ref] = ("create" if not old else "delete" if not new else "update" if self.history.is_ancestor(old, new) else "force")
            if new:
                changed[ref] = self.history.brought(old, new, [self.main])
                good = good and not any(self.hits(p, link) for p, link in changed[ref].items())
            good = good and (ops[ref] != "force" or self.force)
        return good, ops, changed

    def plan(self):
        """[(wishes, expected, ops, changed)]"""
        rows = []
        while len(rows) < PUSHES:
            wishes = self.choose()
            if not wishes:
                continue
            rows.append((wishes, *self.judge(wishes)))
            if rows[-1][1]:
                for ref, new in wishes:
                    self.refs[ref] = new
                    if not new:
                        del self.refs[ref]
        return rows


def compare(story, rows, records, seed):
    """Each record against what git says."""
    for i, ((wishes, good, ops, changed), record) in enumerate(zip(rows, records)):
        where = "seed %d, push %d: %r" % (seed, i, record)
        tap.equal({r["ref"]: r["new"].strip("0") for r in record["git"]["refs"]}, {ref: new.strip("0") for ref, new in wishes}, where)
        for ref in record["git"]["refs"]:
            exact = ref["op"] in ("create", "delete") or (not story.force and (good or ref["proof"] != "none"))
            if exact or ref["op"] == "update":
                tap.equal(ref["op"], ops[ref["ref"]], where)
        tap.equal(record["verdict"] == "allow", good, where)
        named = re.findall(r"(refs/\S+): denied by test\.policy:\d+: .*? changes ([^\s,;]+)", record["reason"])
        tap.ok(named or record["code"] != "denied-by-rule", where)
        for ref, path in named:
            tap.ok(path in changed[ref], "%s, not %r; %s" % (path, changed[ref], where))
    tap.equal(len(records), len(rows), "seed %d" % seed)


def tell(story, git):
    """The server begins with main."""
    git.create(REPO, sha256=story.sha256, empty=True)
    story.history.git("push", "-q", git.path(REPO), story.main + ":refs/heads/main")


def one(t, seed):
    story = Story(seed)
    git = pushes.serve(t, repo=False)
    tell(story, git)
    rows = story.plan()
    script = ["cd %s" % story.history.path, "git config --global safe.directory '*'"]
    for wishes, _, _, _ in rows:
        script.append("git push -q --force https://g.test/acme/app.git %s 2>/dev/null || :" % " ".join("%s:%s" % (new, ref) for ref, new in wishes))
    r = exeat.run(story.policy, "\n".join(script), **pushes.options(git, timeout=300))
    records = [v for v in r.verdicts() if v["method"] == "POST" and (v.get("git") or {}).get("refs")]
    compare(story, rows, records, seed)
    tap.equal(git.refs(REPO), story.refs, "seed %d" % seed)
    git.git(REPO, "fsck", "--strict", "--no-dangling")
    return [row[1] for row in rows], [op for row in rows for op in row[2].values()]


@tap.test(timeout=7200)
def at_random_exeat_agrees_with_git(t):
    first = int(os.environ.get("EXEAT_SEED", "0")) or random.randrange(1 << 30)
    print("# EXEAT_SEED=%d" % first)
    permitted, ops = [], []
    for seed in range(first, first + int(os.environ.get("EXEAT_SEEDS", "4"))):
        good, kinds = one(t, seed)
        permitted += good
        ops += kinds
    print("# %d pushes, %d permitted; %s" % (len(permitted), sum(permitted), ", ".join("%s %d" % (op, ops.count(op)) for op in sorted(set(ops)))))


if __name__ == "__main__":
    tap.main()
