"""The corpus of answers, by raw sockets: the client sees one clean answer of each, or a 502, or one that is cut off, and
the next request's answer is its own."""
import json
import os
import threading

import client
import tap
import work
from corpus import LATER, answer_body, answer_head, table
from corpus.strict import Unfinished, take
from pki import Pki
from raw import Closed, Listener, response

ROWS = table(answer_head, answer_body)
POLICY = "allow * https://a.test/ok**\nallow GET https://b.test/ok/go\n"
PIECES_MAX = 4096  # longer rows are not sent byte by byte

# What runs inside: each row's request, and the next one right behind it. Where something follows the row's answer later, or a reset
# could take it away, the answer is read first, and then the server is told to go on, and says when it has (as b.test, so that this goes by another connection).
INSIDE = '''
    with open(%r) as f:
        rows = json.load(f)
    for number, method, fields, first in rows:
        c = tls("a.test")
        wire = "%%s /ok/row?%%d HTTP/1.1\\r\\nHost: a.test\\r\\n%%s\\r\\n" %% (method, number, fields)
        following = "GET /ok/next?%%d HTTP/1.1\\r\\nHost: a.test\\r\\nConnection: close\\r\\n\\r\\n" %% number
        try:
            c.send(wire + ("" if first else following))
            if first:
                while len(c.pending) < first and c.recv_more():
                    pass
                tls("b.test").get("/ok/go?%%d" %% number, "b.test")
                c.send(following)
        except OSError:
            pass # it was cut off before all was sent
        report(number, c.rest().decode("latin-1"), c.ended)
        c.close()
'''


def awaited(row):
    """So many bytes the client has of it before it goes on; 0: it goes on by itself."""
    seen = row.seen[1] if isinstance(row.seen, tuple) else row.seen
    return len(seen) if row.wire and row.end in ("later", "rst") else 0


class Scripted(Listener):
    """Answers /ok/row?N with the bytes of row N, and notes which connection each request came by."""

    def __init__(self, rows, pieces, **listener):
        self.rows = rows
        self.pieces = pieces
        self.came = {}      # target: the connection it came by last
        self.lock = threading.Lock()
        self.told = {i: (threading.Event(), threading.Event()) for i in range(len(rows))}  # to go on; that it has gone on
        super().__init__(**listener)

    def serve(self, connection):
        while not connection.closed:
            request = connection.read_head()
            self.came[request.target] = connection
            kind, number = request.target.split("/")[2].split("?")
            if kind == "next":
                connection.send(response(200, "next"))
            elif kind == "go":
                go, gone = self.told[int(number)]
                go.set()
                gone.wait(30)
                connection.send(response(200, "gone"))
            else:
                self.row(connection, self.rows[int(number)], *self.told[int(number)])

    def row(self, connection, row, go, gone):
        now, _, later = row.wire.partition(LATER)
        self.send(connection, now.encode("latin-1"))
        if awaited(row):
            go.wait(30)
        self.send(connection, later.encode("latin-1"))
        if row.end == "later" and not later:
            connection.close("fin")
        elif row.end not in ("later", "open"):
            connection.close(row.end)
        gone.set()

    def send(self, connection, data):
        try:
            for at in range(0, len(data), self.pieces or max(len(data), 1)):
                connection.send(data[at:at + (self.pieces or len(data))])
        except Closed:
            pass # enough was read of it


def bodiless(head, method):
    status = int(head.split(" ")[1])
    return status < 200 or status in (204, 304) or method == "HEAD"


def take_answers(text, method):
    """Takes all answers apart: ([(head, content, trailer)], the beginning of one more or None)."""
    found = []
    while text:
        final = sum(not a[0].startswith("HTTP/1.1 1") for a in found)
        try:
            answer, text = take(text, bodiless(text, "GET" if final else method))
        except Unfinished as e:
            return found, e.args[0]
        found.append(answer)
    return found, None


def check_next(answers, began, ended):
    tap.ok(began is None and answers, "the next request has no answer: %r" % (began,))
    head, content, _ = answers[-1]
    tap.ok(head.startswith("HTTP/1.1 200 ") and content == "next", "the next request got %r %r" % (head, content))
    tap.equal(ended, "eof")
    return answers[:-1]


def check(row, got, ended, reasons):
    answers, began = take_answers(got, row.method)
    if isinstance(row.seen, tuple):
        wanted, cut = take_answers(row.seen[1], row.method)
        tap.ok(cut is not None, "the table's beginning is a whole answer")
        tap.equal((answers, (began or (None,))[0]), (wanted, cut[0]))
        tap.ok(cut[1].startswith(began[1]), "the client saw %r" % began[1])
        tap.ok(ended in ("ragged", "reset"), "an answer that is cut off ended in %s" % ended)
        return
    answers = check_next(answers, began, ended)
    if row.seen.startswith("502 "):
        head, _, _ = answers[-1]
        tap.ok(head.startswith("HTTP/1.1 502 "), "got %r" % head)
        said = [line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("x-exeat-decision: ")]
        tap.contains(reasons[said[0]], row.seen[4:])
        return
    tap.equal(answers, take_answers(row.seen, row.method)[0])


def behind(row):
    """Is its answer good, and only what comes behind it not?"""
    good = isinstance(row.seen, str) and not row.seen.startswith("502 ")
    return good and not row.reused and row.end == "open" and "close" not in row.wire.lower()


def run(t, pieces):
    # What comes behind an answer is seen when it is there before the connection is used again: in one write it is.
    rows = [r for r in ROWS if not pieces or (len(r.wire) <= PIECES_MAX and not behind(r))]
    pki = Pki()
    server = t.use(Scripted(rows, pieces, tls=pki.leaf("a.test", "b.test")))
    path = work.write(os.path.join(work.folder("rows."), "rows.json"),
                      json.dumps([(i, r.method, r.fields, awaited(r)) for i, r in enumerate(rows)]))
    r = client.run(POLICY, INSIDE % path, resolve=[server.resolve("a.test"), server.resolve("b.test")], upstream_ca=pki.ca, timeout=280)
    tap.equal(len(r.reports), len(rows))
    tap.equal([str(e) for e in server.errors], [])
    reasons = {o["id"]: o.get("reason", "") for o in r.outcomes()}
    wrong = 0
    for number, got, ended in r.reports:
        row = rows[number]
        try:
            check(row, got, ended, reasons)
            if not isinstance(row.seen, tuple):
                same = server.came["/ok/row?%d" % number] is server.came["/ok/next?%d" % number]
                tap.equal(same, row.reused, "the upstream's connection is used again")
        except AssertionError as e:
            wrong += 1
            tap.note("%s: %s" % (row.name, e))
    tap.equal(wrong, 0, "rows that are not as the table says")


@tap.test
def the_table_is_large_and_each_row_gives_its_reason(_):
    tap.ok(len(ROWS) >= 150, "%d rows" % len(ROWS))
    tap.equal([row.name for row in ROWS if not row.rule], [])


@tap.test(timeout=300)
def each_answer_in_one_write(t):
    run(t, 0)


@tap.test(timeout=300)
def each_answer_byte_by_byte(t):
    run(t, 1)


tap.main()
