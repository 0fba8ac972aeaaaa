"""C12: one canonical form of a name is judged, looked up, put into SNI and written down."""
import client
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


@tap.test
def the_metadata_name_with_its_dot_is_no_way_in(t):
    server = t.use(RawServer(response(200, "ok"), address="127.0.0.1"))
    r = client.run("allow GET http://*.internal/**\n", '''
        for host in ("metadata.google.internal.", "metadata.google.internal", "METADATA.google.internal.."):
            c = tcp("metadata.google.internal", 80)
            report(c.get("/", host=host).status)
    ''')
    tap.ok(all(status in (400, 403, 421, 502) for status in r.reports), r.reports)
    tap.equal(len(server.connections), 0)


tap.main()
