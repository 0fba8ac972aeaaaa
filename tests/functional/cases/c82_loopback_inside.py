"""C82: servers on the sandbox's own loopback are its own; exeat's and the host's are not there."""
import client
import tap
from redis import RealRedis
from servers import RawServer, SinkServer

POLICY = "allow GET http://*.test/**\nallow GET http://localhost/**\nallow GET http://127.0.0.1/**\nallow GET http://198.18.0.1/**\n"


@tap.test
def a_server_of_the_sandboxs_own(t):
    del t
    r = client.run(POLICY, '''
        import http.server
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args): pass
        class Six(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6
        os.chdir("/")
        http.server.ThreadingHTTPServer.allow_reuse_address = True
        four = http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Quiet)
        six = Six(("::1", 8001), Quiet)
        for s in (four, six):
            threading.Thread(target=s.serve_forever, daemon=True).start()
        for host, port in (("127.0.0.1", 8000), ("localhost", 8000), ("127.0.0.2", 8000), ("::1", 8001), ("x.localhost", 8000)):
            c = tcp(host, port)
            a = c.get("/", host="localhost")
            report(host, a.status, a.header("server"))
    ''')
    tap.equal(len(r.reports), 5)
    for host, status, server in r.reports:
        tap.ok(status == 200 and server.startswith("SimpleHTTP"), "%s: %s %s" % (host, status, server))
    tap.equal(r.verdicts(), [])


@tap.test
def the_hosts_own_servers_are_not_there(t):
    redis = t.use(RealRedis())
    trap = t.use(SinkServer())
    web = t.use(RawServer())
    r = client.run(POLICY, '''
        def attempt(host, port):
            try:
                c = tcp(host, port)
            except OSError as e:
                return type(e).__name__
            c.timeout(3)
            c.send("GET / HTTP/1.1\\r\\nHost: %%s:%%d\\r\\n\\r\\n" %% (host, port))
            return c.answer().status
        for host in ("127.0.0.1", "localhost", "127.0.0.2", "198.18.0.1", "0.0.0.0"):
            for port in %r:
                report(host, port, attempt(host, port))
    ''' % [redis.port, trap.port, web.port, 22, 6379], redis=redis.url())
    for host, port, got in r.reports:
        tap.ok(got in ("ConnectionRefusedError", 400, 403, 421), "%s:%d: %s" % (host, port, got))
    tap.equal(len(trap.connections) + len(web.connections), 0)


@tap.test
def exeat_does_not_ask_itself(t):
    del t
    r = client.run(POLICY + "allow GET http://exeat.internal/**\nallow GET https://exeat.internal/**\n", '''
        for host in ("198.18.0.1", "exeat.internal", "x.exeat.internal"):
            for port in (80, 8443):
                c = tcp("203.0.113.9", port)
                c.timeout(5)
                c.send("GET /no-such-page HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n" % (host, port))
                report(host, port, c.answer().status)
    ''')
    for host, port, status in r.reports:
        tap.ok(400 <= status < 500, "%s:%d: %s" % (host, port, status))


@tap.test
def loopback_of_the_host_is_refused_as_an_upstream(t):
    trap = t.use(SinkServer())
    r = client.run("allow GET http://127.0.0.1:%d/**\nallow GET http://[::1]:%d/**\n" % (trap.port, trap.port), '''
        c = tcp("203.0.113.9", 80)
        report(c.get("/", host="127.0.0.1:%(port)d").status)
        c = tcp("203.0.113.9", %(port)d)
        report(c.get("/", host="127.0.0.1:%(port)d").status)
        report(tcp("203.0.113.9", %(port)d).get("/", host="[::1]:%(port)d").status)
    ''' % {"port": trap.port})
    tap.ok(all(s in (400, 403, 421) for s in r.reports), r.reports)
    tap.equal(len(trap.connections), 0)


tap.main()
