"""A server in a program of its own, by a library that this test's Python has not, which tells what comes to it.

    with TellServer("python3", PROGRAM, *pki.leaf("a.test")) as server:
        exeat.run(..., resolve=[server.resolve("a.test")])
    server.seen     # what it told so far

The program's words are JSON, one a line: {"port": N} first, then whatever it likes.
"""
import json
import os
import subprocess
import threading

import exeat
import tap
import work


class TellServer:
    def __init__(self, language, program, *words):
        path = work.write(os.path.join(work.folder("server."), "server"), program)
        self.process = subprocess.Popen([language, path, *words], stdout=subprocess.PIPE, env=exeat.environment("/"))
        line = self.process.stdout.readline()
        if not line:
            tap.fail("the server in %s did not start" % language)
        self.port = json.loads(line)["port"]
        self.seen = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.seen.append(json.loads(line))

    def resolve(self, name, port=443):
        return "%s:%d:127.0.0.1:%d" % (name, port, self.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        work.end(self.process)
        self.reader.join(5)
        self.process.stdout.close()
