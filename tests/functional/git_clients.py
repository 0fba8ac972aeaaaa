"""Other clients than git: what libgit2 and JGit make of a permitted push and of a refused one, short and long."""
import glob
import os
import re
import subprocess

import exeat
import pushes
import tap
import work
from pushes import PUSH, REPO, SECRET, serve

SIZES = (1000, 12 << 20)

PYGIT2 = r'''
import os, pygit2, sys
class Callbacks(pygit2.RemoteCallbacks):
    def push_update_reference(self, ref, message):
        print("ref", ref, message)
    def sideband_progress(self, text):
        print(text, end="")
folder = os.environ["HOME"] + "/p"
repo = pygit2.clone_repository("https://g.test/acme/app.git", folder)
open(folder + "/big", "wb").write(os.urandom(int(sys.argv[1])))
repo.index.add("big")
me = pygit2.Signature("t", "t@example.com")
repo.create_commit("refs/heads/x", me, me, "m", repo.index.write_tree(), [repo.head.target])
for ref in sys.argv[2:]:
    print("--")
    repo.remotes["origin"].push(["refs/heads/x:" + ref], callbacks=Callbacks())
'''

JGIT = r'''
import java.io.*;
import java.util.*;
import org.eclipse.jgit.api.*;
import org.eclipse.jgit.transport.*;

public class Push {
    public static void main(String[] args) throws Exception {
        File folder = new File(System.getenv("HOME"), "j");
        Git git = Git.cloneRepository().setURI("https://g.test/acme/app.git").setDirectory(folder).call();
        byte[] bytes = new byte[Integer.parseInt(args[0])];
        new Random(1).nextBytes(bytes);
        try (FileOutputStream out = new FileOutputStream(new File(folder, "big"))) {
            out.write(bytes);
        }
        git.add().addFilepattern("big").call();
        git.commit().setMessage("m").setAuthor("t", "t@example.com").setCommitter("t", "t@example.com").call();
        for (int i = 1; i < args.length; i++) {
            System.out.println("--");
            for (PushResult result : git.push().setRefSpecs(new RefSpec("HEAD:" + args[i])).call()) {
                System.out.print(result.getMessages());
                for (RemoteRefUpdate update : result.getRemoteUpdates())
                    System.out.println("ref " + update.getRemoteName() + " " + update.getMessage());
            }
        }
    }
}
'''


def check(git, r):
    """Two pushes: to main, which is refused, and to fix/1."""
    tap.equal(r.code, 0, r)
    id = r.verdict(verdict="deny")["id"]
    refused, pushed = [part.strip().split("\n") for part in r.out.split("--\n")[1:]]
    tap.equal([re.sub(r"sandbox \S+,", "sandbox S,", line) for line in refused], [
        "exeat: push refused: refs/heads/main: no rule allows a push to this ref",
        "exeat: to permit: allow push https://g.test/acme/app refs/heads/main force",
        "exeat: sandbox S, decision " + id,
        "ref refs/heads/main exeat: no rule allows a push to this ref [%s]" % id])
    tap.ok(pushed[-1] in ("ref refs/heads/fix/1 None", "ref refs/heads/fix/1 null"), pushed)
    tap.equal(sorted(git.refs(REPO)), ["refs/heads/fix/1", "refs/heads/main"])
    tap.lacks(r.out + r.err, SECRET)


def push(t, command):
    for size in SIZES:
        git = serve(t)
        check(git, exeat.run(PUSH, command(size), **pushes.options(git, timeout=200)))


@tap.test(timeout=300)
def libgit2(t):
    path = work.write(os.path.join(work.folder("pygit2."), "push.py"), PYGIT2)
    if subprocess.call(["/usr/bin/python3", "-c", "import pygit2"], stderr=subprocess.DEVNULL):
        tap.skip("no pygit2")
    push(t, lambda size: ["/usr/bin/python3", path, str(size), "refs/heads/main", "refs/heads/fix/1"])


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
    push(t, lambda size: ["sh", "-c", 'exec java -Xmx512m -Duser.home="$HOME" -cp %s Push %d refs/heads/main refs/heads/fix/1'
                          % (":".join(jars + [folder]), size)])


tap.main()
