"""C15: an upstream whose certificate is not verified gets not one byte of a request."""
import ssl

import client
import exeat
import h2
import tap
import work
from h2server import FrameServer
from pki import Pki
from servers import RawServer, SinkServer

pki, stranger = Pki(), Pki("another CA")
POLICY = "allow GET,POST https://a.test/**  with bound\n"
VAULT = "credential bound\n    for https://a.test\n    from env EXEAT_TEST_TOKEN\n    inject bearer\n"
SECRET = "SECRET-A-0123456789"


def refused(t, reason, code, **server):
    work.need("curl")
    upstream = t.use(RawServer(**server))
    r = exeat.run(POLICY, "curl -sS -w '\\n%{http_code}' https://a.test/x", vault=VAULT, upstream_ca=pki.ca,
                  resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
    tap.equal(r.out.split("\n")[-1], "502")
    tap.contains(r.out, reason)
    tap.ok(upstream.connections, "it was tried")
    tap.equal(upstream.received, b"")
    tap.equal(upstream.requests, [])
    outcome = r.outcomes()[0]
    tap.equal((outcome["code"], outcome["status"]), (code, 502))
    tap.ok(SECRET not in r.out + r.err + str(r.events()), "the token is shown")


@tap.test
def self_signed(t):
    refused(t, "self-signed certificate", "upstream-certificate", tls=pki.leaf("a.test", self_signed=True))


@tap.test
def expired(t):
    refused(t, "expired", "upstream-certificate", tls=pki.leaf("a.test", expired=True))


@tap.test
def not_yet_valid(t):
    refused(t, "not yet valid", "upstream-certificate", tls=pki.leaf("a.test", future=True))


@tap.test
def for_another_name(t):
    refused(t, "mismatch", "upstream-certificate", tls=pki.leaf("b.test", "*.a.test", "a.test.b.test"))


@tap.test
def for_the_address_only(t):
    refused(t, "mismatch", "upstream-certificate", tls=pki.leaf("IP:127.0.0.1"))


@tap.test
def from_an_authority_that_nobody_trusts(t):
    refused(t, "certificate", "upstream-certificate", tls=stranger.leaf("a.test"))


@tap.test
def tls_that_is_too_old(t):
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
    for leaf in (pki.leaf("a.test", self_signed=True), pki.leaf("a.test", expired=True), pki.leaf("b.test"), stranger.leaf("a.test")):
        upstream = t.use(FrameServer(lambda f, _number: f.request(), tls=leaf))
        r = client.run(POLICY, [h2.CLIENT, '''
            report(h2("a.test").get("/x").status, tls("a.test").get("/x").status)
        '''], vault=VAULT, upstream_ca=pki.ca, resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
        tap.equal(r.reports, [[502, 502]])
        tap.ok(upstream.connections, "it was tried")
        tap.equal(upstream.received, b"")
        tap.equal([o["code"] for o in r.outcomes()], ["upstream-certificate"] * 2)


@tap.test
def nor_one_of_ipv6(t):
    for leaf in (pki.leaf("IP:::1"), pki.leaf("b.test"), stranger.leaf("a.test")):
        refused(t, "certificate" if leaf == stranger.leaf("a.test") else "mismatch", "upstream-certificate", tls=leaf, address="::1")


@tap.test
def and_one_that_is_verified_is_served(t):
    work.need("curl")
    for tls in (pki.leaf("a.test"), pki.leaf("b.test", "a.test", rsa=True)):
        upstream = t.use(RawServer(tls=tls))
        r = exeat.run(POLICY, "curl -sS https://a.test/x", vault=VAULT, upstream_ca=pki.ca,
                      resolve=upstream.resolve("a.test"), env={"EXEAT_TEST_TOKEN": SECRET})
        tap.equal((r.code, r.out), (0, "ok"))


tap.main()
