"""C28: an answer without a body is over when its head is."""
import client
import h2
import onehost
import tap
from h2server import DATA, END_HEADERS, END_STREAM, FrameServer, HEADERS, OK
from pki import Pki
from servers import response


def one(c, q):
    status = {"/ok/204": b"204 No Content", "/ok/304": b"304 Not Modified"}.get(q.target)
    if status:
        return c.send(b"HTTP/1.1 " + status + b"\r\nContent-Length: 99\r\nETag: \"e\"\r\n\r\n")
    if q.target == "/ok/304chunked":
        return c.send(b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n")
    if q.method == "HEAD" and q.target == "/ok/chunked":
        return c.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    if q.method == "HEAD" and q.target == "/ok/rogue":
        return c.send(response(200, "GET me HTTP/1.1 500"))
    if q.method == "HEAD":
        return c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
    return c.send(response(200, "body of " + q.target))


@tap.test
def head_204_and_304_leave_the_connection_in_step(t):
    r, _ = onehost.through(t, '''
        c = tls("a.test")
        for method, target in (("HEAD", "/ok/a"), ("GET", "/ok/b"), ("GET", "/ok/204"), ("GET", "/ok/c"), ("GET", "/ok/304"),
                               ("GET", "/ok/d"), ("HEAD", "/ok/chunked"), ("GET", "/ok/e"), ("HEAD", "/ok/rogue"), ("GET", "/ok/f")):
            a = c.get(target, method=method)
            report(a.status, a.header("content-length"), a.body.decode())
    ''', answer=one)
    tap.equal(r.reports[0], [200, "1234", ""])
    tap.equal([x[0] for x in r.reports], [200, 200, 204, 200, 304, 200, 200, 200, 200, 200])
    tap.equal([x[2] for x in r.reports[1::2]], ["body of /ok/" + x for x in "bcdef"])
    tap.equal(r.reports[4], [304, "99", ""])


ASKS = (("HEAD", "a"), ("GET", "b"), ("GET", "204"), ("GET", "c"), ("GET", "304"), ("GET", "d"), ("GET", "304chunked"), ("GET", "e"), ("HEAD", "chunked"),
        ("GET", "f"), ("HEAD", "rogue"), ("GET", "g"))
STATUSES = [{"204": 204, "304": 304, "304chunked": 304}.get(name, 200) for _, name in ASKS]
BODIES = ["" if i % 2 == 0 else "body of /ok/" + name for i, (_, name) in enumerate(ASKS)]


@tap.test
def in_clear_text_too(t):
    r, _ = onehost.through(t, '''
        c = tcp("a.test")
        for method, name in %r:
            a = c.get("/ok/" + name, method=method)
            report(a.status, a.body.decode(), a.whole)
    ''' % (ASKS,), answer=one, clear=True)
    tap.equal(r.reports, [[s, b, True] for s, b in zip(STATUSES, BODIES)])


@tap.test
def streams_of_http_2_end_with_the_head(t):
    h2.needed()
    r, _ = onehost.through(t, [h2.CLIENT, '''
        c = h2("a.test")
        for method, name in %r:
            a = c.get("/ok/" + name, method=method)
            report(a.status, a.body.decode(), a.whole)
        report(dict(c.get("/ok/a", method="HEAD").headers).get("content-length"))
    ''' % (ASKS,)], answer=one)
    tap.equal(r.reports, [[s, b, True] for s, b in zip(STATUSES, BODIES)] + ["1234"])


LENGTH = b"\x0f\x0d\x0299"    # content-length: 99, never indexed


@tap.test
def and_so_does_an_answer_of_http_2(t):
    """By HEAD, 204 and 304 with a length, to either version; and the streams beside one whose server sends a body all the same."""
    h2.needed()
    heads = {"head": OK + LENGTH, "204": b"\x89", "304": b"\x8b" + LENGTH}
    script = ["head", "body", "204", "body", "304", "body", "rogue", "body"] * 2

    def serve(f, _number):
        while True:
            stream = f.request()
            what = script[len(told)]
            told.append(what)
            if what == "body":
                f.answer(stream, body=b"body of %d" % (len(told) - 1))
            else:
                f.frame(HEADERS, END_HEADERS | (END_STREAM if what in heads else 0), stream, heads.get(what, OK + LENGTH))
            if what == "rogue":
                f.frame(DATA, END_STREAM, stream, b"x" * 99)
    told = []
    pki = Pki()
    server = t.use(FrameServer(serve, tls=pki.leaf("a.test")))
    r = client.run(onehost.POLICY, [h2.CLIENT, '''
        for open in (tls, h2):
            c = open("a.test")
            for method in ("HEAD", "GET", "GET", "HEAD"):
                a = c.get("/ok", method=method)
                a = [a.status, a.body.decode(), dict(a.headers).get("content-length", dict(a.headers).get("Content-Length"))]
                try:
                    b = c.get("/ok/then").body
                except OSError:
                    b = b""
                report(a, (b or open("a.test").get("/ok/then").body).decode())
    '''], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(server.errors, [])
    tap.equal([a for a, _ in r.reports[:7]], ([[200, "", "99"], [204, "", None], [304, "", "99"], [200, "", "99"]] * 2)[:7])
    tap.ok(r.reports[7][0] in ([200, "", "99"], [0, "", None]), r.reports[7])  # or its stream was reset at once
    tap.equal([then for _, then in r.reports], ["body of %d" % i for i in range(1, 16, 2)])


@tap.test
def curl_sees_the_head_alone(t):
    r, _ = onehost.through(t, '''
        p = subprocess.run(["curl", "-sI", "https://a.test/ok/a", "--next", "-s", "https://a.test/ok/b"], stdout=subprocess.PIPE, text=True)
        report(p.returncode, p.stdout)
    ''', answer=one)
    code, out = r.reports[0]
    tap.equal(code, 0)
    tap.contains(out.lower(), "content-length: 1234")
    tap.contains(out, "body of /ok/b")


tap.main()
