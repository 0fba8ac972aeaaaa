"""C22: the second request of a connection is judged like the first."""
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


tap.main()
