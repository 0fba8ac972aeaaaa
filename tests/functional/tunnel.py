"""Tunnels: TLS passed through unread, by the name in its ClientHello; and what is refused, each for its own reason."""
import hashlib
import os
import shutil
import socket
import threading
import time

import client
import clienthello
import exeat
import tap
import work
from pki import Pki
from raw import Closed, Listener
from servers import RawServer, response

pki = Pki()
POLICY = '''
tunnel https://pinned.test
tunnel https://pinned.test:8443
tunnel https://both.test
allow GET https://both.test/**
tunnel https://denied.test
deny POST https://denied.test/admin
tunnel https://asked.test
ask GET https://asked.test/**
tunnel https://few.test limit 2/d
tunnel https://*.wide.test
allow GET https://read.test/**
'''
NAMES = ("pinned.test", "both.test", "denied.test", "asked.test", "few.test", "a.wide.test", "wide.test", "read.test", "other.test")


class Plain(Listener):
    """No TLS: says what it has got when the other side has ended, or at once what it is told to; `got` are the bytes of each
    connection."""

    def __init__(self, at_once=None, **options):
        self.at_once = at_once
        self.got = []
        super().__init__(**options)

    def serve(self, connection):
        if self.at_once is not None:
            connection.fill()
            connection.send(self.at_once)
        try:
            while connection.recv():
                pass
        except Closed:
            pass
        self.got.append(bytes(connection.received))
        if self.at_once is None:
            connection.send(b"got %d %s" % (len(connection.received), hashlib.sha256(connection.received).hexdigest().encode()))
        connection.close("fin")


def run(t, code, server, policy=POLICY, **options):
    pins = [server.resolve(name, port) for name in NAMES for port in (443, 8443)]
    return client.run(policy, [clienthello.CLIENT, code], resolve=pins + [server.resolve("10.9.0.1")], upstream_ca=pki.ca, **options)


# ---- what passes ----

@tap.test
def a_client_that_pins_sees_the_servers_own_certificate(t):
    """It trusts nothing but the server's own, and what it says and gets is in no record."""
    cert, key = pki.leaf("pinned.test", self_signed=True)
    server = t.use(RawServer([("body",), response(200, "SECRET-inside"), ("close", "fin")], tls=(cert, key)))
    own = work.write(os.path.join(work.folder("pin."), "pin.pem"), open(cert, encoding="ascii").read(), 0o644)
    r = run(t, '''
        context = ssl.create_default_context(cafile=%r)
        sock = context.wrap_socket(socket.create_connection(("pinned.test", 443), 10), server_hostname="pinned.test")
        issuer = dict(x[0] for x in sock.getpeercert()["issuer"])
        sock.sendall(b"GET /path-inside HTTP/1.1\\r\\nHost: pinned.test\\r\\nAuthorization: Bearer SECRET-mine\\r\\nConnection: close\\r\\n\\r\\n")
        got = b""
        while True:
            data = sock.recv(65536)
            if not data:
                break
            got += data
        report(issuer.get("commonName"), got.endswith(b"SECRET-inside"))
    ''' % own, server)
    tap.equal(r.reports, [["pinned.test", True]])
    tap.equal(server.requests[0].all("authorization"), ["Bearer SECRET-mine"], "nothing is taken off, nothing put in")
    v = r.verdict()
    tap.equal((v["verdict"], v["method"], v["url"], v["code"]), ("allow", "tunnel", "https://pinned.test", "tunnelled"))
    tap.ok(v["rule"].endswith(":2") and "credential" not in v, v)
    outcome = r.outcome_of(v)
    tap.ok(outcome["sent"] > 500 and outcome["received"] > 500 and "status" not in outcome and "code" not in outcome, outcome)
    tap.equal(outcome["upstream"], "127.0.0.1:%d" % server.port)
    for word in ("SECRET", "inside", "path"):
        tap.lacks(str(r.decisions), word)


@tap.test
def real_clients(t):
    """openssl, curl, node and java, each with a certificate that is pinned."""
    work.need("openssl", "curl")
    cert, key = pki.leaf("pinned.test", self_signed=True)
    server = t.use(RawServer([("body",), response(200, "inside"), ("close", "fin")], tls=(cert, key)))
    pem = work.write(os.path.join(work.folder("pin."), "pin.pem"), open(cert, encoding="ascii").read(), 0o644)
    commands = ["printf 'GET / HTTP/1.1\\r\\nHost: pinned.test\\r\\n\\r\\n' | openssl s_client -quiet -ign_eof -connect pinned.test:443 "
                "-servername pinned.test -CAfile %s -verify_return_error 2>/dev/null | tail -c 6" % pem,
                "curl -sS --cacert %s https://pinned.test/" % pem,
                "curl -sS --http1.1 --tls-max 1.2 --cacert %s https://pinned.test/" % pem]
    if shutil.which("node"):
        commands.append("node -e 'require(\"https\").get({host:\"pinned.test\",ca:require(\"fs\").readFileSync(\"%s\")},"
                        "r=>r.on(\"data\",d=>process.stdout.write(d)))'" % pem)
    r = exeat.run(POLICY, "; echo; ".join(commands), resolve=[server.resolve("pinned.test")], upstream_ca=pki.ca)
    tap.equal(r.out.split(), ["inside"] * len(commands))
    tap.equal([v["code"] for v in r.verdicts()], ["tunnelled"] * len(commands))
    tap.equal({e["protocol"] for e in r.verdicts() + r.outcomes()}, {"tunnel"})


@tap.test
def bytes_and_ends_pass_as_they_are(t):
    """8 MiB up behind the hello, our end closed, and then the answer comes all the same; the outcome has counted both."""
    server = t.use(Plain())
    r = run(t, '''
        import hashlib
        data = hello("pinned.test") + os.urandom(8 << 20)
        c = tcp("pinned.test", 443)
        c.timeout(60)
        c.send(data)
        c.shut()
        report(len(data), hashlib.sha256(data).hexdigest(), c.rest().decode(), c.ended)
    ''', server, timeout=100)
    size, digest, answer, ended = r.reports[0]
    tap.equal((answer, ended), ("got %d %s" % (size, digest), "eof"))
    outcome = r.outcomes()[0]
    tap.equal((outcome["sent"], outcome["received"]), (size, len(answer)))


@tap.test
def the_server_may_end_first(t):
    server = t.use(Plain(at_once=b"hello yourself"))
    r = run(t, '''
        data = hello("pinned.test")
        c = tcp("pinned.test", 443)
        c.send(data)
        report(c.exactly(14).decode())
        c.send("more")
        c.shut()
        report(c.rest().decode(), c.ended)
    ''', server)
    tap.equal(r.reports, ["hello yourself", ["", "eof"]])
    tap.ok(server.got[0].endswith(b"more"), server.got)


@tap.test
def who_takes_nothing_stops_the_other_side(t):
    """And gets all of it when it does."""
    class Pouring(Listener):
        poured = 0

        def serve(self, connection):
            connection.fill()
            if self.poured: # another one, which asks how far the first has come
                connection.send(b"%d" % self.poured)
                connection.close("fin")
                return
            for _ in range(64):
                self.poured += 1 << 20
                connection.send(bytes(1 << 20))
            connection.close("fin")
    server = t.use(Pouring())
    r = run(t, '''
        def open():
            c = tcp("pinned.test", 443)
            c.send(hello("pinned.test"))
            return c
        deaf, first = open(), 0
        first += len(deaf.recv())
        far, before = int(open().rest()), 0
        while far > before: # until nothing moves
            time.sleep(0.5)
            before, far = far, int(open().rest())
        report(far >> 20)
        while True:
            data = deaf.recv()
            if not data:
                break
            first += len(data)
        report(first >> 20, deaf.ended)
    ''', server)
    tap.ok(r.reports[0] < 40, "%d MiB were taken that nobody wanted" % r.reports[0])
    tap.equal(r.reports[1], [64, "eof"])


@tap.test
def every_size_and_every_cut(t):
    server = t.use(Plain())
    r = run(t, '''
        import hashlib
        for size in (0, 1300, 5300, 15300, 60000):
            for how in ("whole", "bytes", "gap", "small records", "records and bytes"):
                data = hello("pinned.test", size)
                if how == "small records" and size < 16000:
                    data = records(message_of(data), 1)
                elif how == "records and bytes":
                    data = records(message_of(data), 200)
                c = tcp("pinned.test", 443)
                if how == "gap":
                    c.send(data[:500])
                    time.sleep(0.1)
                    c.send(data[500:])
                elif "bytes" in how and size < 16000:
                    for i in range(len(data)):
                        c.send(data[i:i + 1])
                else:
                    c.send(data)
                c.shut()
                report(size, how, c.rest().decode() == "got %d %s" % (len(data), hashlib.sha256(data).hexdigest()))
    ''', server, timeout=100)
    tap.equal(len(r.reports), 25)
    tap.equal([x for x in r.reports if not x[2]], [])


@tap.test
def a_connect_of_an_explicit_client_and_another_port(t):
    server = t.use(Plain())
    r = run(t, '''
        for name, port in (("pinned.test", 443), ("pinned.test", 8443), ("other.test", 443)):
            c = connect("pinned.test:%d" % port, ("pinned.test", 80))
            report(c.granted.status)
            c.send(hello(name))
            c.shut()
            report(c.rest()[:3].hex())
        c = tcp("pinned.test", 8443)
        c.send(hello("pinned.test"))
        c.shut()
        report(c.rest()[:3].decode())
    ''', server)
    # another name inside is no tunnel's: it is read, and nobody shakes hands
    tap.equal(r.reports, [200, b"got".hex()] * 2 + [200, "160303", "got"])
    tap.equal([v["url"] for v in r.verdicts(code="tunnelled")],
              ["https://pinned.test", "https://pinned.test:8443", "https://pinned.test:8443"])
    tap.equal([v["code"] for v in r.verdicts(verdict="deny")], ["handshake-ended"])


@tap.test
def several_at_a_time_over_several_workers(t):
    server = t.use(Plain())
    r = run(t, '''
        import hashlib
        results = []
        def one(i):
            data = hello("n%d.wide.test" % i) + bytes([i]) * 100000
            c = tcp("n%d.wide.test" % i, 443)
            c.send(data)
            c.shut()
            results.append(c.rest().decode() == "got %d %s" % (len(data), hashlib.sha256(data).hexdigest()))
        threads = [threading.Thread(target=one, args=(i,)) for i in range(30)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        report(results)
    ''', server, policy="tunnel https://*.wide.test to 127.0.0.1\n", workers=3,
        flags=[x for i in range(30) for x in ("--resolve", server.resolve("n%d.wide.test" % i))])
    tap.equal(r.reports, [[True] * 30])
    tap.equal(len([o for o in r.outcomes() if "code" not in o]), 30)


# ---- what is read, and what is refused ----

@tap.test
def what_stands_in_the_way_of_a_tunnel_has_a_word_each(t):
    server = t.use(Plain())
    r = run(t, '''
        good = hello("pinned.test")
        for data in (with_name(good, None), with_name(good, b"10.9.0.1"), with_name(good, b"pinned.test."), with_name(good, b"a\\0b.test"),
                     with_name(good, b"p\\xc3\\xafnned.test"), hello("pinned.test", ech=True), hello("a.wide.test")):
            report(first("pinned.test", data))
    ''', server)
    tap.equal(r.reports, ["alert 49"] * 7)
    tap.equal([v["code"] for v in r.verdicts(verdict="deny")],
              ["tunnel-no-name", "tunnel-address", "tunnel-bad-name", "tunnel-bad-name", "tunnel-bad-name", "tunnel-ech",
               "tunnel-other-name"])
    tap.equal((len(server.connections), r.verdicts(verdict="allow")), (0, []))
    tap.equal({v["method"] for v in r.verdicts()}, {"tunnel"})


@tap.test
def an_address_that_was_dialled_means_nothing(t):
    """As for a request: the name leads, to where that name leads for exeat."""
    server = t.use(Plain())
    r = run(t, '''
        c = tcp("10.9.0.1", 443)
        c.send(hello("pinned.test"))
        c.shut()
        report(c.rest()[:3].decode())
        report(first("10.9.0.1", with_name(hello("pinned.test"), None)))
    ''', server)
    tap.equal(r.reports, ["got", "alert 112"])
    tap.equal([(v["url"], v["code"]) for v in r.verdicts()], [("https://pinned.test", "tunnelled"), ("https://10.9.0.1:443", "no-sni")])


@tap.test
def two_extensions_of_one_kind_go_to_nobody(t):
    server = t.use(Plain())
    r = run(t, '''
        def named(name):
            return taken_apart(with_name(hello(name), name.encode()))
        for one, other in (("pinned.test", "other.test"), ("other.test", "pinned.test"), ("pinned.test", "pinned.test")):
            front, extensions = named(one)
            c = tcp("pinned.test", 443)
            c.send(put_together(front, extensions + named(other)[1][-len(other) - 9:]))
            report(c.rest()[:1] in (b"", b"\\x15"))
        c = tcp("pinned.test", 443)
        c.send(records(b"\\1\\1\\0\\0" + b"x" * 65536, 16000))
        report(c.rest().hex(), c.ended)
    ''', server)
    tap.equal(r.reports[:3], [True] * 3)
    tap.equal([v["verdict"] for v in r.verdicts()], ["deny"] * 4)
    tap.equal(r.verdicts()[3]["code"], "hello-too-long")
    tap.equal(len(server.connections), 0)


@tap.test
def other_rules_on_the_host(t):
    server = t.use(RawServer(response(200, "read"), tls=pki.leaf(*NAMES)))
    r = run(t, '''
        for name in ("denied.test", "asked.test", "wide.test", "other.test"):
            report(name, first(name, hello(name)))
        # both a tunnel and requests that are read: a tunnel where one can be, and what can be none is read
        report("both", first("both.test", hello("both.test")))
        report("both ech", first("both.test", hello("both.test", ech=True)))
        c = tls("read.test")
        report("read", c.get("/x", "read.test").status)
    ''', server)
    tap.equal(r.reports, [["denied.test", "alert 49"], ["asked.test", "record 22"], ["wide.test", "record 22"],
                          ["other.test", "record 22"], ["both", "record 22"], ["both ech", "record 22"], ["read", 200]])
    tap.equal([(v["url"], v["code"]) for v in r.verdicts(method="tunnel")],
              [("https://denied.test", "denied-by-rule"), ("https://both.test", "tunnelled")])
    tap.ok(r.verdicts(method="tunnel")[0]["rule"].endswith(":7"), r.verdicts(method="tunnel"))
    tap.equal(len(server.requests), 1)


@tap.test
def a_limit_counts_connections(t):
    server = t.use(Plain(at_once=b"welcome"))
    r = run(t, 'report([first("few.test", hello("few.test")) for _ in range(4)])', server)
    tap.equal(r.reports, [["welcome", "welcome", "alert 49", "alert 49"]])
    tap.equal([v["code"] for v in r.verdicts()], ["tunnelled", "tunnelled", "limit", "limit"])


@tap.test
def a_server_that_is_not_there_is_an_alert(t):
    r = client.run("tunnel https://gone.test\ntunnel https://closed.test\n", [clienthello.CLIENT, '''
        for name in ("gone.test", "closed.test"):
            report(first(name, hello(name)))
    '''], resolve=["closed.test:443:127.0.0.1:1"], upstream_ca=pki.ca)
    tap.equal(r.reports, ["alert 80", "alert 80"])
    tap.equal([v["verdict"] for v in r.verdicts()], ["allow", "allow"])
    codes = [o["code"] for o in r.outcomes()]
    tap.ok(codes[0].startswith("upstream-name") and codes[1] == "upstream-unreachable", codes)


@tap.test
def a_reset_is_passed_on(t):
    class Rude(Listener):
        def serve(self, connection):
            connection.fill()
            connection.send(b"some")
            connection.until(b"that has come")
            connection.close("rst")
    server = t.use(Rude())
    r = run(t, '''
        c = tcp("pinned.test", 443)
        c.send(hello("pinned.test"))
        some = c.exactly(4).decode()
        c.send("that has come")
        report(some, c.rest().decode(), c.ended)
    ''', server)
    tap.equal(r.reports, [["some", "", "reset"]])
    tap.equal(r.outcomes()[0]["code"], "upstream-truncated")


@tap.test
def what_has_not_left_is_not_recorded_as_sent(t):
    # the server reads when the client, who found no more room, has long gone
    class Late(Plain):
        go = threading.Event()

        def serve(self, connection):
            self.go.wait()
            super().serve(connection)
    server = t.use(Late())
    r = run(t, '''
        c = tcp("pinned.test", 443)
        c.send(hello("pinned.test"))
        while select.select([], [c.sock], [], 2)[1]:
            c.sock.send(bytes(65536), socket.MSG_DONTWAIT)
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    ''', server)
    server.go.set()
    tap.eventually(lambda: server.got)
    tap.equal(r.outcomes()[0]["sent"], len(server.got[0]))


@tap.test
def silence_of_both_sides_has_a_limit_of_its_own(t):
    class Echo(Listener):
        def serve(self, connection):
            while True:
                connection.send(connection.recv().upper()[-1:])
    server = t.use(Echo())
    r = run(t, '''
        c = tcp("pinned.test", 443)
        c.send(hello("pinned.test"))
        c.exactly(1)
        got = []
        for word in (b"a", b"b", b"c", b"d"):
            time.sleep(0.7)
            c.send(word)
            got.append(c.exactly(1).decode())
        began = time.monotonic()
        report(got, c.rest().decode(), time.monotonic() - began)
    ''', server, flags=["--time-limit", "relay=2s"])
    got, rest, seconds = r.reports[0]
    tap.equal((got, rest), (["A", "B", "C", "D"], ""))
    tap.ok(1.7 <= seconds < 60, "ended after %r s of silence" % seconds)
    tap.equal([o["code"] for o in r.outcomes()], ["relay-idle"])
    tap.contains(r.outcomes()[0]["reason"], "(--time-limit relay)")


@tap.test
def a_policy_without_tunnels_is_as_it_was(t):
    server = t.use(RawServer(response(200, "read"), tls=pki.leaf("read.test")))
    r = run(t, '''
        report(first("read.test", hello("read.test", ech=True)))
        report(tls("read.test").get("/x", "read.test").status)
    ''', server, policy="allow GET https://read.test/**\n")
    tap.equal(r.reports, ["record 22", 200])


@tap.test
def replay_and_explain_know_tunnels(t):
    server = t.use(Plain(at_once=b"welcome"))
    r = run(t, 'report(first("pinned.test", hello("pinned.test")))', server)
    other = work.write(r.home + "/other.policy", "allow GET https://pinned.test/**\n", 0o644, exeat.as_user())
    replayed = exeat.call("policy", "replay", r.log, other)
    tap.contains(replayed.out, "tunnel https://pinned.test")
    tap.contains(replayed.out, "no rule passes TLS to this host through unread")


if __name__ == "__main__":
    tap.main()
