"""C26: a client that waits for 100 is not kept waiting, whatever the origin does."""
import onehost
import tap
from servers import response

UPLOAD = '''
    import tempfile
    f = tempfile.NamedTemporaryFile()
    f.write(b"x" * 5000000)
    f.flush()
    def upload(*words):
        began = time.monotonic()
        p = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--expect100-timeout", "30", "-H", "Expect: 100-continue",
                            "-T", f.name, *words], stdout=subprocess.PIPE, text=True, timeout=50)
        return p.stdout, time.monotonic() - began
'''


def upload(t, answer, url="https://a.test/ok/u"):
    r, server = onehost.through(t, [UPLOAD, "report(upload(%r))" % url], answer=answer)
    status, seconds = r.reports[0]
    return status, seconds, server


@tap.test
def an_origin_that_says_100(t):
    status, seconds, server = upload(t, [b"HTTP/1.1 100 Continue\r\n\r\n", ("body",), response(200, "ok")])
    tap.equal(status, "200")
    tap.ok(seconds < 5, seconds)
    tap.equal([len(q.body) for q in server.requests], [5000000])


@tap.test
def an_origin_that_says_413_instead(t):
    status, seconds, server = upload(t, [response(413, "too much", [("Connection", "close")]), ("close", "fin")])
    tap.equal(status, "413")
    tap.ok(seconds < 5, seconds)
    tap.equal([q.header("expect") for q in server.requests], ["100-continue"])


@tap.test
def an_origin_that_says_nothing_until_the_body_comes(t):
    r, server = onehost.through(t, '''
        c = tls("a.test")
        c.send("PUT /ok HTTP/1.1\\r\\nHost: a.test\\r\\nExpect: 100-continue\\r\\nContent-Length: 5\\r\\n\\r\\n")
        spin(1)
        c.send("hello")
        report(c.answer().status)
    ''', answer=[("body",), response(200, "ok")])
    tap.equal(r.reports, [200])
    tap.equal([q.body for q in server.requests], [b"hello"])


@tap.test
def a_refusal_comes_at_once(t):
    status, seconds, server = upload(t, response(200, "ok"), url="https://a.test/no")
    tap.equal(status, "403")
    tap.ok(seconds < 5, seconds)
    tap.equal(server.requests, [])


@tap.test
def an_http_1_0_client_never_gets_a_100(t):
    r, _ = onehost.through(t, '''
        c = tls("a.test")
        c.send("PUT /ok HTTP/1.0\\r\\nHost: a.test\\r\\nExpect: 100-continue\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
        a = c.answer()
        report(a.status, a.interim)
    ''', answer=[b"HTTP/1.1 100 Continue\r\n\r\n", ("body",), response(200, "ok")])
    tap.equal(r.reports, [[200, []]])


tap.main()
