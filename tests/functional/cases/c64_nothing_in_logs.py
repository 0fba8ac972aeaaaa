#!/usr/bin/env python3
"""C64: no token in a log: not of a query, a user's name in a URL, a header, a Location; not when something fails."""
import exeat
import pki
import raw
import redis
import tap

VAULT = "credential a\n    for https://a.test\n    from env TOKEN\n    inject bearer\n"
WORDS = ("SECRET-A", "SECRET-QUERY", "SECRET-PASSWORD", "SECRET-HEADER", "SECRET-COOKIE", "SECRET-CODE", "SECRET-BODY")

CURL = "curl -sS -o /dev/null --max-time 10 -H 'Authorization: Bearer SECRET-HEADER' -H 'Cookie: c=SECRET-COOKIE' "
URLS = [
    "https://a.test/p?access_token=SECRET-QUERY&x=%0d%0aSET%20k",
    "https://user:SECRET-PASSWORD@a.test/p?x=SECRET-QUERY",
    "http://a.test/p?access_token=SECRET-QUERY",                 # denied
    "https://b.test/p?access_token=SECRET-QUERY",                # denied
    "https://user:SECRET-PASSWORD@b.test/",
    "https://down.test/p?access_token=SECRET-QUERY",             # permitted, nobody there
]
POLICY = "allow GET,POST https://a.test/** with a\nallow GET,POST https://down.test/**\n"


@tap.test
def neither_in_the_file_nor_in_redis_nor_on_stderr(t):
    authority = pki.Pki()
    moved = raw.response(302, "moved", [("Location", "https://a.test/back?code=SECRET-CODE"),
                                        ("Set-Cookie", "c=SECRET-COOKIE")], reason="Found")
    server = t.use(raw.RawServer(tls=authority.leaf("a.test"), answer=moved))
    store = t.use(redis.RealRedis())
    command = "\n".join(CURL + "'%s'" % u for u in URLS) + "\n" + CURL + "-d SECRET-BODY https://a.test/post; true"
    r = exeat.run(POLICY, command, vault=VAULT, env={"TOKEN": "SECRET-A"}, upstream_ca=authority.ca, flags=["-v"],
                  redis=store.url(), resolve=[server.resolve("a.test"), "down.test:443:127.0.0.1:1"])
    tap.equal(len(server.requests), 3)
    tap.equal(server.requests[0].header("authorization"), "Bearer SECRET-A")
    tap.contains(server.requests[0].target, "SECRET-QUERY", "what goes upstream is what was sent")
    tap.ok(len(r.verdicts()) >= len(URLS), r)
    with open(r.log, encoding="utf-8") as f:
        log = f.read()
    records = repr(store.stream())
    tap.contains(records, "https://a.test/p")
    for word in WORDS:
        tap.lacks(log, word)
        tap.lacks(r.err, word)
        tap.lacks(records, word)
    for line in r.err.splitlines():
        tap.ok(line.startswith("exeat") or line.startswith("curl"), "not a line of exeat's: %r" % line)


@tap.test
def nor_in_the_answers_that_exeat_makes(t):
    authority = pki.Pki()
    r = exeat.run(POLICY, "for u in 'http://a.test/p?t=SECRET-QUERY' 'https://b.test/p?t=SECRET-QUERY' "
                          "'https://down.test/p?t=SECRET-QUERY'; do curl -sS -i -u x:SECRET-PASSWORD \"$u\"; done; true", vault=VAULT,
                  env={"TOKEN": "SECRET-A"}, upstream_ca=authority.ca, resolve="down.test:443:127.0.0.1:1")
    tap.contains(r.out, "HTTP/1.1 403")
    tap.contains(r.out, "HTTP/1.1 502")
    for word in WORDS:
        tap.lacks(r.out, word)


tap.main()
