"""C26: a client that waits for 100 is not kept waiting, whatever the origin does."""
import struct

import client
import onehost
import tap
from h2server import END_HEADERS, END_STREAM, FrameServer, HEADERS, OK, RST_STREAM, WINDOW_UPDATE
from pki import Pki
from raw import Closed
from servers import RawServer, response

SIZE = 5000000
VERSIONS = ("--http1.1", "--http2")
REFUSED = ("--http1.1",)  # curl 7.88 hangs by itself, now and then, behind an answer of HTTP/2 that comes before its body's end

# A client that would wait for half a minute: what is done in less was not waited for.
UPLOAD = '''
    import tempfile
    f = tempfile.NamedTemporaryFile()
    f.write(b"x" * %d)
    f.flush()
    def upload(url, version="--http1.1", patience=30):
        began = time.monotonic()
        p = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%%{http_code}", version, "--expect100-timeout", str(patience),
                            "-H", "Expect: 100-continue", "-T", f.name, url], stdout=subprocess.PIPE, text=True, timeout=50)
        return p.stdout, time.monotonic() - began
''' % SIZE

# What an origin does, in either version; b"\\x08\\x03NNN" is a head of that status alone.
SAYS_100 = [b"HTTP/1.1 100 Continue\r\n\r\n", ("body",), response(200, "ok")]
SAYS_103_FIRST = [b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"] + SAYS_100
SILENT = [("body",), response(200, "ok")]
SAYS_413 = [response(413, "too much", [("Connection", "close")]), ("close", "fin")]
SAYS_417 = [response(417, "no", [("Connection", "close")]), ("close", "fin")]


def frames(*interims, takes=True, status=None):
    """An origin of HTTP/2: says these first, takes the body or not, and answers."""
    def serve(f, _number):
        while True:
            kind, flags, stream, _ = f.read()
            if kind != HEADERS:
                continue
            for interim in interims:
                f.frame(HEADERS, END_HEADERS, stream, b"\x08\x03" + interim)
            size = 0
            while takes and not flags & END_STREAM:
                kind, flags, of, payload = f.read()
                if kind == RST_STREAM and of == stream:
                    raise Closed()
                size += len(payload)
                for window in (0, of):
                    if payload:
                        f.frame(WINDOW_UPDATE, 0, window, struct.pack(">I", len(payload)))
            f.sizes.append(size)
            f.answer(stream, OK if takes else b"\x08\x03" + status, b"ok")
    def with_sizes(f, number):
        f.sizes = sizes
        serve(f, number)
    sizes = []
    with_sizes.sizes = sizes
    return with_sizes


def each(t, raw, framed, want, patience=30, versions=VERSIONS):
    """By every way: curl in these versions to an origin in either version. Returns the sizes of bodies that were taken."""
    pki = Pki()
    one, two = t.use(RawServer(raw, tls=pki.leaf("a.test"))), t.use(FrameServer(framed, tls=pki.leaf("h.test")))
    r = client.run("allow PUT https://{a,h}.test/ok/**\n", [UPLOAD, '''
        for host in ("a.test", "h.test"):
            for version in %r:
                report(host, version, *upload("https://" + host + "/ok/u", version, %d))
    ''' % (versions, patience)], resolve=[one.resolve("a.test"), two.resolve("h.test")], upstream_ca=pki.ca, timeout=100)
    tap.equal(len(r.reports), 2 * len(versions))
    for host, version, status, seconds in r.reports:
        tap.equal(status, want, (host, version))
        tap.ok(seconds < 25, "%s %s took %.1f s" % (host, version, seconds))
    tap.equal([q.header("expect") for q in one.requests], ["100-continue"] * len(versions))
    tap.equal(len(r.outcomes(status=int(want))), 2 * len(versions))
    return [len(q.body or b"") for q in one.requests] + framed.sizes


@tap.test
def an_origin_that_says_100(t):
    tap.equal(each(t, SAYS_100, frames(b"100"), "200"), [SIZE] * 4)


@tap.test
def an_origin_that_says_something_before_its_100(t):
    tap.equal(each(t, SAYS_103_FIRST, frames(b"103", b"100"), "200"), [SIZE] * 4)


@tap.test
def an_origin_that_says_413_instead(t):
    tap.equal(each(t, SAYS_413, frames(takes=False, status=b"413"), "413", versions=REFUSED), [0] * 2)


@tap.test
def an_origin_that_says_417_instead(t):
    tap.equal(each(t, SAYS_417, frames(takes=False, status=b"417"), "417", versions=REFUSED), [0] * 2)


@tap.test
def an_origin_that_says_nothing_until_the_body_comes(t):
    """The client loses its patience, not its request."""
    tap.equal(each(t, SILENT, frames(), "200", patience=1), [SIZE] * 4)


@tap.test
def behind_a_body_that_did_not_come_nothing_is_a_request(t):
    """An origin keeps its connection behind a 413. Whether the client still sends what it had announced can't be told: its own ends."""
    r, server = onehost.through(t, '''
        c = tls("a.test")
        c.send("PUT /ok HTTP/1.1\\r\\nHost: a.test\\r\\nExpect: 100-continue\\r\\nContent-Length: 5\\r\\n\\r\\n")
        a = c.answer()
        c.send("GET /ok/next HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        report(a.status, a.interim, a.header("connection"), c.rest().decode("latin-1"))
        report(tls("a.test").get("/ok/other").status)
    ''', answer=lambda connection, request: connection.send(response(413, "too much")))
    tap.equal(r.reports, [[413, [], "close", ""], 413])
    tap.equal([q.target for q in server.requests], ["/ok", "/ok/other"])


@tap.test
def a_refusal_comes_at_once(t):
    """In either version; and no 100 before it."""
    r, server = onehost.through(t, [UPLOAD, '''
        for version in %r:
            report(upload("https://a.test/no", version))
        c = tls("a.test")
        c.send("PUT /no HTTP/1.1\\r\\nHost: a.test\\r\\nExpect: 100-continue\\r\\nContent-Length: 5000000\\r\\n\\r\\n")
        a = c.answer()
        report(a.status, a.interim)
    ''' % (VERSIONS,)], timeout=50)
    for status, seconds in r.reports[:2]:
        tap.equal(status, "403")
        tap.ok(seconds < 25, seconds)
    tap.equal(r.reports[2], [403, []])
    tap.equal(server.requests, [])


@tap.test
def the_body_of_a_refused_request_is_not_read_for_ever(t):
    """Of one that sends on and on, for whatever it was told."""
    r, server = onehost.through(t, '''
        c = tls("a.test")
        c.send("PUT /no HTTP/1.1\\r\\nHost: a.test\\r\\nExpect: 100-continue\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
        report(c.answer().status)
        sent, chunk = 0, "10000\\r\\n" + "x" * 65536 + "\\r\\n"
        try:
            while sent < 1 << 30:
                c.send(chunk)
                sent += 65536
        except OSError:
            pass
        report(sent)
    ''', timeout=50)
    tap.equal(r.reports[0], 403)
    tap.ok(r.reports[1] < 64 << 20, "%d bytes of a refused body were taken" % r.reports[1])
    tap.equal(server.requests, [])


@tap.test
def a_body_that_is_judged_is_asked_for_by_exeat(t):
    """Where a rule is about the body nobody else could ask for it; the origin hears of the request when it is whole."""
    r, server = onehost.through(t, '''
        for body in ('{"a":"yes"}', '{"a":"not"}'):
            for version in ("1.1", "1.0"):
                c = tls("a.test")
                c.send("POST /ok HTTP/%s\\r\\nHost: a.test\\r\\nExpect: 100-continue\\r\\nContent-Type: application/json\\r\\n"
                       "Content-Length: 11\\r\\n\\r\\n" % version)
                if version == "1.1":
                    report(c.until(b"\\r\\n\\r\\n").decode())
                c.send(body)
                a = c.answer()
                report(a.status, a.interim)
    ''', policy='allow POST https://a.test/ok where json a == yes\n')
    tap.equal(r.reports, ["HTTP/1.1 100 Continue", [200, []], [200, []], "HTTP/1.1 100 Continue", [403, []], [403, []]])
    tap.equal([q.body for q in server.requests], [b'{"a":"yes"}'] * 2)


@tap.test
def an_http_1_0_client_never_gets_a_100(t):
    for answer in (SAYS_100, SAYS_103_FIRST):
        r, _ = onehost.through(t, '''
            c = tls("a.test")
            c.send("PUT /ok HTTP/1.0\\r\\nHost: a.test\\r\\nExpect: 100-continue\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
            a = c.answer()
            report(a.status, a.interim)
        ''', answer=answer)
        tap.equal(r.reports, [[200, []]])


tap.main()
