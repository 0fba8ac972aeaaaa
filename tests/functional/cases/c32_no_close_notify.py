"""C32: an origin that ends its connection without close_notify: what was complete is complete, what was cut is cut."""
import onehost
import tap
from servers import response

CURL = '''
    p = subprocess.run(["curl", "-s", "https://a.test/ok"], stdout=subprocess.PIPE)
    report(p.returncode, len(p.stdout))
'''


def curl(t, *steps):
    r, _ = onehost.through(t, CURL, answer=[*steps, ("sleep", 0.1), ("close", "abrupt")])
    return r, r.reports[0]


@tap.test
def a_whole_body_of_known_length(t):
    _, got = curl(t, response(200, "x" * 5000))
    tap.equal(got, [0, 5000])


@tap.test
def half_a_body_of_known_length(t):
    r, got = curl(t, b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 2500)
    tap.ok(got[0] in (18, 56), got)
    tap.equal(r.outcomes()[0]["code"], "upstream-truncated")


@tap.test
def half_a_chunked_body(t):
    r, got = curl(t, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    tap.ok(got[0] in (18, 56), got)
    tap.equal(r.outcomes()[0]["code"], "upstream-truncated")


@tap.test
def a_body_that_ends_with_the_connection(t):
    r, got = curl(t, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 2500)
    tap.equal(got, [0, 2500])
    tap.equal(r.outcomes()[0]["code"], "upstream-unclean")


tap.main()
