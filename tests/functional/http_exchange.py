"""HTTP/1.1 through the proxy: keep-alive, pipelining, bodies, early answers, ends of every kind. What is malformed or
ambiguous is in the corpus (corpus_requests.py, corpus_answers.py)."""
import threading
import time

import client
import exeat
import h2
import tap
from pki import Pki
from servers import RawServer, chunked, response

pki = Pki()
POLICY = "allow GET,HEAD,POST,PUT https://a.test/ok**\nallow GET,POST http://a.test/ok**\n"


def through(t, code, answer=None, policy=POLICY, **options):
    """Runs the client's code against an upstream; returns the result and the upstream."""
    server = t.use(RawServer(tls=pki.leaf("a.test"), **({"answer": answer} if answer is not None else {}),
                             **{k: options.pop(k) for k in ("answers",) if k in options}))
    r = client.run(policy, code, resolve=[server.resolve("a.test")], upstream_ca=pki.ca, **options)
    return r, server


def clear(t, code, answer=response(200, "ok"), **options):
    server = t.use(RawServer(answer))
    r = client.run(POLICY, code, resolve=[server.resolve("a.test", 80)], **options)
    return r, server


# ---- requests on one connection ----

@tap.test
def a_hundred_pipelined_requests_are_answered_in_order(t):
    r, server = through(t, '''
        c = tls("a.test")
        c.send(b"".join(b"GET /ok/%d HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" % i for i in range(100)))
        report([c.answer().body.decode() for _ in range(100)])
    ''', answer=lambda c, q: response(200, q.target))
    tap.equal(r.reports[0], ["/ok/%d" % i for i in range(100)])
    tap.equal(len(server.connections), 1)


@tap.test
def many_denied_requests_in_one_write_are_each_answered(t):
    r, server = through(t, '''
        c = tls("a.test")
        c.send(b"GET /no HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" * 2000)
        report([c.answer().status for _ in range(2000)].count(403))
    ''')
    tap.equal(r.reports, [2000])
    tap.equal(server.requests, [])


@tap.test
def who_takes_no_answers_gets_no_more_of_them_and_then_all(t):
    # What exeat itself answers waits for its client, too; and the client's end, which comes meanwhile, takes none of it away.
    n = 24000
    r, _ = through(t, '''
        import threading
        c = tcp("a.test")
        c.sock.settimeout(50)
        def ask():
            c.sock.sendall(b"GET /no HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" * %d)
            c.sock.shutdown(socket.SHUT_WR)
        asking = threading.Thread(target=ask)
        asking.start()
        spin(5)
        got, last = 0, b""
        while True:
            piece = c.sock.recv(1 << 20)
            if not piece:
                break
            got += (last + piece).count(b"HTTP/1.1 403 ")
            last = (last + piece)[-12:]
        asking.join()
        report(got)
    ''' % n)
    tap.equal(r.reports, [n])


@tap.test
def the_upstream_connection_is_kept_and_used_again(t):
    r, server = through(t, '''
        for _ in range(3):
            c = tls("a.test")
            report([c.get("/ok").status, c.get("/ok").status])
            c.close()
    ''')
    tap.equal(r.reports, [[200, 200]] * 3)
    tap.equal(len(server.connections), 1)


# What can't be repeated, one after the other: each with a body of its own.
POSTS = '''
    for i in range(6):
        c = tls("a.test")
        body = b"body %d" % i
        c.send(b"POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
        a = c.answer()
        report(a.status, a.body.decode())
        c.close()
        time.sleep(0.12)
'''


@tap.test
def what_cannot_be_repeated_uses_a_kept_connection_too(t):
    r, server = through(t, POSTS)
    tap.equal([status for status, _ in r.reports], [200] * 6)
    # on a slow machine some may have been idle for too long
    tap.ok(len(server.connections) < 6, "%d connections" % len(server.connections))


@tap.test
def what_cannot_be_repeated_is_sent_once_whatever_happens(t):
    bodies = []

    def answer(connection, request):
        bodies.append(connection.read_body(request))
        if len([q for q in server.requests if q.connection is connection]) > 1:
            connection.close("fin")
            return None
        return response(200, "ok")

    server = t.use(RawServer(answer, tls=pki.leaf("a.test")))
    r = client.run(POLICY, POSTS, resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(sorted(bodies), [b"body %d" % i for i in range(6)])
    lost = [text for status, text in r.reports if status == 502]
    tap.ok(lost, "none met the end of a kept connection: %r" % r.reports)
    for text in lost:
        tap.contains(text, "was not sent again")
    tap.equal([o["status"] for o in r.outcomes()].count(502), len(lost))


@tap.test
def an_http_1_0_client_gets_what_it_understands(t):
    r, server = through(t, '''
        c = tls("a.test")
        c.send("GET /ok HTTP/1.0\\r\\nHost: a.test\\r\\n\\r\\n")
        report(c.rest().decode("latin-1"), c.ended)
        c = tls("a.test")
        c.send("GET /ok HTTP/1.0\\r\\nHost: a.test\\r\\nConnection: keep-alive\\r\\nExpect: 100-continue\\r\\n\\r\\n")
        report(c.rest().decode("latin-1"), c.ended)
    ''', answer=chunked("one ", "two"))
    for text, ended in r.reports:
        tap.lacks(text.lower(), "chunked")
        tap.lacks(text, " 100 ")
        tap.ok(text.endswith("\r\n\r\none two"), text)
        tap.equal(ended, "eof")
    tap.equal(server.requests[0].version, "HTTP/1.1")


# ---- bodies ----

@tap.test
def bodies_of_both_framings_arrive_whole_with_trailers(t):
    r, server = through(t, '''
        c = tls("a.test")
        c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 10\\r\\n\\r\\n01234")
        spin(0.05)
        c.send("56789")
        report(c.answer().status)
        c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\nTrailer: X-Sum\\r\\n\\r\\n")
        for piece in ("3;ext=1\\r\\nabc\\r\\n", "1\\r\\n", "d\\r\\n0\\r\\nX-Sum: 7\\r\\nAuthorization: no\\r\\n\\r\\n"):
            c.send(piece)
            spin(0.02)
        a = c.answer()
        report(a.status, a.body.decode(), a.trailers, a.whole)
    ''', answer=lambda c, q: chunked("x" * 10, "y", trailers=[("X-T", "1"), ("Alt-Svc", "h3")])
        if q.all("transfer-encoding") else response(200, "first"))
    tap.equal(r.reports[0], 200)
    tap.equal(r.reports[1][:2], [200, "x" * 10 + "y"])
    tap.ok("X-T: 1" in r.reports[1][2] and r.reports[1][3], r)
    bodies = [q.body for q in server.requests]
    tap.equal(bodies, [b"0123456789", b"abcd"])
    tap.equal(server.requests[1].trailers, ["X-Sum: 7"])
    sent = sorted(o["sent"] for o in r.outcomes())
    tap.equal(sent, [4, 10])


@tap.test
def a_trailer_of_a_name_that_the_policy_judges_by_goes_no_further(t):
    policy = POLICY + ('deny POST https://a.test/** where header X-Kind == evil\n'
                       'allow PUT https://a.test/** where header X-Only != no\n'
                       'deny POST https://b.test/** where header X-Else == evil\n')
    trailers = [("X-Kind", "evil"), ("x_kind", "evil"), ("X-Only", "no"), ("X-Else", "evil"), ("X-Sum", "7")]
    r, server = through(t, [h2.CLIENT, '''
        trailers = %r
        c = tls("a.test")
        c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n1\\r\\na\\r\\n0\\r\\n" +
               "".join("%%s: %%s\\r\\n" %% field for field in trailers) + "\\r\\n")
        report(c.answer().status)
        report(c.get("/ok", method="POST", extra="X-Kind: evil\\r\\nContent-Length: 0\\r\\n").status)
        c = h2("a.test")
        s = c.request("/ok", method="POST", end=False)
        c.data(s, b"a")
        c.headers(s, [(name.lower(), value) for name, value in trailers])
        report(c.answer(s).status)
    ''' % trailers], answer=response(200, "ok"), policy=policy)
    tap.equal(r.reports, [200, 403, 200])
    tap.equal([q.trailers for q in server.requests], [["X-Else: evil", "X-Sum: 7"], ["x-else: evil", "x-sum: 7"]])


# ---- early answers ----

@tap.test
def a_refusal_reaches_a_client_that_is_still_sending(t):
    r, server = through(t, '''
        c = tls("a.test")
        c.send("PUT /no HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 3000000\\r\\n\\r\\n")
        for _ in range(30):
            c.send("x" * 100000)
        a = c.answer()
        report(a.status, len(a.body) > 50)
        c = tls("a.test")
        c.send("PUT /no HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
        report([c.answer().status, c.get("/ok").status])
    ''')
    tap.equal(r.reports, [[403, True], [403, 200]])
    tap.equal(len(server.requests), 1)


@tap.test
def an_early_answer_is_passed_on_before_the_request_has_ended(t):
    r, _ = through(t, '''
        c = tls("a.test")
        c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 10000000\\r\\n\\r\\n" + "x" * 1000)
        a = c.answer()
        report(a.status, a.body.decode())
    ''', answer=[response(413, "enough"), ("close",)])
    tap.equal(r.reports, [[413, "enough"]])


@tap.test
def a_server_that_answers_first_may_still_read_all(t):
    r, server = through(t, '''
        c = tls("a.test")
        c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 300000\\r\\n\\r\\n" + "x" * 1000)
        a = c.answer()
        spin(0.1)
        c.send("x" * 299000)
        report(a.status, a.body.decode(), c.get("/ok").status)
    ''', answer=lambda c, q: response(200, "second") if q.method == "GET" else c.send(response(200, "first")))
    tap.equal(r.reports, [[200, "first", 200]])
    tap.equal(len(server.requests[0].body), 300000)


# ---- ends ----

@tap.test
def no_answer_at_all_is_a_502_that_says_so(t):
    r, _ = through(t, '''
        a = tls("a.test").get("/ok")
        report(a.status, a.body.decode())
    ''', answer=[("close", "fin")])
    tap.equal(r.reports[0][0], 502)
    tap.contains(r.reports[0][1], "without an answer")
    tap.equal(r.outcomes()[0]["code"], "upstream-closed")
    tap.equal(r.outcomes()[0]["status"], 502)


@tap.test
def a_client_that_half_closes_still_gets_its_answer(t):
    r, _ = clear(t, '''
        c = tcp("a.test")
        c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        c.shut()
        report(c.answer().body.decode(), c.rest().decode(), c.ended)
    ''', answer=[("sleep", 0.3), response(200, "patience")])
    tap.equal(r.reports, [["patience", "", "eof"]])


@tap.test
def a_client_that_waits_in_silence_is_asked_for_by_the_kernel(t):
    # one that is gone, and closed before in good order, would be waited for as long as its server takes
    r, _ = clear(t, '''
        c = tcp("a.test")
        c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        c.shut()
        ours = "%04X" % c.sock.getsockname()[1]
        timer = None
        while timer != "02":  # /proc/net/tcp: tr
            rows = [l.split() for l in open("/proc/net/tcp").read().splitlines()[1:]]
            timer = next(l[5].split(":")[0] for l in rows if l[2].endswith(":" + ours))
        report("a keepalive timer", c.answer().body.decode())
    ''', answer=[("sleep", 1), response(200, "patience")])
    tap.equal(r.reports, [["a keepalive timer", "patience"]])


@tap.test
def a_client_that_goes_away_ends_the_upstream_s_work(t):
    gone = threading.Event()

    def answer(connection, request):
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(500):
                connection.send(b"5\r\nhello\r\n")
                time.sleep(0.01)
        except Exception:
            gone.set()
            raise
    r, _ = through(t, '''
        c = tls("a.test")
        c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        c.until(b"hello")
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
        spin(1)
    ''', answer=answer)
    tap.ok(gone.wait(30), "the upstream was kept at work")
    tap.equal(r.outcomes()[0]["code"], "client-gone")


# ---- streaming ----

@tap.test
def both_directions_flow_at_once(t):
    def answer(connection, request):
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.read_body(request, on_data=lambda d: connection.send(b"%x\r\n%s\r\n" % (len(d), d)))
        connection.send(b"0\r\n\r\n")
    r, _ = through(t, '''
        c = tls("a.test")
        c.send("POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
        c.until(b"\\r\\n\\r\\n")
        for word in ("one", "three", "eleven"):
            c.send("%x\\r\\n%s\\r\\n" % (len(word), word))
            n = int(c.until(b"\\r\\n"), 16)
            report(c.exactly(n + 2)[:n].decode())
        c.send("0\\r\\n\\r\\n")
        report(c.until(b"\\r\\n").decode())
        c.until(b"\\r\\n")
        report(c.get("/ok", method="HEAD").status)
    ''', answers=[answer, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
    tap.equal(r.reports, ["one", "three", "eleven", "0", 200])


# ---- explicit proxies ----

@tap.test
def connect_is_judged_by_what_comes_inside(t):
    r, server = through(t, '''
        c = connect("a.test:443")
        report(c.granted.line)
        wrap(c, "a.test")
        report(c.get("/ok").status, c.get("/no").status)
        report(connect("b.test:443").granted.line)
        c = connect("a.test:443")
        c.send("CONNECT a.test:443 HTTP/1.1\\r\\nHost: a.test:443\\r\\n\\r\\n")
        report(c.answer().status)
        c = connect("a.test:443")
        c.send("SSH-2.0-x\\r\\n")
        report(c.rest().decode(), c.ended)
    ''')
    tap.equal(r.reports[0], "HTTP/1.1 200 Connection established")
    tap.equal(r.reports[1], [200, 403])
    tap.ok(r.reports[2].startswith("HTTP/1.1 403 "), r)
    tap.equal(r.reports[3], 400)
    tap.equal(r.reports[4][0], "")
    tap.equal(len(server.requests), 1)
    tap.equal(r.verdict(code="ssh")["verdict"], "deny")


@tap.test
def who_begins_tls_in_a_connect_before_it_reads_gets_the_answers_in_clear_first(t):
    # How much of them the kernel takes can't be known: by several numbers of them, some is left to exeat at the end.
    numbers = list(range(250, 310, 10))
    r, _ = through(t, '''
        def begin(n):
            s = socket.socket()
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # so that the kernel takes little
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("proxy.test", 3128))
            into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
            inside = context_for("a.test", None).wrap_bio(into, out, server_hostname="a.test")
            try:
                inside.do_handshake()
            except ssl.SSLWantReadError:
                pass
            s.sendall(b"GET http://a.test/no HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" * n +
                      b"CONNECT a.test:443 HTTP/1.1\\r\\nHost: a.test:443\\r\\n\\r\\n" + out.read())
            return Connection(s), inside, into, out
        def speak(c, into, out, what, *args):
            while True:
                try:
                    return what(*args)
                except ssl.SSLWantReadError:
                    c.send(out.read())
                    into.write(c.pending or c.recv() or b"the end")
                    c.pending = b""
        def end(n, c, inside, into, out):
            denied = [c.answer().status for _ in range(n)].count(403)
            line = (c.until(b"\\r\\n\\r\\n") or b"").decode()
            speak(c, into, out, inside.do_handshake)
            inside.write(b"GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
            c.send(out.read())
            report(denied, line, speak(c, into, out, inside.read, 12).decode())
        begun = [(n,) + begin(n) for n in %r]
        spin(0.5)
        for one in begun:
            end(*one)
    ''' % numbers)
    tap.equal(r.reports, [[n, "HTTP/1.1 200 Connection established", "HTTP/1.1 200"] for n in numbers])


@tap.test
def a_client_with_a_proxy_set_is_judged_like_any_other(t):
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    plain = t.use(RawServer())
    r = exeat.run(POLICY, '''
        export https_proxy=http://proxy.test:3128 http_proxy=http://proxy.test:3128
        for url in https://a.test/ok https://a.test/no https://b.test/ok http://a.test/ok http://a.test/no; do
            curl -s -o /dev/null -w "%{http_connect} %{http_code}\\n" $url
        done
    ''', resolve=[server.resolve("a.test"), plain.resolve("a.test", 80)], upstream_ca=pki.ca)
    tap.equal(r.out.split("\n"), ["200 200", "200 403", "403 000", "000 200", "000 403", ""])
    tap.equal(plain.requests[0].line, "GET /ok HTTP/1.1")


# ---- exeat's own host ----

@tap.test
def exeat_internal_answers_why(t):
    r, _ = through(t, '''
        c = tls("a.test")
        id = c.get("/no").header("x-exeat-decision")
        i = tls("exeat.internal")
        why = i.get("/why/" + id, host="exeat.internal", extra="Accept: application/json\\r\\n")
        why = json.loads(why.body)
        report(why["verdict"]["id"] == id, why["verdict"]["verdict"], why["permit"], why["outcome"]["status"])
        p = tcp("exeat.internal").get("/policy", host="exeat.internal")
        report(p.status, len(json.loads(p.body)) > 0)
        ca = tcp("exeat.internal").get("/ca.pem", host="exeat.internal")
        report("BEGIN CERTIFICATE" in ca.body.decode())
        report(tcp("exeat.internal").get("/why/" + "0" * 26, host="exeat.internal").status)
    ''')
    tap.equal(r.reports, [[True, "deny", "allow GET https://a.test/no", 403], [200, True], True, 404])


@tap.test
def exeat_internal_knows_what_any_worker_has_decided(t):
    r, _ = through(t, '''
        ids = [tls("a.test").get(path).header("x-exeat-decision") for path in ("/no",) * 4]
        for id in ids:
            for _ in range(8):
                for open in (tls, tcp):
                    report(open("exeat.internal").get("/why/" + id, host="exeat.internal").status)
    ''', workers=4)
    tap.equal(r.reports, [200] * 64)


if __name__ == "__main__":
    tap.main()
