#!/usr/bin/env python3
"""Sockets on the host that come and go while a sandbox starts are in no start's way."""
import os
import socket
import subprocess
import sys

import exeat
import tap
import work

CHURN = """
import os, socket, sys
folder = sys.argv[1]
print("go", flush=True)
while True:
    made = []
    for i in range(12):
        s = socket.socket(socket.AF_UNIX)
        s.bind(os.path.join(folder, "s%d" % i))
        s.listen(1)
        made.append(s)
    for i, s in enumerate(made):
        os.unlink(os.path.join(folder, "s%d" % i))
        s.close()
"""


@tap.test(timeout=240)
def sockets_that_come_and_go_stop_no_start(t):
    user = exeat.as_user()
    folder = work.folder("churn.", user=user)
    churn = work.popen([sys.executable if user == "root" else "python3", "-c", CHURN, folder], user=user,
                       stdout=subprocess.PIPE, env=exeat.environment(folder), cwd=folder)
    t.after(work.end, churn)
    tap.equal(churn.stdout.readline(), b"go\n")
    for _ in range(40):
        tap.equal(exeat.run(None, ["true"], timeout=60).code, 0)
    tap.equal(churn.poll(), None)


@tap.test
def a_socket_that_stays_is_covered(t):
    user = exeat.as_user()
    folder = work.folder("stays.", user=user)
    path = os.path.join(folder, "s")
    server = t.use(socket.socket(socket.AF_UNIX))
    server.bind(path)
    server.listen(8)
    os.chmod(path, 0o777)
    reach = ["/usr/bin/python3", "-c", "import socket; socket.socket(socket.AF_UNIX).connect(%r)" % path]
    if work.popen(reach, user=user, cwd="/").wait() != 0:
        tap.fail("the socket can't be reached outside either")
    r = exeat.run(None, reach)
    tap.equal(r.code, 1)
    tap.contains(r.err, "refused")


tap.main()
