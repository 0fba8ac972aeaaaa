"""exeat behind a proxy of its own environment: CONNECT, credentials, NO_PROXY, and checks that are not lost."""
import netns

netns.enter(addresses=["203.0.113.4/24", "203.0.113.8/24", "203.0.113.53/24", "10.9.0.1/8"], resolv="nameserver 203.0.113.53\n")

# pylint: disable=wrong-import-position
import os

import exeat
import tap
import work
from pki import Pki
from servers import DnsServer, ProxyServer, RawServer, SinkServer, response

pki = Pki()
POLICY = "allow GET https://*.test/**\nallow GET http://*.test/**\nallow GET https://169.254.169.254/**\n"
SECRET = "SECRET-PROXY"


def world(t, records=None, **proxy):
    """An origin over TLS and one in clear text, the proxy that leads to both, and a name server (None: none)."""
    work.need("curl")
    tls = t.use(RawServer(response(200, "over tls"), address="203.0.113.4", port=443, tls=pki.leaf("a.test", "c.test")))
    clear = t.use(RawServer(response(200, "in clear"), address="203.0.113.4", port=80))
    route = {"a.test:443": ("203.0.113.4", 443), "b.test:443": ("203.0.113.4", 443), "a.test:80": ("203.0.113.4", 80),
             "inner.test:443": ("203.0.113.4", 443), "203.0.113.4:443": ("203.0.113.4", 443)}
    way = t.use(ProxyServer(route, address="203.0.113.8", **proxy))
    if records is not None:
        t.use(DnsServer(records, address="203.0.113.53", port=53))
    return tls, clear, way


def environment(way, **more):
    url = "http://joe:%s@203.0.113.8:%d" % (SECRET, way.port)
    return {"https_proxy": url, "http_proxy": url, **more}


def targets(way):
    return [r.target for r in way.requests]


@tap.test
def both_schemes_by_connect(t):
    tls, clear, way = world(t, {"a.test": ["203.0.113.4"]})
    r = exeat.run(POLICY, "curl -sS https://a.test/x; curl -sS http://a.test/y", upstream_ca=pki.ca, env=environment(way))
    tap.equal(r.out, "over tlsin clear")
    tap.equal(targets(way), ["a.test:443", "a.test:80"])
    for request in way.requests:
        tap.equal(request.all("proxy-authorization"), ["Basic am9lOlNFQ1JFVC1QUk9YWQ=="])
    for server in (tls, clear):
        tap.ok(b"roxy-" not in server.received, "the proxy's business has reached the origin")
        tap.equal([q.line for q in server.requests], ["GET /x HTTP/1.1" if server is tls else "GET /y HTTP/1.1"])
    tap.equal([o["upstream"] for o in r.outcomes()], ["203.0.113.8:%d" % way.port] * 2)
    tap.ok(SECRET not in r.err + r.out + str(r.events()), "the proxy's password is shown")


@tap.test
def a_tunnel_by_connect(t):
    tls, _, way = world(t, {"a.test": ["203.0.113.4"]})
    pem = work.write(os.path.join(work.folder("pin."), "pin.pem"), open(pki.ca, encoding="ascii").read(), 0o644)
    command = "curl -sS --cacert %s https://a.test/x" % pem
    r = exeat.run("tunnel https://a.test\n", command, env=environment(way))
    tap.equal(r.out, "over tls")
    tap.equal(targets(way), ["a.test:443"])
    tap.equal(tls.requests[0].line, "GET /x HTTP/1.1")
    tap.equal(r.outcomes()[0]["upstream"], "203.0.113.8:%d" % way.port)
    r = exeat.run("tunnel https://d.test\n", "curl -sS --cacert %s https://d.test/x" % pem, env=environment(way))
    tap.ok(r.code != 0 and SECRET not in str(r.events()) + r.err, r)
    tap.contains(r.err, "internal error")
    tap.equal(r.outcomes()[0]["code"], "upstream-proxy")


@tap.test
def the_sandbox_does_not_see_its_password(t):
    _, _, way = world(t, {"a.test": ["203.0.113.4"]})
    r = exeat.run(POLICY, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'", upstream_ca=pki.ca, env=environment(way))
    tap.ok(SECRET not in r.out, "the proxy's password is in the sandbox")


@tap.test
def no_proxy_goes_past_it(t):
    tls, _, way = world(t, {"a.test": ["203.0.113.4"]})
    r = exeat.run(POLICY, "curl -sS https://a.test/x", upstream_ca=pki.ca, env=environment(way, no_proxy="x.example, .test"))
    tap.equal(r.out, "over tls")
    tap.equal((len(way.connections), len(tls.connections)), (0, 1))


@tap.test
def certificates_count_all_the_same(t):
    tls, _, way = world(t, {"b.test": ["203.0.113.4"]})
    r = exeat.run(POLICY, "curl -sS -o /dev/null -w '%{http_code}' https://b.test/x", upstream_ca=pki.ca, env=environment(way))
    tap.equal(r.out, "502")
    tap.equal(targets(way), ["b.test:443"])
    tap.equal(tls.received, b"")
    tap.equal(r.outcomes()[0]["code"], "upstream-certificate")


@tap.test
def addresses_are_refused_where_they_can_be_known(t):
    _, _, way = world(t, {"inner.test": ["10.9.0.1"], "half.test": ["203.0.113.4", "127.0.0.1"]})
    r = exeat.run(POLICY, "for h in inner.test half.test 169.254.169.254; do "
                          "curl -sSk -o /dev/null -w '%{http_code}\\n' https://$h/x; done", upstream_ca=pki.ca, env=environment(way))
    tap.equal(r.out.split(), ["403", "403", "403"])
    tap.equal(len(way.connections), 0)


@tap.test
def a_host_without_a_name_server_takes_the_proxys_word(t):
    _, _, way = world(t)
    r = exeat.run(POLICY, "for i in 1 2 3; do curl -sS https://a.test/$i; done", upstream_ca=pki.ca, env=environment(way), timeout=60)
    tap.equal(r.out, "over tls" * 3)
    tap.equal(targets(way), ["a.test:443"])


@tap.test
def what_the_operator_has_pinned_is_asked_for_by_address(t):
    _, _, way = world(t, {})
    r = exeat.run(POLICY, "curl -sS https://a.test/x", upstream_ca=pki.ca, env=environment(way), resolve="a.test:443:203.0.113.4")
    tap.equal(r.out, "over tls")
    tap.equal(targets(way), ["203.0.113.4:443"])


@tap.test
def a_proxy_that_says_no(t):
    for status in (403, 407, 500):
        _, _, way = world(t, {"a.test": ["203.0.113.4"]} if status == 403 else None, status=status)
        r = exeat.run(POLICY, "curl -sS -w '%{http_code}' https://a.test/x", upstream_ca=pki.ca, env=environment(way),
                      resolve="a.test:443:203.0.113.4")
        tap.ok(r.out.endswith("502"), r.out)
        tap.equal(r.outcomes()[0]["code"], "upstream-proxy")
        tap.ok(SECRET not in r.err + r.out + str(r.events()), "the proxy's password is shown")
        t.pop_all().close()


@tap.test
def one_that_does_not_speak_http(t):
    trap = t.use(SinkServer(b"SSH-2.0-x\r\n\r\n", address="203.0.113.8"))
    r = exeat.run(POLICY, "curl -sS -o /dev/null -w '%{http_code}' https://a.test/x", upstream_ca=pki.ca, env=environment(trap),
                  resolve="a.test:443:203.0.113.4")
    tap.equal(r.out, "502")


@tap.test
def what_is_not_supported_is_an_error_at_the_start(t):
    del t
    for url in ("socks5://joe:SECRET-PROXY@p.test:1080", "https://joe:SECRET-PROXY@p.test"):
        r = exeat.run(POLICY, "true", env={"HTTPS_PROXY": url})
        tap.equal(r.code, 125)
        tap.contains(r.err, "HTTPS_PROXY: only http:// proxies are supported")
        tap.ok("SECRET" not in r.err, r.err)


tap.main()
