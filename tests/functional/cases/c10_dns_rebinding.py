"""C10: what is looked up, checked and connected to is one and the same address, at every attempt."""
import netns

GOOD = "203.0.113.1"
netns.enter(addresses=[GOOD + "/24", "203.0.113.53/24", "169.254.169.254/16", "10.9.0.1/8"],
            resolv="nameserver 203.0.113.53\n")

# pylint: disable=wrong-import-position
import exeat
import tap
import work
from pki import Pki
from servers import DnsServer, RawServer, SinkServer, response

pki = Pki()
POLICY = "allow GET https://*.test/**\nallow GET http://*.test/**\n"
INNER = ["127.0.0.1", "169.254.169.254", "10.9.0.1"]


def world(t, records, good=True):
    """Listeners on addresses that nobody may get to, a good site, and the name server."""
    inner = [t.use(SinkServer(address=a, port=p)) for a in INNER + ["::1"] for p in (80, 443)]
    site = None
    if good:
        site = t.use(RawServer(response(200, "ok", headers=[("Connection", "close")]), address=GOOD, port=443,
                               tls=pki.leaf("flip.test", "both.test", "two.test", "tunnel.test", "socket.test")))
    t.use(DnsServer(records, address="203.0.113.53", port=53, ttl=0))
    return inner, site


def untouched(inner):
    for server in inner:
        tap.equal(len(server.connections), 0, "connections to %s:%d" % (server.address, server.port))


@tap.test
def a_name_that_flips_with_every_question(t):
    work.need("curl")
    asked = {}

    def flip(_name, qtype):
        asked[qtype] = asked.get(qtype, -1) + 1
        return [[GOOD], ["127.0.0.1", "::1"], ["169.254.169.254"], ["10.9.0.1", "::ffff:127.0.0.1"]][asked[qtype] % 4]
    inner, site = world(t, {"flip.test": flip})
    r = exeat.run(POLICY, "for i in $(seq 12); do curl -sS -o /dev/null -w '%{http_code}\\n' https://flip.test/; sleep 2; done",
                  upstream_ca=pki.ca, timeout=60)
    codes = r.out.split()
    tap.equal(len(codes), 12)
    tap.ok(set(codes) <= {"200", "403", "502"}, codes)
    tap.ok("200" in codes and len(set(codes)) > 1, "both the good answer and a refusal were seen: %s" % codes)
    tap.equal(codes.count("200"), len(site.requests))
    tap.ok(r.outcomes(code="upstream-address"), "the refusal is recorded")
    untouched(inner)


@tap.test
def nor_in_clear_text_by_http_2_unread_or_as_a_websocket(t):
    """The same flip, by every way that ends in a connection; IPv6 among the good and the bad."""
    work.need("curl")
    asked = {}

    def flip(name, qtype):
        asked[name, qtype] = asked.get((name, qtype), -1) + 1
        return [[GOOD], ["127.0.0.1", "::1"], ["169.254.169.254", "fe80::1"], ["10.9.0.1", "::ffff:127.0.0.1"]][asked[name, qtype] % 4]
    names = ["flip.test", "plain.test", "two.test", "tunnel.test", "socket.test"]
    inner, site = world(t, {n: flip for n in names})
    plain = t.use(RawServer(response(200, "ok", headers=[("Connection", "close")]), address=GOOD, port=80))
    r = exeat.run("allow GET https://{flip,two,socket}.test/**\nallow GET http://plain.test/**\ntunnel https://tunnel.test\n", '''
        for i in $(seq 8); do
            for what in http://plain.test/ "--http2 https://two.test/" "-k https://tunnel.test/" \\
                        "-H Connection:Upgrade -H Upgrade:websocket -H Sec-WebSocket-Version:13 -H Sec-WebSocket-Key:dGhlIHNhbXBsZSBub25jZQ== https://socket.test/"; do
                curl -s -o /dev/null -w '%{http_code}\\n' $what
            done
            sleep 2
        done
    ''', upstream_ca=pki.ca, timeout=80)
    codes = r.out.split()
    tap.equal(len(codes), 32)
    for i, name in enumerate(("in clear text", "by HTTP/2", "unread", "a WebSocket")):
        tap.ok("200" in codes[i::4] and len(set(codes[i::4])) > 1, "%s: both the good answer and a refusal were seen: %s" % (name, codes[i::4]))
        tap.ok(set(codes[i::4]) <= {"200", "403", "502", "000"}, codes[i::4])
    tap.equal(codes[0::4].count("200"), len(plain.requests))
    tap.equal(sum(codes[i::4].count("200") for i in (1, 2, 3)), len(site.requests))
    untouched(inner)


@tap.test
def good_and_inner_addresses_in_one_answer(t):
    work.need("curl")
    inner, site = world(t, {"both.test": ["127.0.0.1", "169.254.169.254", GOOD, "10.9.0.1", "::1"]})
    r = exeat.run(POLICY, "for i in 1 2 3 4; do curl -sS https://both.test/; done", upstream_ca=pki.ca)
    tap.equal(r.out, "okokokok")
    tap.equal(len(site.requests), 4)
    untouched(inner)


@tap.test
def not_even_when_the_good_one_is_down(t):
    work.need("curl")
    inner, _ = world(t, {"both.test": ["127.0.0.1", GOOD, "::1"]}, good=False)
    r = exeat.run(POLICY, "curl -sS -o /dev/null -w '%{http_code}' https://both.test/", upstream_ca=pki.ca)
    tap.equal(r.out, "502")
    untouched(inner)


@tap.test
def names_that_lead_inside_and_nowhere_else(t):
    work.need("curl")
    names = {"a.test": ["127.0.0.1"], "b.test": ["169.254.169.254"], "c.test": ["::1"], "d.test": ["::ffff:127.0.0.1"],
             "e.test": ["64:ff9b::7f00:1"], "f.test": ["0.0.0.0"], "g.test": ["10.9.0.1"], "h.test": ["::"],
             "i.test": "cname:localhost"}
    inner, _ = world(t, names)
    r = exeat.run(POLICY, "for n in a b c d e f g h i; do for s in http https; do "
                          "curl -sS -o /dev/null -w '%{http_code}\\n' $s://$n.test/; done; done", upstream_ca=pki.ca)
    codes = r.out.split()
    tap.equal(len(codes), 18)
    tap.ok(set(codes) <= {"403", "502"}, codes)
    tap.equal(codes[:16], ["403"] * 16)
    r = exeat.run("tunnel https://*.test\n", "for n in a b c d e f g h i; do curl -sk -o /dev/null -w '%{http_code}\n' https://$n.test/; done; true",
                  upstream_ca=pki.ca)
    tap.equal(r.out.split(), ["000"] * 9)
    tap.equal([o["code"] for o in r.outcomes()[:8]], ["upstream-address"] * 8)
    untouched(inner)


@tap.test
def nor_is_the_metadata_name_a_way_in_with_or_without_its_dot(t):
    work.need("curl")
    inner, _ = world(t, {"metadata.google.internal": ["169.254.169.254"]}, good=False)
    r = exeat.run("allow GET http://*.internal/**\n", """
        for host in metadata.google.internal metadata.google.internal. METADATA.google.internal; do
            curl -sS -o /dev/null -w '%{http_code}\n' http://$host/
        done
        curl -sS -o /dev/null -w '%{http_code}\n' -x http://proxy.test:3128 http://metadata.google.internal../
    """)
    tap.equal(r.out.split(), ["403"] * 3 + ["400"])
    tap.equal([o["code"] for o in r.outcomes(status=403)], ["upstream-address"] * 3)
    untouched(inner)


tap.main()
