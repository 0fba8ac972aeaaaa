"""Time limits: who sends a head for ever is ended, and a server that thinks for long, or a client that does, is not."""
import time

import onehost
import tap
from servers import response


def think(connection, request):
    if request.target.endswith("slow"):
        time.sleep(40)
    return response(200, request.target)


@tap.test(timeout=120)
def a_slow_head_is_ended_and_a_slow_answer_is_not(t):
    r, server = onehost.through(t, '''
        import threading

        def slow_head(c):
            began = time.monotonic()
            try:
                for byte in b"GET /ok HTTP/1.1\\r\\n":
                    c.send(bytes([byte]))
                    c.timeout(5)
                    if c.recv() == b"" and c.ended != "timeout":
                        break
                    c.ended = None
            except OSError:
                pass
            return 25 < time.monotonic() - began < 70  # in clear text the first bytes have a limit of their own

        def slow_answer():
            c = tls("a.test")
            c.timeout(60)
            return c.get("/ok/slow").body.decode(), c.get("/ok/then").body.decode()

        def idle():
            c = tls("a.test")
            c.get("/ok/first")
            time.sleep(40)
            return c.get("/ok/second").status

        said = {}
        parts = {"tls": lambda: slow_head(tls("a.test")), "clear": lambda: slow_head(tcp("a.test", 80)),
                 "answer": slow_answer, "idle": idle}
        threads = [threading.Thread(target=lambda n=n, f=f: said.update({n: f()})) for n, f in parts.items()]
        [x.start() for x in threads]
        [x.join() for x in threads]
        report(said)
    ''', answer=think, timeout=100)
    tap.equal(r.reports[0], {"tls": True, "clear": True, "answer": ["/ok/slow", "/ok/then"], "idle": 200})
    tap.equal(sorted(q.target for q in server.requests), ["/ok/first", "/ok/second", "/ok/slow", "/ok/then"])
    tap.equal([(v["verdict"], v["code"]) for v in r.verdicts(verdict="deny")], [("deny", "head-timeout")] * 2)


tap.main()
