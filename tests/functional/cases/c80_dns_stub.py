"""C80: names work whatever resolv.conf says, over UDP and TCP, fast; and what is no host name is refused at once."""
import client
import tap
from pki import Pki
from servers import RawServer

pki = Pki()
POLICY = "allow GET https://a.test/**\n"

ASK = '''
    def question(name, qtype, edns=False):
        out = struct.pack(">HHHHHH", 0x4242, 0x0100, 1, 0, 0, 1 if edns else 0)
        for label in name.split("."):
            out += bytes([len(label)]) + label.encode("latin-1")
        out += b"\\0" + struct.pack(">HH", qtype, 1)
        return out + (b"\\0" + struct.pack(">HHIH", 41, 1232, 0, 0) if edns else b"")

    def told(reply):
        fields = struct.unpack(">HHHHHH", reply[:12])
        return [fields[0] == 0x4242, fields[1] & 15, fields[3]]

    def udp(server, name, qtype, edns=False):
        with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(2)
            s.connect((server, 53))
            s.send(question(name, qtype, edns))
            return told(s.recv(4096))

    def over_tcp(server, name, qtype):
        with socket.create_connection((server, 53), 2) as s:
            q = question(name, qtype)
            s.sendall(struct.pack(">H", len(q)) + q)
            reply = b""
            while len(reply) < 2 or len(reply) < 2 + struct.unpack(">H", reply[:2])[0]:
                reply += s.recv(4096)
            return told(reply[2:])
'''


@tap.test
def every_server_that_a_resolv_conf_may_name(t):
    del t
    r = client.run(POLICY, ASK + '''
    for server in ("127.0.0.53", "127.0.0.11", "127.0.0.1", "::1", "8.8.8.8", "10.0.0.2", "2001:4860:4860::8888", "fd00::53"):
        report(server, udp(server, "a.test", 1), udp(server, "a.test", 1, True), over_tcp(server, "a.test", 1))
    ''')
    tap.equal(len(r.reports), 8)
    for server, *answers in r.reports:
        tap.equal(answers, [[True, 0, 1]] * 3, server)


@tap.test
def types_of_question(t):
    del t
    r = client.run(POLICY, ASK + '''
    for qtype in (1, 28, 65, 64, 33, 16, 15, 2, 6, 255, 35):
        report(qtype, udp("8.8.8.8", "a.test", qtype), over_tcp("8.8.8.8", "a.test", qtype))
    ''')
    for qtype, *answers in r.reports:
        tap.equal(answers, [[True, 0, 1 if qtype in (1, 28) else 0]] * 2, "type %d" % qtype)


@tap.test
def what_is_refused_is_refused_at_once(t):
    del t
    r = client.run(POLICY, ASK + '''
    start = time.monotonic()
    for name in ("no host", "a\\x00b.test", "secret!data.evil.test", "x" * 63 + "." + "\\xff" * 10 + ".test", "use-application-dns.net"):
        report(udp("8.8.8.8", name, 1), over_tcp("8.8.8.8", name, 1))
    report(time.monotonic() - start)
    ''')
    for answers in r.reports[:-1]:
        tap.ok(all(a[0] and a[1] in (3, 5) and a[2] == 0 for a in answers), answers)
    tap.ok(r.reports[-1] < 1.0, "slow: %s" % r.reports[-1])


@tap.test
def names_are_found_in_no_time_and_the_request_goes_through(t):
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    r = client.run(POLICY, '''
        start = time.monotonic()
        for i in range(20):
            socket.getaddrinfo("n%d.test" % i, 443)
        report((time.monotonic() - start) / 20)
        report(tls("a.test").get("/").status)
    ''', resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.ok(r.reports[0] < 0.05, "slow: %s" % r.reports[0])
    tap.equal(r.reports[1], 200)


tap.main()
