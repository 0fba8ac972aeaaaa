"""C17: a request without a version, or with bare line feeds, is no request."""
import h2
import onehost
import tap


@tap.test
def lines_end_in_crlf_and_the_version_is_there(t):
    wires = [
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
    ]
    onehost.bad(t, wires, statuses=(400, 505))
    # in clear text another beginning is no HTTP at all
    onehost.bad(t, [w for w in wires if w.startswith("GET ")], statuses=(400, 505), clear=True)


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


@tap.test
def an_answer_is_held_to_the_same(t):
    h2.needed()
    ok = "Content-Length: 2\r\n\r\nok"
    answers = ["HTTP/1.1 200 OK\n" + ok, "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok",
               "HTTP/1.1 200 OK\n\nok", "200 OK\r\n" + ok, "ICY 200 OK\r\n" + ok, "HTTP/ 200 OK\r\n" + ok, "HTTP/0.9 200 OK\r\n" + ok,
               "HTTP/1 200 OK\r\n" + ok, "HTTP/2.0 200 OK\r\n" + ok, "HTTP/1.1x 200 OK\r\n" + ok, "HTTP/1.1\t200 OK\r\n" + ok,
               "http/1.1 200 OK\r\n" + ok, "<html>an answer of HTTP/0.9</html>\r\n"]
    for clear in (False, True):
        r, _ = onehost.through(t, [h2.CLIENT, '''
            for i in range(%d):
                report(%s("a.test").get("/ok/%%d" %% i).status%s)
        ''' % (len(answers), *(("tcp", "") if clear else ("tls", ', h2("a.test").get("/ok/%d" % i).status')))],
                               answer=lambda c, q: answers[int(q.target.split("/")[2])].encode(), clear=clear)
        for answer, got in zip(answers, r.reports):
            tap.equal(got, 502 if clear else [502, 502], answer)
        tap.equal(len(r.reports), len(answers))


tap.main()
