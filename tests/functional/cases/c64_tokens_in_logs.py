"""C64: no token shows in a record, on standard error, in Redis or in an error's text; and no record can be forged."""
import json

import client
import exeat
import tap
from pki import Pki
from redis import RealRedis
from servers import RawServer, response

pki = Pki()
POLICY = "allow GET,POST https://a.test/**  with bound\n"
VAULT = "credential bound\n    for https://a.test\n    from env EXEAT_TEST_TOKEN\n    inject bearer\n"
SECRETS = ["SECRET-A-0123456789", "SECRET-Q", "SECRET-U", "SECRET-W", "SECRET-H", "SECRET-C", "SECRET-L", "SECRET-B"]
OPTIONS = {"vault": VAULT, "upstream_ca": pki.ca, "env": {"EXEAT_TEST_TOKEN": SECRETS[0]}, "flags": ["-v"]}

CLIENT = '''
    c = tls("a.test")
    report(c.get("/p?sig=SECRET-Q&x=%0d%0aSET%20k&page=2", extra="Authorization: Bearer SECRET-H\\r\\nCookie: s=SECRET-C\\r\\n").status)
    c.send("POST /q?SECRET-Q HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 8\\r\\n\\r\\nSECRET-B")
    report(c.answer().status)
    report(c.get("/denied?k=SECRET-Q", method="DELETE").status)
    report(tls("a.test").get("/p?access_token=SECRET-Q").status)
    for head in ("GET /u HTTP/1.1\\r\\nHost: SECRET-U:SECRET-W@a.test\\r\\n\\r\\n",
                 "GET https://SECRET-U:SECRET-W@a.test/u HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n",
                 "GET /u?k=SECRET-Q HTTP/1.1\\r\\nHost: a.test\\r\\nHost: a.test\\r\\n\\r\\n",
                 "GET /u?k=SECRET-Q&\\x1b[2J HTTP/1.1\\r\\nHost: a.test\\r\\nX-A: SECRET-H\\r\\n\\r\\n",
                 "GET /\\x9b31m\\x07?k=SECRET-Q HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n",
                 "GET /u HTTP/1.1\\r\\nHost: a.test\\r\\nBad Header SECRET-H\\r\\n\\r\\n"):
        c = tls("a.test")
        c.send(head)
        a = c.answer()
        report(a.status, a.body.decode("latin-1"))
'''


def free_of_secrets(text, what):
    for secret in SECRETS:
        tap.ok(secret not in text, "%s shows %s" % (what, secret))


def whole(t, redis, answer, code=CLIENT, tls=None):
    server = t.use(RawServer(answer, tls=tls or pki.leaf("a.test")))
    r = client.run(POLICY, code, resolve=[server.resolve("a.test")], redis=redis.url(), **OPTIONS)
    with open(r.log, encoding="utf-8") as f:
        log = f.read()
    free_of_secrets(log, "the log")
    free_of_secrets(r.err, "standard error")
    dump = str(redis.command("XRANGE", "exeat:decisions", "-", "+"))
    free_of_secrets(dump, "Redis")
    return r, server, log


@tap.test
def requests_that_carry_secrets_everywhere(t):
    redis = t.use(RealRedis())
    r, server, log = whole(t, redis, response(302, "", headers=[("Location", "https://a.test/?code=SECRET-L"),
                                                                ("Set-Cookie", "s=SECRET-C")]))
    tap.equal(r.reports[:4], [302, 302, 403, 403])
    for report in r.reports[4:]:
        tap.ok(report[0] == 400, report)
        free_of_secrets(report[1], "a refusal")
    tap.contains(log, '"url":"https://a.test/p?sig=*&x=*&page=*"')
    tap.contains(log, '"url":"https://a.test/q?*"')
    tap.equal(server.requests[0].all("authorization"), ["Bearer " + SECRETS[0]])
    # a record a line, each of them JSON, nothing that a terminal acts on
    for line in log.splitlines():
        json.loads(line)
    for text in (log, r.err):
        tap.ok(not any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in text), "a control character is shown")
    tap.equal(len(redis.stream()), len(log.splitlines()))
    tap.equal(redis.command("EXISTS", "k"), 0)


@tap.test
def errors_of_the_upstream(t):
    redis = t.use(RealRedis())
    code = '''
        c = tls("a.test")
        a = c.get("/p?sig=SECRET-Q")
        report(a.status, a.body.decode("latin-1"))
    '''
    r, _, _ = whole(t, redis, response(200, "ok"), code, tls=pki.leaf("b.test"))
    tap.equal(r.reports[0][0], 502)
    free_of_secrets(r.reports[0][1], "the error page")
    redis.command("DEL", "exeat:decisions")
    r, _, _ = whole(t, redis, b"garbage SECRET-L\r\n\r\n", code)
    tap.equal(r.reports[0][0], 502)
    free_of_secrets(r.reports[0][1], "the error page")


@tap.test
def the_address_of_redis_itself(t):
    redis = t.use(RealRedis(password="SECRET-W"))
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    r = client.run(POLICY, 'report(tls("a.test").get("/x").status)', resolve=[server.resolve("a.test")], redis=redis.url(),
                   **OPTIONS)
    tap.equal(r.reports, [200])
    tap.equal(len(redis.stream()), 2)
    free_of_secrets(r.err, "standard error")
    r = client.run(POLICY, 'report(tls("a.test").get("/x").status)', resolve=[server.resolve("a.test")],
                   redis=redis.url().replace("SECRET-W", "SECRET-Q"), **OPTIONS)
    tap.equal(r.reports, [200])
    free_of_secrets(r.err, "standard error")
    tap.contains(r.err, "redis: ")


URLS = [
    "https://a.test/p?access_token=SECRET-Q&x=%0d%0aSET%20k",  # denied: a token of the sandbox's own
    "https://user:SECRET-W@a.test/p?x=SECRET-Q",
    "http://a.test/p?access_token=SECRET-Q",                 # denied
    "https://b.test/p?access_token=SECRET-Q",                # denied
    "https://SECRET-U:SECRET-W@b.test/",
    "https://down.test/p?access_token=SECRET-Q",             # permitted, nobody there
]
WITH_DOWN = POLICY + "allow GET https://down.test/**\n"


@tap.test
def what_curl_is_told_by_a_url(t):
    """Names and passwords in a URL, a redirect with a code, a host that is down: no log and no answer shows them."""
    redis = t.use(RealRedis())
    moved = response(302, "moved", [("Location", "https://a.test/back?code=SECRET-L"), ("Set-Cookie", "c=SECRET-C")], reason="Found")
    server = t.use(RawServer(moved, tls=pki.leaf("a.test")))
    command = "\n".join("curl -sS -o /dev/null -m 10 -H 'Authorization: Bearer SECRET-H' -H 'Cookie: c=SECRET-C' '%s'" % u for u in URLS)
    options = {**OPTIONS, "resolve": [server.resolve("a.test"), "down.test:443:127.0.0.1:1"]}
    r = exeat.run(WITH_DOWN, command + "\ncurl -sS -o /dev/null -d SECRET-B https://a.test/post; true", redis=redis.url(), **options)
    tap.equal(len(server.requests), 2)
    tap.contains(server.requests[0].target, "SECRET-Q", "what goes upstream is what was sent")
    tap.equal(len(r.verdicts()), len(URLS) + 1)
    with open(r.log, encoding="utf-8") as f:
        free_of_secrets(f.read(), "the log")
    free_of_secrets(repr(redis.stream()), "Redis")
    free_of_secrets(r.err, "standard error")
    for line in r.err.splitlines():
        tap.ok(line.startswith("exeat") or line.startswith("curl"), "not a line of exeat's: %r" % line)
    r = exeat.run(WITH_DOWN, "for u in 'http://a.test/p?t=SECRET-Q' 'https://b.test/p?t=SECRET-Q' 'https://down.test/p?t=SECRET-Q'; do "
                             "curl -sS -i -u SECRET-U:SECRET-W \"$u\"; done; true", **options)
    tap.contains(r.out, "HTTP/1.1 403")
    tap.contains(r.out, " 502")
    free_of_secrets(r.out, "an answer of exeat's")


@tap.test
def values_of_queries_are_there_for_who_asks():
    command = "curl -s -o /dev/null 'https://a.test/p?page=2&q=x%20y#f'; true"
    for flags, url in (([], "https://a.test/p?page=*&q=*"), (["--log-query"], "https://a.test/p?page=2&q=x%20y")):
        r = exeat.run(None, command, flags=flags)
        tap.equal([v["url"] for v in r.verdicts()], [url])
        tap.contains(r.err, url)


tap.main()
