"""M13: an address in an odd spelling is no way to the host, nor is a name that a C library takes for one."""
import netns

netns.enter(addresses=["169.254.169.254/16", "203.0.113.53/24"], resolv="nameserver 203.0.113.53\n")

# pylint: disable=wrong-import-position
import client
import exeat
import tap
import work
from servers import DnsServer, SinkServer

LOOPBACK = ["127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "0x7f000001", "0x7f.1", "0x7f.0.0.1", "017700000001", "0177.0.0.1",
            "2130706433", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
            "[0:0:0:0:0:0:0:1]", "[2002:7f00:1::]", "localhost", "LOCALHOST.", "127.0.0.1."]
METADATA = ["169.254.169.254", "2852039166", "0xA9FEA9FE", "025177524776", "0251.0376.0251.0376", "0xA9.0xFE.0xA9.0xFE",
            "169.254.43518", "169.16689662", "169.254.169.254.", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
            "[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]"]


def policy():
    """Names every one of them that is an address, so that nothing but its kind stands in the way."""
    lines = ["allow GET http://*.test/**", "allow GET http://localhost/**"]
    for host in ("127.0.0.1", "0.0.0.0", "169.254.169.254", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]",
                 "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[fd00:ec2::254]"):
        lines.append("allow GET http://%s/**" % host)
    return "\n".join(lines) + "\n"


def traps(t):
    return [t.use(SinkServer(address=a, port=p)) for a in ("127.0.0.1", "169.254.169.254", "::1") for p in (80, 8080)]


@tap.test
def in_the_host_field(t):
    inner = traps(t)
    hosts = LOOPBACK + METADATA
    r = client.run(policy(), '''
        for host in %r:
            for target in ("/", "http://" + host + "/"):
                c = tcp("198.51.100.1", 80)
                c.send("GET " + target + " HTTP/1.1\\r\\nHost: " + host + "\\r\\n\\r\\n")
                report(host, c.answer().status)
    ''' % hosts)
    tap.equal(len(r.reports), 2 * len(hosts))
    for host, status in r.reports:
        tap.ok(status in (400, 403, 421), "%s: %s" % (host, status))
    for server in inner:
        tap.equal(len(server.connections), 0)


@tap.test
def as_what_curl_makes_of_them(t):
    work.need("curl")
    inner = traps(t)
    hosts = [h for h in LOOPBACK + METADATA if h.lower().rstrip(".") != "localhost"]
    # through the explicit way: curl then sends the name to exeat as it stands
    r = exeat.run(policy(), "for h in %s; do curl -gsS -m 5 --proxy http://198.51.100.1:3128 -o /dev/null -w '%%{http_code}\\n' "
                            "http://$h/; done" % " ".join("'%s'" % h for h in hosts))
    codes = r.out.split()
    tap.equal(len(codes), len(hosts))
    for host, code in zip(hosts, codes):
        tap.ok(code in ("400", "403", "421", "000"), "%s: %s" % (host, code))
    for server in inner:
        tap.equal(len(server.connections), 0)


@tap.test
def as_a_connect(t):
    inner = traps(t)
    r = client.run(policy(), '''
        for host in %r:
            c = connect(host + ":80", ("198.51.100.1", 3128))
            a = c.granted
            if a.status == 200:
                c.send("GET / HTTP/1.1\\r\\nHost: " + host + "\\r\\n\\r\\n")
                a = c.answer()
            report(host, a.status)
    ''' % (LOOPBACK + METADATA))
    for host, status in r.reports:
        tap.ok(status in (400, 403, 421), "%s: %s" % (host, status))
    for server in inner:
        tap.equal(len(server.connections), 0)


@tap.test
def as_the_name_of_a_tls_connection(t):
    inner = traps(t) + [t.use(SinkServer(address=a, port=443)) for a in ("127.0.0.1", "169.254.169.254", "::1")]
    r = client.run(policy() + policy().replace("http:", "https:"), '''
        for host in %r:
            for way in (443, 3128):
                try:
                    c = connect(host + ":443", ("198.51.100.1", way)) if way == 3128 else tcp("198.51.100.1", way)
                    if way == 3128 and c.granted.status != 200:
                        report(host, way, c.granted.status)
                        continue
                    report(host, way, wrap(c, host.strip("[]")).get("/", host=host).status)
                except (OSError, ValueError) as e:
                    report(host, way, type(e).__name__)
    ''' % (LOOPBACK + METADATA))
    tap.equal(len(r.reports), 2 * len(LOOPBACK + METADATA))
    for host, way, what in r.reports:
        tap.ok(what not in (200, 0), "%s by %d: %s" % (host, way, what))
    for server in inner:
        tap.equal(len(server.connections), 0)


@tap.test
def no_odd_name_is_looked_up(t):
    dns = t.use(DnsServer({}, address="203.0.113.53", port=53))
    client.run(policy(), '''
        for host in %r:
            c = tcp("198.51.100.1", 80)
            c.send("GET / HTTP/1.1\\r\\nHost: " + host + "\\r\\n\\r\\n")
            c.answer()
    ''' % (LOOPBACK + METADATA))
    tap.equal(dns.queries, [])


tap.main()
