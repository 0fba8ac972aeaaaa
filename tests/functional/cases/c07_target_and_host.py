"""C07: one authority, whether the target names it, Host, or both; the Host that goes on is exeat's own."""
import h2
import onehost
import tap

HEAD = " HTTP/1.1\r\nHost: a.test\r\n\r\n"


@tap.test
def two_authorities_are_refused(t):
    onehost.bad(t, [
        "GET https://b.test/ok" + HEAD,
        "GET https://a.test@b.test/ok" + HEAD,
        "GET https://b.test@a.test/ok" + HEAD,
        "GET https://a.test:8443/ok" + HEAD,
        "GET http://a.test/ok" + HEAD,
        "GET https://a.test\\@b.test/ok" + HEAD,
        "GET https:///ok" + HEAD,
        "GET https://a.test,b.test/ok" + HEAD,
        "GET //b.test/ok" + HEAD,
        "GET ftp://a.test/ok" + HEAD,
        "GET /ok HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
        "GET /ok HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n",
        "GET /ok HTTP/1.1\r\nhost: a.test\r\nX: y\r\nHOST: b.test\r\n\r\n",
        "GET /ok HTTP/1.1\r\nHost: a.test b.test\r\n\r\n",
        "GET /ok HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n",
        "GET /ok HTTP/1.1\r\nHost:\r\n\r\n",
        "GET /ok HTTP/1.1\r\n\r\n",
    ])


@tap.test
def what_agrees_goes_on_in_origin_form(t):
    r, server = onehost.through(t, '''
        for wire in ("GET https://a.test/ok?q HTTP/1.1\\r\\nHost: a.test", "GET HTTPS://A.TEST:443/ok?q HTTP/1.1\\r\\nHost: a.test.",
                     "GET /ok?q HTTP/1.1\\r\\nHost: a.test\\r\\nX-Forwarded-Host: b.test\\r\\nForwarded: host=b.test"):
            c = tls("a.test")
            c.send(wire + "\\r\\n\\r\\n")
            report(c.answer().status)
    ''')
    tap.equal(r.reports, [200] * 3)
    for q in server.requests:
        tap.equal((q.target, q.header("host")), ("/ok?q", "a.test"))
        tap.lacks(q.head.decode(), "b.test")


@tap.test
def and_in_clear_text(t):
    """Where a.test is dialled; a proxy's form has no other host to agree with than its own."""
    onehost.bad(t, ["GET %s%s" % (target, HEAD) for target in
                    ("http://b.test/ok", "http://a.test@b.test/ok", "http://b.test@a.test/ok", "http://a.test:8080/ok", "https://a.test/ok", "http://a.test\\@b.test/ok",
                     "http:///ok", "http://a.test,b.test/ok", "ftp://a.test/ok")] +
                ["GET /ok HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", "GET /ok HTTP/1.1\r\nHost: a.test\r\nhost: a.test\r\n\r\n",
                 "GET /ok HTTP/1.1\r\nHost: x@a.test\r\n\r\n", "GET /ok HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n", "GET /ok HTTP/1.1\r\n\r\n"], clear=True)
    r, server = onehost.through(t, '''
        for target, host in (("http://a.test/ok", "a.test"), ("http://a.test/ok", "b.test"), ("http://b.test/ok", "a.test"), ("http://a.test/ok", "a.test:8080"),
                             ("http://x@a.test/ok", "a.test"), ("http://a.test@b.test/ok", "a.test"), ("HTTP://A.TEST:80/ok", "a.test.")):
            c = tcp("proxy.test", 3128)
            c.send("GET %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (target, host))
            report(c.answer().status)
    ''', clear=True)
    tap.equal(r.reports, [200] + [400] * 5 + [200])
    tap.equal([(q.target, q.header("host")) for q in server.requests], [("/ok", "a.test")] * 2)


@tap.test
def streams_of_http_2_have_one_authority(t):
    h2.needed()
    r, server = onehost.through(t, [h2.CLIENT, '''
        c = h2("a.test")
        def ask(*fields, **pseudo):
            a = c.get("/ok", fields=fields, **pseudo)
            report(a.status or "reset")
        ask(("host", "b.test"))
        ask(("host", "a.test"), ("host", "a.test"))
        ask(("host", "a.test"), ("host", "b.test"))
        ask(("host", "a.test:8443"))
        for name in ("x@a.test", "a.test@b.test", "a.test,b.test", "a.test b.test", "", "a.test/", "https://a.test"):
            ask(authority=name)
            ask(("host", name), authority=None)
        ask(authority=None)
        s, c.next = c.next, c.next + 2
        c.headers(s, c.pseudo("/ok") + [(":authority", "b.test")])
        report(c.answer(s).status or "reset")
        report(c.get("https://b.test/ok").status or "reset", c.get("//b.test/ok").status or "reset")
        ask(("host", "a.test"))
        ask(("host", "A.TEST:443"))
        ask(("x-forwarded-host", "b.test"), ("forwarded", "host=b.test"), authority="A.test.")
    '''])
    bad, good = r.reports[:-3], r.reports[-3:]
    tap.equal(len(bad), 4 + 14 + 3)
    tap.ok(set(x for b in bad for x in (b if isinstance(b, list) else [b])) <= {400, 421, "reset"}, bad)
    tap.equal(good, [200] * 3)
    for q in server.requests:
        tap.equal((q.target, q.header("host")), ("/ok", "a.test"))
        tap.lacks(q.head.decode(), "b.test")
    tap.equal(len(server.requests), 3)


tap.main()
