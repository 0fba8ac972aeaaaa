"""The proxies that are measured side by side: how each is started, which processes it has, how load gets through it.

All terminate TLS on both sides and verify the origin. exeat judges each request by a policy of 1,000 rules, puts a credential
in and records every decision; the others do neither. haproxy and nginx have one certificate for all names, which they are
given, and one origin behind all of them; exeat, sslsplit and squid make one for each. What the origins cost alone is seen by
a second haproxy, "haproxy-sni": it has that certificate too, but a connection made for one name is not used for another.
(haproxy's own generate-certificates is not in it: 2.6 with OpenSSL 3.0 closes such connections after the handshake.)
"""
import glob
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.environ.get("TOP_SRCDIR") or os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(TOP, "tests/functional/lib"))
import pki  # noqa: E402
import work  # noqa: E402

BUILD = os.environ.get("TOP_BUILDDIR") or os.path.join(TOP, "build")
EXEAT = os.environ.get("EXEAT") or os.path.join(BUILD, "exeat")
LOAD = os.environ.get("BENCH_LOAD") or os.path.join(BUILD, "tests/bench/load")
ORIGIN = os.environ.get("BENCH_ORIGIN") or os.path.join(BUILD, "tests/bench/origin")
TICK = os.sysconf("SC_CLK_TCK")
LIMIT = 120  # seconds for one piece of work
IDLE = 5  # seconds without a byte, until a connection counts as idle
CPUS = sorted(os.sched_getaffinity(0))
PROXY_CPUS, OTHER_CPUS = ({CPUS[0]}, set(CPUS[1:])) if len(CPUS) > 1 else (set(CPUS), set(CPUS))


class CannotTakePart(Exception):
    """The proxy is not installed, or does not start; the text says which."""


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


def tree(pid):
    return [pid] + [q for p in children(pid) for q in tree(p)]


def role(pid):
    with open("/proc/%d/cmdline" % pid, "rb") as f:
        return f.read().replace(b"\0", b" ").decode("utf-8", "replace")


def cpu_seconds(pids):
    total = 0.0
    for pid in pids:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICK
    # ticks are coarse: schedstat counts nanoseconds, where the kernel has it
    fine = 0
    for pid in pids:
        for task in os.listdir("/proc/%d/task" % pid):
            try:
                with open("/proc/%d/task/%s/schedstat" % (pid, task), encoding="ascii") as f:
                    fine += int(f.read().split()[0])
            except OSError:
                return total
    return fine / 1e9 if fine else total


def pss_kib(pids):
    total = 0
    for pid in pids:
        with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    return total


def pin(pids, cpus):
    for pid in pids:
        for task in os.listdir("/proc/%d/task" % pid):
            os.sched_setaffinity(int(task), cpus)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Calls:
    """Counts the system calls of processes while load runs, by strace. Its own cost falls on them, so nothing else is measured."""

    def __init__(self, pids):
        self.out = tempfile.NamedTemporaryFile(mode="r", prefix="calls.")
        args = ["strace", "-c", "-f", "-o", self.out.name]
        for pid in pids:
            args += ["-p", str(pid)]
        self.process = subprocess.Popen(args, stderr=subprocess.PIPE, text=True)
        for _ in pids:
            line = self.process.stderr.readline()
            if "attached" not in line:
                self.process.kill()
                raise CannotTakePart("strace: %s" % line.strip())

    def end(self):
        """{call: number}."""
        self.process.send_signal(2)
        self.process.wait(30)
        found = {}
        for line in self.out:
            words = line.split()
            if len(words) >= 5 and words[0][0].isdigit() and words[-1] != "total":
                found[words[-1]] = int(words[3])
        self.out.close()
        return found


class Proxy:
    """A proxy under load: `measure` runs load and returns its report with the proxy's CPU seconds and memory."""

    name = "?"
    program = None
    http2 = False  # to clients
    share = 1  # of the work that the others do: figures are rates
    env = {}

    def __init__(self, bench):
        self.bench = bench
        self.process = None
        self.port = 0
        if self.program and shutil.which(self.program) is None:
            raise CannotTakePart("%s is not installed" % self.program)

    def start(self, args, *, ready=None):
        """Starts the proxy and waits until it listens."""
        self.said = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(args, stdout=self.said, stderr=subprocess.STDOUT, cwd=self.bench.home)
        for _ in range(400):
            if self.process.poll() is not None:
                self.said.seek(0)
                raise CannotTakePart("%s ends at once: %s" % (self.name, self.said.read()[-300:].strip()))
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise CannotTakePart("%s does not listen" % self.name)

    def command(self, load):
        """The whole command that runs `load` through the proxy."""
        return load

    def pids(self, load):
        """The proxy's processes; `load` is that of the command."""
        return tree(self.process.pid)

    def all_pids(self, load):
        """All that it takes, for memory."""
        return self.pids(load)

    def where(self):
        return ["127.0.0.1", str(self.port)]

    def measure(self, mode, connections, amount, size, *, name="a.test", cpus=None, calls=False):
        load = [LOAD, mode, *self.where(), name, str(connections), str(amount), str(size)]
        env = {"PATH": os.environ["PATH"], "HOME": self.bench.home, "SSL_CERT_FILE": self.bench.client_roots, **self.env}
        # one that stands still is ended, and its report empty
        watch = threading.Timer(LIMIT, lambda: process.kill())
        others = OTHER_CPUS if cpus is None else set(CPUS) - cpus
        process = subprocess.Popen(self.command(load), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=env, preexec_fn=lambda: os.sched_setaffinity(0, others))
        watch.start()
        try:
            if process.stdout.readline() != "ready\n":
                raise CannotTakePart("the load did not start")
            pids = self.pids(process.pid)
            pin(pids, cpus or PROXY_CPUS)
            if mode.startswith("idle"):
                time.sleep(IDLE)
            memory = pss_kib(self.all_pids(process.pid))
            counter = Calls(pids) if calls else None
            before = cpu_seconds(pids)
            process.stdin.write("\n")
            process.stdin.flush()
            said = process.stdout.readline()
            if not said:
                raise CannotTakePart("it stands still, or takes longer than %d s" % LIMIT)
            report = json.loads(said)
            report["cpu"] = cpu_seconds(pids) - before
            report["pss_kib"] = memory
            report["calls"] = counter.end() if counter else {}
            process.stdin.write("\n")
            process.stdin.close()
            process.wait(60)
        finally:
            watch.cancel()
            work.end(process)
        if report["failed"]:
            raise CannotTakePart("%d of %d requests failed" % (report["failed"], report["requests"]))
        return report

    def stop(self):
        if self.process:
            work.end(self.process)


class Direct(Proxy):
    """No proxy: what latency is measured against."""

    name = "direct"

    def __init__(self, bench):
        super().__init__(bench)
        self.port = bench.origin_port

    def pids(self, load):
        return []


class Exeat(Proxy):
    name = "exeat"
    http2 = True

    def __init__(self, bench, workers=1, origin_port=0):
        super().__init__(bench)
        self.workers = workers
        self.origin_port = origin_port or bench.origin_port

    def where(self):
        return ["-", "443"]

    def serving(self):
        b = self.bench
        return ["--vault", b.vault, "--state", os.path.join(b.home, "state"), "--log", os.path.join(b.home, "log"),
                "--resolve", "*:443:127.0.0.1:%d" % self.origin_port, "--upstream-ca", b.pki.ca,
                "--workers", str(self.workers), "-q"]

    def command(self, load):
        return [EXEAT, "run", "-p", self.bench.policy] + self.serving() + ["--"] + load

    def serve(self, env):
        """A service, when it is ready."""
        socket = os.path.join(self.bench.home, "state", "service.sock")
        process = subprocess.Popen([EXEAT, "serve"] + self.serving(), env=env)
        while not os.path.exists(socket):
            if process.poll() is not None:
                raise SystemExit("exeat serve has failed")
            time.sleep(0.01)
        return process

    def joining(self, load):
        """The same as command() with a service."""
        return [EXEAT, "run", "--service", "-p", self.bench.policy, "--state", os.path.join(self.bench.home, "state"), "--"] + load

    def ready(self, running, command):
        """Waits until all of these run their command."""
        for p in running:
            while not any(role(q).startswith(command) for q in tree(p.pid)):
                if p.poll() is not None:
                    raise SystemExit("a sandbox has failed")
                time.sleep(0.01)

    def pids(self, load):
        # init and what runs in the sandbox are not the proxy
        mine = [p for p in children(load) if "init" not in role(p)]
        return [load] + mine

    def all_pids(self, load):
        return [load] + children(load)


class Haproxy(Proxy):
    name = "haproxy"
    program = "haproxy"
    http2 = True

    origin = "sni str(a.test) verifyhost a.test"

    def __init__(self, bench, origin_port=0):
        super().__init__(bench)
        self.port = free_port()
        config = work.write(os.path.join(bench.home, "%s.%d.cfg" % (self.name, self.port)), """
global
    nbthread 1
    maxconn 6000
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode http
    timeout connect 60s
    timeout client 300s
    timeout server 300s
    http-reuse always
frontend in
    bind 127.0.0.1:%d ssl crt %s alpn h2,http/1.1
    default_backend out
backend out
    server a 127.0.0.1:%d ssl verify required ca-file %s %s pool-max-conn 1000
""" % (self.port, bench.own_pem, origin_port or bench.origin_port, bench.pki.ca, self.origin))
        self.start(["haproxy", "-db", "-f", config])


class HaproxySni(Haproxy):
    """The origin is asked under the client's name, and its certificate must have it: as with exeat, who may not mix them."""

    name = "haproxy-sni"
    origin = "sni ssl_fc_sni"


class HaproxyHttp2(Haproxy):
    """… and by HTTP/2, where the origin speaks it."""

    name = "haproxy-h2"
    origin = Haproxy.origin + " alpn h2,http/1.1"


class NginxProgram(Proxy):
    """What nginx serves, over HTTP/2 where that is asked for: `server` says it, and `more` what else there is."""

    program = "nginx"

    def serve(self, bench, folder, server, more="", **words):
        self.port = free_port()
        words.update(folder=folder, port=self.port, pem=bench.own_pem, user="root" if work.is_root() else "nobody")
        config = work.write(os.path.join(folder, "nginx.conf"), ("""
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid %(folder)s/pid;
error_log %(folder)s/errors crit;
user %(user)s;
events { worker_connections 12000; }
http {
    access_log off;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    keepalive_timeout 300s;
    keepalive_requests 100000000;
    tcp_nodelay on;
""" + more + """
    server {
        listen 127.0.0.1:%(port)d ssl http2;
        ssl_certificate %(pem)s;
        ssl_certificate_key %(pem)s;
""" + server + """
    }
}
""") % words)
        self.start(["nginx", "-c", config, "-p", folder, "-e", os.path.join(folder, "errors")])


class Http2Origin(NginxProgram):
    """No proxy either: an origin that chooses HTTP/2 by ALPN where it is offered, whose answers are files: GET /N is
    answered with N bytes."""

    name = "nginx, the origin of HTTP/2,"

    def __init__(self, bench, sizes):
        super().__init__(bench)
        folder = os.path.join(bench.home, "origin")
        os.mkdir(folder)
        for size in sizes:
            work.write(os.path.join(folder, str(size)), "0" * size)
        self.serve(bench, folder, "root %(folder)s;", "open_file_cache max=10;")
        pin(tree(self.process.pid), OTHER_CPUS)


class Nginx(NginxProgram):
    name = "nginx"
    http2 = True

    def __init__(self, bench):
        super().__init__(bench)
        folder = os.path.join(bench.home, "nginx")
        os.mkdir(folder)
        self.serve(bench, folder, """
        location / {
            proxy_pass https://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_request_buffering off;
            proxy_max_temp_file_size 0;
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate %(ca)s;
            proxy_ssl_name a.test;
            proxy_ssl_server_name on;
        }
""", """
    client_max_body_size 0;
    upstream origin {
        server 127.0.0.1:%(origin)d;
        keepalive 1000;
        keepalive_requests 100000000;
    }
""", origin=bench.origin_port, ca=bench.pki.ca)


class Sslsplit(Proxy):
    name = "sslsplit"
    program = "sslsplit"

    def __init__(self, bench):
        super().__init__(bench)
        self.port = free_port()
        self.start(["sslsplit", "-k", bench.pki.key, "-c", bench.pki.ca, "-P", "https", "127.0.0.1", str(self.port),
                    "127.0.0.1", str(bench.origin_port)])


class Squid(Proxy):
    """Bumps what comes by CONNECT, with a certificate for the name that is asked for."""

    name = "squid"
    program = "squid"
    share = 10

    def __init__(self, bench):
        super().__init__(bench)
        maker = (glob.glob("/usr/lib/squid/security_file_certgen") + [""])[0]
        if not maker:
            raise CannotTakePart("squid is built without ssl_bump (Debian: squid-openssl)")
        self.port = free_port()
        # squid leaves root for a user of its own
        folder = tempfile.mkdtemp(prefix="squid.", dir=bench.home)
        pem = work.write(os.path.join(folder, "ca.pem"), open(bench.pki.ca, encoding="ascii").read() +
                         open(bench.pki.key, encoding="ascii").read())
        roots = work.write(os.path.join(folder, "roots.pem"), open(bench.pki.ca, encoding="ascii").read())
        certificates = os.path.join(folder, "certificates")
        work.sh(maker, "-c", "-s", certificates, "-M", "64MB")
        config = work.write(os.path.join(folder, "squid.conf"), """
http_port 127.0.0.1:%(port)d ssl-bump generate-host-certificates=on dynamic_cert_mem_cache_size=64MB tls-cert=%(pem)s
sslcrtd_program %(maker)s -s %(certificates)s -M 64MB
sslcrtd_children 1 startup=1
ssl_bump client-first all
tls_outgoing_options cafile=%(ca)s
cache_peer 127.0.0.1 parent %(origin)d 0 originserver no-query no-digest tls tls-cafile=%(ca)s ssldomain=a.test
never_direct allow all
pinger_enable off
http_access allow all
cache deny all
cache_mem 0 MB
memory_pools off
access_log none
cache_log %(folder)s/log
pid_filename %(folder)s/pid
coredump_dir %(folder)s
netdb_filename none
shutdown_lifetime 0 seconds
server_persistent_connections on
client_persistent_connections on
pipeline_prefetch 0
max_filedescriptors 16384
""" % {"port": self.port, "pem": pem, "maker": maker, "certificates": certificates, "ca": roots, "folder": folder,
            "origin": bench.origin_port})
        if work.is_root():
            subprocess.run(["chown", "-R", "proxy", folder], check=False)
        self.env = {"LOAD_CONNECT": "443"}
        self.start(["squid", "-N", "-f", config])


class Bench:
    """What all measure: the origin, its authority, and the policy."""

    def __init__(self):
        self.home = tempfile.mkdtemp()
        os.chmod(self.home, 0o755)
        self.pki = pki.Pki()
        cert, key = self.pki.leaf("a.test", "*.n.test", "IP:127.0.0.1")
        self.own_pem = os.path.join(self.home, "own.pem")
        with open(self.own_pem, "wb") as out:
            for part in (cert, key):
                with open(part, "rb") as f:
                    out.write(f.read())
        self.origin = subprocess.Popen([ORIGIN, cert, key], stdout=subprocess.PIPE, text=True,
                                       preexec_fn=lambda: os.sched_setaffinity(0, OTHER_CPUS))
        self.origin_port = int(self.origin.stdout.readline())
        self.client_roots = self.pki.ca
        rules = ["allow GET https://h%d.test/p/%d/**" % (i % 200, i) for i in range(1000)]
        rules.append("allow GET,POST https://a.test/** with token")
        rules.append("allow GET https://*.n.test/**")  # a credential goes to no pattern of hosts
        self.policy = work.write(os.path.join(self.home, "bench.policy"), "\n".join(rules) + "\n")
        work.write(os.path.join(self.home, "token"), "SECRET-OF-THE-BENCH\n", 0o600)
        self.vault = work.write(os.path.join(self.home, "credentials"), "credential token\n    for https://a.test\n"
                                "    from file token\n    inject bearer\n", 0o600)

    def stop(self):
        work.end(self.origin)
        shutil.rmtree(self.home, ignore_errors=True)
