#!/usr/bin/env python3
"""C65: nothing secret, and no control, can be reached from inside, as root of the inner user namespace too."""
import os
import socket
import time

import exeat
import pki
import raw
import redis
import tap
import work

VAULT = "credential a\n    for https://a.test\n    from env TOKEN_A\n    inject bearer\n" \
        "credential b\n    for https://a.test\n    from file secret.txt\n    inject header x-key\n"
POLICY = "allow GET https://a.test/a with a\nallow GET https://a.test/b with b\n"
SECRETS = ("SECRET-A", "SECRET-B")

# Reads all that /proc shows of every process, and tells what holds one of the words; looks where descriptors lead.
SEARCH = r"""
import os, sys
words = [w.encode()[::-1] for w in sys.argv[1:]]
def search(path, limit=1 << 26):
    try:
        # a pipe of our own may have nothing to read
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as f:
            data = f.read(limit) or b""
    except OSError:
        return
    for word in words:
        if word in data:
            print("FOUND", word.decode(), path)
def memory(pid):
    try:
        with open("/proc/%s/maps" % pid) as maps, open("/proc/%s/mem" % pid, "rb") as mem:
            for line in maps:
                start, end = (int(x, 16) for x in line.split()[0].split("-"))
                if end - start > 1 << 26 or "[v" in line:
                    continue
                try:
                    mem.seek(start)
                    data = mem.read(end - start)
                except (OSError, ValueError, OverflowError):
                    continue
                for word in words:
                    if word in data:
                        print("FOUND", word.decode(), "memory of", pid)
    except OSError:
        pass
me = str(os.getpid())
for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
    for name in ("environ", "cmdline", "stack", "auxv"):
        search("/proc/%s/%s" % (pid, name))
    if pid != me:
        memory(pid)
    try:
        for fd in os.listdir("/proc/%s/fd" % pid):
            target = os.readlink("/proc/%s/fd/%s" % (pid, fd))
            print("FD", pid, fd, target)
            if pid != me:
                search("/proc/%s/fd/%s" % (pid, fd))
    except OSError:
        pass
print("SEARCHED", len([p for p in os.listdir("/proc") if p.isdigit()]))
"""


class Scene:
    """An upstream that a.test leads to, a vault with two secrets, and a command inside."""

    def __init__(self, t):
        self.pki = pki.Pki()
        self.server = t.use(raw.RawServer(tls=self.pki.leaf("a.test")))
        self.user = exeat.as_user()

    def run(self, command, **options):
        home = work.folder("home.", user=self.user, mode=0o700)
        work.write(os.path.join(home, "secret.txt"), "SECRET-B\n", 0o600, self.user)
        work.write(os.path.join(home, "search.py"), SEARCH, 0o644, self.user)
        env = dict({"TOKEN_A": "SECRET-A"}, **options.pop("env", {}))
        return exeat.run(options.pop("policy", POLICY), command, home=home, vault=VAULT, env=env, upstream_ca=self.pki.ca,
                         resolve=self.server.resolve("a.test"), **options)


def words():
    """The secrets, written so that the search does not find itself."""
    return " ".join(w[::-1] for w in SECRETS)


@tap.test
def the_secrets_are_lent_and_not_seen(t):
    scene = Scene(t)
    r = scene.run("curl -sf https://a.test/a && curl -sf https://a.test/b && python3 search.py %s" % words())
    tap.equal(r.code, 0)
    tap.equal([q.header("authorization") for q in scene.server.requests], ["Bearer SECRET-A", None])
    tap.equal(scene.server.requests[1].header("x-key"), "SECRET-B")
    tap.contains(r.out, "SEARCHED")
    tap.lacks(r.out, "FOUND")
    for secret in SECRETS:
        tap.lacks(r.out + r.err, secret)
        tap.lacks(open(r.log, encoding="utf-8").read(), secret)


@tap.test
def nor_as_root_of_namespaces_inside(t):
    """unshare, new mounts, and all capabilities of a namespace of one's own."""
    scene = Scene(t)
    search = "python3 search.py %s" % words()
    for wrapper in ("unshare -Ur", "unshare -Urm", "unshare -Urpmf --mount-proc", "unshare -UrmpfCi --mount-proc"):
        r = scene.run("%s sh -c 'id -u; umount -a 2>/dev/null; umount -l secret.txt credentials 2>/dev/null; %s; "
                      "cat secret.txt credentials state/exeat/ca-key.pem; head -c 100000 state/exeat/* '; true" % (wrapper, search))
        tap.contains(r.out, "SEARCHED")
        tap.lacks(r.out, "FOUND")
        for secret in SECRETS + ("PRIVATE KEY", "credential a"):
            tap.lacks(r.out + r.err, secret, wrapper)


@tap.test
def the_files_are_covered_and_stay_so(t):
    scene = Scene(t)
    r = scene.run("cat secret.txt credentials; ls -la state/exeat; cat state/exeat/*; for f in secret.txt credentials state/exeat; do "
                  "umount $f; umount -l $f; mv $f other 2>&1; rm -f $f 2>&1; done; cat secret.txt credentials; mount --bind / /mnt; cat /mnt$PWD/secret.txt; true")
    for secret in SECRETS + ("PRIVATE KEY", "credential a"):
        tap.lacks(r.out + r.err, secret)
    with open(os.path.join(r.home, "secret.txt"), encoding="ascii") as f:
        tap.equal(f.read(), "SECRET-B\n", "the file outside has changed")


@tap.test
def no_process_of_exeats_can_be_touched(t):
    """No descriptor, no trace, no signal, no tracing of anything outside."""
    scene = Scene(t)
    r = scene.run("""python3 - <<'E'
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for pid in sorted(int(p) for p in os.listdir("/proc") if p.isdigit()):
    if pid == os.getpid(): continue
    with open("/proc/%d/cmdline" % pid, "rb") as f: line = f.read()
    ours = line.startswith(b"exeat") or pid == 1
    traced = libc.ptrace(0x4206, pid, 0, 0) == 0  # SEIZE: an ATTACH would stop our own shell, for good if we end first
    fd = libc.syscall(434, pid, 0)
    stolen = libc.syscall(438, fd, 0, 0) if fd >= 0 else -1
    print("PROCESS", pid, line[:60], "traced" if traced and ours else "", "stolen" if stolen >= 0 and ours else "")
E""")
    tap.contains(r.out, "PROCESS 1 ")
    tap.lacks(r.out, "traced")
    tap.lacks(r.out, "stolen")
    tap.lacks(r.out, "--role=worker")
    tap.lacks(r.out, "--role=keeper")


@tap.test
def killing_everything_inside_harms_nobody_outside(t):
    scene = Scene(t)
    r = scene.run("kill -9 -1; kill -9 1; echo still here; curl -s -o /dev/null -w '%{http_code}' https://a.test/a")
    tap.equal(r.out, "still here\n200")


@tap.test
def the_environment_has_no_secret_and_exeats_own_is_wiped(t):
    scene = Scene(t)
    r = scene.run("env; cat /proc/*/environ | tr '\\0' '\\n'")
    tap.lacks(r.out, "SECRET-A")
    tap.lacks(r.out, "TOKEN_A")
    home = work.folder("home.", user=scene.user, mode=0o700)
    with exeat.Sandbox(POLICY.splitlines()[0] + "\n", ["sleep", "20"], home=home, vault=VAULT.split("credential b")[0],
                       env={"TOKEN_A": "SECRET-A"}) as sandbox:
        tap.eventually(lambda: os.path.exists(sandbox.log))
        time.sleep(1)
        if work.is_root():
            # even root finds nothing but in the keeper's locked memory
            for pid in [sandbox.pid] + children(sandbox.pid):
                with open("/proc/%d/environ" % pid, "rb") as f:
                    tap.lacks(f.read(), b"SECRET-A", "environment of %d" % pid)
        with open("/proc/%d/cmdline" % sandbox.pid, "rb") as f:
            tap.lacks(f.read(), b"SECRET-A")
        out = work.popen(["cat", "/proc/%d/environ" % sandbox.pid], user=scene.user, stdout=-1, stderr=-1).communicate()[0]
        tap.equal(out, b"", "another process of the user reads the supervisor's environment")


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


@tap.test
def a_redis_password_leaves_the_command_line():
    url = "redis://:SECRET-REDIS@127.0.0.1:1"
    with exeat.Sandbox(None, ["sh", "-c", ": > began; sleep 20"], redis=url) as sandbox:
        tap.eventually(lambda: os.path.exists(os.path.join(sandbox.home, "began")))
        for pid in [sandbox.pid] + children(sandbox.pid):
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                tap.lacks(f.read(), b"SECRET-REDIS")


@tap.test
def nothing_of_exeats_can_be_reached(t):
    """No inherited descriptor, no socket of the host's, no port of Redis, of an upstream or of another's; not as root inside either."""
    scene = Scene(t)
    store = t.use(redis.RealRedis())
    name = "exeat-escape-c65-%d" % os.getpid()
    trap = t.use(socket.socket(socket.AF_UNIX))
    trap.bind("\0" + name)
    trap.listen()
    trap.setblocking(False)
    for wrapper in ("", "unshare -Ur "):
        r = scene.run(wrapper + """python3 - %s %d %d <<'E'
import os, socket, sys
for fd in os.listdir("/proc/self/fd"):
    if os.path.exists("/proc/self/fd/" + fd):
        print("FD", fd, os.readlink("/proc/self/fd/" + fd))
for line in open("/proc/net/unix").read().splitlines()[1:]:
    if "@" in line: print("REACHED", line)
def reach(family, address):
    s = socket.socket(family)
    s.settimeout(5)
    try:
        s.connect(address)
        s.sendall(b"PING\\r\\n\\r\\n")
        got = s.recv(100)
        print("REACHED" if got.startswith(b"+") or not got.startswith(b"HTTP/1.1 4") and got else "TRIED", address, got)
    except OSError as e:
        print("TRIED", address, type(e).__name__)
reach(socket.AF_UNIX, "\\0" + sys.argv[1])
for port in sys.argv[2:]:
    for host in ("127.0.0.1", "127.0.0.53", "198.18.0.1", "0.0.0.0"):
        reach(socket.AF_INET, (host, int(port)))
    reach(socket.AF_INET6, ("::1", int(port)))
listening = [int(l.split()[1].split(":")[1], 16) for l in open("/proc/net/tcp").read().splitlines()[1:] if l.split()[3] == "0A"]
for port in listening:
    reach(socket.AF_INET, ("127.0.0.1", port))
E""" % (name, store.port, scene.server.port), redis=store.url())
        tap.equal(r.code, 0, r.err)
        tap.equal(r.out.count("TRIED"), 1 + 2 * 5 + 2, r)
        tap.lacks(r.out, "REACHED")
        fds = {line.split()[1]: line.split(" ", 2)[2] for line in r.out.splitlines() if line.startswith("FD")}
        tap.equal(sorted(fds), ["0", "1", "2"], fds)
    tap.equal(scene.server.connections, [])
    try:
        trap.accept()
        tap.fail("the host's abstract socket was reached")
    except BlockingIOError:
        pass


tap.main()
