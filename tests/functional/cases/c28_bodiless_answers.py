"""C28: an answer without a body is over when its head is."""
import onehost
import tap
from servers import response


def one(c, q):
    status = {"/ok/204": b"204 No Content", "/ok/304": b"304 Not Modified"}.get(q.target)
    if status:
        return c.send(b"HTTP/1.1 " + status + b"\r\nContent-Length: 99\r\nETag: \"e\"\r\n\r\n")
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
