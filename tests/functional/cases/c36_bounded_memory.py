"""C36: a slow reader slows the sender down; exeat keeps no bodies."""
import os
import threading
import time

import exeat
import tap
from gitserver import GitServer
from memory import resident
from pki import Pki
from raw import Closed
from servers import RawServer, response

pki = Pki()
BLOCK = b"x" * 65536


class Endless:
    """2 GiB, counted as they are taken."""

    def __init__(self):
        self.sent = 0
        self.lock = threading.Lock()

    def __call__(self, connection, _request):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2147483648\r\n\r\n")
        try:
            while True:
                connection.send(BLOCK)
                with self.lock:
                    self.sent += len(BLOCK)
        except (Closed, OSError):
            return


def download(t, clients, seconds=20, version="--http1.1", scheme="https"):
    endless = Endless()
    server = t.use(RawServer(endless, tls=pki.leaf("a.test") if scheme == "https" else None))
    command = "for i in $(seq %d); do curl -s -o /dev/null %s --limit-rate 1M --max-time 100 %s://a.test/ok & done; wait" % (clients, version, scheme)
    resolve = [server.resolve("a.test", 443 if scheme == "https" else 80)]
    with exeat.Sandbox("allow GET %s://a.test/**\n" % scheme, command, resolve=resolve, upstream_ca=pki.ca) as sandbox:
        tap.eventually(lambda: len(server.connections) >= clients)
        time.sleep(2)
        before, sent = resident(sandbox.pid), endless.sent
        time.sleep(seconds)
        after, later = resident(sandbox.pid), endless.sent
    print("# %d clients: %d KiB, then %d KiB; the origin sent %d, then %d" % (clients, before, after, sent, later))
    return before, after, sent, later


@tap.test
def one_slow_reader(t):
    before, after, sent, later = download(t, 1)
    tap.ok(later > sent, "nothing flows")
    tap.ok(later < 64 << 20, "the origin could send %d bytes ahead" % later)
    tap.ok(before > 0 and after < before + 2048, "%d KiB, then %d KiB" % (before, after))


@tap.test
def readers_of_other_kinds(t):
    """Of HTTP/2, and of HTTP in clear."""
    for kind in ({"version": "--http2"}, {"scheme": "http"}):
        before, after, sent, later = download(t, 4, seconds=5, **kind)
        tap.ok(later > sent, "nothing flows")
        tap.ok(later < 4 * 64 << 20, "the origin could send %d bytes ahead" % later)
        tap.ok(before > 0 and after < before + 4 * 2048, "%r: %d KiB, then %d KiB" % (kind, before, after))


@tap.test
def fifty_slow_readers(t):
    before, after, sent, later = download(t, 50)
    tap.ok(later > sent, "nothing flows")
    tap.ok(before > 0 and after < before + 50 * 256, "%d KiB, then %d KiB" % (before, after))
    tap.ok(after < 50 * 1024 + 16384, "%d KiB" % after)


class Slow:
    """Of a body it takes so many bytes a second at most, and keeps none; `taken` counts."""

    def __init__(self, rate):
        self.rate = rate
        self.taken = 0

    def __call__(self, connection):
        if "recv" in vars(connection):
            return
        fast = connection.recv

        def slow(size=65536):
            data = fast(size)
            connection.received.clear()
            self.taken += len(data)
            time.sleep(len(data) / self.rate)
            return data
        connection.recv = slow


class SlowGit(GitServer):
    """Reads what is pushed as slowly as `slow` says."""

    slow = Slow(64 << 20)

    def _one(self, connection, request):
        if request.method == "POST" and "receive-pack" in request.target:
            self.slow(connection)
        super()._one(connection, request)


def watched(sandbox, slow, timeout):
    """The memory when it has begun and the most of it, while `slow` took something, and what is left of the run."""
    tap.eventually(lambda: os.path.exists(os.path.join(sandbox.home, "began")) or sandbox.process.poll() is not None, timeout)
    before = most = resident(sandbox.pid)
    samples = 0
    while sandbox.process.poll() is None:
        time.sleep(0.05)
        if slow.taken:
            most, samples = max(most, resident(sandbox.pid)), samples + 1
    print("# %d KiB, at most %d KiB in %d looks, %d bytes" % (before, most, samples, slow.taken))
    return before, most, samples, sandbox.wait(30)


@tap.test(timeout=180)
def a_big_push_to_a_slow_origin(t):
    """100 MB instead of 300: memory may not grow by a twentieth of it. Stored without compression, which would take most of the time."""
    git = t.use(SlowGit(tls=pki.leaf("g.test")))
    git.create("acme/app.git", config={"core.compression": "0", "receive.unpackLimit": "1"})
    command = ("set -e; git clone -q -c core.compression=0 -c pack.compression=0 https://g.test/acme/app w; cd w; "
               "blob=$(head -c 100000000 /dev/urandom | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$blob,big; "
               "git commit -qm big; : > ../began; git push -q origin HEAD:refs/heads/big; git rev-parse HEAD")
    policy = "allow fetch https://g.test/acme/app\nallow push https://g.test/acme/app refs/heads/big create\n"
    with exeat.Sandbox(policy, command, resolve=[git.resolve("g.test")], upstream_ca=pki.ca) as sandbox:
        before, most, samples, r = watched(sandbox, git.slow, 120)
    tap.equal(r.code, 0, r.err)
    tap.equal(git.refs("acme/app.git")["refs/heads/big"], r.out.strip())
    tap.ok(git.slow.taken > 99000000 and samples > 20, "%d bytes in %d looks" % (git.slow.taken, samples))
    tap.ok(before > 0 and most < before + 4096, "%d KiB, then %d KiB" % (before, most))


@tap.test
def an_upload_to_a_slow_origin(t):
    for version in ("--http1.1", "--http2"):
        slow = Slow(20 << 20)

        def answer(connection, request, slow=slow):
            slow(connection)
            connection.read_body(request, on_data=lambda data: None)
            connection.send(response(200, "ok"))
        server = t.use(RawServer(answer, tls=pki.leaf("a.test")))
        command = ": > began; head -c 40000000 /dev/zero | curl -sS %s -H Expect: -T - https://a.test/ok" % version
        with exeat.Sandbox("allow PUT https://a.test/**\n", command, resolve=[server.resolve("a.test")], upstream_ca=pki.ca) as sandbox:
            before, most, samples, r = watched(sandbox, slow, 60)
        tap.equal((r.code, r.out), (0, "ok"), r.err)
        # what the origin has read last may not be counted yet
        tap.ok(slow.taken >= 39000000 and samples > 20, "%d bytes in %d looks" % (slow.taken, samples))
        tap.ok(before > 0 and most < before + 4096, "%s: %d KiB, then %d KiB" % (version, before, most))


tap.main()
