#!/usr/bin/env python3
"""C82: loopback inside is the sandbox's own: its servers work, the host's are not there, the exit is no loop."""
import socket

import client
import exeat
import tap
import without
from redis import RealRedis
from servers import RawServer, SinkServer

# Names as the C library finds them: curl knows what is localhost without asking.
OWN = r'''
import socket, threading
own6 = [l.split()[0] for l in open("/proc/net/if_inet6")]
own6 = [":".join(a[i:i + 4] for i in range(0, 32, 4)) for a in own6]
server = socket.create_server(("", 8000), family=socket.AF_INET6, dualstack_ipv6=True)
def serve():
    while True:
        c = server.accept()[0]
        c.recv(1000)
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nown")
        c.close()
threading.Thread(target=serve, daemon=True).start()
for host in ("127.0.0.1", "::1", "localhost", "LOCALHOST.", "app.localhost", "127.0.0.2", "127.255.255.254", "0.0.0.0", "198.18.0.1", "::ffff:127.0.0.1",
             *own6, socket.gethostname()):
    try:
        s = socket.create_connection((host, 8000), 5)
        s.send(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host.encode())
        print(host, s.makefile().read().split()[-1], flush=True)
    except OSError as e:
        print(host, e, flush=True)
'''
OWN_HOSTS = 13  # among own6 ::1 once more, and the address of the sandbox


@tap.test
def servers_of_the_sandbox_are_reached_without_a_word(_t):
    r = exeat.run(None, ["python3", "-c", OWN])
    tap.equal([line.split()[1:] for line in r.out.splitlines()], [["own"]] * OWN_HOSTS)
    tap.equal(r.decisions, [])
    tap.equal(r.err, "")


POLICY = "allow GET http://*.test/**\nallow GET http://localhost/**\nallow GET http://127.0.0.1/**\nallow GET http://198.18.0.1/**\n"


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
        for host in ("127.0.0.1", "localhost", "127.0.0.2", "198.18.0.1", "0.0.0.0", "::1"):
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
        for host in ("127.0.0.1:%(port)d", "[::1]:%(port)d"):  # which a proxy would be asked for
            c = tcp("proxy.test", 3128)
            c.send("GET http://" + host + "/ HTTP/1.1\\r\\nHost: " + host + "\\r\\n\\r\\n")
            report(c.answer().status)
    ''' % {"port": trap.port})
    tap.equal(r.reports, [421] + [403] * 4)
    tap.equal([o["code"] for o in r.outcomes(status=403)], ["upstream-address"] * 4)
    tap.equal(len(trap.connections), 0)


LOOP = r'''
import socket, sys
def listening(table):
    return [int(l.split()[1].split(":")[1], 16) for l in open(table).read().splitlines()[1:] if l.split()[3] == "0A"]
ports = [("127.0.0.1", "127.0.0.1", p) for p in listening("/proc/net/tcp")] + [("::1", "[::1]", p) for p in listening("/proc/net/tcp6")]
print("listening", len(ports))
for address, host, port in ports:
    host = host.encode()
    for request in (b"GET / HTTP/1.1\r\nHost: " + host + b":%d\r\n\r\n", b"GET http://" + host + b":%d/ HTTP/1.1\r\nHost: " + host + b":%d\r\n\r\n",
                    b"CONNECT " + host + b":%d HTTP/1.1\r\nHost: " + host + b":%d\r\n\r\n"):
        s = socket.create_connection((address, port), 3)
        s.settimeout(3)
        try:
            s.send(request % ((port,) * request.count(b"%d")))
            a = s.recv(60)
        except (TimeoutError, ConnectionError) as e:
            a = type(e).__name__.encode()
        print(port, a.split(b"\r\n")[0])
'''


@tap.test
def a_request_to_the_exit_itself_does_not_go_in_circles(_t):
    r = exeat.run(None, ["python3", "-c", LOOP])
    lines = r.out.splitlines()
    tap.equal(lines[0], "listening 4")
    answers = [line for line in lines[1:] if "HTTP/1.1" in line]
    tap.ok(len(answers) >= 6, lines)
    for line in answers:
        tap.ok("HTTP/1.1 4" in line, line)
    # each is denied once: nothing came round again
    tap.ok(len(r.verdicts()) <= 12, r.decisions)
    for v in r.verdicts():
        tap.equal(v["verdict"], "deny")


@tap.test
def the_exit_is_known_by_its_name_too(_t):
    # whatever the policy says of that name: it is not asked
    r = exeat.run("allow * http://localhost:*/**\n", ["python3", "-c", LOOP.replace("host = host.encode()", 'host = b"localhost"')])
    tap.equal(r.out.splitlines()[0], "listening 4")
    tap.equal([v["code"] for v in r.verdicts(method="GET")], ["self"] * 4)  # in both forms, by both families


OWN_OF_ALL_KINDS = r'''
import socket, ssl, subprocess, threading, json
def tell(family, address):
    u = socket.socket(family, socket.SOCK_DGRAM)
    u.bind((address, 5353))
    c = socket.socket(family, socket.SOCK_DGRAM)
    c.settimeout(3)
    c.connect((address, 5353))
    c.send(b"x")
    data, peer = u.recvfrom(10)
    u.sendto(b"own", peer)
    print("udp", address, c.recv(10).decode())
tell(socket.AF_INET, "127.0.0.1")
tell(socket.AF_INET6, "::1")
tell(socket.AF_INET, "127.0.0.9")
subprocess.run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out c -subj /CN=localhost "
               "-addext subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1".split(), check=True, capture_output=True)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("c", "k")
def serve(server):
    while True:
        peer, _ = server.accept()
        try:
            tls = context.wrap_socket(peer, server_side=True)
            tls.recv(1000)
            tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nown")
            tls.close()
        except OSError:
            pass
for address, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
    for port in (443, 8443, 3128, 80, 53, 6379):
        try:
            server = socket.create_server((address, port), family=family)
        except OSError as e:
            print("no", address, port, e)
            continue
        threading.Thread(target=serve, args=(server,), daemon=True).start()
for host in ("127.0.0.1", "[::1]", "localhost"):
    for port in (443, 8443, 3128, 80, 6379):
        r = subprocess.run(["curl", "-gsS", "-m", "5", "--cacert", "c", "https://%s:%d/" % (host, port)], capture_output=True, text=True)
        print("tls", host, port, r.stdout, r.stderr, flush=True)
'''


@tap.test
def any_server_of_the_sandbox_over_udp_and_tls(_t):
    """On the ports that the exit listens on elsewhere, too; the name server's own alone is taken."""
    r = exeat.run(None, ["python3", "-c", OWN_OF_ALL_KINDS])
    lines = [line.split() for line in r.out.splitlines()]
    tap.equal([line[-1] for line in lines if line[0] in ("udp", "tls")], ["own"] * 18, r)
    tap.equal([line[:3] for line in lines if line[0] == "no" and line[2] != "53"], [])
    tap.equal(r.decisions, [])


@tap.test
def a_port_below_1024_is_the_sandboxs_to_use():
    r = exeat.run(None, ["python3", "-c", "import socket; print(socket.create_server(('127.0.0.1', 80)).getsockname()[1])"])
    tap.equal(r.out, "80\n")


BOTH = r'''
curl -sS -m 10 -o /dev/null -w "%{http_code}\\n" http://203.0.113.9/
curl -sS -m 10 -o /dev/null -w "%{http_code}\\n" http://a.test:8000/
exec python3 -c "$0"
'''


@tap.test
def where_the_kernel_has_no_tproxy_all_is_the_same(_t):
    for before in ([], without.tproxy()):
        r = exeat.run(None, [], program_args=[*before, exeat.program(), "run", "--", "sh", "-c", BOTH, OWN])
        tap.equal([line.split()[-1] for line in r.out.splitlines()], ["403"] * 2 + ["own"] * OWN_HOSTS)
        r = exeat.run(None, [], program_args=[*before, exeat.program(), "doctor"])
        tap.contains(r.out, "TPROXY: not inside" if before else "led to exeat by TPROXY")


socket.setdefaulttimeout(10)
tap.main()
