"""C12: one canonical form of a name is judged, looked up, put into SNI and written down."""
import client
import exeat
import h2
import onehost
import tap
from pki import Pki
from servers import RawServer, response

pki = Pki()
POLICY = "allow GET https://a.test/**\nallow GET https://*.test/**\ndeny * https://b.test/**\n"
A_LABEL = "xn--bcher-kva.test"


def ask(t, names, policy=POLICY):
    """Each of (sni, host) in a connection of its own; returns statuses and the upstream."""
    server = t.use(RawServer(response(200, "ok"), tls=pki.leaf("a.test", "b.test", A_LABEL)))
    pins = ["%s:443:127.0.0.1:%d" % (n, server.port) for n in ("a.test", "b.test", A_LABEL)]
    r = client.run(policy, '''
        def one(sni, host):
            s = socket.create_connection((sni.lower(), 443), 10)
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            try:
                c = Connection(context.wrap_socket(s, server_hostname=sni))
                c.send(b"GET /x HTTP/1.1\\r\\nHost: " + host.encode() + b"\\r\\n\\r\\n")
                return c.answer().status
            except (OSError, ValueError, UnicodeError):
                return 0
        for sni, host in %r:
            report(one(sni, host))
    ''' % (names,), resolve=pins, upstream_ca=pki.ca)
    return r, server


@tap.test
def every_spelling_of_an_allowed_name_is_that_name(t):
    names = [("a.test", "a.test"), ("a.test", "A.TEST"), ("A.Test", "a.test"), ("a.test", "a.test."), ("a.test", "a.test:443"),
             ("a.test", "A.test.:443"), (A_LABEL, A_LABEL), (A_LABEL, A_LABEL.upper())]
    r, server = ask(t, names)
    tap.equal(r.reports, [200] * len(names))
    for request in server.requests:
        tap.ok(request.header("host") in ("a.test", A_LABEL), request.header("host"))
    for connection in server.connections:
        tap.ok(connection.sni in ("a.test", A_LABEL), connection.sni)
    for record in r.verdicts():
        tap.ok(record["url"] in ("https://a.test/x", "https://%s/x" % A_LABEL), record["url"])


@tap.test
def a_deny_rule_holds_for_every_spelling(t):
    names = [("b.test", "b.test"), ("b.test", "B.TEST"), ("B.TEST", "b.test."), ("b.test", "b.test:443"), ("b.test", "B.test.:443")]
    r, server = ask(t, names)
    tap.equal(r.reports, [403] * len(names))
    tap.equal(len(server.connections), 0)


@tap.test
def what_is_no_name_in_canonical_form_is_refused(t):
    hosts = ["a.test..", ".a.test", "a..test", "..", "-", "a.test:0", "a.test:", "a.test:443:443", "a.test:99999", "a.test%00", "a.test/",
             "bücher.test", "a.test\t.test", "a_\x01.test", "[a.test]", "%61.test", "a.test#", "x@a.test", "a.test,b.test"]
    r, server = ask(t, [("a.test", h) for h in hosts])
    for host, status in zip(hosts, r.reports):
        tap.ok(status in (400, 421, 403), "%r: %r" % (host, status))
    tap.equal(len(server.requests), 0)


SPELLINGS = ("A.TEST", "a.test.", "A.Test.:443")
BAD = ("a.test..", ".a.test", "a..test", "a.test:", "a.test:0", "a.test:443:443", "%61.test", "a_\x01.test", "b.test")


@tap.test
def streams_of_http_2_are_held_to_the_same(t):
    h2.needed()
    r, server = onehost.through(t, [h2.CLIENT, '''
        c = h2("a.test")
        for name in %r:
            report(c.get("/ok", authority=name).status, c.get("/ok", authority=None, fields=[("host", name)]).status)
        for name in %r:
            report([c.get("/ok", authority=name).status, c.get("/ok", authority=None, fields=[("host", name)]).status])
    ''' % (SPELLINGS, BAD)])
    tap.equal(r.reports[:3], [[200, 200]] * 3)
    tap.ok(all(set(x) <= {400, 421} for x in r.reports[3:]) and len(r.reports) == 3 + len(BAD), r.reports)
    tap.equal([q.header("host") for q in server.requests], ["a.test"] * 6)
    tap.equal({v["url"] for v in r.verdicts(verdict="allow")}, {"https://a.test/ok"})


@tap.test
def so_is_clear_text_and_what_a_proxy_is_asked_for(t):
    for denied in (False, True):
        policy = "allow * http://*.test/ok**\nallow * https://*.test/ok**\n" + ("deny * http://a.test/**\n" if denied else "")
        r, server = onehost.through(t, '''
            for name in ("A.TEST", "a.test.", "A.Test.:80"):
                report(tcp("a.test").get("/ok", host=name).status)
                c = tcp("proxy.test", 3128)
                c.send("GET http://%s/ok HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (name, name))
                report(c.answer().status)
            for name in ("a.test..", ".a.test", "a..test", "a.test:0", "%61.test"):
                report(tcp("a.test").get("/ok", host=name).status)
                c = tcp("proxy.test", 3128)
                c.send("GET http://%s/ok HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (name, name))
                report(c.answer().status)
                report(connect(name + ":443").granted.status)
        ''', policy=policy, clear=True)
        tap.equal(r.reports[:6], [403 if denied else 200] * 6)
        tap.equal(r.reports[6:], [400] * 15)
        tap.equal([q.header("host") for q in server.requests], [] if denied else ["a.test"] * 6)


@tap.test
def a_rule_in_any_spelling_is_for_the_name(t):
    for host in ("A.TEST", "a.test.", "A.Test.:443"):
        r, server = onehost.through(t, 'report(tls("a.test").get("/ok").status, tls("b.test").get("/ok", host="b.test").status)',
                                    policy="allow GET https://%s/ok\n" % host)
        tap.equal(r.reports, [[200, 403]], host)
        r, server = onehost.through(t, 'report(tls("a.test").get("/ok").status, tls("b.test").get("/ok", host="b.test").status)',
                                    policy="allow GET https://*/ok\ndeny GET https://%s/ok\n" % host)
        tap.equal(r.reports, [[403, 200]], host)
        tap.equal([q.header("host") for q in server.requests], ["b.test"])


@tap.test
def a_rule_for_what_is_no_name_is_an_error_with_its_line():
    for host in ("a.test..", ".a.test", "a..test", "b\u00fccher.test", "a.test:0", "%61.test"):
        r = exeat.run("# a comment\nallow GET https://%s/ok\n" % host, ["echo", "it ran"])
        tap.equal((r.code, r.out), (125, ""), host)
        tap.contains(r.err, "test.policy:2:", host)


tap.main()
