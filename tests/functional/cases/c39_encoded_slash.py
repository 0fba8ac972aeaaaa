"""C39: %2f is refused, except where a rule spells it; it goes on as it came."""
import json

import client
import exeat
import h2
import onehost
import tap
import work
from pki import Pki
from servers import RawServer, response


def only_literal(c, q):
    good = ("/@scope%2fname", "/@scope%2Fname", "/!azure/x/@v/list", "/x/a+b~c", "/s3/k?X-Amz-Credential=a%2Fb%2faws4")
    return c.send(response(200 if q.target in good else 404, q.target))


POLICY = "allow GET https://a.test/@*%2f*\nallow GET https://a.test/!azure/**\nallow GET https://a.test/x/*\nallow GET https://a.test/s3/*\n"


@tap.test
def a_scoped_package_passes_byte_for_byte(t):
    targets = ["/@scope%2fname", "/@scope%2Fname", "/!azure/x/@v/list", "/x/a+b~c", "/s3/k?X-Amz-Credential=a%2Fb%2faws4"]
    r, server = onehost.through(t, '''
        for target in %r:
            a = tls("a.test").get(target)
            report(a.status, a.body.decode())
    ''' % (targets,), answer=only_literal, policy=POLICY)
    tap.equal(r.reports, [[200, x] for x in targets])
    tap.equal([q.target for q in server.requests], targets)


@tap.test
def elsewhere_an_encoded_slash_opens_nothing(t):
    r, server = onehost.through(t, '''
        for target in ("/x/a%2fb", "/x%2fa", "/@scope/name", "/@a%2fb%2fc", "/@scope%252fname", "/!azure%2fx", "/@scope%2f..%2fname"):
            report(target, tls("a.test").get(target).status)
    ''', answer=only_literal, policy=POLICY)
    for target, status in r.reports:
        tap.ok(status in (400, 403), "%s: %d" % (target, status))
    tap.equal(server.requests, [])


@tap.test
def a_double_star_does_not_stand_for_it(t):
    r, server = onehost.through(t, '''
        report(tls("a.test").get("/x/a%2fb").status, tls("a.test").get("/x/a/b").status)
    ''', policy="allow GET https://a.test/x/**\n")
    tap.ok(r.reports[0][0] in (400, 403) and r.reports[0][1] == 200, r.reports)
    tap.equal([q.target for q in server.requests], ["/x/a/b"])


TARGETS = ["/@scope%2fname", "/@scope%2Fname", "/!azure/x/@v/list", "/x/a+b~c", "/s3/k?X-Amz-Credential=a%2Fb%2faws4"]
ELSEWHERE = ["/x/a%2fb", "/x%2fa", "/@scope/name", "/@a%2fb%2fc", "/@scope%252fname", "/!azure%2fx", "/@scope%2f..%2fname", "/@scope%2f..",
             "/@%2f..", "/@scope%5cname", "/%2f@scope", "/x/..%2f@scope%2fname", "/@scope%2f%2e%2e"]


@tap.test
def the_same_on_http_2_and_for_every_method(t):
    h2.needed()
    r, server = onehost.through(t, [h2.CLIENT, '''
        c = h2("a.test")
        for method in ("GET", "PUT", "DELETE", "HEAD"):
            for target in %r:
                report(method, target, c.get(target, method=method).status, tls("a.test").get(target, method=method, extra="Content-Length: 0\\r\\n").status)
    ''' % (TARGETS + ELSEWHERE,)], answer=only_literal, policy=POLICY.replace("GET", "GET,HEAD,PUT,DELETE"), timeout=60)
    tap.equal(len(r.reports), 4 * len(TARGETS + ELSEWHERE))
    for _, target, *statuses in r.reports:
        tap.ok(statuses == [200, 200] if target in TARGETS else set(statuses) <= {400, 403}, "%s: %r" % (target, statuses))
    tap.equal({q.target for q in server.requests}, set(TARGETS))
    tap.equal(len(server.requests), 8 * len(TARGETS))


@tap.test
def the_same_in_the_clear_and_by_a_proxy(t):
    server = t.use(RawServer(only_literal))
    r = client.run(POLICY.replace("https:", "http:"), '''
        for target in %r:
            absolute = tcp("198.51.100.1", 3128)
            report(target, tcp("a.test").get(target).status, absolute.get("http://a.test" + target).status)
    ''' % (TARGETS + ELSEWHERE,), resolve=["a.test:80:127.0.0.1:%d" % server.port])
    for target, *statuses in r.reports:
        tap.ok(statuses == [200, 200] if target in TARGETS else set(statuses) <= {400, 403}, "%s: %r" % (target, statuses))
    tap.equal([q.target for q in server.requests], [x for x in TARGETS for _ in range(2)])


@tap.test
def a_deny_that_spells_it_holds_for_either_spelling(t):
    r, server = onehost.through(t, '''
        for target in ("/@scope%2fname", "/@scope%2Fname", "/@%73cope%2fname", "/@scope%2f%6eame", "/@other%2fname"):
            report(tls("a.test").get(target).status)
    ''', policy="allow GET https://a.test/@*%2f*\ndeny GET https://a.test/@scope%2f*\n")
    tap.equal(r.reports, [403, 403, 403, 403, 200])
    tap.equal([q.target for q in server.requests], ["/@other%2fname"])


@tap.test
def npm_itself(t):
    """npm asks for a scoped package with the slash encoded"""
    work.need("npm")
    pki = Pki()
    body = json.dumps({"name": "@scope/name", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": {
        "name": "@scope/name", "version": "1.2.3", "dist": {"tarball": "https://a.test/t.tgz", "shasum": "0" * 40}}}})
    server = t.use(RawServer(lambda _c, q: response(200, body, [("Content-Type", "application/json")]) if q.target == "/@scope%2fname"
                             else response(404, "{}"), tls=pki.leaf("a.test")))
    for policy, works in ((POLICY, True), ("allow GET https://a.test/**\n", False)):
        r = exeat.run(policy, ["npm", "view", "@scope/name", "version", "--registry=https://a.test/"], resolve=server.resolve("a.test"),
                      upstream_ca=pki.ca, env={"npm_config_update_notifier": "false", "npm_config_fetch_retries": "0"}, timeout=60)
        tap.equal((r.code == 0, r.out.strip()), (works, "1.2.3" if works else ""))
    tap.equal([q.target for q in server.requests], ["/@scope%2fname"])


tap.main()
