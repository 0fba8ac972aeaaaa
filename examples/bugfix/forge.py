"""A small code forge on loopback, for the example: git over HTTPS and one endpoint of a REST API.

    forge.py FOLDER CERTIFICATE KEY TOKEN

FOLDER holds bare repositories (FOLDER/acme/app.git). Prints the port it listens on, then serves until it is
ended. Who comes without the token gets nothing: reads and writes both need it. Each request is noted in
FOLDER/requests, with who asked, so that the example can check what arrived.
"""
import base64
import http.server
import json
import os
import ssl
import subprocess
import sys

ROOT, CERTIFICATE, KEY, TOKEN = sys.argv[1:5]
BASIC = "Basic " + base64.b64encode(b"x-access-token:" + TOKEN.encode()).decode()
BEARER = "Bearer " + TOKEN
BACKEND = os.path.join(subprocess.check_output(["git", "--exec-path"], text=True).strip(), "git-http-backend")


class Forge(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                data += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status, kind, data, headers=()):
        self.send_response(status)
        for name, value in (*headers, ("Content-Type", kind), ("Content-Length", str(len(data)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def serve(self):
        data = self.body()
        host = self.headers["Host"]
        api = host.startswith("api.")
        known = self.headers.get_all("Authorization") == [BEARER if api else BASIC]
        with open(os.path.join(ROOT, "requests"), "a", encoding="ascii") as notes:
            notes.write("%s https://%s%s %s\n" % (self.command, host, self.path, "known" if known else "unknown"))
        if not known:
            self.answer(401, "text/plain", b"who are you?\n", [("WWW-Authenticate", 'Basic realm="forge"')])
        elif api:
            self.answer(201, "application/json", json.dumps({"number": 7, "state": "open"}).encode())
        else:
            self.git(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

    def git(self, data):
        path, _, query = self.path.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": ROOT, "GIT_HTTP_EXPORT_ALL": "1",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
               "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
               "REMOTE_USER": "x-access-token", "REMOTE_ADDR": "127.0.0.1", "CONTENT_LENGTH": str(len(data)),
               "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        run = subprocess.run([BACKEND], env=env, input=data, capture_output=True, check=False)
        head, _, content = run.stdout.partition(b"\r\n\r\n")
        fields = [tuple(line.split(": ", 1)) for line in head.decode("latin-1").split("\r\n")]
        status = next((int(v.split()[0]) for n, v in fields if n == "Status"), 200)
        kind = next((v for n, v in fields if n == "Content-Type"), "text/plain")
        self.answer(status, kind, content, [f for f in fields if f[0] not in ("Status", "Content-Type")])


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forge)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
