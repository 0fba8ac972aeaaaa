"""C60: exeat follows no redirect; what the client makes of one is a new request, and judged as that."""
import exeat
import tap
from pki import Pki
from servers import RawServer

pki = Pki()
VAULT = "credential key\n    for https://a.test\n    from env A_TOKEN\n    inject bearer\n"
POLICY = "allow GET https://a.test/** with key\nallow GET http://open.test/**\n"


@tap.test
def the_secret_goes_nowhere_but_to_its_host(t):
    for location in ("https://b.test/x", "http://a.test/x", "https://a.test:8443/x", "//b.test/x", "http://open.test/x"):
        answer = ("HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % location).encode()
        first = t.use(RawServer(answer, tls=pki.leaf("a.test")))
        other = t.use(RawServer(tls=pki.leaf("a.test", "b.test")))
        clear = t.use(RawServer())
        r = exeat.run(POLICY, ["curl", "-sS", "-L", "--location-trusted", "-H", "Authorization: Bearer mine", "https://a.test/"],
                      vault=VAULT, env={"A_TOKEN": "SECRET-A"}, upstream_ca=pki.ca,
                      resolve=[first.resolve("a.test"), other.resolve("b.test"), other.resolve("a.test", 8443), clear.resolve("a.test", 80),
                               clear.resolve("open.test", 80)])
        tap.equal([q.all("authorization") for q in first.requests], [["Bearer SECRET-A"]], location)
        tap.equal(other.requests, [], location)
        for q in clear.requests:
            tap.equal(q.header("host"), "open.test", location)
            tap.lacks(q.head.decode(), "SECRET-A", location)
        tap.lacks(r.out + r.err, "SECRET-A", location)
        tap.equal(len(r.verdicts()), 2, location)


@tap.test
def a_host_that_is_permitted_without_the_secret_gets_none(t):
    for location, port in (("https://b.test/x", 443), ("//b.test/x", 443), ("https://b.test:8443/x", 8443)):
        answer = ("HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % location).encode()
        first = t.use(RawServer(answer, tls=pki.leaf("a.test")))
        other = t.use(RawServer(tls=pki.leaf("b.test")))
        r = exeat.run("allow GET https://a.test/** with key\nallow GET https://b.test:*/**\n",
                      ["curl", "-sS", "-L", "--location-trusted", "https://a.test/"], vault=VAULT, env={"A_TOKEN": "SECRET-A"},
                      upstream_ca=pki.ca, resolve=[first.resolve("a.test"), other.resolve("b.test", port)])
        tap.equal(r.out, "ok", location)
        tap.equal([q.all("authorization") for q in first.requests], [["Bearer SECRET-A"]], location)
        tap.equal([q.all("authorization") for q in other.requests], [[]], location)
        tap.lacks(other.received, b"SECRET-A", location)


tap.main()
