"""C30: an upstream that closes its idle connections makes no request fail, and none is made twice."""
import time

import client
import tap
from pki import Pki
from servers import RawServer, response

pki = Pki()
POLICY = "allow GET,POST https://a.test/**\nallow GET,POST http://a.test/**\n"

CLIENT = '''
    import random
    random.seed(7)
    bad = []
    c = None
    for i in range(%(count)d):
        if c is None or c.ended:
            c = %(open)s
        method = "POST" if i %% 2 else "GET"
        body = "x" * 20 if method == "POST" else ""
        c.send("%%s /%%d HTTP/1.1\\r\\nHost: a.test\\r\\n%%s\\r\\n%%s"
               %% (method, i, "Content-Length: 20\\r\\n" if body else "", body))
        a = c.answer()
        if a.status != 200 or not a.whole:
            bad.append([i, method, a.status, a.body.decode("latin-1")])
        if (a.header("connection") or "").lower() == "close":
            c = None
        time.sleep(0.005 + random.uniform(-0.002, 0.002))
    report(bad)
'''


def closing(how):
    """Answers, and closes 5 ms later, without having said so."""
    def answer(connection, request):
        connection.read_body(request)
        connection.send(response(200, "ok"))
        time.sleep(0.005)
        connection.close(how)
    return answer


def story(t, how, tls, count=1000):
    server = t.use(RawServer(closing(how), tls=pki.leaf("a.test") if tls else None))
    r = client.run(POLICY, CLIENT % {"count": count, "open": 'tls("a.test")' if tls else 'tcp("a.test")'},
                   resolve=[server.resolve("a.test", 443 if tls else 80)], upstream_ca=pki.ca, timeout=150)
    tap.equal(r.reports, [[]])
    posts = [q.target for q in server.requests if q.method == "POST"]
    tap.equal(len(posts), len(set(posts)), "a POST was made twice")
    tap.equal(len(set(posts)), count // 2)
    tap.equal(len({q.target for q in server.requests}), count)
    tap.equal(r.outcomes(status=502), [])


@tap.test(timeout=180)
def closed_by_fin(t):
    story(t, "fin", tls=False)


@tap.test(timeout=180)
def closed_by_rst(t):
    story(t, "rst", tls=False)


@tap.test(timeout=180)
def closed_by_fin_under_tls(t):
    story(t, "fin", tls=True, count=400)


@tap.test(timeout=180)
def closed_by_rst_under_tls(t):
    story(t, "rst", tls=True, count=400)


@tap.test
def connections_that_stay_open_are_used_again(t):
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf("a.test")))
    r = client.run(POLICY, '''
        c = tls("a.test")
        report([c.get("/%d" % i).status for i in range(50)])
        c.close()
        c = tls("a.test")
        report([c.get("/%d" % i).status for i in range(50)])
    ''', resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, [[200] * 50, [200] * 50])
    tap.equal(len(server.connections), 1)


tap.main()
