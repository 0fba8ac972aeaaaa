"""Clients and upstreams that break off at random: nothing crashes, every request is recorded once, and work goes on.

SOAK_SECONDS says for how long (10)."""
import os
import random
import subprocess
import sys

import client
import exeat
import h2
import tap
import work
from pki import Pki
from raw import Closed
from servers import RawServer, chunked, response

pki = Pki()
SECONDS = int(os.environ.get("SOAK_SECONDS", "10"))
POLICY = "allow GET,HEAD,POST,PUT https://a.test/ok**\nallow GET,POST http://a.test/ok**\n"


def moody(connection, request):
    mood = random.random()
    if mood < 0.1:
        connection.close(random.choice(["fin", "rst", "abrupt"]))
        return None
    if mood < 0.2:
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * random.randrange(1000))
        connection.close(random.choice(["fin", "rst", "abrupt"]))
        return None
    if mood < 0.25:
        connection.send(random.choice([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", b"nonsense\r\n\r\n",
                                       b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]))
        connection.close("fin")
        return None
    if mood < 0.35:
        connection.send(response(413, "early"))
        connection.close("fin")
        return None
    connection.read_body(request)
    if mood < 0.5:
        return b"HTTP/1.1 103 Early Hints\r\n\r\n" + chunked("a" * random.randrange(1, 50000), "b")
    if mood < 0.6:
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * 20000)
        connection.close("fin")
        return None
    return response(200, "x" * random.choice([0, 10, 100000]) if request.method != "HEAD" else "")


CODE = '''
    import random
    def one(n, stop):
        rnd = random.Random(n)
        while time.monotonic() < stop:
            try:
                c = tls("a.test") if rnd.random() < 0.7 else tcp("a.test")
                c.timeout(5)
                for _ in range(rnd.randrange(1, 6)):
                    mood = rnd.random()
                    path = rnd.choice(["/ok", "/ok/x", "/no", "/../x"])
                    head = "Host: a.test\\r\\n"
                    if mood < 0.4:
                        wire = "GET %s HTTP/1.1\\r\\n%s\\r\\n" % (path, head)
                    elif mood < 0.5:
                        wire = "POST %s HTTP/1.1\\r\\n%sContent-Length: 20000\\r\\n\\r\\n" % (path, head) + "x" * rnd.choice([20000, 5])
                    elif mood < 0.6:
                        wire = "POST %s HTTP/1.1\\r\\n%sTransfer-Encoding: chunked\\r\\n\\r\\n5\\r\\nhello\\r\\n0\\r\\n\\r\\n" % (path, head)
                    elif mood < 0.7:
                        wire = "GET %s HTTP/1.1\\r\\n%s\\r\\n" % (path, head) * 5
                    elif mood < 0.8:
                        wire = "GET %s HTTP/1.0\\r\\n%s\\r\\n" % (path, head)
                    else:
                        wire = "PUT %s HTTP/1.1\\r\\n%sExpect: 100-continue\\r\\nContent-Length: 9\\r\\n\\r\\n" % (path, head)
                    c.send(wire)
                    end = rnd.random()
                    if end < 0.2:
                        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        break
                    if end < 0.3:
                        break
                    if end < 0.9:
                        c.sock.settimeout(0.2)
                        c.answer()
                c.close()
            except (OSError, ValueError):
                pass
    stop = time.monotonic() + SECONDS
    threads = [threading.Thread(target=one, args=(i, stop)) for i in range(12)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    spin(0.5)
    c = tls("a.test")
    good = 0
    for _ in range(40):
        good += tls("a.test").get("/ok").status in (200, 413, 502)
    report(good)
'''


@tap.test(timeout=SECONDS + 90)
def whoever_breaks_off_breaks_nothing(t):
    random.seed(5)
    server = t.use(RawServer(moody, tls=pki.leaf("a.test")))
    plain = t.use(RawServer(moody))
    r = client.run(POLICY, "SECONDS = %d\n" % SECONDS + __import__("textwrap").dedent(CODE),
                   resolve=[server.resolve("a.test"), plain.resolve("a.test", 80)], upstream_ca=pki.ca, flags=["-q"],
                   timeout=SECONDS + 60)
    tap.ok(r.reports[0] > 30, r.reports)
    requests = [v for v in r.verdicts() if v.get("method")]
    tap.ok(len(requests) > 50, "too little came of it: %d" % len(requests))
    ids = [v["id"] for v in r.verdicts()]
    tap.equal(len(ids), len(set(ids)), "a verdict came twice")
    done = set(o["id"] for o in r.outcomes())
    tap.equal(len(done), len(r.outcomes()), "an outcome came twice")
    lacking = [v for v in requests if v["id"] not in done]
    strange = [o for o in r.outcomes() if o["id"] not in ids]
    tap.equal((lacking, strange), ([], []), "verdicts without an outcome, outcomes without a verdict")
    tap.note(len(requests), "requests in", r.seconds)
    server.errors[:] = [e for e in server.errors if not isinstance(e, Closed)]


@tap.test(timeout=150)
def clients_and_servers_of_all_kinds_for_some_seconds(t):
    # what make soak does for an hour; memory says nothing in so short a time
    h2.needed()
    work.need("git", "node", "redis-server")
    r = subprocess.run([sys.executable, os.path.join(exeat.TOP, "tests/soak/run"), "--seconds", "5", "--limit", "1000000", "--limit-anonymous", "1000000"],
                       capture_output=True, text=True, timeout=140, check=False)
    tap.note(r.stdout, r.stderr)
    tap.equal(r.returncode, 0)


if __name__ == "__main__":
    tap.main()
