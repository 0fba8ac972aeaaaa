"""C36: a slow reader slows the sender down; exeat keeps no bodies."""
import os
import threading
import time

import exeat
import tap
from pki import Pki
from raw import Closed
from servers import RawServer

pki = Pki()
BLOCK = b"x" * 65536


def resident(pid):
    """KiB of memory that exeat's processes hold (not those of the command)."""
    parents, sizes = {}, {}
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%d/status" % int(name), encoding="utf-8", errors="replace") as f:
                fields = dict(line.split(":\t", 1) for line in f if ":\t" in line)
        except (ValueError, OSError):
            continue
        parents[int(name)] = int(fields["PPid"])
        if fields["Name"].strip() in ("exeat", "keeper", "scribe", "worker"):
            sizes[int(name)] = int(fields.get("RssAnon", "0 kB").split()[0])
    total = 0
    for process, size in sizes.items():
        at = process
        while at in parents and at != pid:
            at = parents[at]
        total += size if at == pid else 0
    return total


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


def download(t, clients, seconds=8):
    endless = Endless()
    server = t.use(RawServer(endless, tls=pki.leaf("a.test")))
    command = "for i in $(seq %d); do curl -s -o /dev/null --limit-rate 1M --max-time %d https://a.test/ok & done; wait" % (clients, seconds + 8)
    with exeat.Sandbox("allow GET https://a.test/**\n", command, resolve=[server.resolve("a.test")], upstream_ca=pki.ca) as sandbox:
        tap.eventually(lambda: len(server.connections) >= clients, 10)
        time.sleep(2)
        before, sent = resident(sandbox.pid), endless.sent
        time.sleep(seconds - 3)
        after, later = resident(sandbox.pid), endless.sent
        sandbox.wait(40)
    print("# %d clients: %d KiB, then %d KiB; the origin sent %d, then %d" % (clients, before, after, sent, later))
    return before, after, sent, later


@tap.test(timeout=60)
def one_slow_reader(t):
    before, after, sent, later = download(t, 1)
    tap.ok(later > sent, "nothing flows")
    tap.ok(later < 64 << 20, "the origin could send %d bytes ahead" % later)
    tap.ok(before > 0 and after < before + 2048, "%d KiB, then %d KiB" % (before, after))


@tap.test(timeout=60)
def thirty_slow_readers(t):
    before, after, _, later = download(t, 30)
    tap.ok(before > 0 and after < before + 30 * 256, "%d KiB, then %d KiB" % (before, after))
    tap.ok(after < 30 * 1024 + 16384, "%d KiB" % after)
    tap.ok(later < 30 * (32 << 20), later)


tap.main()
