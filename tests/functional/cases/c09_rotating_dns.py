"""C09: a name whose addresses change with every answer works, each time."""
import os

import netns

ADDRESSES = ["203.0.113.%d" % i for i in range(1, 5)]
IPV6 = ["2001:db8::%d" % i for i in range(1, 5)]
netns.enter(addresses=[a + "/24" for a in ADDRESSES + ["203.0.113.53"]] + [a + "/64" for a in IPV6], resolv="nameserver 203.0.113.53\n")

# pylint: disable=wrong-import-position
import exeat
import tap
import work
from pki import Pki
from servers import DnsServer, RawServer, response

pki = Pki()
POLICY = "allow GET https://a.test/**\n"


def site(t, answer):
    servers = [t.use(RawServer(answer, address=a, port=443, tls=pki.leaf("a.test"))) for a in ADDRESSES]
    asked = {}

    def rotating(_name, qtype):
        asked[qtype] = asked.get(qtype, -1) + 1
        return [ADDRESSES[asked[qtype] % 4]]
    dns = t.use(DnsServer({"a.test": rotating}, address="203.0.113.53", port=53, ttl=0))
    return servers, dns


@tap.test(timeout=180)
def two_hundred_requests_while_the_answers_rotate(t):
    work.need("curl")
    # each answer closes its connection, so that every request looks for an address again
    servers, dns = site(t, response(200, "ok", headers=[("Connection", "close")]))
    r = exeat.run(POLICY, "for i in $(seq 200); do curl -sS -o /dev/null -w '%{http_code}\\n' https://a.test/$i; done; "
                          "sleep 6; curl -sS -o /dev/null -w '%{http_code}\\n' https://a.test/late",
                  upstream_ca=pki.ca, timeout=150)
    tap.equal(r.out.split(), ["200"] * 201)
    tap.equal(len(r.outcomes(status=200)), 201)
    tap.ok(len([s for s in servers if s.requests]) >= 2, "more than one address was in use")
    tap.ok(len(dns.queries) >= 4, "the name was looked up again")


@tap.test(timeout=180)
def by_ipv6_in_clear_text_by_http_2_and_unread(t):
    """Addresses of both families change places; every way of asking gets its answer each time."""
    work.need("curl")
    close = response(200, "ok", headers=[("Connection", "close")])
    every = ADDRESSES + IPV6
    tls = [t.use(RawServer(close, address=a, port=443, tls=pki.leaf("a.test", "tunnel.test", "six.test"))) for a in every]
    plain = [t.use(RawServer(close, address=a, port=80)) for a in every]
    asked = {}

    def rotating(name, qtype):
        asked[name, qtype] = asked.get((name, qtype), -1) + 1
        n = asked[name, qtype]
        return [IPV6[n % 4]] + ([] if name == "six.test" else [ADDRESSES[(n + 1) % 4]])
    dns = t.use(DnsServer({n: rotating for n in ("a.test", "tunnel.test", "six.test")}, address="203.0.113.53", port=53, ttl=0))
    with open(pki.ca, encoding="ascii") as f:
        root = work.write(os.path.join(work.folder("root."), "ca.pem"), f.read())
    r = exeat.run("allow GET https://{a,six}.test/**\nallow GET http://{a,six}.test/**\ntunnel https://tunnel.test\n", '''
        for i in $(seq 8); do
            for what in "--http1.1 https://a.test/$i" "--http2 https://a.test/$i" "http://a.test/$i" "https://six.test/$i" "http://six.test/$i" \\
                        "--cacert %s https://tunnel.test/$i"; do
                curl -sS -o /dev/null -w '%%{http_code}\\n' $what
            done
            sleep 1.5
        done
    ''' % root, upstream_ca=pki.ca, timeout=120)
    tap.equal(r.out.split(), ["200"] * 48)
    tap.ok(len([s for s in tls if s.connections]) >= 2 and len([s for s in plain if s.connections]) >= 2, "more than one address was in use")
    tap.ok([s for s in tls + plain if s.connections and ":" in s.address], "IPv6 was in use")
    tap.ok(len(dns.queries) >= 12, "the names were looked up again")


@tap.test
def an_address_that_is_down_is_passed_over(t):
    work.need("curl")
    server = t.use(RawServer(response(200, "ok"), address=ADDRESSES[3], port=443, tls=pki.leaf("a.test")))
    t.use(DnsServer({"a.test": ADDRESSES}, address="203.0.113.53", port=53))
    r = exeat.run(POLICY, "curl -sS -m 5 https://a.test/", upstream_ca=pki.ca)
    tap.equal((r.code, r.out), (0, "ok"))
    tap.equal(len(server.requests), 1)
    tap.equal(r.outcomes()[0].get("upstream"), "203.0.113.4:443")


tap.main()
