"""C01: the Host of each request must be the name that the connection was made for."""
import h2
import onehost
import tap


@tap.test
def a_host_other_than_the_sni_goes_nowhere(t):
    r, server = onehost.through(t, '''
        for host in ("a.test", "A.TEST", "a.test:443", "a.test.", "b.test", "a.test:8443", "b.test:443", "x.a.test", "a.tes"):
            c = tls("a.test")
            report(host, c.get("/ok", host=host).status)
    ''', policy="allow * https://a.test/**\nallow * https://b.test/**\n")
    tap.equal([status for _, status in r.reports], [200] * 4 + [421] * 5)
    tap.equal({q.header("host") for q in server.requests}, {"a.test"})
    tap.equal({c.sni for c in server.connections}, {"a.test"})


@tap.test
def a_port_other_than_the_connection_s_goes_nowhere(t):
    r, server = onehost.through(t, '''
        for host in ("a.test:8443", "a.test", "a.test:443"):
            c = tls("a.test", 8443)
            report(c.get("/ok", host=host).status)
    ''', policy="allow * https://a.test:8443/**\nallow * https://a.test/**\n")
    tap.equal(r.reports, [200, 200, 421])
    tap.equal([q.header("host") for q in server.requests], ["a.test:8443"] * 2)


@tap.test
def it_holds_for_every_request_of_a_connection(t):
    r, server = onehost.through(t, '''
        c = tls("a.test")
        report(c.get("/ok").status, c.get("/ok").status, c.get("/ok", host="b.test").status, c.rest().decode())
    ''', policy="allow * https://a.test/**\nallow * https://b.test/**\n")
    tap.equal(r.reports, [[200, 200, 421, ""]])
    tap.equal(len(server.requests), 2)


@tap.test
def and_for_every_stream_of_http_2(t):
    h2.needed()
    names = ["a.test", "A.TEST", "a.test:443", "a.test.", "b.test", "b.test:443", "a.test:8443", "x.a.test"]
    r, server = onehost.through(t, [h2.CLIENT, '''
        c = h2("a.test")
        streams = [c.request("/ok", authority=name) for name in %r]
        report([c.answer(s).status for s in streams])
        report(c.get("/ok", authority="a.test", fields=[("host", "b.test")]).status)
        report(c.get("/ok", authority=None, fields=[("host", "b.test")]).status)
    ''' % (names,)], policy="allow * https://a.test/**\nallow * https://b.test/**\n")
    tap.equal(r.reports, [[200] * 4 + [421] * 4, 400, 421])
    tap.equal({q.header("host") for q in server.requests}, {"a.test"})
    tap.equal({c.sni for c in server.connections}, {"a.test"})


VAULT = "credential bound\n    for https://a.test\n    from env EXEAT_TEST_TOKEN\n    inject bearer\n"


@tap.test
def no_credential_goes_with_another_host(t):
    """Neither a.test's, on a connection to b.test, nor on one to a.test with b.test's name in it."""
    h2.needed()
    r, server = onehost.through(t, [h2.CLIENT, '''
        for name, host in (("a.test", "b.test"), ("b.test", "a.test")):
            report(tls(name).get("/ok", host=host).status, h2(name).get("/ok", authority=host).status)
            c = tls(name)
            c.send("GET https://%s/ok HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (host, host))
            report(c.answer().status)
        report(tls("b.test").get("/ok", host="b.test").status, tls("a.test").get("/ok").status)
    '''], policy="allow * https://a.test/**  with bound\nallow * https://b.test/**\n", vault=VAULT, env={"EXEAT_TEST_TOKEN": "SECRET-A"})
    tap.equal(r.reports, [[421, 421], 421] * 2 + [[200, 200]])
    tap.equal([(q.header("host"), q.header("authorization")) for q in server.requests], [("b.test", None), ("a.test", "Bearer SECRET-A")])


@tap.test
def what_a_connect_names_is_the_connection_s_name(t):
    """CONNECT, SNI and Host: all three, or nothing goes anywhere."""
    r, server = onehost.through(t, '''
        for to, sni, host in (("a.test", "a.test", "a.test"), ("a.test", "a.test", "b.test"), ("a.test", "b.test", "b.test"),
                              ("b.test", "a.test", "a.test"), ("a.test", "b.test", "a.test")):
            c = connect(to + ":443")
            try:
                wrap(c, sni)
                report(c.get("/ok", host=host).status)
            except (OSError, ssl.SSLError):
                report("no handshake")
    ''', policy="allow * https://a.test/**\nallow * https://b.test/**\n")
    tap.equal(r.reports[:2], [200, 421])
    tap.ok(set(r.reports[2:]) <= {421, "no handshake"} and len(r.reports) == 5, r.reports)
    tap.equal([(q.header("host"), q.connection.sni) for q in server.requests], [("a.test", "a.test")])


tap.main()
