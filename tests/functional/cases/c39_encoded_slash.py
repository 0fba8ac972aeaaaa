"""C39: %2f is refused, except where a rule spells it; it goes on as it came."""
import onehost
import tap
from servers import response


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


tap.main()
