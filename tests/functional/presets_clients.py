#!/usr/bin/env python3
"""More of the ready-made policies with the clients that they are for, against upstreams that stand in for the services: what
reads is permitted, what would publish is not."""
import gzip
import hashlib
import json
import os
import re
import subprocess

import exeat
import pki
import raw
import servers
import tap
import work
from gitserver import GitServer

PKI = pki.Pki()
NOTHING = servers.response(404, "no such thing")


def preset(name):
    return os.path.join(exeat.TOP, "policy", name + ".policy")


def text_of(name):
    with open(preset(name), encoding="utf-8") as f:
        return f.read()


def hosts(name):
    """The https hosts of a preset's rules, in order; of `*.example.com` one below it."""
    found = re.findall(r"^allow\s+\S+\s+https://([^/\s:{~]+)", text_of(name), re.M)
    return list(dict.fromkeys(h.replace("*", "cdn-1") for h in found))


def stand_in(t, names, answer):
    server = t.use(raw.RawServer(tls=PKI.leaf(*names), answer=lambda _connection, request: answer(request)))
    return server, {"resolve": [server.resolve(h) for h in names], "upstream_ca": PKI.ca}


def decided(r):
    return [(v["verdict"], v["method"]) for v in r.verdicts()]


@tap.test
def maven_reads_a_parent_by_maven(t):
    work.need("mvn")
    central = hosts("maven")[0]
    pom = ('<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>demo</groupId>'
           "<artifactId>parent</artifactId><version>1</version><packaging>pom</packaging></project>")
    base = "/maven2/demo/parent/1/parent-1.pom"
    files = {base: pom, base + ".sha1": hashlib.sha1(pom.encode()).hexdigest()}
    server, options = stand_in(t, [central], lambda q: servers.response(200, files[q.target]) if q.target in files else NOTHING)
    child = pom.replace("<groupId>demo</groupId>", "<parent><groupId>demo</groupId><artifactId>parent</artifactId><version>1</version>"
                        "<relativePath/></parent>").replace("<artifactId>parent</artifactId><version>1</version><packaging>", "<artifactId>child</artifactId>"
                                                            "<packaging>")
    r = exeat.run(preset("maven"), "cat >pom.xml <<'E'\n%s\nE\nmvn -B -q -Dmaven.repo.local=$HOME/m2 validate && find m2 -name '*.pom'" % child, timeout=100,
                  **options)
    tap.equal(r.code, 0)
    tap.contains(r.out, "parent-1.pom")
    tap.equal(set(decided(r)), {("allow", "GET")})
    tap.ok(base in [q.target for q in server.requests], r)


@tap.test
def gem_installs_by_rubygems(t):
    work.need("gem")
    folder = work.folder("gem.", mode=0o755)
    work.write(os.path.join(folder, "d.gemspec"), 'Gem::Specification.new { |s| s.name = "leafpad"; s.version = "1.0.0"; s.summary = "x"; '
               's.authors = ["x"]; s.files = []; s.homepage = "https://example.com"; s.license = "MIT" }\n')

    def ruby(code):
        return subprocess.run(["ruby", "-rrubygems", "-rrubygems/package", "-rzlib", "-e", "$stdout.binmode; " + code], cwd=folder, check=True,
                              stdout=subprocess.PIPE, timeout=60).stdout

    ruby('$stdout = $stderr; Gem::Package.build(Gem::Specification.load("d.gemspec"))')
    with open(os.path.join(folder, "leafpad-1.0.0.gem"), "rb") as f:
        package = f.read()
    specs = ruby('$stdout.write(Zlib.gzip(Marshal.dump([["leafpad", Gem::Version.new("1.0.0"), "ruby"]])))')
    info = "---\n1.0.0 |checksum:%s\n" % hashlib.sha256(package).hexdigest()
    files = {"/versions": "created_at: 2020-01-01T00:00:00Z\n---\nleafpad 1.0.0 %s\n" % hashlib.md5(info.encode()).hexdigest(), "/info/leafpad": info,
             "/gems/leafpad-1.0.0.gem": package, "/specs.4.8.gz": specs, "/latest_specs.4.8.gz": specs, "/": "",
             "/quick/Marshal.4.8/leafpad-1.0.0.gemspec.rz":
             ruby('$stdout.write(Zlib::Deflate.deflate(Marshal.dump(Gem::Specification.load("d.gemspec"))))')}
    server, options = stand_in(t, hosts("rubygems"), lambda q: servers.response(200, files[q.target.split("?")[0]])
                               if q.target.split("?")[0] in files else NOTHING)
    work.give(os.path.join(folder, "leafpad-1.0.0.gem"), exeat.as_user())
    r = exeat.run(preset("rubygems"), "export GEM_HOME=$HOME/g; gem install --no-document leafpad && gem list leafpad; "
                  "GEM_HOST_API_KEY=worthless gem push %s/leafpad-1.0.0.gem" % folder, timeout=100, env={"LANG": "C.UTF-8"}, **options)
    tap.contains(r.out, "leafpad (1.0.0)")
    tap.equal([d for d in decided(r) if d[0] == "deny"], [("deny", "POST")])
    tap.equal({q.method for q in server.requests} - {"GET", "HEAD"}, set())


def image():
    """Manifest, and blobs by digest, of an image with one empty layer."""
    def digest(data):
        return "sha256:" + hashlib.sha256(data).hexdigest()
    tar = b"\0" * 1024
    layer = gzip.compress(tar)
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [digest(tar)]}}).encode()
    kind = "application/vnd.docker."
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind + "distribution.manifest.v2+json",
                           "config": {"mediaType": kind + "container.image.v1+json", "size": len(config), "digest": digest(config)},
                           "layers": [{"mediaType": kind + "image.rootfs.diff.tar.gzip", "size": len(layer), "digest": digest(layer)}]}).encode()
    return manifest, {digest(config): config, digest(layer): layer}


def registry(name, manifest, blobs):
    """How a registry answers that wants a token even for what is public, and sends blobs from elsewhere."""
    names = hosts(name)
    first, auth, storage = names[0], names[1 if name == "docker-hub" else 0], names[2 if name == "docker-hub" else 1]
    prefix = re.search(r"https://%s(/[^*\s]*)" % re.escape(storage), text_of(name)).group(1)

    def answer(q):
        path, digest = q.target.split("?")[0], q.target.split("?")[0].rsplit("/", 1)[-1]
        if path == "/token":
            return servers.response(200, '{"token":"t"}', [("Content-Type", "application/json")])
        if q.header("host") == storage:
            return servers.response(200, blobs[digest])
        if not q.header("authorization"):
            return servers.response(401, "{}", [("WWW-Authenticate", 'Bearer realm="https://%s/token",service="%s"' % (auth, first))])
        if "/manifests/" in path:
            return servers.response(200, manifest, [("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")])
        if "/blobs/" in path:
            return servers.response(307, "", [("Location", "https://%s%s%s" % (storage, prefix, digest))])
        return servers.response(200, "{}")
    return first, answer


@tap.test
def skopeo_pulls_and_does_not_push(t):
    work.need("skopeo")
    for name in ("docker-hub", "ghcr"):
        first, answer = registry(name, *image())
        server, options = stand_in(t, hosts(name), answer)
        r = exeat.run(preset(name), "skopeo --insecure-policy copy docker://%s/acme/demo dir:i && ls i && "
                      "skopeo --insecure-policy copy dir:i docker://%s/acme/demo:new" % (first, first), timeout=60, **options)
        tap.contains(r.out, "manifest.json")
        tap.ok(r.code != 0, r)
        denied = {d[1] for d in decided(r) if d[0] == "deny"}
        tap.ok(denied and denied <= {"PUT", "POST", "PATCH"}, r)
        tap.equal({q.method for q in server.requests} - {"GET", "HEAD"}, set())


@tap.test
def git_and_curl_read_by_gitlab(t):
    host, = hosts("gitlab")
    git = t.use(GitServer(tls=PKI.leaf(host), private=False))
    git.create("acme/group/app.git")
    r = exeat.run(preset("gitlab"), "git clone -q https://%s/acme/group/app.git w && cat w/README; cd w; git push -q origin HEAD:refs/heads/x" % host,
                  resolve=[git.resolve(host)], upstream_ca=PKI.ca)
    tap.equal(r.out, "hello\n")
    tap.equal(list(git.refs("acme/group/app.git")), ["refs/heads/main"])
    server, options = stand_in(t, [host], lambda q: servers.response(200, q.target))
    r = exeat.run(preset("gitlab"), "for u in /api/v4/projects/acme%%2Fgroup%%2Fapp/issues?state=opened /acme/app/-/archive/v1/app-v1.tar.gz; do "
                  "curl -sS https://%s$u; echo; done; curl -sS -o /dev/null -w '%%{http_code}' -d '{}' https://%s/api/v4/projects/1/issues" % (host, host),
                  **options)
    tap.equal(r.out, "/api/v4/projects/acme%2Fgroup%2Fapp/issues?state=opened\n/acme/app/-/archive/v1/app-v1.tar.gz\n403")
    tap.equal(len(server.requests), 2)


@tap.test
def curl_follows_to_the_large_files_by_hugging_face(t):
    names = hosts("hugging-face")
    storage = names[-1]

    def answer(q):
        if q.header("host") == storage:
            return servers.response(200, "weights")
        return servers.response(302, "", [("Location", "https://%s/repos/01/23?Signature=x" % storage)])
    _, options = stand_in(t, names, answer)
    r = exeat.run(preset("hugging-face"), "curl -sSL https://%s/acme/model/resolve/main/model.bin; "
                  "curl -sS -o /dev/null -w ' %%{http_code}' -d '{}' https://%s/api/models/acme/model/commit/main" % (names[0], names[0]), **options)
    tap.equal(r.out, "weights 403")


@tap.test
def gh_works_by_the_github_policies(t):
    work.need("gh")
    api, = hosts("github-graphql-read")

    def answer(q):
        if q.target == "/graphql":
            return servers.response(200, json.dumps({"data": {"repository": {"pullRequests": {"totalCount": 0, "nodes": [], "pageInfo": {
                "hasNextPage": False, "endCursor": ""}}, "hasIssuesEnabled": True, "issues": {"totalCount": 0, "nodes": [], "pageInfo": {
                    "hasNextPage": False, "endCursor": ""}}}}}), [("Content-Type", "application/json")])
        return servers.response(201 if q.method == "POST" else 200, '{"number":7}', [("Content-Type", "application/json")])
    server, options = stand_in(t, [api], answer)
    calls = ("pr list -R acme/app", "issue list -R acme/app", "api repos/acme/app/pulls?state=open --jq .number",
             "api -X POST repos/acme/app/pulls -f title=t -f head=fix/1 -f base=main --jq .number",
             "api -X POST repos/acme/app/issues/7/comments -f body=b --jq .number", "api -X PATCH repos/acme/app/pulls/7 -f title=u --jq .number",
             "api -X PUT repos/acme/app/pulls/7/merge", "api -X POST repos/acme/other/issues -f title=t", "pr merge 7 -R acme/app --merge")
    r = exeat.run([preset("github-pulls"), preset("github-graphql-read")], "; ".join("gh %s >o 2>&1; echo $?" % c for c in calls), sets={"repo": "acme/app"},
                  vault="credential github\n    for https://%s\n    from env T\n    inject bearer\n" % api,
                  env={"T": "SECRET-G", "GH_TOKEN": "worthless", "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1"}, timeout=50, **options)
    tap.equal([line == "0" for line in r.out.split()], [True] * 6 + [False] * 3)
    rest = [q for q in server.requests if q.target != "/graphql"]
    tap.equal({q.header("authorization") for q in rest}, {"Bearer SECRET-G"})
    tap.equal([(q.method, q.target.split("?")[0]) for q in rest],
              [("GET", "/repos/acme/app/pulls"), ("POST", "/repos/acme/app/pulls"), ("POST", "/repos/acme/app/issues/7/comments"),
               ("PATCH", "/repos/acme/app/pulls/7")])


@tap.test
def every_models_api_gets_its_credential_and_no_other_path(t):
    names = [n[:-7] for n in sorted(os.listdir(os.path.join(exeat.TOP, "policy"))) if n.endswith(".policy")]
    tried = 0
    for name in names:
        found = re.search(r"^expect allow POST\s+(https://\S+)\s+with (\S+)$", text_of(name), re.M)
        if not found or "API" not in text_of(name) or "\nlet " in text_of(name):
            continue
        url, credential = found.groups()
        tried += 1
        form = re.search(r"a header\s+(?:# )?(\S+?)\.", text_of(name).replace("\n# ", " "))
        inject = "header " + form.group(1) if form else "bearer"
        host = hosts(name)[0]
        server, options = stand_in(t, [host], lambda q: servers.response(200, "{}"))
        r = exeat.run(preset(name), "curl -sS -H 'Authorization: Bearer worthless' -d '{}' '%s'; "
                      "curl -sS -o /dev/null -w ' %%{http_code}' -d '{}' https://%s/v1/files" % (url, host), env={"KEY": "SECRET-M"},
                      vault="credential %s\n    for https://%s\n    from env KEY\n    inject %s\n" % (credential, host, inject), **options)
        tap.equal(r.out, "{} 403", name)
        request, = server.requests
        tap.contains(request.header(form.group(1) if form else "authorization"), "SECRET-M", name)
        tap.ok(form is None or request.header("authorization") is None, name)
    tap.ok(tried >= 10, tried)


if __name__ == "__main__":
    tap.main()
