"""C38: a path is judged in one form, and what has two is refused; what goes on are the bytes received."""
import onehost
import tap

POLICY = "allow GET https://a.test/ok\nallow GET https://a.test/ok/**\n"


def wire(target):
    return "GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n" % target


@tap.test
def what_a_server_could_read_as_another_path_is_refused(t):
    targets = ["/ok/../admin", "/ok/%2e%2e/admin", "/ok/.%2e/admin", "/ok/%252e%252e/admin", "/ok//..//admin", "/ok/..;/admin",
               "/ok/..;x=y/admin", "/ok\\..\\admin", "/ok/%5c..%5cadmin", "/ok/%5C%2e%2e%5Cadmin", "/ok/%2e", "/ok/.", "/ok/..", "/ok%00",
               "/ok/%0a", "/ok/%c0%ae%c0%ae/admin", "/ok/%", "/ok/%2", "/ok/%zz", "//b.test/ok", "/../ok", "*", "", "ok", "/ok#frag", "#frag",
               "/ok/%252f..%252fadmin", "/ok/..%2fadmin", "/ok/..%252fadmin"]
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


tap.main()
