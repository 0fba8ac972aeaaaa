"""What the cases about HTTP share: a.test, permitted below /ok, and b.test, which no rule names; a raw upstream for
both.

    r, server = onehost.through(t, 'report(tls("a.test").get("/ok").status)')
    r, server = onehost.through(t, 'report(tcp("a.test").get("/ok").status)', clear=True)  # the same in clear text
    r, server = onehost.bad(t, ["GET /x\\n..."])      # each alone on a connection: refused, and nothing went upstream
"""
import client
import tap
from pki import Pki
from servers import RawServer, response

POLICY = "allow * https://a.test/ok**\n"
CLEAR_POLICY = "allow * http://a.test/ok**\n"

_pki = None


def authority():
    """What the upstream is trusted by."""
    global _pki
    _pki = _pki or Pki()
    return _pki


def through(t, code, answer=response(200, "ok"), policy=None, clear=False, **options):
    server = t.use(RawServer(answer, tls=None if clear else authority().leaf("a.test", "b.test")))
    ports = (80, 8080) if clear else (443, 8443)
    pins = ["%s:%d:127.0.0.1:%d" % (name, port, server.port) for name in ("a.test", "b.test") for port in ports]
    r = client.run(policy or (CLEAR_POLICY if clear else POLICY), code, resolve=pins, upstream_ca=authority().ca, **options)
    return r, server


def bad(t, wires, statuses=(400,), **options):
    """Each of these bytes is refused with one answer, after which the connection ends."""
    r, server = through(t, '''
        for wire in %r:
            c = %s("a.test")
            c.send(wire)
            a = c.answer()
            rest = c.rest()
            report([wire[:200], a.status, rest.decode("latin-1"), c.ended])
    ''' % (list(wires), "tcp" if options.get("clear") else "tls"), **options)
    tap.equal(len(r.reports), len(wires))
    for wire, status, rest, ended in r.reports:
        tap.ok(status in statuses and not rest and ended == "eof", "%r: %r %r %r" % (wire, status, rest, ended))
    tap.equal(server.requests, [])
    tap.equal(len(r.verdicts(verdict="deny")), len(wires))
    return r, server
