"""C22: the second request of a connection is judged like the first."""
import h2
import onehost
import tap


@tap.test
def three_in_one_write_are_three_decisions(t):
    r, server = onehost.through(t, '''
        c = tls("a.test")
        c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" "DELETE /no HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
               "GET / HTTP/1.1\\r\\nHost: b.test\\r\\n\\r\\n")
        report([c.answer().status for _ in range(3)], c.rest().decode(), c.ended)
    ''')
    tap.equal(r.reports, [[[200, 403, 421], "", "eof"]])
    tap.equal([q.line for q in server.requests], ["GET /ok HTTP/1.1"])
    tap.equal([v["verdict"] for v in r.verdicts()], ["allow", "deny", "deny"])


@tap.test
def and_in_clear_text_and_by_a_proxy(t):
    r, server = onehost.through(t, '''
        for host, port, a, b in (("a.test", 80, "", ""), ("proxy.test", 3128, "http://a.test", "http://b.test")):
            c = tcp(host, port)
            c.send("GET %s/ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" "DELETE %s/no HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
                   "GET %s/ok HTTP/1.1\\r\\nHost: b.test\\r\\nConnection: close\\r\\n\\r\\n" % (a, a, b))
            report([c.answer().status for _ in range(3)], c.rest().decode(), c.ended)
    ''', clear=True)
    tap.equal(r.reports, [[[200, 403, 421], "", "eof"], [[200, 403, 403], "", "eof"]])
    tap.equal([(q.line, q.header("host")) for q in server.requests], [("GET /ok HTTP/1.1", "a.test")] * 2)
    tap.equal([v["verdict"] for v in r.verdicts()], ["allow", "deny", "deny"] * 2)


@tap.test
def and_behind_a_connect(t):
    r, server = onehost.through(t, '''
        c = connect("a.test:443")
        report(c.granted.status)
        wrap(c, "a.test")
        c.send("GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" "DELETE /no HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
               "GET /ok HTTP/1.1\\r\\nHost: b.test\\r\\n\\r\\n")
        report([c.answer().status for _ in range(3)], c.rest().decode(), c.ended)
    ''')
    tap.equal(r.reports, [200, [[200, 403, 421], "", "eof"]])
    tap.equal([q.line for q in server.requests], ["GET /ok HTTP/1.1"])


@tap.test
def and_each_stream_of_one_write(t):
    h2.needed()
    r, server = onehost.through(t, [h2.CLIENT, '''
        c = h2("a.test")
        asks = [("/ok", "GET", "a.test"), ("/no", "DELETE", "a.test"), ("/ok", "GET", "b.test"), ("/ok/2", "GET", "a.test")]
        said, send = b"", c.raw
        def keep(data):
            global said
            said += data
        c.raw = keep
        streams = [c.request(path, method, authority=host) for path, method, host in asks]
        c.raw = send
        c.raw(said)
        report([c.answer(s).status for s in streams])
    '''])
    tap.equal(r.reports, [[200, 403, 421, 200]])
    tap.equal(sorted(q.line for q in server.requests), ["GET /ok HTTP/1.1", "GET /ok/2 HTTP/1.1"])
    tap.equal(sorted(v["verdict"] for v in r.verdicts()), ["allow", "allow", "deny", "deny"])


@tap.test
def a_body_is_never_a_request(t):
    """Bytes behind a body of known length, and bytes in it that look like a request."""
    r, server = onehost.through(t, '''
        inner = b"DELETE /no HTTP/1.1\\r\\nHost: b.test\\r\\n\\r\\n"
        c = tls("a.test")
        c.send(b"POST /ok HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(inner) + inner + inner)
        report(c.answer().status, c.answer().status)
    ''')
    tap.equal(len(r.reports), 1)
    tap.equal(r.reports[0][0], 200)
    tap.ok(r.reports[0][1] in (403, 421), r.reports)
    tap.equal([(q.method, q.target) for q in server.requests], [("POST", "/ok")])


@tap.test
def nor_is_that_of_a_request_that_was_answered_before_its_end(t):
    """It is denied, and its body passed over: what looks like a permitted request in it goes nowhere."""
    r, server = onehost.through(t, '''
        inner = b"GET /ok/inner HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
        for c in (tls("a.test"), tls("a.test")):
            c.send(b"POST /no HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: %d\\r\\n\\r\\n" % (2 * len(inner)) + inner)
            denied = c.answer().status
            c.send(inner)
            report(denied, c.get("/ok/next").status)
    ''')
    tap.equal(r.reports, [[403, 200]] * 2)
    tap.equal([q.target for q in server.requests], ["/ok/next"] * 2)


@tap.test(timeout=180)
def it_holds_wherever_the_bytes_are_cut(t):
    r, server = onehost.through(t, '''
        wire = (b"GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n" b"DELETE /no HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
                b"GET /ok HTTP/1.1\\r\\nHost: b.test\\r\\n\\r\\n")
        for cut in range(len(wire)):
            c = tls("a.test")
            c.send(wire[:cut])
            c.send(wire[cut:])
            got = [c.answer().status for _ in range(3)]
            c.rest()
            report(got + [c.ended])
    ''', timeout=150)
    tap.ok(len(r.reports) > 100, "too few cuts")
    for got in r.reports:
        tap.equal(got, [200, 403, 421, "eof"])
    tap.equal({(q.line, q.header("host")) for q in server.requests}, {("GET /ok HTTP/1.1", "a.test")})
    tap.equal(len(server.requests), len(r.reports))
    tap.equal(len(r.verdicts()), 3 * len(r.reports))
    tap.equal(len(r.outcomes()), 3 * len(r.reports))


@tap.test(timeout=180)
def and_so_with_http_2(t):
    h2.needed()
    r, server = onehost.through(t, [h2.CLIENT, '''
        class Quiet(object):
            said = b""
            def timeout(self, seconds):
                pass
            def send(self, data):
                self.said += data
        plan = H2(Quiet(), start=False)
        plan.raw(MAGIC + plan.packed(SETTINGS, 0, 0))
        streams = [plan.request("/ok"), plan.request("/ok", "POST", end=False)]
        plan.data(streams[1], b"DELETE /no HTTP/1.1\\r\\n\\r\\n", end=True)
        streams += [plan.request("/no", "DELETE"), plan.request("/ok", authority="b.test")]
        wire = plan.c.said
        for cut in range(len(wire)):
            c = H2(tls("a.test", alpn=["h2"]), start=False)
            for s in streams:
                c.answers[s] = Answer()
                c.answers[s].reset = None
            c.raw(wire[:cut])
            c.raw(wire[cut:])
            report([c.answer(s).status for s in streams] + [c.settle()])
            c.c.close()
    '''], timeout=150)
    tap.ok(len(r.reports) > 150, "too few cuts")
    for got in r.reports:
        tap.equal(got, [200, 200, 403, 421, True])
    tap.equal({(q.line, q.header("host"), q.body) for q in server.requests},
              {("GET /ok HTTP/1.1", "a.test", b""), ("POST /ok HTTP/1.1", "a.test", b"DELETE /no HTTP/1.1\r\n\r\n")})
    tap.equal(len(server.requests), 2 * len(r.reports))
    tap.equal(len(r.verdicts()), 4 * len(r.reports))
    tap.equal(len(r.outcomes()), 4 * len(r.reports))


tap.main()
