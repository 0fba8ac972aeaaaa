"""C38: a path is judged in one form, and what has two is refused; what goes on are the bytes received."""
import client
import h2
import onehost
import tap
import work
from servers import RawServer

POLICY = "allow GET https://a.test/ok\nallow GET https://a.test/ok/**\n"
# Two forms each: that of the bytes, and what some server makes of them.
TWO_FORMS = ["/ok/../admin", "/ok/%2e%2e/admin", "/ok/.%2e/admin", "/ok/%252e%252e/admin", "/ok//..//admin", "/ok/..;/admin",
             "/ok/..;x=y/admin", "/ok\\..\\admin", "/ok/%5c..%5cadmin", "/ok/%2e", "/ok/.", "/ok/..", "/ok%00", "/ok/%0a",
             "/ok/%c0%ae%c0%ae/admin", "/ok/%", "/ok/%zz", "//b.test/ok", "/../ok", "/ok#frag", "/ok/..%2fadmin", "/ok/..%252fadmin"]


def wire(target):
    return "GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n" % target


@tap.test
def what_a_server_could_read_as_another_path_is_refused(t):
    targets = ["/ok/../admin", "/ok/%2e%2e/admin", "/ok/.%2e/admin", "/ok/%252e%252e/admin", "/ok//..//admin", "/ok/..;/admin",
               "/ok/..;x=y/admin", "/ok\\..\\admin", "/ok/%5c..%5cadmin", "/ok/%5C%2e%2e%5Cadmin", "/ok/%2e", "/ok/.", "/ok/..", "/ok%00",
               "/ok/%0a", "/ok/%c0%ae%c0%ae/admin", "/ok/%", "/ok/%2", "/ok/%zz", "//b.test/ok", "/../ok", "*", "", "ok", "/ok#frag", "#frag",
               "/ok/%252f..%252fadmin", "/ok/..%2fadmin", "/ok/..%252fadmin", "/ok/%255cadmin", "/ok/%e0%80%ae%e0%80%ae/admin", "/ok/%f0%80%80%af"]
    onehost.bad(t, [wire(x) for x in targets], policy=POLICY)


@tap.test
def what_only_looks_odd_passes_in_the_bytes_received(t):
    targets = ["/%6fk/", "/ok/a%20b", "/ok?x/../..", "/ok?q=%2e%2e%2f&r=%00", "/ok/a;b=c", "/ok/a:b@c!$&'()*+,=~", "/ok/...", "/ok/..a",
               "/ok/%7euser"]
    r, server = onehost.through(t, '''
        for target in %r:
            report(tls("a.test").get(target).status)
    ''' % (targets,), policy=POLICY)
    tap.equal(r.reports, [200] * len(targets))
    tap.equal([q.target for q in server.requests], targets)


@tap.test
def the_same_holds_for_curl_and_a_path_outside_is_denied(t):
    r, server = onehost.through(t, '''
        for target in ("/ok/../admin", "/ok/%2e%2e/admin", "/admin", "/okay"):
            p = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--path-as-is", "https://a.test" + target],
                               stdout=subprocess.PIPE, text=True)
            report(int(p.stdout))
    ''', policy=POLICY)
    tap.equal(r.reports, [400, 400, 403, 403])
    tap.equal(server.requests, [])


@tap.test
def every_method_and_the_absolute_form(t):
    wires = ["%s %s HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n" % (method, target)
             for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS") for target in TWO_FORMS]
    wires += ["GET https://a.test%s HTTP/1.1\r\nHost: a.test\r\n\r\n" % target for target in TWO_FORMS]
    onehost.bad(t, [w for w in wires if not w.startswith("HEAD")], policy="allow * https://a.test/**\n")
    r, server = onehost.through(t, '''
        for wire in %r:
            c = tls("a.test")
            c.send(wire)
            report(c.answer("HEAD").status)
    ''' % [w for w in wires if w.startswith("HEAD")], policy="allow * https://a.test/**\n")
    tap.equal(r.reports, [400] * len(TWO_FORMS))
    tap.equal(server.requests, [])


@tap.test
def a_stream_of_http_2_is_refused_alone(t):
    h2.needed()
    r, server = onehost.through(t, [h2.CLIENT, '''
        for target in %r + ["*", "", "ok"]:
            c = h2("a.test")
            streams = [c.request(path) for path in ("/ok/1", target, "/ok/2")]
            answers = [c.answer(s) for s in streams]
            report(target, [a.status for a in answers], answers[1].reset)
    ''' % TWO_FORMS], policy=POLICY)
    tap.equal(len(r.reports), len(TWO_FORMS) + 3)
    for target, (first, odd, last), reset in r.reports:
        tap.ok((first, last) == (200, 200) and (odd == 400 or reset), "%s: %r %r" % (target, (first, odd, last), reset))
    tap.equal({q.target for q in server.requests}, {"/ok/1", "/ok/2"})


@tap.test
def clear_text_and_the_ways_of_a_proxy(t):
    server = t.use(RawServer())
    r = client.run("allow GET http://a.test/ok\nallow GET http://a.test/ok/**\n", '''
        for target in %r:
            wire = "GET " + target + " HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
            absolute = "GET http://a.test" + target + " HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
            for port, what in ((80, wire), (80, absolute), (3128, absolute)):
                c = tcp("a.test" if port == 80 else "198.51.100.1", port)
                c.send(what)
                report(target, port, c.answer().status)
        c = tcp("198.51.100.1", 3128)
        c.send("GET http://a.test/ok/%%6f HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        report(c.answer().status)
    ''' % TWO_FORMS, resolve=["a.test:80:127.0.0.1:%d" % server.port])
    tap.equal(r.reports.pop(), 200)
    tap.equal([x for x in r.reports if x[2] != 400], [])
    tap.equal(len(r.reports), 3 * len(TWO_FORMS))
    tap.equal([q.target for q in server.requests], ["/ok/%6f"])


@tap.test
def a_spelling_is_no_way_round_a_deny(t):
    targets = ["/admin", "/%61dmin", "/adm%69n", "/%61%64%6D%69%6e", "/admin?x", "/%61dmin/x", "/admin/"]
    odd = ["/./admin", "/x/../admin", "//admin", "/%2fadmin", "/%2561dmin", "/admin;x", "/x/..%2fadmin", "/admin%00", "/\\admin", "/admin%2f", "/admin%2fx"]
    r, server = onehost.through(t, '''
        for target in %r:
            report(target, tls("a.test").get(target).status)
    ''' % (targets + odd), policy="allow GET https://a.test/**\ndeny GET https://a.test/admin\ndeny GET https://a.test/admin/**\n")
    tap.equal([status for _, status in r.reports[:len(targets)]], [403] * len(targets))
    for target, status in r.reports[len(targets):]:
        tap.ok(status in (400, 403) or target == "/admin;x", "%s: %d" % (target, status))
    tap.equal([q.target for q in server.requests if q.target != "/admin;x"], [])


@tap.test
def a_target_that_comes_byte_by_byte(t):
    r, server = onehost.through(t, '''
        for target in ("/ok/../admin", "/ok/%2e%2e/admin", "/ok/x"):
            c = tls("a.test")
            for byte in "GET " + target + " HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n":
                c.send(byte)
            report(c.answer().status)
    ''', policy=POLICY)
    tap.equal(r.reports, [400, 400, 200])
    tap.equal([q.target for q in server.requests], ["/ok/x"])


@tap.test
def python_and_node_send_a_path_as_it_is_given(t):
    work.need("node")
    r, server = onehost.through(t, '''
        targets = ["/ok/../admin", "/ok/%2e%2e/admin", "/ok/..;/admin", "/ok//..//admin", "/ok/x"]
        for target in targets:
            c = http.client.HTTPSConnection("a.test", timeout=10)
            c.request("GET", target)
            report(c.getresponse().status)
        for target in targets:
            p = subprocess.run(["node", "-e", "require('https').get({host: 'a.test', path: process.argv[1], agent: false},"
                                " r => { console.log(r.statusCode); r.resume() })", target],
                               stdout=subprocess.PIPE, text=True)
            report(int(p.stdout))
    '''.replace("targets = ", "import http.client; targets = ", 1), policy=POLICY)
    tap.equal(r.reports, [400, 400, 400, 400, 200] * 2)
    tap.equal([q.target for q in server.requests], ["/ok/x"] * 2)


tap.main()
