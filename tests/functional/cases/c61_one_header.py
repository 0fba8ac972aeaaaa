#!/usr/bin/env python3
"""C61: a client's own authentication to a host that a credential is bound to is taken off, in every spelling; one is set."""
import client
import exeat
import pki
import raw
import tap

VAULT = "credential a\n    for https://a.test\n    from env TOKEN\n    inject bearer\n    remove Cookie\n"

# Each is sent as it stands; behind it, whether the request may be refused altogether for its form.
SPELLINGS = [
    ("Authorization: Bearer X", False),
    ("authorization: Bearer X", False),
    ("AUTHORIZATION:Bearer X", False),
    ("Authorization: Bearer X\r\nAuthorization: Bearer X", False),
    ("Authorization: Bearer X\r\nX-Other: 1\r\naUTHORIZATION: Basic WDpY", False),
    ("Authorization:", False),
    ("Proxy-Authorization: Basic WDpY", False),
    ("X-Api-Key: X", False),
    ("x_api_key: X", True),
    ("Private-Token: X", False),
    ("Cookie: session=X", False),
    ("Authorization : Bearer X", True),
    ("Authorization: Bearer\r\n X", True),
    ("Connection: authorization\r\nAuthorization: Bearer X", True),
]
CARRIERS = ("authorization", "proxy-authorization", "x-api-key", "x_api_key", "private-token", "cookie")


def send(t, policy, heads, body=""):
    """Sends each head in a request of its own, as the bytes that it is; returns the result and what came, by number."""
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf("a.test")))
    requests = ["%s /%d HTTP/1.1\r\nHost: a.test\r\n%s\r\n\r\n%s" % ("POST" if body else "GET", i, head, body)
                for i, head in enumerate(heads)]
    r = client.run(policy, "for request in %r:\n    c = tls('a.test')\n    c.send(request)\n    report(c.answer().status)\n" %
                   requests, vault=VAULT, env={"TOKEN": "SECRET-A"}, resolve=server.resolve("a.test"),
                   upstream_ca=authority.ca)
    tap.equal(len(r.reports), len(heads))
    return r, {int(q.target.strip("/")): q for q in server.requests}


@tap.test
def with_a_credential(t):
    """lent: exactly one, equal to the secret"""
    r, got = send(t, "allow GET https://a.test/** with a\n", [s for s, _ in SPELLINGS])
    for i, (spelling, may_be_refused) in enumerate(SPELLINGS):
        if i not in got:
            tap.ok(may_be_refused, "%r was refused: %s" % (spelling, r))
            continue
        tap.equal(got[i].all("authorization"), ["Bearer SECRET-A"], repr(spelling))
        for name in CARRIERS[1:]:
            tap.equal(got[i].all(name), [], repr(spelling))
        tap.lacks(got[i].head, b"Bearer X")


@tap.test
def without_a_credential(t):
    """not lent: none of the client's own either"""
    r, got = send(t, "allow GET https://a.test/**\n", [s for s, _ in SPELLINGS])
    for i, (spelling, may_be_refused) in enumerate(SPELLINGS):
        if i not in got:
            tap.ok(may_be_refused, "%r was refused: %s" % (spelling, r))
            continue
        for name in CARRIERS:
            tap.equal(got[i].all(name), [], repr(spelling))


def server_bytes(request):
    return request.connection.received


@tap.test
def as_a_trailer(t):
    head = "Transfer-Encoding: chunked\r\nTrailer: Authorization, X-Api-Key"
    body = "5\r\nhello\r\n0\r\nAuthorization: Bearer X\r\nx-api-key: X\r\nX-Fine: 1\r\n\r\n"
    r, got = send(t, "allow POST https://a.test/** with a\n", [head], body)
    if 0 not in got:
        tap.fail("the request did not arrive: %s" % r)
    tap.equal(got[0].all("authorization"), ["Bearer SECRET-A"])
    tap.equal(got[0].body, b"hello")
    for trailer in got[0].trailers:
        tap.lacks(str(trailer).lower(), "authorization")
        tap.lacks(str(trailer).lower(), "x-api-key")
    tap.lacks(bytes(server_bytes(got[0])), b"Bearer X")


@tap.test
def in_the_query(t):
    """a query can't be mended, its bytes are the client's: refused"""
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf("a.test", "b.test")))
    urls = ["https://a.test/?access_token=X", "https://a.test/?x=1&private%5ftoken=X", "https://b.test/?access_token=MINE",
            "https://a.test/?page_token=1"]
    r = exeat.run("allow GET https://a.test/**  with a\nallow GET https://b.test/**\n",
                  "\n".join("curl -sS -o /dev/null -w '%%{http_code} ' '%s'" % u for u in urls), vault=VAULT, env={"TOKEN": "SECRET-A"},
                  resolve=[server.resolve("a.test"), server.resolve("b.test")], upstream_ca=authority.ca)
    tap.equal(r.out, "403 403 200 200 ")
    tap.equal([q.target for q in server.requests], ["/?access_token=MINE", "/?page_token=1"])
    tap.equal([v["code"] for v in r.verdicts(verdict="deny")], ["query-token", "query-token"])


@tap.test
def hosts_that_none_is_bound_to_get_what_the_client_sent(t):
    authority = pki.Pki()
    server = t.use(raw.RawServer(tls=authority.leaf("b.test")))
    r = exeat.run("allow GET https://b.test/**\n",
                  ["curl", "-sSf", "-H", "Authorization: Bearer MINE", "-H", "Cookie: c=1", "https://b.test/"], vault=VAULT,
                  env={"TOKEN": "SECRET-A"}, resolve=server.resolve("b.test"), upstream_ca=authority.ca)
    tap.equal(r.code, 0)
    tap.equal(server.requests[0].header("authorization"), "Bearer MINE")
    tap.equal(server.requests[0].header("cookie"), "c=1")


tap.main()
