"""The corpus: raw requests and raw answers, each with its verdict. The tables are the other modules of this folder,
request_*.py and answer_*.py, each with ROWS; tests/functional/corpus_requests.py and corpus_answers.py run them.

A row of requests has
    name      unlike any other
    rule      the section of RFC 9110, 9112 or 3986 that it is about, "two readings" for what is refused because
              two parsers read it differently, or "design" for what exeat alone decides
    wire      the bytes that the client sends; another request (NEXT) follows them at once
    answers   what comes back, in order: "200", or the status and the code of the record ("400 length-malformed")
    sent      every byte that the upstream sees of it, as complete requests
    cut       what the upstream may see a beginning of, and never the end: of a request whose body turns out to be bad
    over      "tls", "tcp" (clear text) or "proxy" (clear text, to a proxy)
    opens     after the last answer the connection is open and NEXT is answered; otherwise it is closed and NEXT goes
              nowhere
    shut      nothing follows the bytes: the client ends its side

A row of answers has
    name, rule
    wire      the bytes that the upstream sends when it has read the request, and then
    end       how it goes on: "open", "fin", "abrupt" (FIN without close_notify), "rst", or "later": what stands behind
              the mark LATER is sent when the answer before it has been passed on
    seen      every byte that the client gets of it, or what is in a 502's reason ("502 status line"), or a beginning
              that is cut off ("cut", the bytes)
    method    of the request
    fields    of the request
    reused    the upstream's connection carries the next request too
"""
import collections

Request = collections.namedtuple("Request", "name rule wire answers sent cut over opens shut")

HOST = "Host: a.test\r\n"


def head(line, *fields):
    """A request's head: a line, the fields as they are, the empty line."""
    return "\r\n".join((line,) + fields) + "\r\n\r\n"


def get(*fields, target="/ok", method="GET"):
    return head("%s %s HTTP/1.1" % (method, target), "Host: a.test", *fields)


def post(*fields, body=""):
    return head("POST /ok HTTP/1.1", "Host: a.test", *fields) + body


def chunks(body, *fields):
    """A request in chunks, of which `body` is everything behind the head."""
    return post(*fields, "Transfer-Encoding: chunked") + body


def passes(name, rule, wire, sent=None, answers=("200",), **more):
    """Permitted; the upstream sees `sent`, or if that is left out the very bytes."""
    return _request(name, rule, wire, answers, wire if sent is None else sent, **more)


def closes(name, rule, wire, sent=None, answers=("200",), **more):
    """Permitted, and the last of its connection."""
    return passes(name, rule, wire, sent, answers, opens=False, **more)


def refused(name, rule, wire, status, code, **more):
    """Refused, and the connection closed; the upstream sees nothing."""
    return _request(name, rule, wire, ("%d %s" % (status, code),), "", opens=False, **more)


def denied(name, rule, wire, status, code, **more):
    """Understood, and not permitted: the connection goes on."""
    return _request(name, rule, wire, ("%d %s" % (status, code),), "", **more)


def dropped(name, rule, wire, **more):
    """Closed without an answer: it is not HTTP."""
    return _request(name, rule, wire, (), "", opens=False, **more)


def broken(name, rule, body, code, whole="", fields=(), **more):
    """A body in chunks that turns out to be bad: the upstream has a beginning of it (`whole` is the content that is
    good) at most, never an end."""
    began = chunks(whole, *fields)
    return _request(name, rule, chunks(body, *fields), ("400 " + code,), "", cut=began, opens=False, **more)


def _request(name, rule, wire, answers, sent, cut="", over="tls", opens=True, shut=False):
    return Request(name, rule, wire, tuple(answers), sent, cut, over, opens and not shut, shut)


# ---- answers ----

Answer = collections.namedtuple("Answer", "name rule wire end seen method fields reused")
LATER = "<later>"


def answer(*fields, body="", status="200 OK", version="HTTP/1.1"):
    """An answer: the status line, the fields as they are, the empty line, the body."""
    return head("%s %s" % (version, status), *fields) + body


def in_chunks(body, *fields, status="200 OK"):
    return answer(*fields, "Transfer-Encoding: chunked", body=body, status=status)


def passed(name, rule, wire, seen=None, end="open", method="GET", fields="", reused=None):
    """Passed on; the client sees `seen`, or the very bytes. The connection is used again unless it ended."""
    return Answer(name, rule, wire, end, wire if seen is None else seen, method, fields, end == "open" if reused is None else reused)


def spoilt(name, rule, wire, seen=None, **more):
    """Passed on, but more came than an answer: the connection is used no more."""
    return passed(name, rule, wire, seen, reused=False, **more)


def bad(name, rule, wire, why, end="open", method="GET", fields=""):
    """Not passed on: a 502 whose reason says why."""
    return Answer(name, rule, wire, end, "502 " + why, method, fields, False)


def truncated(name, rule, wire, seen=None, end="open", method="GET"):
    """Bad, or cut off, when its head has gone on: the client's connection is cut off, too, so that nobody takes it
    for whole."""
    return Answer(name, rule, wire, end, ("cut", wire if seen is None else seen), method, "", False)


def table(*modules):
    """The rows of these modules; names are not given twice."""
    rows = [row for module in modules for row in module.ROWS]
    twice = [n for n, c in collections.Counter(r.name for r in rows).items() if c > 1]
    if twice:
        raise AssertionError("names given twice: %r" % twice)
    return rows
