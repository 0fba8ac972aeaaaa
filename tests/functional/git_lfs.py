"""Git LFS through the gate: real git-lfs, uploads and downloads told apart, and no token inside the sandbox."""
import json

import client
import exeat
import tap
import work
from lfsserver import TYPE, LfsServer
from pki import Pki
from servers import RawServer, response

pki = Pki()
REPO = "acme/app.git"
SECRET = "SECRET-A"
GIT = """
allow fetch https://g.test/acme/app with forge
allow push  https://g.test/acme/app refs/heads/fix/* with forge
"""
POLICY = GIT + """
allow lfs https://g.test/acme/app download upload with forge
allow GET,PUT https://store.test/store/*
"""
VAULT = """
credential forge
    for     https://g.test
    from    env FORGE_TOKEN
    inject  basic x-access-token
"""
CLONE = "set -e; cd; git lfs install --skip-repo >/dev/null; git clone -q https://g.test/acme/app.git w; cd w; " \
        "git lfs install --local >/dev/null; "
BRANCH = "git checkout -q -b fix/1; git lfs track '*.bin' >/dev/null; "
BIG = "head -c 300000 /dev/zero | tr '\\0' x > big.bin; echo small > small.bin; git add .; git commit -qm big; "
PUSH = "git push -q origin fix/1"


def serve(t, **options):
    work.need("git-lfs")
    lfs = t.use(LfsServer(tls=pki.leaf("g.test", "store.test"), users={"x-access-token": SECRET}, **options))
    lfs.create(REPO)
    return lfs


def run(t, lfs, command, policy=POLICY, **options):
    env = {"FORGE_TOKEN": SECRET, **options.pop("env", {})}
    r = exeat.run(policy, command, vault=VAULT, env=env, resolve=[lfs.resolve("g.test"), lfs.resolve("store.test")],
                  upstream_ca=pki.ca, timeout=options.pop("timeout", 50), **options)
    for word in ("Username", "Password", SECRET, "SECRET-OBJECT"):
        tap.lacks(r.out + r.err + json.dumps(r.decisions), word)
    return r


def batches(r):
    return [v for v in r.verdicts() if "operation" in v.get("lfs", {})]


# ---- uploads ----

@tap.test
def a_push_with_objects_and_no_token_was_inside(t):
    lfs = serve(t)
    traced = {"GIT_TRACE": "1", "GIT_CURL_VERBOSE": "1", "GIT_TRACE_CURL_NO_DATA": "0"}
    r = run(t, lfs, CLONE + BRANCH + BIG + PUSH, env=traced)
    tap.equal(r.code, 0, r)
    tap.equal(sorted(len(o) for o in lfs.objects.values()), [6, 300000])
    tap.ok("refs/heads/fix/1" in lfs.refs(REPO), r)
    puts = [h for h in lfs.hits if h.method == "PUT"]
    tap.equal([h.status for h in puts], [200, 200])
    tap.ok(all(h.request.header("authorization").startswith("RemoteAuth SECRET-OBJECT") for h in puts), puts)
    verified = [h for h in lfs.hits if h.path.endswith("/objects/verify")]
    tap.equal([h.status for h in verified], [200, 200])
    # what the trace shows is what git-lfs got, and sent
    tap.contains(r.err, "kept-by-exeat")
    tap.ok(all(b"kept-by-exeat" not in h.request.head for h in lfs.hits), lfs.hits)
    tap.equal([b["lfs"] for b in batches(r)], [{"operation": "upload", "objects": 2, "bytes": 300006}])
    sent = r.verdicts(method="PUT")
    tap.equal([v["lfs"] for v in sent], [{"fields": 2}] * 2)
    tap.equal({v.get("credential") for v in sent}, {None})


@tap.test
def an_upload_that_no_rule_permits_says_so_in_git_lfs(t):
    lfs = serve(t)
    r = run(t, lfs, CLONE + BRANCH + BIG + PUSH, POLICY.replace("download upload", "download"))
    tap.ok(r.code != 0, r)
    tap.contains(r.err, "exeat: denied: no rule allows LFS upload of this repository; "
                        "to permit: allow lfs https://g.test/acme/app upload")
    tap.equal((lfs.objects, sorted(lfs.refs(REPO))), ({}, ["refs/heads/main"]))
    tap.equal([h for h in lfs.hits if "objects" in h.path], [])
    policy = work.write(r.home + "/other.policy", POLICY, 0o644, exeat.as_user())
    replayed = exeat.call("policy", "replay", r.log, policy)
    tap.contains(replayed.out, "2 denied then, permitted now")  # the batch, and the look at locks before it
    denied = [b for b in batches(r) if b["verdict"] == "deny"]
    tap.equal([(b["code"], b["lfs"]["operation"]) for b in denied], [("no-rule-for-operation", "upload")])


@tap.test
def objects_that_lie_where_no_rule_permits_to_put_them(t):
    lfs = serve(t)
    r = run(t, lfs, CLONE + BRANCH + BIG + PUSH, POLICY.replace("GET,PUT", "GET"))
    tap.ok(r.code != 0, r)
    tap.contains(r.err, "exeat: PUT https://store.test/store/")
    tap.contains(r.err, "no rule allows PUT on this host; to permit: allow PUT https://store.test/store/")
    tap.equal((lfs.objects, [h for h in lfs.hits if h.method == "PUT"]), ({}, []))
    tap.equal([o["code"] for o in r.outcomes() if o.get("code", "").startswith("lfs")], ["lfs-refused"])


@tap.test
def several_workers_keep_for_one_another(t):
    lfs = serve(t)
    many = "for i in $(seq 1 40); do echo $i > $i.bin; done; git add .; git commit -qm many; "
    r = run(t, lfs, CLONE + BRANCH + "git config lfs.concurrenttransfers 8; " + many + PUSH, workers=3)
    tap.equal(r.code, 0, r)
    tap.equal(len(lfs.objects), 40)
    tap.equal([h for h in lfs.hits if h.status not in (200, None)], [])


# ---- downloads ----

def with_object(lfs, content=b"y" * 100000):
    oid = lfs.put(content)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (oid, len(content))
    lfs.commit(REPO, "refs/heads/main", {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": pointer})
    return oid


@tap.test
def a_clone_gets_its_objects(t):
    lfs = serve(t)
    oid = with_object(lfs)
    r = run(t, lfs, CLONE + "wc -c < a.bin", POLICY.replace("download upload", "download").replace("GET,PUT", "GET"))
    tap.equal((r.code, r.out.strip()), (0, "100000"), r)
    got = [h for h in lfs.hits if h.path == "/store/" + oid]
    tap.equal([(h.query, h.status) for h in got], [("X-Signature=S%2F1", 200)])
    tap.equal([b["lfs"] for b in batches(r)], [{"operation": "download", "objects": 1, "bytes": 100000}])


@tap.test
def a_download_that_no_rule_permits(t):
    lfs = serve(t)
    with_object(lfs)
    r = run(t, lfs, CLONE, POLICY.replace("download upload", "upload"))
    tap.ok(r.code != 0, r)
    tap.contains(r.err, "no rule allows LFS download of this repository")
    tap.equal([h for h in lfs.hits if "lfs" in h.path or "store" in h.path], [])


@tap.test
def an_object_on_a_host_that_no_rule_names(t):
    lfs = serve(t, store="https://elsewhere.test")
    with_object(lfs)
    r = run(t, lfs, CLONE)
    tap.ok(r.code != 0, r)
    tap.contains(r.err, "exeat: GET https://elsewhere.test/store/")
    tap.contains(r.err, "no rule names this host")


# ---- locks ----

@tap.test
def a_lock_needs_a_rule_of_its_own(t):
    lfs = serve(t)
    command = CLONE + BRANCH + BIG + PUSH + "; set +e; git lfs lock big.bin; echo lock $?; git lfs locks | cut -f1"
    r = run(t, lfs, command)
    tap.contains(r.out, "lock 2")
    tap.contains(r.err + r.out, "no rule allows LFS lock of this repository")
    tap.equal(lfs.locks, {})
    r = run(t, serve(t), command, POLICY.replace("download upload", "download upload lock"))
    tap.contains(r.out, "lock 0")
    tap.ok("big.bin" in r.out.split("lock 0")[1], r)


# ---- the stand-in ----

def curl(words):
    return "curl -sS -o out -w '%{http_code}\\n' " + words + "; cat out; echo; "


BATCH = "-H 'Accept: %s' -H 'Content-Type: %s' -d '%s' https://g.test/acme/app.git/info/lfs/objects/batch"


def batch(operation, oid, size):
    return BATCH % (TYPE, TYPE, json.dumps({"operation": operation, "objects": [{"oid": oid, "size": size}]}))


@tap.test
def the_stand_in_is_good_for_its_own_request_alone(t):
    lfs = serve(t)
    oid = lfs.put(b"content")
    url = "'https://store.test/store/%s?X-Signature=S%%2F1'" % oid
    stand_in = "-H 'Authorization: kept-by-exeat' "
    r = run(t, lfs, "cd; " + curl(stand_in + url) + curl(batch("download", oid, 7)) + curl(stand_in + url) +
            curl(stand_in + "-X PUT -d x " + url) + curl(stand_in + url.replace("S%2F1", "S%2F2")) +
            curl("-H 'X-Other: Bearer kept-by-exeat' https://store.test/store/x") + curl(url))
    lines = r.out.split("\n")
    answer = json.loads(lines[[i for i, line in enumerate(lines) if line.startswith('{"transfer"')][0]])
    action = answer["objects"][0]["actions"]["download"]
    tap.equal(action["header"], {"Authorization": "kept-by-exeat", "X-Store_Key": "kept-by-exeat"})
    tap.equal(action["expires_in"], 600)
    tap.equal([line for line in lines if len(line) == 3 and line.isdigit()], ["403", "200", "200", "403", "403", "403", "403"])
    tap.contains(r.out, "content")
    tap.equal(len(r.verdicts(code="lfs-stand-in")), 4)
    store = [h for h in lfs.hits if h.path.startswith("/store/")]
    tap.equal([(h.method, h.status) for h in store], [("GET", 200), ("GET", 403)], "the last one brought nothing")
    tap.equal(store[0].request.all("x-store_key"), ["SECRET-OBJECT-K1"])


@tap.test
def what_the_sandbox_adds_goes_up_beside_no_kept_field(t):
    lfs = serve(t)
    oid = lfs.put(b"content")
    url = "'https://store.test/store/%s?X-Signature=S%%2F1'" % oid
    r = run(t, lfs, "cd; " + curl(batch("download", oid, 7)) +
            curl("-H 'Authorization: mine' -H 'x-store-key: kept-by-exeat' -H 'X-Mine: 1' " + url))
    tap.contains(r.out, "200\ncontent")
    head = [h for h in lfs.hits if h.path.startswith("/store/")][0].request
    tap.equal((head.all("authorization"), head.all("x-store-key"), head.all("x-mine")),
              (["RemoteAuth SECRET-OBJECT-1"], [], ["1"]))


# ---- answers that can't be passed on ----

@tap.test
def an_answer_that_can_not_be_rewritten_is_not_passed_on(t):
    lfs = serve(t)
    oid = lfs.put(b"content")
    good = '{"objects":[{"oid":"x","actions":{"download":{"href":"https://store.test/store/x","header":{"A":"SECRET-OBJECT"}}}}]}'
    for text, why in ((good.replace('"objects"', '"objects":[],"objects"'), "it has a key twice"),
                      (good[:-1], "it is not a JSON object"), ("[%s]" % good, "it is not a JSON object"),
                      (good.replace('"objects"', '"transfer":"tus","objects"'), "wants the transfer 'tus'"),
                      ('{"objects":{}}', "it has no list of objects"),
                      ('{"objects":[%s{}]}' % ("{}," * 3000000), "it is too long")):
        lfs.reply = lambda _, text=text: text.encode()
        r = run(t, lfs, "cd; " + curl(batch("download", oid, 7)))
        tap.equal(r.out.split("\n")[0], "502", why)
        tap.contains(r.out, why)
        tap.equal([o.get("code") for o in r.outcomes()], ["lfs-answer"])


@tap.test
def what_nobody_described_is_left_out(t):
    lfs = serve(t)
    action = {"href": "https://store.test/store/x", "header": {
        "Host": "SECRET-OBJECT", "Content-Length": "7", "X-HTTP-Method-Override": "DELETE", "Transfer-Encoding": "chunked",
        "Evil\r\nX": "SECRET-OBJECT", "X-Number": 1, "X-Good": "SECRET-OBJECT"},
        "Header": {"A": "SECRET-OBJECT"}, "token": "SECRET-OBJECT"}
    lfs.reply = lambda _: {"token": "SECRET-OBJECT", "objects": [
        {"oid": "x", "size": 1, "_links": {"download": action}, "actions": {"download": action, "other": action}},
        {"oid": "y", "size": 1, "actions": {"download": dict(action, href="https://u:SECRET-OBJECT@store.test/store/x")}},
        {"oid": "z", "size": 1, "actions": {"download": dict(action, header={"x-a": "1", "X_A": "2"})}}]}
    r = run(t, lfs, "cd; " + curl(batch("download", "x", 1)))
    answer = json.loads(r.out.split("\n")[1])
    tap.equal(answer["objects"][0], {"oid": "x", "size": 1, "actions": {"download": {
        "href": "https://store.test/store/x", "header": {"Transfer-Encoding": "chunked", "X-Good": "kept-by-exeat"}}}})
    tap.equal([o["error"]["code"] for o in answer["objects"][1:]], [403, 403])
    tap.contains(answer["objects"][1]["error"]["message"], "can't be used")


@tap.test
def a_compressed_answer_and_an_error_of_the_servers(t):
    work.need("git-lfs")
    answers = [response(200, b"\x1f\x8b", [("Content-Type", TYPE), ("Content-Encoding", "gzip")]),
               response(404, '{"message":"no such repository"}', [("Content-Type", TYPE)], "Not Found")]
    server = t.use(RawServer(tls=pki.leaf("g.test"), answer=[("body",), lambda c, _: c.send(answers.pop(0))]))
    one = "curl -s -H 'Accept-Encoding: gzip' -w '%%{http_code}\\n' %s; " % batch("download", "x", 1)
    two = "curl -s -w '%%{http_code}\\n' %s" % batch("download", "x", 1)
    r = exeat.run("allow lfs https://g.test/acme/app download\n", one + two, resolve=server.resolve("g.test"), upstream_ca=pki.ca)
    tap.contains(r.out, "it is compressed")
    tap.contains(r.out, '{"message":"no such repository"}404')
    tap.equal([q.all("accept-encoding") for q in server.requests], [["identity"]] * 2)


@tap.test
def a_batch_that_can_not_be_read_is_none_that_a_word_permits(t):
    lfs = serve(t)
    url = "https://g.test/acme/app.git/info/lfs/objects/batch"
    r = run(t, lfs, "cd; head -c 1100000 /dev/zero | tr '\\0' ' ' > long; " +
            curl("-H 'Content-Type: %s' -d '{\"operation\":\"download\",\"Operation\":\"upload\"}' %s" % (TYPE, url)) +
            curl("-H 'Content-Type: %s' -d @long %s" % (TYPE, url)) + curl("-X POST " + url),
            GIT + "allow lfs https://g.test/acme/app download upload with forge\n")
    tap.equal([line for line in r.out.split("\n") if len(line) == 3], ["403"] * 3)
    r = run(t, lfs, "cd; head -c 1100000 /dev/zero | tr '\\0' ' ' > long; " +
            curl("-H 'Content-Type: %s' -d @long %s" % (TYPE, url)), GIT + "allow lfs https://g.test/acme/app with forge\n")
    tap.contains(r.out, "this long is not passed on")
    tap.equal([h for h in lfs.hits if "lfs" in h.path], [])


@tap.test
def a_client_that_goes_away_while_tokens_are_kept(t):
    lfs = serve(t)
    oid = lfs.put(b"content")
    body = json.dumps({"operation": "download", "objects": [{"oid": oid, "size": 7}]})
    r = client.run(POLICY, '''
        body = %r
        for _ in range(20):
            c = tls("g.test")
            c.send("POST /acme/app.git/info/lfs/objects/batch HTTP/1.1\\r\\nHost: g.test\\r\\nAccept: %s\\r\\n"
                   "Content-Type: %s\\r\\nContent-Length: %%d\\r\\n\\r\\n%%s" %% (len(body), body))
            if _ %% 2:
                time.sleep(0.01)
            c.close()
        c = tls("g.test")
        c.send("POST /acme/app.git/info/lfs/objects/batch HTTP/1.1\\r\\nHost: g.test\\r\\nAccept: %s\\r\\n"
               "Content-Type: %s\\r\\nContent-Length: %%d\\r\\n\\r\\n%%s" %% (len(body), body))
        report(c.answer().status)
        report(c.get("/acme/app.git/info/refs?service=git-upload-pack", "g.test").status)
    ''' % (body, TYPE, TYPE, TYPE, TYPE), vault=VAULT, env={"FORGE_TOKEN": SECRET},
        resolve=[lfs.resolve("g.test"), lfs.resolve("store.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, [200, 200])


if __name__ == "__main__":
    tap.main()
