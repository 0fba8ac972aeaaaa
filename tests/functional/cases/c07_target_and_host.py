"""C07: one authority, whether the target names it, Host, or both; the Host that goes on is exeat's own."""
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


tap.main()
