"""TLS sessions that go on: under one name, and under another of the same server (RFC 8446 4.6.1), and where they must not."""
import socket
import ssl

import client
import tap
from pki import Pki
from raw import Closed
from servers import RawServer, response

pki = Pki()
BOTH = ("a.test", "b.test", "*.w.test")
NAMES = ("a.test", "b.test", "c.w.test")
POLICY = "".join("allow GET https://%s/ok**\n" % n for n in NAMES)
EACH = "report([tls(n).get('/ok', n).status for n in %r])" % (NAMES,)


class Server(RawServer):
    """`shaken`: (name, whether its TLS went on from an earlier one) of each connection. Every answer ends one, so that none is
    used again; `deaf` ends each handshake that would go on from another."""

    def __init__(self, *names, deaf=False, **options):
        self.shaken = []
        self.deaf = deaf
        super().__init__(response(200, "ok", headers=[("Connection", "close")]), tls=pki.leaf(*names), **options)

    def _handshake(self, connection):
        hello = connection.sock.recv(65536, socket.MSG_PEEK)
        if self.deaf and offers_session(hello):
            self.shaken.append(("?", None))
            return False
        return super()._handshake(connection)

    def serve(self, connection):
        self.shaken.append((connection.sock.exeat_sni, connection.sock.session_reused))
        super().serve(connection)


def offers_session(hello):
    """Whether the ClientHello's last extension, as it must be, is pre_shared_key."""
    at = 9 + 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at:at + 2], "big")
    at += 1 + hello[at]
    end = at + 2 + int.from_bytes(hello[at:at + 2], "big")
    at += 2
    kind = 0
    while at < end:
        kind = int.from_bytes(hello[at:at + 2], "big")
        at += 4 + int.from_bytes(hello[at + 2:at + 4], "big")
    return kind == 41


def through(t, code=EACH, policy=POLICY, names=BOTH, resolve=(), server=None, **options):
    server = t.use(server or Server(*names))
    pins = list(resolve) + [server.resolve(n) for n in NAMES if not any(n in r for r in resolve)]
    return client.run(policy, code, resolve=pins, upstream_ca=pki.ca, **options), server


@tap.test
def a_name_goes_on_with_its_own_and_with_those_of_its_server(t):
    r, server = through(t, EACH + "\n" + EACH)
    tap.equal(r.reports, [[200] * 3] * 2)
    tap.equal(server.shaken, [("a.test", False)] + [(n, True) for n in NAMES[1:] + NAMES])


@tap.test
def a_certificate_that_is_not_good_for_the_name_gives_none(t):
    r, server = through(t, names=("a.test", "*.w.test"))
    tap.equal(r.reports, [[200, 502, 200]])
    tap.equal(server.shaken, [("a.test", False), ("c.w.test", True)])
    tap.equal(r.outcomes()[1]["code"], "upstream-certificate")


@tap.test
def a_server_elsewhere_gives_none(t):
    other = t.use(Server(*BOTH))
    r, server = through(t, resolve=[other.resolve("b.test")])
    tap.equal(r.reports, [[200] * 3])
    tap.equal(server.shaken, [("a.test", False), ("c.w.test", True)])
    tap.equal(other.shaken, [("b.test", False)])


@tap.test(timeout=120)
def the_very_address_counts(t):
    # so many that some share a place in the index
    server = t.use(Server(*BOTH, address="0.0.0.0"))
    pins = ["n%d.w.test:443:127.0.%d.2:%d" % (i, i, server.port) for i in range(250)]
    r = client.run("allow GET https://*.w.test/ok**\n", """
        names = ["n%d.w.test" % i for i in range(250)]
        report([tls(n).get("/ok", n).status for n in names] == [200] * 250)
        report(tls("n7.w.test").get("/ok", "n7.w.test").status)
    """, resolve=pins, upstream_ca=pki.ca)
    tap.equal(r.reports, [True, 200])
    tap.equal([reused for _, reused in server.shaken], [False] * 250 + [True])


@tap.test
def rules_that_lead_elsewhere_share_none(t):
    r, server = through(t, policy=POLICY.replace("b.test/ok**", "b.test/ok** to 10.0.0.0/8"))
    tap.equal(r.reports, [[200] * 3])
    tap.equal(server.shaken, [("a.test", False), ("b.test", False), ("c.w.test", True)])


@tap.test
def an_older_tls_goes_on_under_its_own_name_alone(t):
    r, server = through(t, EACH + "\n" + EACH, server=Server(*BOTH, tls_max=ssl.TLSVersion.TLSv1_2))
    tap.equal(r.reports, [[200] * 3] * 2)
    tap.equal(server.shaken, [(n, False) for n in NAMES] + [(n, True) for n in NAMES])


@tap.test
def who_ends_the_handshake_over_it_is_asked_without(t):
    r, server = through(t, "report(tls('a.test').get('/ok', 'a.test').status)\n"
                           "report([tls('b.test').get('/ok', 'b.test').status for _ in range(2)])", server=Server(*BOTH, deaf=True))
    tap.equal(r.reports, [200, [200, 502]])  # the last one with its own
    tap.equal(server.shaken, [("a.test", False), ("?", None), ("b.test", False), ("?", None)])
    tap.equal([e for e in server.errors if not isinstance(e, Closed)], [])


if __name__ == "__main__":
    tap.main()
