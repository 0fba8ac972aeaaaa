"""The corpus of requests, by raw sockets: the upstream sees one clean request of each, or nothing, and what follows on
the connection is read from the right byte on."""
import json
import os
import threading

import client
import tap
import work
from corpus import request_body, request_fields, request_line, request_target, table
from corpus.strict import Unfinished, take, take_all
from pki import Pki
from raw import Listener, response

ROWS = table(request_line, request_target, request_fields, request_body)
POLICY = """allow * https://a.test/ok**
allow * http://a.test/ok**
allow * https://a.test/pkg/@*%2f*
"""
ORIGINS = {"tls": "", "tcp": "", "proxy": "http://a.test"}
NEXT = "GET %s/ok/next HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
NEXT_SENT = "GET /ok/next HTTP/1.1\r\nHost: a.test\r\n\r\n"
PIECES_MAX = 4096  # longer rows are not sent byte by byte

# What runs inside: each row alone on a connection, then a request on another one that tells the upstream where it ends.
INSIDE = '''
    openers = {"tls": lambda: tls("a.test"), "tcp": lambda: tcp("a.test"), "proxy": lambda: tcp("proxy.test", 3128)}
    with open(%r) as f:
        rows = json.load(f)
    for number, over, wire, pieces, shut in rows:
        c = openers[over]()
        wire = wire.encode("latin-1")
        try:
            for at in range(0, len(wire), pieces or len(wire)):
                c.send(wire[at:at + (pieces or len(wire))])
            if shut:
                c.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass # it was refused before all was sent
        got = c.rest().decode("latin-1")
        c.close()
        report(number, got, c.ended)
        tls("a.test").get("/ok/end?%%d" %% number, extra="Connection: close\\r\\n")
'''


class Log(list):
    """Complete requests in the order that they came in, whatever the connection."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Strict(Listener):
    """Reads requests by take(); what it can't read is an error."""

    def __init__(self, log, **listener):
        self.log = log
        super().__init__(**listener)

    def serve(self, connection):
        while True:
            try:
                request, rest = take(connection.pending.decode("latin-1"))
            except Unfinished:
                connection.fill()
                continue
            connection.pending = bytearray(rest.encode("latin-1"))
            with self.log.lock:
                self.log.append(request)
            method, target = request[0].split(" ")[:2]
            answer = response(200, "next" if target == "/ok/next" else "row")
            connection.send(answer[:answer.index(b"\r\n\r\n") + 4] if method == "HEAD" else answer)


def answers(text, wanted):
    """Takes the answers apart: [(status, fields, body)]; what is left over is a failure."""
    found = []
    while text:
        head, mark, text = text.partition("\r\n\r\n")
        tap.ok(mark, "an answer that does not end: %r" % head[:200])
        lines = head.split("\r\n")
        fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split(" ")[1])
        bodiless = len(found) < len(wanted) and wanted[len(found)].endswith(" head")
        n = 0 if bodiless else int(fields["content-length"])
        tap.ok(len(text) >= n, "a body that does not end: %r" % text[:200])
        found.append((status, fields, text[:n]))
        text = text[n:]
    return found


def check_answers(row, got, ended, codes):
    wanted = list(row.answers) + (["200"] if row.opens else [])
    found = answers(got, wanted)
    words = []
    for status, fields, _ in found:
        code = codes.get(fields.get("x-exeat-decision"))
        words.append("%d %s" % (status, code) if status >= 400 else "%d" % status)
    tap.equal(words, ["200" if w == "200 head" else w for w in wanted])
    if row.opens:
        tap.equal(found[-1][2], "next", "what follows got another's answer")
    if row.answers:
        tap.equal(found[-1][1].get("connection"), "close")
    tap.ok(ended == "eof" or (ended == "reset" and not row.answers), "it ended in %s" % ended)


def cut_at_ends(log):
    """{number of a row: the requests that came in before its end}."""
    by_row, since = {}, []
    for request in log:
        target = request[0].split(" ")[1]
        if target.startswith("/ok/end?"):
            by_row[int(target[8:])], since = since, []
        else:
            since.append(request)
    return by_row


def beginnings(servers):
    """What came on each connection behind its last complete request: (head, content)."""
    found = []
    for connection in [c for s in servers for c in s.connections]:
        if connection.pending:
            try:
                take(connection.pending.decode("latin-1"))
            except Unfinished as e:
                found.append(e.args[0])
    return found


def may_begin(row):
    """(head, content): as much as the upstream may see of a row that is cut."""
    try:
        take(row.cut)
    except Unfinished as e:
        return e.args[0]
    raise AssertionError("%s: `cut` is a complete request" % row.name)


def unexplained(found, rows):
    """Each beginning must be of a row of its own. The longest are given out first, each to the row that fits closest."""
    free = sorted((may_begin(row) for row in rows if row.cut), key=lambda b: len(b[1]))
    left = []
    for head, content in sorted(found, key=lambda b: -len(b[1])):
        fits = [b for b in free if b[0] == head and b[1].startswith(content)]
        if fits:
            free.remove(fits[0])
        else:
            left.append((head, content))
    return left


def run_all(t, rows, pieces):
    """Runs the rows; returns ([(row, what is wrong)], bytes that no row explains)."""
    pki, log = Pki(), Log()
    servers = [t.use(Strict(log, tls=pki.leaf("a.test"))), t.use(Strict(log))]
    wires = [(i, r.over, r.wire + ("" if r.shut else NEXT % ORIGINS[r.over]), pieces, r.shut) for i, r in enumerate(rows)]
    path = work.write(os.path.join(work.folder("rows."), "rows.json"), json.dumps(wires))
    r = client.run(POLICY, INSIDE % path, resolve=[servers[0].resolve("a.test"), servers[1].resolve("a.test", 80)],
                   upstream_ca=pki.ca, timeout=280)
    tap.equal([str(e) for s in servers for e in s.errors], [], "the upstream could not read what came")
    # a body that turns out to be bad is the outcome's; the verdict was about the head
    codes = {v["id"]: v.get("code") for v in r.verdicts(verdict="deny")}
    codes.update({o["id"]: o.get("code") for o in r.outcomes() if o["id"] not in codes})
    sent = cut_at_ends(log)
    wrong = []
    tap.equal(len(r.reports), len(rows))
    for number, got, ended in r.reports:
        row = rows[number]
        try:
            check_answers(row, got, ended, codes)
            tap.equal(sent.get(number), take_all(row.sent + (NEXT_SENT if row.opens else "")), "the upstream saw")
        except AssertionError as e:
            wrong.append((row.name, str(e)))
    return wrong, unexplained(beginnings(servers), rows)


def run(t, pieces):
    rows = [r for r in ROWS if not pieces or len(r.wire) <= PIECES_MAX]
    wrong, left = run_all(t, rows, pieces)
    for name, text in wrong:
        tap.note("%s: %s" % (name, text))
    tap.equal(left, [], "the upstream saw beginnings that no row explains")
    tap.equal(len(wrong), 0, "rows that are not as the table says")


@tap.test
def the_table_is_large_and_each_row_gives_its_reason(_):
    tap.ok(len(ROWS) >= 300, "%d rows" % len(ROWS))
    tap.equal([row.name for row in ROWS if not row.rule], [])


@tap.test(timeout=300)
def each_request_in_one_write(t):
    run(t, 0)


@tap.test(timeout=300)
def each_request_byte_by_byte(t):
    run(t, 1)


tap.main()
