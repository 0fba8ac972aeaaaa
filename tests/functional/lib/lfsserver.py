"""A git server with Git LFS: batch, verify and locks on the git server's own host, the objects on another.

    lfs = t.use(LfsServer(tls=pki.leaf("g.test", "store.test"), users={"x-access-token": "SECRET-A"}))
    lfs.create("acme/app.git")
    lfs.objects                  # {oid: bytes}: what was uploaded
    lfs.locks                    # {path: id}
    lfs.store                    # where the objects lie: "https://store.test"

Each transfer takes only the token that the batch handed out for it, and each of these holds the words SECRET-OBJECT. A hit whose
body did not come whole has no status.
"""
import hashlib
import json
import threading

import gitserver
import raw

TYPE = "application/vnd.git-lfs+json"


class LfsServer(gitserver.GitServer):
    def __init__(self, store="https://store.test", fields=True, **options):
        self.store = store
        self.fields = fields    # False: a transfer needs none but what its URL says
        self.objects, self.locks, self.tokens = {}, {}, {}
        self.count = 0
        self.guard = threading.Lock()
        self.reply = None       # called with the batch's answer (a dict): what goes out instead
        super().__init__(**options)

    def put(self, content):
        oid = hashlib.sha256(content).hexdigest()
        self.objects[oid] = content
        return oid

    def _one(self, connection, request):
        path = request.target.partition("?")[0]
        if path.startswith("/store/") or "/info/lfs/" in path:
            self._lfs(connection, request, path)
        else:
            super()._one(connection, request)

    def _lfs(self, connection, request, path):
        hit = gitserver.Hit(request, *self._credentials(request))
        self.hits.append(hit)
        if any(v.lower() == "100-continue" for v in request.all("expect")):
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = connection.read_body(request)
        with self.guard:
            hit.status, answer = self._answer(hit, path, body)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        connection.send(raw.response(hit.status, content, [("Content-Type", TYPE)], "Said"))

    def _answer(self, hit, path, body):
        wanted = self.tokens.get((hit.method, hit.request.target))
        if wanted is not None or path.startswith("/store/") or path.endswith("/objects/verify"):
            good = wanted is not None and all(hit.request.all(n) == [v] for n, v in wanted.items())
            return self._transfer(hit, path, body) if good else (403, {"message": "no such token"})
        if not self._may(hit):
            return 401, {"message": "who are you?"}
        tail = path.partition("/info/lfs/")[2]
        data = json.loads(body or b"{}")
        if tail == "objects/batch":
            answer = self._batch(path, data)
            return 200, self.reply(answer) if self.reply else answer
        return self._lock(hit, tail, data)

    def _transfer(self, hit, path, body):
        oid = path.rsplit("/", 1)[1]
        if hit.method == "PUT":
            if hashlib.sha256(body).hexdigest() != oid:
                return 422, {"message": "these are other bytes"}
            self.objects[oid] = body
        elif hit.method == "GET":
            return (200, self.objects[oid]) if oid in self.objects else (404, {"message": "no such object"})
        elif json.loads(body)["oid"] not in self.objects:
            return 404, {"message": "it did not come"}
        return 200, {}

    def _action(self, method, url):
        self.count += 1
        headers = {"Authorization": "RemoteAuth SECRET-OBJECT-%d" % self.count, "X-Store_Key": "SECRET-OBJECT-K%d" % self.count}
        target = "/" + url.split("/", 3)[3]
        self.tokens[method, target] = headers if self.fields else {}
        return {"href": url, **({"header": dict(headers)} if self.fields else {}), "expires_in": 600}

    def _batch(self, path, data):
        objects = []
        for wanted in data["objects"]:
            oid, known = wanted["oid"], wanted["oid"] in self.objects
            one = {"oid": oid, "size": wanted["size"], "authenticated": True}
            if data["operation"] == "download" and known:
                one["actions"] = {"download": self._action("GET", "%s/store/%s?X-Signature=S%%2F1" % (self.store, oid))}
            elif data["operation"] == "download":
                one["error"] = {"code": 404, "message": "no such object"}
            elif not known:
                verify = "https://g.test%s/objects/verify" % path.partition("/objects/")[0]
                one["actions"] = {"upload": self._action("PUT", "%s/store/%s" % (self.store, oid)),
                                  "verify": self._action("POST", verify)}
            objects.append(one)
        return {"transfer": "basic", "objects": objects}

    def _lock(self, hit, tail, data):
        if tail == "locks/verify":
            return 200, {"ours": [], "theirs": []}
        if tail == "locks" and hit.method == "POST":
            self.locks[data["path"]] = str(len(self.locks) + 1)
            return 201, {"lock": {"id": self.locks[data["path"]], "path": data["path"], "locked_at": "2026-01-01T00:00:00Z",
                                  "owner": {"name": "S"}}}
        if tail == "locks":
            return 200, {"locks": [{"id": i, "path": p, "locked_at": "2026-01-01T00:00:00Z", "owner": {"name": "S"}}
                                   for p, i in self.locks.items()]}
        return 404, {"message": "there is nothing here"}
