"""C17: a request without a version, or with bare line feeds, is no request."""
import onehost
import tap


@tap.test
def lines_end_in_crlf_and_the_version_is_there(t):
    onehost.bad(t, [
        "GET /ok\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
        "GET /ok HTTP/1.1\nHost: a.test\r\n\r\n",
        "GET /ok HTTP/1.1\r\nHost: a.test\n\r\n",
        "GET /ok HTTP/1.1\r\nHost: a.test\r\n\n",
        "GET /ok\r\n\r\n",
        "GET /ok\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
        "GET /ok HTTP/\r\nHost: a.test\r\n\r\n",
        "GET /ok HTTP/0.9\r\nHost: a.test\r\n\r\n",
        "GET /ok HTTP/1\r\nHost: a.test\r\n\r\n",
        "GET /ok HTTP/1.1x\r\nHost: a.test\r\n\r\n",
        "GET  /ok HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET /ok  HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET\t/ok HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "get /ok HTTP/1.1\r\nHost: a.test\r\n\r\n",
    ], statuses=(400, 505))


@tap.test
def it_is_refused_at_once_though_the_head_has_not_ended(t):
    r, server = onehost.through(t, '''
        for wire in ("GET /ok\\n", "GET /ok\\r\\n", "GET /ok HTTP/1.1\\r\\nHost: a.test\\n", "GET /ok HTTP/1.1\\r\\nHost: a\\rb"):
            c = tls("a.test")
            c.timeout(3)
            c.send(wire)
            report(c.answer().status)
    ''')
    tap.equal(r.reports, [400] * 4)
    tap.equal(server.requests, [])


tap.main()
