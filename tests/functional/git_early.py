"""A refused push is answered at once, while the client is still sending, and the client may go on sending: what it sends
is read on this host and goes nowhere. The clients that people push with, and what each makes of it."""
import tap
from pushes import PUSH, by_hand, posts, serve

BIG = 40 << 20
DENIED = '''
    DENIED = command("refs/heads/main", caps=CAPS) + b"0000PACK"
    def begin(framing):
        c = tls("g.test")
        c.send("POST /acme/app.git/git-receive-pack HTTP/1.1\\r\\nHost: g.test\\r\\nContent-Type: %s\\r\\n%s\\r\\n\\r\\n"
               % (PUSH_TYPE, framing))
        return c
    def chunk(data):
        return b"%x\\r\\n" % len(data) + data + b"\\r\\n"
    def after(c):
        """Is the connection good for another request?"""
        a = c.get("/acme/app.git/info/refs?service=git-upload-pack", host="g.test")
        return [a.status, a.whole]
'''


@tap.test
def the_answer_does_not_wait_for_the_rest(t):
    git = serve(t)
    r = by_hand(git, PUSH, DENIED + '''
    c = begin("Transfer-Encoding: chunked")
    c.send(chunk(DENIED))
    a = c.answer()
    report(a.status, named(a), a.whole, a.header("connection"))
    for _ in range(%(big)d >> 16):
        c.send(chunk(b"x" * 65536))
    c.send("0\\r\\n\\r\\n")
    report(after(c))
    c = begin("Content-Length: %(big)d")
    c.send(DENIED)
    a = c.answer()
    report(a.status, named(a), a.whole, a.header("connection"))
    c.send(b"x" * (%(big)d - len(DENIED)))
    report(after(c))
    ''' % {"big": BIG})
    tap.equal(r.reports, [[200, ["refs/heads/main"], True, None], [200, True]] * 2)
    tap.equal(posts(git, "git-receive-pack"), [])
    denied = r.verdicts(verdict="deny")
    tap.equal(len(denied), 2)
    for verdict in denied:
        tap.equal(r.outcome_of(verdict)["sent"], 0)


@tap.test
def who_closes_afterwards_can_send_all_first(t):
    git = serve(t)
    r = by_hand(git, PUSH, DENIED + '''
    c = begin("Connection: close\\r\\nContent-Length: %(big)d")
    c.send(DENIED)
    c.send(b"x" * (%(big)d - len(DENIED)))
    a = c.answer()
    report(a.status, named(a), a.whole, a.header("connection"), c.rest().decode(), c.ended)
    ''' % {"big": BIG})
    tap.equal(r.reports, [[200, ["refs/heads/main"], True, "close", "", "eof"]])


@tap.test
def who_waits_for_leave_to_send_gets_its_answer_instead(t):
    """… and who asked for leave and then sends nothing is not waited for."""
    git = serve(t)
    r = by_hand(git, PUSH, DENIED + '''
    c = begin("Expect: 100-continue\\r\\nContent-Encoding: br\\r\\nContent-Length: 100000")
    a = c.answer()
    report(a.status, a.interim, a.whole, a.header("connection"), b"encoding" in a.body, c.rest().decode(), c.ended)
    ''')
    tap.equal(r.reports, [[200, [], True, "close", True, "", "eof"]])


@tap.test
def a_client_that_goes_away_or_stays_silent_holds_nothing(t):
    git = serve(t)
    r = by_hand(git, PUSH, DENIED + '''
    for how in ("close", "half", "bad"):
        c = begin("Transfer-Encoding: chunked")
        c.send(chunk(DENIED))
        a = c.answer()
        if how == "half":
            c.shut()
        if how == "bad":
            c.send("zz\\r\\n")
        report(how, a.status, named(a), None if how == "close" else c.rest().decode())
        c.close()
    c = tls("g.test")
    report(after(c))
    ''')
    tap.equal(r.reports, [["close", 200, ["refs/heads/main"], None], ["half", 200, ["refs/heads/main"], ""],
                          ["bad", 200, ["refs/heads/main"], ""], [200, True]])


tap.main()
