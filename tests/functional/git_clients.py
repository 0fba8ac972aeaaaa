"""Other clients than git: what libgit2, JGit and go-git see of limited refs, and what they make of a permitted push, short and
long, and of those that are refused for their ref, for a path, and for a rewrite."""
import glob
import os
import re
import subprocess

import exeat
import pushes
import tap
import work
from pushes import REPO, SECRET, serve

SIZES = (1000, 12 << 20)
POLICY = """allow fetch https://g.test/acme/app refs/heads/main refs/heads/fix/* with forge
allow push https://g.test/acme/app refs/heads/fix/* create update delete with forge
deny push https://g.test/acme/app paths .github/**
"""

# Each of these programs clones, says which refs it sees, commits a file of so many bytes, pushes it to main and to fix/1, pushes a
# commit on top that changes .github/x, and then rewrites fix/1. Where the client has them: a shallow clone.

PYGIT2 = r'''
import os, pygit2, sys
class Callbacks(pygit2.RemoteCallbacks):
    def push_update_reference(self, ref, message):
        print("ref", ref, message)
    def sideband_progress(self, text):
        print(text, end="")
folder = os.environ["HOME"] + "/p"
repo = pygit2.clone_repository("https://g.test/acme/app.git", folder)
print("--\n" + " ".join(sorted(head["name"] for head in repo.remotes["origin"].ls_remotes())))
me = pygit2.Signature("t", "t@example.com")
def commit(ref, parent, name, data):
    os.makedirs(os.path.dirname(folder + "/" + name), exist_ok=True)
    open(folder + "/" + name, "wb").write(data)
    repo.index.add(name)
    return repo.create_commit(ref, me, me, "m", repo.index.write_tree(), [parent])
def push(spec):
    print("--")
    repo.remotes["origin"].push([spec], callbacks=Callbacks())
base = repo.head.target
x = commit("refs/heads/x", base, "big", os.urandom(int(sys.argv[1])))
push("refs/heads/x:refs/heads/main")
push("refs/heads/x:refs/heads/fix/1")
commit("refs/heads/y", x, ".github/x", b"x")
push("refs/heads/y:refs/heads/fix/1")
repo.index.read_tree(repo[base].tree)
commit("refs/heads/z", base, "other", b"x")
push("+refs/heads/z:refs/heads/fix/1")
'''

JGIT = r'''
import java.io.*;
import java.util.*;
import org.eclipse.jgit.api.*;
import org.eclipse.jgit.lib.*;
import org.eclipse.jgit.transport.*;

public class Push {
    static Git git;
    static File folder = new File(System.getenv("HOME"), "j");

    static void commit(String name, byte[] bytes) throws Exception {
        new File(folder, name).getParentFile().mkdirs();
        try (FileOutputStream out = new FileOutputStream(new File(folder, name))) {
            out.write(bytes);
        }
        git.add().addFilepattern(name).call();
        git.commit().setMessage("m").setAuthor("t", "t@example.com").setCommitter("t", "t@example.com").call();
    }

    static void push(String spec) throws Exception {
        System.out.println("--");
        for (PushResult result : git.push().setRefSpecs(new RefSpec(spec)).call()) {
            System.out.print(result.getMessages());
            for (RemoteRefUpdate update : result.getRemoteUpdates())
                System.out.println("ref " + update.getRemoteName() + " " + update.getMessage());
        }
    }

    public static void main(String[] args) throws Exception {
        git = Git.cloneRepository().setURI("https://g.test/acme/app.git").setDirectory(folder).call();
        TreeSet<String> names = new TreeSet<>();
        for (Ref ref : git.lsRemote().call())
            names.add(ref.getName());
        System.out.println("--\n" + String.join(" ", names));
        byte[] bytes = new byte[Integer.parseInt(args[0])];
        new Random(1).nextBytes(bytes);
        commit("big", bytes);
        push("HEAD:refs/heads/main");
        push("HEAD:refs/heads/fix/1");
        commit(".github/x", new byte[1]);
        push("HEAD:refs/heads/fix/1");
        git.reset().setMode(ResetCommand.ResetType.HARD).setRef("refs/remotes/origin/main").call();
        commit("other", new byte[1]);
        push("+HEAD:refs/heads/fix/1");
    }
}
'''

GO_GIT = r'''
package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const url = "https://g.test/acme/app.git"

var folder = os.Getenv("HOME") + "/g"
var repo *git.Repository

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func commit(ref string, data []byte, name string) {
	tree, err := repo.Worktree()
	must(err)
	must(os.MkdirAll(filepath.Dir(folder+"/"+name), 0o755))
	must(os.WriteFile(folder+"/"+name, data, 0o644))
	_, err = tree.Add(name)
	must(err)
	_, err = tree.Commit("m", &git.CommitOptions{Author: &object.Signature{Name: "t", Email: "t@example.com"}})
	must(err)
}

func push(spec string) {
	fmt.Println("--")
	err := repo.Push(&git.PushOptions{RefSpecs: []config.RefSpec{config.RefSpec(spec)}, Progress: os.Stdout})
	fmt.Println("said", err)
}

func main() {
	var err error
	repo, err = git.PlainClone(folder, false, &git.CloneOptions{URL: url})
	must(err)
	remote, err := repo.Remote("origin")
	must(err)
	refs, err := remote.List(&git.ListOptions{})
	must(err)
	names := []string{}
	for _, ref := range refs {
		names = append(names, ref.Name().String())
	}
	sort.Strings(names)
	fmt.Println("--\n" + strings.Join(names, " "))
	base, err := repo.Head()
	must(err)
	size, _ := strconv.Atoi(os.Args[1])
	big := make([]byte, size)
	rand.Read(big)
	commit("x", big, "big")
	push("refs/heads/main:refs/heads/main")
	push("refs/heads/main:refs/heads/fix/1")
	commit("x", []byte("x"), ".github/x")
	push("refs/heads/main:refs/heads/fix/1")
	tree, err := repo.Worktree()
	must(err)
	must(tree.Reset(&git.ResetOptions{Commit: base.Hash(), Mode: git.HardReset}))
	commit("x", []byte("x"), "other")
	push("+refs/heads/main:refs/heads/fix/1")
	one, err := git.PlainClone(folder+"1", true, &git.CloneOptions{URL: url, Depth: 1, SingleBranch: true, ReferenceName: "refs/heads/main"})
	must(err)
	log, err := one.Log(&git.LogOptions{})
	must(err)
	first, err := log.Next()
	must(err)
	shallow, err := one.Storer.Shallow()
	must(err)
	fmt.Println("--\nshallow", len(shallow) == 1 && shallow[0] == first.Hash)
}
'''

WHY = [
    ("main", "no rule allows a push to this ref", "allow push https://g.test/acme/app refs/heads/main force  # update, if it is a fast-forward"),
    ("fix/1", None, None),
    ("fix/1", "denied by test.policy:3: commit COMMIT changes .github/x", None),
    ("fix/1", "no rule allows force of this ref", "allow push https://g.test/acme/app refs/heads/fix/1 force"),
]


def tidy(text):
    return re.sub("commit [0-9a-f]{12}", "commit COMMIT", re.sub(r"sandbox \S+,", "sandbox S,", text))


def refused(id, name, why, hint):
    return (["exeat: push refused: refs/heads/%s: %s" % (name, why)] + (["exeat: to permit: " + hint] if hint else [])
            + ["exeat: sandbox S, decision " + id])


def check(git, r, said, passed):
    """said(ref, text): the client's own line about a ref that is refused."""
    tap.equal(r.code, 0, r)
    parts = [tidy(part).strip().split("\n") for part in r.out.split("--\n")[1:]]
    tap.equal([n for n in parts[0][0].split(" ") if n != "HEAD"], ["refs/heads/fix/0", "refs/heads/main"])
    ids = iter([v["id"] for v in r.verdicts(verdict="deny")])
    for (name, why, hint), part in zip(WHY, parts[1:5]):
        ref = "refs/heads/" + name
        if why:
            id = next(ids)
            tap.equal(part, refused(id, name, why, hint) + [said(ref, "exeat: %s [%s]" % (why, id))], r)
        else:
            tap.ok(part[-1] in passed(ref), part)
    tap.equal(next(ids, None), None)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/fix/%d" % i for i in range(2)] + ["refs/heads/hidden", "refs/heads/main"])
    tap.lacks(r.out + r.err, SECRET)
    return parts[5:]


def push(t, command, said=lambda ref, text: "ref %s %s" % (ref, text), passed=lambda ref: ("ref %s None" % ref, "ref %s null" % ref)):
    for size in SIZES:
        git = serve(t)
        first = git.refs(REPO)["refs/heads/main"]
        git.commit(REPO, "refs/heads/main", {"README": "two\n"}, parent=first)
        git.git(REPO, "update-ref", "refs/heads/fix/0", first)
        git.commit(REPO, "refs/heads/hidden", {"secret": "s\n"})
        rest = check(git, exeat.run(POLICY, command(size), **pushes.options(git, timeout=200)), said, passed)
    return rest


@tap.test(timeout=300)
def libgit2(t):
    path = work.write(os.path.join(work.folder("pygit2."), "push.py"), PYGIT2)
    if subprocess.call(["/usr/bin/python3", "-c", "import pygit2"], stderr=subprocess.DEVNULL):
        tap.skip("no pygit2")
    push(t, lambda size: ["/usr/bin/python3", path, str(size)])


@tap.test(timeout=300)
def jgit(t):
    jars = ["/usr/share/java/%s.jar" % name for name in ("org.eclipse.jgit", "slf4j-api", "slf4j-nop", "javaewah", "jsch")]
    if not all(os.path.exists(jar) for jar in jars):
        tap.skip("no JGit")
    folder = work.folder("jgit.")
    source = work.write(os.path.join(folder, "Push.java"), JGIT)
    work.sh("javac", "-cp", ":".join(jars), "-d", folder, source)
    for path in glob.glob(folder + "/*.class"):
        os.chmod(path, 0o644)
    push(t, lambda size: ["sh", "-c", 'exec java -Xmx512m -Duser.home="$HOME" -cp %s Push %d' % (":".join(jars + [folder]), size)])


@tap.test(timeout=600)
def go_git(t):
    """go-git, as Debian has it: a library in GOPATH's way, which a program with a go.mod may call by its version."""
    if not os.path.exists("/usr/share/gocode/src/github.com/go-git/go-git"):
        tap.skip("no go-git")
    work.need("go")
    folder = work.folder("gogit.")
    source = os.path.join(folder, "src/pusher")
    os.makedirs(source)
    work.write(os.path.join(source, "go.mod"), "module pusher\n")
    work.write(os.path.join(source, "main.go"), GO_GIT)
    env = dict(os.environ, GO111MODULE="off", GOPATH=folder + ":/usr/share/gocode", GOFLAGS="", GOCACHE=os.path.join(folder, "cache"), HOME=folder)
    work.sh("go", "build", "-o", os.path.join(folder, "pusher"), ".", cwd=source, env=env, timeout=500)
    rest = push(t, lambda size: [os.path.join(folder, "pusher"), str(size)],
                said=lambda ref, text: "said command error on %s: %s" % (ref, text), passed=lambda ref: ("said <nil>",))
    tap.equal(rest, [["shallow true"]])


if __name__ == "__main__":
    tap.main()
