"""C15: an upstream whose certificate is not verified gets not one byte of a request."""
import socket
import ssl

import client
import exeat
import h2
import tap
import websocket
import work
from h2server import FrameServer
from pki import Pki
from raw import permit_old_tls
from servers import RawServer, SinkServer, response

pki, stranger = Pki(), Pki("another CA")
POLICY = "allow GET,POST https://a.test/**  with bound\n"
VAULT = "credential bound\n    for https://a.test\n    from env EXEAT_TEST_TOKEN\n    inject bearer\n"
SECRET = "SECRET-A-0123456789"


def refused(t, reason, code, advice=None, **server):
    """`advice`: what the operator is told to do, once, on standard error; None: nothing."""
    work.need("curl")
    upstream = t.use(RawServer(**server))
    r = exeat.run(POLICY, "curl -sS https://a.test/x >/dev/null; curl -sS -w '\\n%{http_code}' https://a.test/x", vault=VAULT, upstream_ca=pki.ca,
                  resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
    tap.equal(r.out.split("\n")[-1], "502")
    tap.contains(r.out, reason)
    tap.ok(upstream.connections, "it was tried")
    tap.equal(upstream.received, b"")
    tap.equal(upstream.requests, [])
    outcome = r.outcomes()[0]
    tap.equal((outcome["code"], outcome["status"]), (code, 502))
    tap.equal(r.err, "exeat: no answer: %s [%s]\n" % (outcome["reason"], outcome["id"]) if advice else "")
    if advice:
        tap.contains(r.err, advice)
        tap.contains(r.out, advice)
    tap.ok(SECRET not in r.out + r.err + str(r.events()), "the token is shown")


def unverified():
    return pki.leaf("a.test", self_signed=True), pki.leaf("a.test", expired=True), pki.leaf("b.test"), stranger.leaf("a.test")


@tap.test
def self_signed(t):
    refused(t, "self-signed certificate", "upstream-certificate", "--upstream-ca FILE", tls=pki.leaf("a.test", self_signed=True))


@tap.test
def expired(t):
    refused(t, "expired", "upstream-certificate", "renewed, or this host's clock is wrong", tls=pki.leaf("a.test", expired=True))


@tap.test
def not_yet_valid(t):
    refused(t, "not yet valid", "upstream-certificate", "this host's clock is wrong", tls=pki.leaf("a.test", future=True))


@tap.test
def for_another_name(t):
    refused(t, "mismatch", "upstream-certificate", "see DNS and --resolve", tls=pki.leaf("b.test", "*.a.test", "a.test.b.test"))


@tap.test
def for_the_address_only(t):
    refused(t, "mismatch", "upstream-certificate", "see DNS and --resolve", tls=pki.leaf("IP:127.0.0.1"))


@tap.test
def from_an_authority_that_nobody_trusts(t):
    refused(t, "certificate", "upstream-certificate", "--upstream-ca FILE", tls=stranger.leaf("a.test"))


@tap.test
def tls_that_is_too_old(t):
    # which the server does speak, with who wants it
    old = t.use(RawServer(tls=pki.leaf("a.test"), tls_max=ssl.TLSVersion.TLSv1_1))
    willing = ssl.create_default_context(cafile=pki.ca)
    permit_old_tls(willing, ssl.TLSVersion.TLSv1_1)
    with willing.wrap_socket(socket.create_connection((old.address, old.port), 30), server_hostname="a.test") as c:
        tap.equal(c.version(), "TLSv1.1")
    refused(t, "TLS with a.test failed", "upstream-tls", tls=pki.leaf("a.test"), tls_max=ssl.TLSVersion.TLSv1_1)


@tap.test
def no_tls_at_all(t):
    work.need("curl")
    upstream = t.use(SinkServer(b"220 mail.test\r\n"))
    r = exeat.run(POLICY, "curl -sS -w '\\n%{http_code}' https://a.test/x", vault=VAULT, upstream_ca=pki.ca,
                  resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
    tap.equal(r.out.split("\n")[-1], "502")
    tap.ok(SECRET.encode() not in upstream.received and b"GET" not in upstream.received, "a request went out in clear text")


@tap.test
def a_body_is_not_sent_either(t):
    upstream = t.use(RawServer(tls=stranger.leaf("a.test")))
    r = client.run(POLICY, '''
        c = tls("a.test")
        c.send("POST /x HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 100000\\r\\n\\r\\n" + "b" * 100000)
        report(c.answer().status)
    ''', vault=VAULT, upstream_ca=pki.ca, resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
    tap.equal(r.reports, [502])
    tap.equal(upstream.received, b"")


@tap.test
def nor_does_a_server_of_http_2_get_any(t):
    """Whatever the client speaks: no preface, no SETTINGS, no header."""
    h2.needed()
    for leaf in unverified():
        upstream = t.use(FrameServer(lambda f, _number: f.request(), tls=leaf))
        r = client.run(POLICY, [h2.CLIENT, '''
            report(h2("a.test").get("/x").status, tls("a.test").get("/x").status)
        '''], vault=VAULT, upstream_ca=pki.ca, resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
        tap.equal(r.reports, [[502, 502]])
        tap.ok(upstream.connections, "it was tried")
        tap.equal(upstream.received, b"")
        tap.equal([o["code"] for o in r.outcomes()], ["upstream-certificate"] * 2)


@tap.test
def nor_does_a_websocket_begin(t):
    """By HTTP/1.1 and as a stream: no handshake, no credential, no frame."""
    h2.needed()
    for leaf in unverified():
        for server in (lambda tls: RawServer(websocket.echo, tls=tls), lambda tls: FrameServer(lambda f, _number: f.request(), tls=tls)):
            upstream = t.use(server(leaf))
            r = client.run(POLICY, [websocket.CLIENT, h2.CLIENT, '''
                early = frame(b"early")
                c = h2("a.test")
                s = c.request("/ws", "CONNECT", end=False, protocol="websocket", fields=[("sec-websocket-version", "13")])
                c.data(s, early)
                report(ask(tls("a.test"), target="/ws", behind=early).answer().status, c.answer(s).status)
            '''], vault=VAULT, upstream_ca=pki.ca, resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
            tap.equal(r.reports, [[502, 502]])
            tap.ok(len(upstream.connections) >= 2, "it was tried")
            tap.equal(upstream.received, b"")
            tap.equal([o["code"] for o in r.outcomes()], ["upstream-certificate"] * 2)


def closing(connection, body="ok"):
    connection.send(response(200, body, [("Connection", "close")]))
    connection.close()


@tap.test
def nor_one_whose_certificate_was_good_before(t):
    """A server takes the place of one that was verified: what was agreed with that one counts for nothing."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for leaf in unverified():
            upstream = t.use(RawServer(tls=pki.leaf("a.test"), tls_max=version))

            def answer(connection, request, upstream=upstream, leaf=leaf, version=version):
                upstream.context = RawServer(tls=leaf, tls_max=version).context
                closing(connection)
            upstream.answers = [answer]
            r = client.run(POLICY, '''
                report([tls("a.test").get("/%d" % i).status for i in range(3)])
            ''', vault=VAULT, upstream_ca=pki.ca, resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
            tap.equal(r.reports, [[200, 502, 502]])
            tap.equal([q.target for q in upstream.requests], ["/0"])
            tap.equal([bytes(c.received) for c in upstream.connections[1:]], [b""] * (len(upstream.connections) - 1))
            tap.equal([o["code"] for o in r.outcomes() if o["status"] == 502], ["upstream-certificate"] * 2)


@tap.test
def nor_one_that_was_verified_by_another_name(t):
    """A session with b.test proves nothing of a.test, though the same server would resume it."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        reused = []

        def answer(connection, _request, reused=reused):
            reused.append(connection.sock.session_reused)
            closing(connection)
        upstream = t.use(RawServer(answer, tls=pki.leaf("b.test"), tls_max=version))
        r = client.run(POLICY + "allow GET https://b.test/**\n", '''
            report([tls(host).get("/" + host, host=host).status for host in ("b.test", "b.test", "a.test", "b.test", "a.test")])
        ''', vault=VAULT, upstream_ca=pki.ca, resolve=[upstream.resolve("a.test"), upstream.resolve("b.test")],
                       env={"EXEAT_TEST_TOKEN": SECRET})
        tap.equal(r.reports, [[200, 200, 502, 200, 502]])
        tap.equal([q.target for q in upstream.requests], ["/b.test"] * 3)
        tap.equal(reused, [False, True, True], "the session was not resumed, which this is about")


@tap.test
def who_renews_its_certificate_is_verified_anew(t):
    """By one that is good, with and without the tickets of before; a session that goes on goes on with who was verified."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for tickets in (True, False):
            reused = []
            upstream = t.use(RawServer(tls=pki.leaf("a.test"), tls_max=version))

            def answer(connection, _request, upstream=upstream, version=version, tickets=tickets, reused=reused):
                reused.append(connection.sock.session_reused)
                new = pki.leaf("a.test", "renewed.test", rsa=True)
                if tickets:
                    upstream.context.load_cert_chain(*new)
                else:
                    upstream.context = RawServer(tls=new, tls_max=version).context
                closing(connection)
            upstream.answers = [answer]
            r = client.run(POLICY, 'report([tls("a.test").get("/%d" % i).status for i in range(2)])', vault=VAULT, upstream_ca=pki.ca,
                           resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
            tap.equal(r.reports, [[200, 200]])
            tap.equal(reused, [False, tickets])


@tap.test
def nor_one_of_ipv6(t):
    for leaf in (pki.leaf("IP:::1"), pki.leaf("b.test"), stranger.leaf("a.test")):
        refused(t, "certificate" if leaf == stranger.leaf("a.test") else "mismatch", "upstream-certificate", ";", tls=leaf, address="::1")


@tap.test
def and_one_that_is_verified_is_served(t):
    work.need("curl")
    for tls in (pki.leaf("a.test"), pki.leaf("b.test", "a.test", rsa=True)):
        upstream = t.use(RawServer(tls=tls))
        r = exeat.run(POLICY, "curl -sS https://a.test/x", vault=VAULT, upstream_ca=pki.ca,
                      resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
        tap.equal((r.code, r.out), (0, "ok"))


tap.main()
