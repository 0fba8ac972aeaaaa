#!/usr/bin/env python3
"""The ready-made policies with the clients they are for: what a client does when it installs is permitted, what it would
do to publish is not. Where the registry itself can't be reached an upstream stands in for it, under the names that
the policy gives."""
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import zipfile

import exeat
import pki
import raw
import servers
import tap
import work
from gitserver import GitServer

PKI = pki.Pki()
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3"
MISSING = servers.response(404, "no such thing")


def preset(name):
    return os.path.join(exeat.TOP, "policy", name + ".policy")


def hosts(name):
    """The https hosts of a preset's rules, in order."""
    with open(preset(name), encoding="utf-8") as f:
        found = re.findall(r"^allow\s+\S+\s+https://([^/\s*:]+)", f.read(), re.M)
    return list(dict.fromkeys(found))


def serve(t, name, files):
    """An upstream under all hosts of the preset, with files by "HOST/PATH"; and what `run` needs to use it."""
    def answer(_connection, request):
        body = files.get((request.header("host") or "") + request.target.split("?")[0])
        return MISSING if body is None else servers.response(200, body)
    server = t.use(raw.RawServer(tls=PKI.leaf(*hosts(name)), answer=answer))
    return server, {"resolve": [server.resolve(h) for h in hosts(name)], "upstream_ca": PKI.ca}


def permitted(r, least=1):
    tap.equal(r.code, 0, r)
    tap.equal([v for v in r.verdicts() if v["verdict"] != "allow"], [], r)
    tap.ok(len(r.verdicts()) >= least, r)


@tap.test
def pip_downloads_by_pypi(t):
    if work.sh(PYTHON, "-m", "pip", "--version", check=False).strip() == "":
        tap.skip("pip is not installed")
    index, storage = hosts("pypi")[:2]
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("demo.py", "")
        z.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        z.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("demo-1.0.dist-info/RECORD", "")
    page = '<a href="https://%s/packages/de/mo/demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>' % storage
    html = servers.response(200, page, [("Content-Type", "text/html")])
    server = t.use(raw.RawServer(tls=PKI.leaf(index, storage), answer=lambda _c, q: (
        html if q.target == "/simple/demo/" else servers.response(200, wheel.getvalue()) if q.target.endswith(".whl") else MISSING)))
    r = exeat.run(preset("pypi"), [PYTHON, "-m", "pip", "download", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "demo"],
                  resolve=[server.resolve(index), server.resolve(storage)], upstream_ca=PKI.ca, timeout=100)
    permitted(r, 2)
    tap.ok(os.path.exists(os.path.join(r.home, "demo-1.0-py3-none-any.whl")), r)


@tap.test
def go_downloads_by_go(t):
    work.need("go")
    proxy = hosts("go")[0]
    module = io.BytesIO()
    with zipfile.ZipFile(module, "w") as z:
        z.writestr("example.com/m@v1.2.3/go.mod", "module example.com/m\n")
        z.writestr("example.com/m@v1.2.3/m.go", "package m\n")
    base = proxy + "/example.com/m/@v/v1.2.3."
    _, options = serve(t, "go", {base + "info": '{"Version":"v1.2.3","Time":"2024-01-01T00:00:00Z"}',
                                 base + "mod": "module example.com/m\n", base + "zip": module.getvalue()})
    r = exeat.run(preset("go"), "mkdir p; cd p; echo 'module p' >go.mod; go mod download example.com/m@v1.2.3 && ls $HOME/go/pkg/mod/example.com",
                  env={"GONOSUMDB": "*", "GOFLAGS": "-mod=mod -modcacherw", "GOTOOLCHAIN": "local"}, timeout=100, **options)
    permitted(r, 2)
    tap.contains(r.out, "m@v1.2.3")


@tap.test
def cargo_fetches_by_crates(t):
    program = shutil.which("cargo")
    if program is None:
        tap.skip("cargo is not installed")
    user = "root" if program.startswith("/root/") else None
    if user and not work.is_root():
        tap.skip("cargo is root's")
    index, storage = hosts("crates")[:2]
    crate = io.BytesIO()
    with tarfile.open(fileobj=crate, mode="w:gz") as tar:
        for name, text in (("Cargo.toml", '[package]\nname = "leaf-pad"\nversion = "1.0.0"\n'), ("src/lib.rs", "")):
            info = tarfile.TarInfo("leaf-pad-1.0.0/" + name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    line = json.dumps({"name": "leaf-pad", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False,
                       "cksum": hashlib.sha256(crate.getvalue()).hexdigest()}) + "\n"
    _, options = serve(t, "crates", {index + "/config.json": json.dumps({"dl": "https://%s/crates" % storage, "api": "https://x.test"}),
                                     index + "/le/af/leaf-pad": line, storage + "/crates/leaf-pad/1.0.0/download": crate.getvalue()})
    home = work.folder("home.", user=exeat.as_user(user), mode=0o700)
    env = {"CARGO_HOME": os.path.join(home, "cargo"), "PATH": os.environ["PATH"]}
    if user == "root":
        env["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup"))
    r = exeat.run(preset("crates"), "mkdir -p p/src; cd p; printf '[package]\\nname = \"p\"\\nversion = \"0.1.0\"\\n[dependencies]\\nleaf-pad = \"1\"\\n' "
                  ">Cargo.toml; touch src/lib.rs; cargo fetch", user=user, home=home, env=env, timeout=100, **options)
    permitted(r, 3)


@tap.test
def npm_installs_by_npm():
    """npm install by npm.policy, from the registry itself"""
    work.need("npm")
    if "yes" not in work.sh("sh", "-c", "npm ping >/dev/null 2>&1 && echo yes || true", check=False):
        tap.skip("npm's registry is not reachable")
    r = exeat.run(preset("npm"), "echo '{\"name\":\"x\",\"version\":\"1.0.0\"}' >package.json; "
                  "npm install --no-audit --no-fund --no-update-notifier @types/ms && ls node_modules/@types/ms/package.json && "
                  "npm publish --no-update-notifier; true", timeout=100)
    tap.contains(r.out, "node_modules/@types/ms/package.json")
    tap.equal([v for v in r.verdicts() if v["verdict"] == "deny" and v["method"] == "GET"], [], r)
    tap.equal([v for v in r.verdicts() if v["verdict"] == "allow" and v["method"] not in ("GET", "HEAD")], [], r)


@tap.test(timeout=180)
def apt_updates_by_debian():
    """apt-get update by debian.policy, from the mirror itself"""
    work.need("apt-get")
    if not work.is_root():
        tap.skip("apt's tools are tried as root")
    folder = work.folder("apt.", user="root", mode=0o755)
    with open(preset("debian"), encoding="utf-8") as f:
        mirror = re.search(r"^allow\s+\S+\s+http://([^/\s]+)", f.read(), re.M).group(1)
    sources = work.write(os.path.join(folder, "list"), "deb [trusted=yes] http://%s/debian bookworm-updates main\n" % mirror, 0o644, "root")
    for name in ("state/lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, name))
    apt = ["apt-get", "-o", "Dir::Etc::SourceList=" + sources, "-o", "Dir::Etc::SourceParts=/dev/null", "-o", "Dir::State=" + folder + "/state",
           "-o", "Dir::Cache=" + folder + "/cache", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=20"]
    if "yes" not in work.sh("sh", "-c", " ".join(apt) + " update >/dev/null 2>&1 && echo yes || true", check=False):
        tap.skip("Debian's mirror is not reachable")
    for name in os.listdir(folder + "/state/lists"):
        if os.path.isfile(os.path.join(folder, "state/lists", name)):
            os.unlink(os.path.join(folder, "state/lists", name))
    r = exeat.run(preset("debian"), apt + ["update"], user="root", timeout=120)
    permitted(r)


@tap.test
def git_clones_by_github_read_and_does_not_push(t):
    host = hosts("github-read")[0]
    git = t.use(GitServer(tls=PKI.leaf(host), private=False))
    git.create("acme/app.git")
    r = exeat.run(preset("github-read"), "git clone -q https://%s/acme/app.git w && cat w/README; cd w; git push origin HEAD:refs/heads/x" % host,
                  resolve=[git.resolve(host)], upstream_ca=PKI.ca)
    tap.equal(r.out, "hello\n", r)
    tap.ok(r.code != 0, r)
    tap.equal(list(git.refs("acme/app.git")), ["refs/heads/main"])


@tap.test
def a_models_api_by_its_preset_with_the_credential(t):
    for name, inject, header in (("anthropic", "header x-api-key", "x-api-key"), ("openai", "bearer", "authorization")):
        host = hosts(name)[0]
        server = t.use(raw.RawServer(tls=PKI.leaf(host), answer=servers.response(200, "{}")))
        path = "/v1/messages" if name == "anthropic" else "/v1/responses"
        r = exeat.run(preset(name), "curl -sS -d '{}' https://%s%s; curl -sS -o /dev/null -w '%%{http_code}' -d '{}' https://%s/v1/files" % (host, path, host),
                      vault="credential %s\n    for https://%s\n    from env KEY\n    inject %s\n" % (name, host, inject),
                      env={"KEY": "SECRET-M"}, resolve=[server.resolve(host)], upstream_ca=PKI.ca)
        tap.equal(r.out, "{}403", r)
        request, = server.requests
        tap.contains(request.header(header), "SECRET-M")


if __name__ == "__main__":
    tap.main()
