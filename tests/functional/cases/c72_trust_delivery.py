"""C72: real clients trust the sandbox's authority with no configuration of their own, for every host that they reach.

What stands behind a host makes no difference to them: second.test has its certificate from another authority (a second
--upstream-ca), and clients still need ours alone. The system's own roots stay in every bundle.
"""
import hashlib
import json
import os
import shutil

import exeat
import tap
import work
from gitserver import GitServer
from pki import Pki
from servers import RawServer, response

pki = Pki()
second_pki = Pki("another CA")
SECOND = "second.test"
URLS = ["https://a.test/hello", "https://%s/hello" % SECOND]
BOTH = "allow GET https://a.test/**\ntunnel https://%s\n" % SECOND
HOSTS = ("a.test", "api.github.com", "crates.a.test", "go.a.test", "deb.a.test")
POLICY = "\n".join("allow GET,HEAD,POST https://%s/**" % host for host in HOSTS + (SECOND,)) + "\n"

# A crate's index entry needs the checksum of its archive; nothing ever fetches the archive here.
INDEX = json.dumps({"name": "leaf-pad", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False,
                    "cksum": hashlib.sha256(b"").hexdigest()}) + "\n"
OTHER_INDEX = INDEX.replace("leaf-pad", "right-pad")
FILES = {
    "/hello": b"hello from the origin\n",
    "/is-here/simple/": b"<html></html>",
    "/index/config.json": b'{"dl": "https://crates.a.test/dl"}',
    "/index/le/af/leaf-pad": INDEX.encode(),
    "/index/ri/gh/right-pad": OTHER_INDEX.encode(),
    "/example.com/m/@v/list": b"v1.2.3\n",
    "/example.com/m/@v/v1.2.3.info": b'{"Version": "v1.2.3", "Time": "2026-01-01T00:00:00Z"}',
    "/example.com/m/@v/v1.2.3.mod": b"module example.com/m\n",
    "/repos/acme/app": b'{"full_name": "acme/app"}',
    "/pkg": json.dumps({"name": "pkg", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "pkg", "version": "1.0.0", "dist": {"tarball": "https://a.test/pkg.tgz", "shasum": "0" * 40}}}}).encode(),
}


def serve(_connection, request):
    path = request.target.partition("?")[0]
    body = FILES.get(path)
    if body is None:
        return response(404, "no such thing\n", reason="Not Found")
    kind = "application/json" if body.startswith(b"{") else "text/plain"
    return response(200, b"" if request.method == "HEAD" else body, [("Content-Type", kind)])


def serve_once(connection, request):
    connection.send(serve(connection, request))
    connection.close("fin")


def try_client(t, command, user=None, env=None, timeout=60, **options):
    """Runs a command behind exeat with an origin for all HOSTS, and one for SECOND; returns the result and the origins."""
    origin = t.use(RawServer(serve, tls=pki.leaf(*HOSTS)))
    second = t.use(RawServer(serve, tls=second_pki.leaf(SECOND)))
    r = exeat.run(POLICY, command, resolve=[origin.resolve(h) for h in HOSTS] + [second.resolve(SECOND)],
                  upstream_ca=[pki.ca, second_pki.ca], user=user, env=env, timeout=timeout, **options)
    return r, origin, second


def gets_hello(t, command, **options):
    """The command gets /hello of a.test and of SECOND: either one that asks for both, or a function of a URL."""
    r, *origins = try_client(t, command, **options)
    tap.equal(r.out.count("hello from the origin"), 2, str(r))
    tap.equal(r.code, 0)
    for origin in origins:
        tap.equal([q.target for q in origin.requests if q.target == "/hello"], ["/hello"])
    tap.equal({v["verdict"] for v in r.verdicts()}, {"allow"})


def home_with(files):
    """A folder of the rootless user's with these files."""
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    for name, content in files.items():
        path = os.path.join(home, name)
        for folder in [path[:i] for i in range(len(home) + 1, len(path)) if path[i] == "/"]:
            if not os.path.isdir(folder):
                os.mkdir(folder)
                work.give(folder, exeat.as_user())
        work.write(path, content, user=exeat.as_user())
    return home


@tap.test
def curl(t):
    gets_hello(t, ["curl", "-sS", *URLS])


@tap.test
def wget(t):
    work.need("wget")
    gets_hello(t, ["wget", "-q", "-O", "-", *URLS])


@tap.test
def openssl(t):
    gets_hello(t, "for h in a.test second.test; do printf 'GET /hello HTTP/1.1\\r\\nHost: '$h'\\r\\nConnection: close\\r\\n\\r\\n' |"
                  " openssl s_client -quiet -verify_return_error -connect $h:443 -servername $h -verify_hostname $h; done")


@tap.test
def openssl_verifies_the_certificate_strictly(t):
    r, _, _ = try_client(t, "echo | openssl s_client -x509_strict -verify_return_error -connect a.test:443 "
                         "-servername a.test -verify_hostname a.test")
    tap.ok("Verification: OK" in r.out, r)


@tap.test
def openssl_by_the_folder_of_certificates(t):
    """openssl with the folder of certificates alone"""
    r, _, _ = try_client(t, "echo | openssl s_client -no-CAfile -CApath /etc/ssl/certs -verify_return_error "
                         "-connect a.test:443 -servername a.test")
    tap.ok("Verification: OK" in r.out, r)


PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3"


@tap.test
def python_ssl(t):
    """python's ssl, strict as from 3.13 on"""
    gets_hello(t, [PYTHON, "-c", "import ssl, urllib.request as u\nc = ssl.create_default_context()\n"
                                 "c.verify_flags |= ssl.VERIFY_X509_STRICT\n"
                                 "for url in %r: print(u.urlopen(url, context=c).read().decode())" % URLS])


def has_module(name):
    return work.sh(PYTHON, "-c", "import importlib.util as u; print(u.find_spec(%r) is not None)" % name).strip() == "True"


@tap.test
def python_requests(t):
    """python's requests with certifi"""
    if not has_module("requests"):
        tap.skip("python3-requests is not installed")
    gets_hello(t, [PYTHON, "-c", "import requests\nfor url in %r: print(requests.get(url).text)" % URLS])


@tap.test
def pip(t):
    if not has_module("pip"):
        tap.skip("python3-pip is not installed")
    r, origin, _ = try_client(t, [PYTHON, "-m", "pip", "download", "--no-input", "--disable-pip-version-check",
                               "--index-url", "https://a.test/is-here/simple", "no-such-package"])
    tap.ok("SSL" not in r.err and "certificate" not in r.err.lower(), r)
    tap.ok(any("/is-here/simple/" in q.target for q in origin.requests), r)


@tap.test
def node(t):
    work.need("node")
    gets_hello(t, ["node", "-e", "for (const u of %r) require('https').get(u, r => r.pipe(process.stdout))" % URLS])


@tap.test
def node_fetch(t):
    """node's fetch"""
    work.need("node")
    gets_hello(t, ["node", "-e", "for (const u of %r) fetch(u).then(r => r.text()).then(console.log)" % URLS])


@tap.test
def npm(t):
    work.need("npm")
    r, origin, _ = try_client(t, ["npm", "view", "pkg", "version", "--registry=https://a.test/"],
                           env={"npm_config_update_notifier": "false"})
    tap.equal(r.out.strip(), "1.0.0")
    tap.ok(origin.requests[0].target.startswith("/pkg"), r)


@tap.test
def git(t):
    servers = [t.use(GitServer(tls=p.leaf(h))) for p, h in ((pki, "a.test"), (second_pki, SECOND))]
    for server in servers:
        server.create("acme/app.git")
    r = exeat.run("allow fetch https://a.test/acme/app\n", "git ls-remote https://a.test/acme/app.git; git ls-remote https://second.test/acme/app.git",
                  resolve=[servers[0].resolve("a.test"), servers[1].resolve(SECOND)], upstream_ca=[pki.ca, second_pki.ca])
    # the second one is refused by exeat, over a connection that git has trusted
    tap.equal(r.out.count("\trefs/heads/main\n"), 1)
    tap.contains(r.err, "remote: exeat")
    tap.lacks(r.err.lower(), "certificate")
    r = exeat.run("allow fetch https://a.test/acme/app\nallow fetch https://second.test/acme/app\n",
                  "git ls-remote https://a.test/acme/app.git && git clone -q https://second.test/acme/app.git w && cat w/README",
                  resolve=[servers[0].resolve("a.test"), servers[1].resolve(SECOND)], upstream_ca=[pki.ca, second_pki.ca])
    tap.equal((r.code, r.out.count("\trefs/heads/main\n"), r.out.endswith("hello\n")), (0, 1, True))


JAVA = """
import java.net.*; import java.nio.charset.StandardCharsets;
public class Get { public static void main(String[] a) throws Exception {
  for (String url : a) System.out.print(new String(new URL(url).openStream().readAllBytes(), StandardCharsets.UTF_8)); } }
"""


@tap.test
def java(t):
    work.need("java", "javac")
    home = home_with({"Get.java": JAVA})
    gets_hello(t, ["java", "Get.java", *URLS], home=home, timeout=100)


def cargo_project(url, more=""):
    """A home whose project needs a crate of the registry at `url`, and one of second.test's; `more` for cargo's own file."""
    return home_with({
        "p/Cargo.toml": '[package]\nname = "p"\nversion = "0.1.0"\n[dependencies]\nleaf-pad = "1"\n'
                        'right-pad = { version = "1", registry = "other" }\n',
        "p/src/lib.rs": "", "p/.cargo/config.toml":
        '[source.crates-io]\nreplace-with = "here"\n[source.here]\nregistry = "sparse+%s/index/"\n'
        '[registries.other]\nindex = "sparse+https://%s/index/"\n%s' % (url, SECOND, more)})


def cargo_environment(home):
    """Sparse registries are new to Debian's cargo: such a thing it does for who says that he builds the compiler."""
    return {"CARGO_HOME": os.path.join(home, "cargo"), "RUSTC_BOOTSTRAP": "1", "CARGO_UNSTABLE_SPARSE_REGISTRY": "true"}


@tap.test
def cargo(t):
    work.need("cargo")
    home = cargo_project("https://crates.a.test")
    r, origin, second = try_client(t, ["cargo", "generate-lockfile"], env=cargo_environment(home), home=home, cwd=home + "/p", timeout=100)
    tap.equal(r.code, 0, r)
    tap.ok("/index/le/af/leaf-pad" in [q.target for q in origin.requests], r)
    tap.ok("/index/ri/gh/right-pad" in [q.target for q in second.requests], r)


@tap.test
def go(t):
    work.need("go")
    home = home_with({"p/go.mod": "module p\n"})
    r, _, _ = try_client(t, ["go", "list", "-m", "-versions", "example.com/m"], home=home, cwd=home + "/p",
                      env={"GOPROXY": "https://go.a.test", "GONOSUMDB": "*", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
                      timeout=100)
    tap.equal(r.out.strip(), "example.com/m v1.2.3")


@tap.test
def perl(t):
    """perl's LWP"""
    work.need("perl")
    if work.sh("perl", "-MLWP::Protocol::https", "-e", "print 1", check=False) != "1":
        tap.skip("LWP::Protocol::https is not installed")
    gets_hello(t, ["perl", "-MLWP::UserAgent", "-e",
                   "for (@ARGV) { $r = LWP::UserAgent->new->get($_); die $r->status_line unless $r->is_success;"
                   "print $r->decoded_content }", *URLS])


@tap.test
def apt(t):
    work.need("apt-get")
    home = home_with({"sources.list": "deb https://deb.a.test/debian stable main\n", "lists/partial/x": "", "cache/x": ""})
    options = ["-o", "Dir::Etc::SourceList=%s/sources.list" % home, "-o", "Dir::Etc::SourceParts=/dev/null",
               "-o", "Dir::State::Lists=%s/lists" % home, "-o", "Dir::Cache=%s/cache" % home, "-o", "Acquire::Retries=0"]
    r, origin, _ = try_client(t, ["apt-get", *options, "update"], home=home)
    tap.ok("certificate" not in (r.err + r.out).lower(), r)
    tap.ok(any(q.target.startswith("/debian/dists/stable/") for q in origin.requests), r)


@tap.test
def gh(t):
    work.need("gh")
    r, _, _ = try_client(t, ["gh", "api", "/repos/acme/app"], env={"GH_TOKEN": "of-the-sandbox", "NO_COLOR": "1"})
    tap.ok('"acme/app"' in r.out, r)


@tap.test
def redis_cli(t):
    """redis-cli --tls"""
    work.need("redis-cli")
    r, origin, _ = try_client(t, ["redis-cli", "--tls", "-h", "a.test", "-p", "443", "--sni", "a.test", "PING"])
    # the certificate is trusted; what is spoken inside is no HTTP, and goes nowhere
    tap.ok("certificate" not in (r.err + r.out).lower(), r)
    tap.equal(origin.requests, [])
    tap.equal([d["verdict"] for d in r.verdicts()], ["deny"])


@tap.test
def clients_that_a_file_of_the_users_has_told_whom_to_trust(t):
    """clients that a file of the user's has told whom to trust, as in a company whose network has an authority of its own"""
    corp = second_pki.ca
    files = {".npmrc": "cafile=%s\nupdate-notifier=false\n" % corp, ".config/pip/pip.conf": "[global]\ncert=%s\n" % corp,
             ".gitconfig": "[http]\n\tsslCAInfo=%s\n[http \"https://a.test\"]\n\tsslCAInfo=%s\n" % (corp, corp)}
    clients = {"npm": "npm view pkg version --registry=https://a.test/", "git": "git ls-remote https://a.test/none.git"}
    if has_module("pip"):
        clients[PYTHON] = PYTHON + " -m pip download --no-input --retries 0 --index-url https://a.test/is-here/simple no-such-package"
    for name, command in clients.items():
        if not shutil.which(name):
            continue
        home = home_with(files)
        r, origin, _ = try_client(t, command, home=home, env={"HOME": home})
        tap.lacks(r.err.lower(), "certificate", name)
        tap.lacks(r.err, "UNABLE_TO_VERIFY", name)
        tap.lacks(r.err.lower(), "npm warn", name)
        tap.ok(name == "git" and "remote: exeat" in r.err or origin.requests, "%s: %s" % (name, r))


@tap.test
def cargo_that_its_configuration_has_told_whom_to_trust(t):
    work.need("cargo")
    home = cargo_project("https://crates.a.test", '[http]\ncainfo = "%s"\n' % second_pki.ca)
    r, origin, _ = try_client(t, ["cargo", "generate-lockfile"], env=cargo_environment(home), home=home, cwd=home + "/p", timeout=100)
    tap.equal(r.code, 0, r)
    tap.ok("/index/le/af/leaf-pad" in [q.target for q in origin.requests], r)


@tap.test
def perl_whose_environment_names_a_file_of_roots(t):
    work.need("perl")
    if work.sh("perl", "-MLWP::Protocol::https", "-e", "print 1", check=False) != "1":
        tap.skip("LWP::Protocol::https is not installed")
    for name in ("PERL_LWP_SSL_CA_FILE", "HTTPS_CA_FILE"):
        gets_hello(t, ["perl", "-MLWP::UserAgent", "-e", "for (@ARGV) { $r = LWP::UserAgent->new->get($_); die $r->status_line unless $r->is_success;"
                       "print $r->decoded_content }", *URLS], env={name: second_pki.ca})


@tap.test
def ruby(t):
    """ruby's open-uri"""
    work.need("ruby")
    gets_hello(t, ["ruby", "-ropen-uri", "-e", "ARGV.each { |u| print URI.open(u).read }", *URLS])


@tap.test
def a_client_with_a_store_of_its_own_does_not_get_through(t):
    r, origin, _ = try_client(t, [PYTHON, "-c", "import ssl, urllib.request as u\n"
                               "u.urlopen('https://a.test/hello', context=ssl.create_default_context(cafile=%r))" % pki.ca])
    tap.ok(r.code != 0 and "CERTIFICATE_VERIFY_FAILED" in r.err, r)
    tap.equal(origin.requests, [])


@tap.test
def variables_name_the_roots_of_the_system_and_ours(t):
    r, _, _ = try_client(t, "grep -c BEGIN $SSL_CERT_FILE; grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; env")
    lines = r.out.split("\n")
    with open("/etc/ssl/certs/ca-certificates.crt", encoding="utf-8") as f:
        system = f.read().count("BEGIN CERT")
    tap.ok(int(lines[0]) > system, "SSL_CERT_FILE has %s certificates, the system %d" % (lines[0], system))
    tap.ok(int(lines[1]) > system, r)
    for name in ("CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT",
                 "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "npm_config_cafile", "PERL_LWP_SSL_CA_FILE"):
        tap.ok(any(line.startswith(name + "=/") for line in lines), "%s is not set" % name)
    tap.lacks(r.out + r.err, "ca-key", "where the authority's key is")


@tap.test
def a_host_that_is_passed_through_beside_one_that_is_read(t):
    """Both in one program: the first has a certificate of ours, the second its own, by an authority that the host trusts."""
    pem = work.write(os.path.join(work.folder("roots."), "roots.pem"), open(second_pki.ca, encoding="ascii").read(), 0o644)
    origin = t.use(RawServer(serve, tls=pki.leaf("a.test")))
    second = t.use(RawServer(serve_once, tls=second_pki.leaf(SECOND)))
    two, loop = "%s %s" % tuple(URLS), "for u in %s %s; do " % tuple(URLS)
    clients = {
        "curl": "curl -sS " + two,
        "python3": "python3 -c 'import sys, urllib.request as u; [print(u.urlopen(x).read().decode(), end=\"\") for x in sys.argv[1:]]' " + two,
        "node": "node -e '(async () => { for (const u of process.argv.slice(1)) process.stdout.write(await (await fetch(u)).text()) })()' " + two,
        "wget": "wget -qO- " + two,
        "openssl": "for h in a.test second.test; do printf 'GET /hello HTTP/1.1\\r\\nHost: '$h'\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client "
                   "-quiet -verify_return_error -connect $h:443 -servername $h -verify_hostname $h 2>/dev/null | tail -n 1; done",
        # git reads no page, but says of one that it is not what it asked for: behind a handshake that it trusts
        "git": loop + "git ls-remote ${u%/hello}/none.git 2>&1 | grep -q 'not found\\|remote: exeat' && echo hello from the origin; done",
    }
    if has_module("requests"):
        clients[PYTHON] = PYTHON + " -c 'import sys, requests; [print(requests.get(x).text, end=\"\") for x in sys.argv[1:]]' " + two
    clients = [c for name, c in clients.items() if shutil.which(name)]
    r = exeat.run(BOTH, "; ".join(clients), env={"SSL_CERT_FILE": pem, "NODE_EXTRA_CA_CERTS": pem},
                  resolve=[origin.resolve("a.test"), second.resolve(SECOND)], upstream_ca=pki.ca, timeout=100)
    tap.equal(r.out, "hello from the origin\n" * 2 * len(clients))
    tap.equal([v["code"] for v in r.verdicts(url="https://" + SECOND)], ["tunnelled"] * len(clients))
    tap.equal({q.target for q in second.requests}, {"/hello", "/none.git/info/refs?service=git-upload-pack"})
    tap.equal({q.target for q in origin.requests}, {"/hello"})


def both(t, command, home, env=None):
    """Behind the policy BOTH; the host trusts second.test's authority, as an operator's SSL_CERT_FILE says."""
    origin = t.use(RawServer(serve, tls=pki.leaf("a.test")))
    second = t.use(RawServer(serve, tls=second_pki.leaf(SECOND)))
    roots = work.write(os.path.join(work.folder("roots."), "roots.pem"), open(second_pki.ca, encoding="ascii").read(), 0o644)
    r = exeat.run(BOTH, command, env={"SSL_CERT_FILE": roots, **(env or {})}, home=home, cwd=home + "/p",
                  resolve=[origin.resolve("a.test"), second.resolve(SECOND)], upstream_ca=pki.ca, timeout=100)
    tap.equal(r.code, 0, r)
    tap.equal({v["code"] for v in r.verdicts(url="https://" + SECOND)}, {"tunnelled"})
    return r, {q.target for q in origin.requests}, {q.target for q in second.requests}


@tap.test
def java_beside_a_host_that_is_passed_through(t):
    work.need("java", "javac")
    r, *targets = both(t, ["java", "Get.java", *URLS], home_with({"p/Get.java": JAVA}))
    tap.equal(r.out, "hello from the origin\n" * 2)
    tap.equal(targets, [{"/hello"}] * 2)


@tap.test
def cargo_beside_a_host_that_is_passed_through(t):
    work.need("cargo")
    home = cargo_project("https://a.test")
    _, first, second = both(t, ["cargo", "generate-lockfile"], home, cargo_environment(home))
    tap.ok("/index/le/af/leaf-pad" in first and "/index/ri/gh/right-pad" in second, (first, second))


@tap.test
def go_beside_a_host_that_is_passed_through(t):
    work.need("go")
    home = home_with({"p/go.mod": "module p\n"})
    for proxy in ("https://a.test", "https://" + SECOND):
        r, *targets = both(t, "curl -sS https://%s/hello && GOPROXY=%s go list -m -versions example.com/m" % (SECOND, proxy), home,
                           {"GONOSUMDB": "*", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"})
        tap.equal(r.out, "hello from the origin\nexample.com/m v1.2.3\n")
        tap.ok("/example.com/m/@v/list" in targets[proxy != "https://a.test"], targets)


@tap.test
def children_whose_variables_were_dropped(t):
    """As sudo, su, cron and build tools start them: what is where the system's own roots are looked for has ours."""
    clients = ["curl -sS %s", "wget -qO- %s", "python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())' %s",
               "curl -sS --cacert /etc/ssl/certs/ca-certificates.crt %s"]
    clients = [c for c in clients if shutil.which(c.split()[0])]
    r, *origins = try_client(t, "; ".join("env -i PATH=/usr/bin:/bin " + c % u for c in clients for u in URLS)
                             + "; env -i PATH=/usr/bin:/bin git ls-remote https://a.test/none.git", timeout=100)
    tap.equal(r.out.count("hello from the origin\n"), 2 * len(clients), r)
    tap.lacks(r.err.lower(), "certificate")
    tap.equal([len([q for q in o.requests if q.target == "/hello"]) for o in origins], [len(clients)] * 2)


tap.main()
