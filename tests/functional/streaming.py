"""Bodies of any length pass in bounded memory: who is slow on one side slows the other down, and nobody else."""
import os
import socket
import struct
import threading

import client
import exeat
import h2
import tap
import work
from h2server import ACK, DATA, END_HEADERS, HEADERS, OK, SETTINGS, FrameServer
from pki import Pki
from servers import RawServer, response

pki = Pki()
POLICY = "allow GET,PUT,POST https://a.test/**\n"
MIB = 1 << 20


def roles(pid):
    """The processes of exeat itself: the supervisor's children but the sandbox."""
    found = [pid]
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        for child in f.read().split():
            with open("/proc/%s/cmdline" % child, "rb") as c:
                if b"--role=" in c.read() and child:
                    found.append(int(child))
    return found


def memory(pid):
    total = 0
    for one in roles(pid):
        try:
            with open("/proc/%d/smaps_rollup" % one, encoding="ascii") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("Private_Dirty:"))
        except OSError:
            pass
    return total


def endless(connection, request):
    # what the kernel holds of it is little: its memory is one for the machine, and other tests want some
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
    connection.read_body(request)
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    block = b"x" * MIB
    while not connection.closed:
        connection.send(block)


def watch(t, code, server, connections, policy=POLICY):
    """Runs the client's code; returns by how many KiB exeat grew for each connection while it ran."""
    if os.getuid() != 0:
        tap.skip("the memory of confined processes is root's to see")
    path = work.write(os.path.join(work.folder("client."), "client.py"), client.program(code))
    sandbox = t.use(exeat.Sandbox(policy, ["python3", path], resolve=[server.resolve("a.test")], upstream_ca=pki.ca))
    line = b""
    while b"warm" not in line:
        line = sandbox.process.stdout.readline()
        tap.ok(line, "the client ended: %s" % (sandbox.process.stderr.read() if not line else ""))
    before = memory(sandbox.pid)
    most = before
    while sandbox.process.poll() is None:
        line = sandbox.process.stdout.readline()
        if not line or b"done" in line:
            break
        most = max(most, memory(sandbox.pid))
    most = max(most, memory(sandbox.pid))
    tap.note("before %d KiB, most %d KiB" % (before, most))
    sandbox.process.kill()
    return (most - before) / connections


@tap.test
def a_client_that_reads_slowly_costs_a_few_hundred_kib(t):
    server = t.use(RawServer(endless, tls=pki.leaf("a.test")))
    grown = watch(t, '''
        report("warm")
        all = []
        for i in range(30):
            c = tls("a.test")
            c.send("GET /%d HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" % i)
            c.until(b"\\r\\n\\r\\n")
            all.append(c)
        for _ in range(30):
            for c in all[::7]:
                c.recv()
            spin(0.1)
            report("tick")
        report("done")
        spin(5)
    ''', server, 30)
    tap.ok(grown < 600, "%d KiB a connection" % grown)


@tap.test
def an_upstream_that_reads_slowly_costs_a_few_hundred_kib(t):
    stop = threading.Event()
    t.after(stop.set)
    server = t.use(RawServer([("wait", stop), ("close", "rst")], tls=pki.leaf("a.test")))
    grown = watch(t, '''
        report("warm")
        all = []
        for i in range(30):
            c = tls("a.test")
            c.send("PUT /%d HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 1000000000\\r\\n\\r\\n" % i)
            c.sock.settimeout(0.05)
            all.append(c)
        block = b"x" * 65536
        for _ in range(20):
            for c in all:
                try:
                    for _ in range(20):
                        c.sock.send(block)
                except (OSError, ssl.SSLError):
                    pass
            report("tick")
        report("done")
        spin(5)
    ''', server, 30)
    tap.ok(grown < 600, "%d KiB a connection" % grown)


LITTLE = '''
def tcp(host, port=80):
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # so that the kernel takes little
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect((host, port))
    return Connection(s)
'''
TRUSTING = '''
def context_for(sni, alpn):
    return ssl._create_unverified_context()
'''


PLAIN = '''
def one():
    c = tls("a.test")
    c.send("GET /endless HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
    return c
'''
PINGS = '''
def one():
    c = h2("a.test", settings={"window": (1 << 31) - 1})
    c.window(0, (1 << 31) - 1 - 65535)
    c.request("/endless")
    return c
def more(c):
    c.raw(b"".join(c.packed(PING, 0, 0, b"12345678") for _ in range(1900)))
'''


def crowd(t, server, most, n=3000, code=(PLAIN,), policy=POLICY):
    """n clients leave their answers unread. Together they may hold 128 MiB, and beyond that each a little: `most` KiB on average."""
    grown = watch(t, [LITTLE, *code, '''
        more = globals().get("more", lambda c: None)
        tls("a.test").get("/warm")
        report("warm")
        all = []
        for i in range(%d):
            all.append(one())
            if i %% 100 == 0:
                report("tick")
        for i, c in enumerate(all):
            more(c)
            if i %% 100 == 0:
                report("tick")
        for _ in range(20):
            spin(0.1)
            report("tick")
        report("done")
        spin(5)
    ''' % n], server, n, policy)
    tap.note("%d KiB a connection" % grown)
    tap.ok(grown < most, "%d KiB a connection" % grown)


def without_end(t):
    return t.use(RawServer(lambda c, q: endless(c, q) if q.target == "/endless" else response(200), tls=pki.leaf("a.test")))


@tap.test(timeout=300)
def a_crowd_that_reads_nothing_has_a_limit_together(t):
    crowd(t, without_end(t), 135)


@tap.test(timeout=300)
def a_crowd_of_tunnels_has_the_same(t):
    crowd(t, without_end(t), 75, code=[TRUSTING, PLAIN], policy="tunnel https://a.test\n")


@tap.test(timeout=300)
def a_crowd_with_an_upstream_of_http2_has_the_same(t):
    warm = []

    def serve(f, _):
        window = 65535
        while True:
            kind, flags, stream, payload = f.any()
            if kind == SETTINGS and not flags & ACK:
                for name, value in struct.iter_unpack(">HI", payload):
                    window = value if name == 4 else window
                f.frame(SETTINGS, ACK, 0)
            elif kind == HEADERS and not warm:
                warm.append(f.answer(stream))
            elif kind == HEADERS:  # as much as the stream's window lets pass
                f.frame(HEADERS, END_HEADERS, stream, OK)
                for at in range(0, window, 16384):
                    f.frame(DATA, 0, stream, b"x" * min(16384, window - at))
    crowd(t, t.use(FrameServer(serve, tls=pki.leaf("a.test"))), 100)


@tap.test(timeout=300)
def a_crowd_of_http2_has_the_same(t):
    """A crowd of HTTP/2 has the same, with frames that want an answer, which nobody reads either"""
    h2.needed()
    crowd(t, without_end(t), 380, n=1000, code=[h2.CLIENT, PINGS])


@tap.test
def idle_connections_keep_no_buffers(t):
    server = t.use(RawServer(response(200, "x" * 100000), tls=pki.leaf("a.test")))
    grown = watch(t, '''
        tls("a.test").get("/warm")
        report("warm")
        all = []
        for i in range(300):
            c = tls("a.test")
            c.get("/x")
            all.append(c)
        report("tick")
        spin(1)
        report("done")
        spin(5)
    ''', server, 300)
    tap.note("%.1f KiB an idle connection" % grown)
    tap.ok(grown < 40, "%.1f KiB a connection" % grown)


@tap.test
def a_large_body_goes_through_in_both_directions(t):
    def count(connection, request):
        total = [0]

        def add(data):
            total[0] += len(data)
        connection.read_body(request, on_data=add)
        return response(200, str(total[0]))
    server = t.use(RawServer(count, tls=pki.leaf("a.test")))
    r = client.run(POLICY, '''
        for how in ("length", "chunked"):
            c = tls("a.test")
            c.timeout(60)
            block = b"x" * 100000
            if how == "length":
                c.send("PUT /x HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 100000000\\r\\n\\r\\n")
                for _ in range(1000):
                    c.send(block)
            else:
                c.send("PUT /x HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
                for _ in range(1000):
                    c.send(b"%x\\r\\n%s\\r\\n" % (len(block), block))
                c.send("0\\r\\n\\r\\n")
            report(c.answer().body.decode())
    ''', resolve=[server.resolve("a.test")], upstream_ca=pki.ca, timeout=100)
    tap.equal(r.reports, ["100000000", "100000000"])
    tap.equal([o["sent"] for o in r.outcomes()], [100000000, 100000000])


@tap.test
def a_slow_connection_holds_up_no_other(t):
    server = t.use(RawServer(lambda c, q: endless(c, q) if q.target == "/endless" else response(200, "quick"),
                             tls=pki.leaf("a.test")))
    r = client.run(POLICY, '''
        slow = tls("a.test")
        slow.send("GET /endless HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        slow.until(b"\\r\\n\\r\\n")
        spin(0.5)
        began = time.monotonic()
        c = tls("a.test")
        for _ in range(50):
            c.get("/quick")
        report(time.monotonic() - began)
    ''', resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.ok(r.reports[0] < 25, "%g s" % r.reports[0])


if __name__ == "__main__":
    tap.main()
