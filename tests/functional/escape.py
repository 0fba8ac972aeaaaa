#!/usr/bin/env python3
"""What somebody inside tries, who is root of their own namespace: each attempt must fail, and this shows it."""
import ctypes
import os
import shutil
import socket
import subprocess
import textwrap

import box
import tap
import work

SECRET = "SECRET-behind-the-cover"


class Scene:
    """Things on the host that nobody inside may reach."""

    def __init__(self, t, user):
        owner = work.PLAIN_USER if user is None and work.account(None) is not None else "root"
        self.top = work.folder("top.")
        t.after(shutil.rmtree, self.top, ignore_errors=True)
        self.dir = os.path.join(self.top, "scene")
        os.mkdir(self.dir)
        work.give(self.dir, owner)
        self.vault = work.write(os.path.join(self.dir, "credentials"), SECRET, 0o600, owner)
        self.folder = os.path.join(self.dir, "private")
        os.mkdir(self.folder)
        work.give(self.folder, owner)
        self.inner = work.write(os.path.join(self.folder, "token"), SECRET, 0o600, owner)
        self.state = os.path.join(self.top, "state")
        os.mkdir(self.state, 0o700)
        work.give(self.state, owner)
        self.key = work.write(os.path.join(self.state, "ca-key.pem"), SECRET, 0o600, owner)
        self.unix = os.path.join(self.dir, "agent.sock")
        self.abstract = "exeat-escape-%d" % os.getpid()
        for name, listen in ((self.unix, True), ("\0" + self.abstract, True)):
            s = socket.socket(socket.AF_UNIX)
            s.bind(name)
            s.listen(8)
            t.after(s.close)
        work.give(self.unix, owner)
        os.chmod(self.unix, 0o777)
        tcp = socket.create_server(("127.0.0.1", 0))
        t.after(tcp.close)
        self.port = tcp.getsockname()[1]
        self.options = {"user": user, "state": self.state, "cover": [self.vault, self.folder],
                        "env": {"SCENE": self.dir, "VAULT": self.vault, "INNER": self.inner, "KEY": self.key,
                                "UNIX": self.unix, "ABSTRACT": self.abstract, "PORT": str(self.port),
                                "TOP": self.top}}

    def python(self, source, **more):
        return box.python(HELPERS + "    " + textwrap.dedent(source).replace("\n", "\n    ") + "\n", **{**self.options, **more})


# NEWUSER makes the plain user root of a namespace beneath; root is root already.
HELPERS = '''
    SECRET = "SECRET-behind" + "-the-cover"
    PATHS = [os.environ[n] for n in ("VAULT", "INNER", "KEY")]
    NEWNS, NEWUSER, NEWNET, NEWPID = 0x20000, 0x10000000, 0x40000000, 0x20000000
    def read(path):
        with open(path, errors="replace") as f:
            return f.read()
    def become_root(more=NEWNS):
        uid, gid = os.getuid(), os.getgid()
        call("unshare", NEWUSER | more)
        open("/proc/self/setgroups", "w").write("deny")
        open("/proc/self/uid_map", "w").write("0 %d 1" % uid)
        open("/proc/self/gid_map", "w").write("0 %d 1" % gid)
    def mount(source, target, kind=None, flags=0, data=None):
        enc = lambda s: s.encode() if s is not None else None
        return call("mount", enc(source), enc(target), enc(kind), ctypes.c_ulong(flags), enc(data))
    def umount(path, flags=0):
        return call("umount2", path.encode(), flags)
    BIND, REC, REMOUNT, PRIVATE, MOVE = 4096, 16384, 32, 1 << 18, 8192
    def leaks(label):
        """Says whether the secret shows, by name or anywhere below the scene."""
        found = []
        for path in PATHS + [os.path.join(d, f) for d, _, fs in os.walk(os.environ["TOP"]) for f in fs]:
            try:
                if SECRET in read(path):
                    found.append(path)
            except OSError:
                pass
        print("leak after %s: %s" % (label, found), flush=True)
    def forked(f):
        """In a child, so that one attempt does not spoil the next."""
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                f()
            except BaseException as e:
                print("stopped: %r" % e, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
'''


def no_leak(r, at_least):
    leaks = [line for line in r.out.splitlines() if line.startswith("leak after")]
    tap.ok(len(leaks) >= at_least, "attempts were not made")
    for line in leaks:
        tap.ok(line.endswith(": []"), line)


@box.each_user
def the_scene_shows_its_secret_without_a_sandbox(t, user):
    scene = Scene(t, user)
    name = work.PLAIN_USER if user is None and work.account(None) is not None else "root"
    for path in (scene.vault, scene.inner, scene.key):
        tap.equal(work.sh("cat", path, user=name), SECRET)


@box.each_user
def what_is_covered_stays_covered(t, user):
    r = Scene(t, user).python('''
    scene, vault, folder = os.environ["SCENE"], os.environ["VAULT"], os.path.dirname(os.environ["INNER"])
    state = os.path.dirname(os.environ["KEY"])
    leaks("nothing")
    for new in (False, True):
        def unmounting():
            if new:
                become_root()
            for path in (vault, folder, state, "/proc", "/etc/ssl/certs", "/etc/resolv.conf"):
                for flags in (0, 2, 8):
                    attempt("umount %s %d %s" % (path, flags, new), umount, path, flags)
            leaks("umount")
        def remounting():
            if new:
                become_root()
            attempt("remount %s" % new, mount, None, state, None, REMOUNT)
            attempt("remount bind %s" % new, mount, None, vault, None, REMOUNT | BIND)
            attempt("write %s" % new, open, state + "/bundle.pem", "w")
            attempt("bind parent %s" % new, mount, scene, "/mnt", None, BIND)
            leaks("bind")
            attempt("bind root %s" % new, mount, "/", "/mnt", None, BIND)
            leaks("bind root")
            attempt("move %s" % new, mount, vault, "/mnt", None, MOVE)
            attempt("tmpfs %s" % new, mount, "t", "/mnt", "tmpfs")
            for d in ("l", "u", "w", "m"):
                try:
                    os.mkdir("/mnt/" + d)
                except OSError:
                    pass
            attempt("rbind %s" % new, mount, scene, "/mnt/l", None, BIND | REC)
            attempt("overlay %s" % new, mount, "o", "/mnt/m", "overlay", 0,
                    "lowerdir=%s,upperdir=/mnt/u,workdir=/mnt/w" % scene)
            leaks("overlay")
            attempt("overlay two %s" % new, mount, "o", "/mnt/m", "overlay", 0, "lowerdir=%s:%s" % (scene, state))
            leaks("overlay two")
            attempt("open_tree %s" % new, lambda: call("syscall", 428, -100, scene.encode(), 1))
            def by_handle():
                # the folder's own handle is to be had; it is looked up beneath another mount of the file system
                handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
                ident = ctypes.c_int()
                call("name_to_handle_at", -100, scene.encode(), handle, ctypes.byref(ident), 0)
                found = []
                for base in ("/", "/usr", "/mnt/l", scene):
                    at = os.open(base, os.O_RDONLY)
                    try:
                        fd = call("open_by_handle_at", at, handle, os.O_RDONLY | os.O_DIRECTORY)
                        name = os.open("credentials", os.O_RDONLY, dir_fd=fd)
                        found.append(SECRET in os.read(name, 100).decode())
                    except OSError:
                        pass
                    os.close(at)
                print("leak after handle %s: %s" % (new, [f for f in found if f]), flush=True)
            forked(by_handle)
            attempt("chroot %s" % new, lambda: os.chroot(scene))
        forked(unmounting)
        forked(remounting)
    def rename():
        attempt("rename", os.rename, vault, vault + ".moved")
        attempt("unlink", os.unlink, vault)
        attempt("exchange", lambda: call("renameat2", -100, vault.encode(), -100, (vault + "2").encode(), 2))
        leaks("rename")
    forked(rename)
    def link():
        attempt("link", os.link, vault, scene + "/hard")
        attempt("handle", lambda: call("name_to_handle_at", -100, vault.encode(), None, None, 0))
        leaks("link")
    forked(link)
    ''', timeout=50)
    no_leak(r, 14)
    got = r.lines()
    for label, text in got.items():
        if label.startswith(("umount ", "remount ", "bind parent", "bind root", "move", "open_tree", "write")):
            tap.contains(text, "failed ", label)


@box.each_user
def other_names_of_what_is_covered_are_covered(t, user):
    if not work.is_root():
        tap.skip("needs root to prepare")
    scene = Scene(t, user)
    other = work.folder("other.")
    before = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
              'mount --bind %s %s && shift && exec "$@"' % (scene.top, other), "sh", "-"]
    if user is None:
        # prepared as root; setpriv makes the plain user of it
        before += ["setpriv", "--reuid", work.PLAIN_USER, "--regid", work.PLAIN_USER, "--clear-groups"]
    scene.options["user"] = "root"
    scene.options["env"]["TOP"] = other
    r = scene.python("""
        leaks("start")
        attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect(%r))
        print("listed:", os.listdir(%r), sorted(os.listdir(%r)))
    """ % (other + "/scene/agent.sock", other + "/scene/private", other + "/state"), before=before)
    no_leak(r, 1)
    tap.contains(r.lines()["unix"], "failed ECONNREFUSED")
    tap.equal(r.lines()["listed"], "[] []")


@box.each_user
def the_hosts_sockets_cannot_be_reached(t, user):
    scene = Scene(t, user)
    r = scene.python('''
    def unix(name):
        s = socket.socket(socket.AF_UNIX)
        s.connect(name)
    attempt("path", unix, os.environ["UNIX"])
    attempt("abstract", unix, "\\0" + os.environ["ABSTRACT"])
    attempt("tcp", lambda: socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 3))
    attempt("tcp6", lambda: socket.create_connection(("::1", int(os.environ["PORT"])), 3))
    attempt("vsock host", lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 1024)))
    attempt("vsock high", lambda: call("socket", ctypes.c_long(40 | 1 << 32), 1, 0))
    attempt("vsock syscall", lambda: call("syscall", 41, ctypes.c_long(40 | 1 << 32), 1, 0))
    attempt("bluetooth", lambda: socket.socket(31, socket.SOCK_RAW, 1))
    attempt("qrtr", lambda: socket.socket(42, socket.SOCK_DGRAM))
    attempt("io_uring", lambda: call("syscall", 425, 8, ctypes.create_string_buffer(120)))
    attempt("add_key", lambda: call("syscall", 248, b"user", b"x", b"y", 1, -3))
    attempt("request_key", lambda: call("syscall", 249, b"dns_resolver", b"a.example", b"x", -3))
    attempt("keyctl", lambda: call("syscall", 250, 0, -4, 0))
    attempt("tiocsti", lambda: call("ioctl", 0, ctypes.c_ulong(0x5412), b"x"))
    attempt("tiocsti high", lambda: call("ioctl", 0, ctypes.c_ulong(0x5412 | 1 << 32), b"x"))
    attempt("own unix", lambda: [a.close() for a in socket.socketpair()])
    def own_abstract():
        s = socket.socket(socket.AF_UNIX); s.bind("\\0mine"); s.listen()
        socket.socket(socket.AF_UNIX).connect("\\0mine")
    attempt("own abstract", own_abstract)
    ''')
    got = r.lines()
    for label in ("path", "abstract", "tcp", "tcp6"):
        tap.contains(got[label], "failed ECONNREFUSED", label)
    for label in ("vsock host", "vsock high", "vsock syscall", "bluetooth", "qrtr"):
        tap.contains(got[label], "failed EAFNOSUPPORT", label)
    for label in ("io_uring", "add_key", "request_key", "keyctl"):
        tap.contains(got[label], "failed ENOSYS", label)
    for label in ("tiocsti", "tiocsti high"):
        tap.contains(got[label], "failed EPERM", label)
    for label in ("own unix", "own abstract"):
        tap.contains(got[label], "did ", label)


# int 0x80: the system calls of 32-bit programs, which a filter for 64-bit ones alone would not see.
OLD_CALLS = '''
    import mmap
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes.fromhex("53 89f8 89f3 4189c8 89d1 4489c2 cd80 5b c3"))
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    old = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int] * 4)(address)
    libc.mmap.restype = ctypes.c_void_p
    low = libc.mmap(None, 4096, 3, 0x62, -1, 0)  # MAP_32BIT: a pointer must fit
    def old_call(*args):
        r = old(*args)
        if r < 0:
            raise OSError(-r, "")
        return r
    def old_socketcall(family):
        ctypes.memmove(low, struct.pack("3I", family, 1, 0), 12)
        return old_call(102, 1, low, 0)
    attempt("getpid", old_call, 20, 0, 0, 0)
    attempt("inet", old_call, 359, 2, 1, 0)
    attempt("vsock", old_call, 359, 40, 1, 0)
    attempt("vsock by socketcall", old_socketcall, 40)
    attempt("io_uring", old_call, 425, 8, low, 0)
    attempt("keyctl", old_call, 288, 0, -4, 0)
    attempt("tiocsti", old_call, 54, 0, 0x5412, low)
'''


@tap.test
def system_calls_of_32_bit_programs_are_no_way_round(t):
    if os.uname().machine != "x86_64":
        tap.skip("written for x86-64")
    got = Scene(t, None).python(OLD_CALLS).lines()
    if "did" not in got.get("getpid", ""):
        tap.skip("no 32-bit system calls on this kernel")
    tap.contains(got["inet"], "did ")
    for label, error in (("vsock", "EAFNOSUPPORT"), ("vsock by socketcall", "EAFNOSUPPORT"), ("io_uring", "ENOSYS"),
                         ("keyctl", "ENOSYS"), ("tiocsti", "EPERM")):
        tap.contains(got[label], "failed " + error, label)


@box.each_user
def pid_1_keeps_its_own(t, user):
    r = Scene(t, user).python('''
    def all_of(new):
        if new:
            become_root()
        for f in ("environ", "mem", "maps", "io", "stack", "auxv"):
            attempt("proc %s %s" % (f, new), lambda: open("/proc/1/" + f, "rb").read(1))
        for f in ("root", "cwd", "exe", "fd/0", "fd/3", "ns/net", "ns/user", "ns/mnt"):
            attempt("link %s %s" % (f, new), os.readlink, "/proc/1/" + f)
            attempt("open %s %s" % (f, new), os.open, "/proc/1/" + f, os.O_RDONLY)
        attempt("attach %s" % new, lambda: call("ptrace", 16, 1, 0, 0))
        attempt("seize %s" % new, lambda: call("ptrace", 0x4206, 1, 0, 0))
        def vm():
            b = ctypes.create_string_buffer(8)
            iov = (ctypes.c_void_p * 2)(ctypes.addressof(b), 8)
            remote = (ctypes.c_void_p * 2)(0x400000, 8)
            return call("syscall", 310, 1, iov, 1, remote, 1, 0)
        attempt("vm_read %s" % new, vm)
        def getfd():
            fd = os.pidfd_open(1)
            return call("syscall", 438, fd, 3, 0)
        attempt("pidfd_getfd %s" % new, getfd)
        def pidfd_setns():
            return call("setns", os.pidfd_open(1), 0x40000000)
        attempt("pidfd setns %s" % new, pidfd_setns)
        def owner():
            import fcntl
            return fcntl.ioctl(os.open("/proc/self/ns/net", os.O_RDONLY), 0xb701)
        attempt("ns owner %s" % new, owner)
    forked(lambda: all_of(False))
    forked(lambda: all_of(True))
    attempt("fds", lambda: sorted(int(f) for f in os.listdir("/proc/self/fd"))[:-1])
    attempt("pids", lambda: sorted(int(p) for p in os.listdir("/proc") if p.isdigit())[0])
    for s in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
        try:
            os.kill(1, s)
        except OSError:
            pass
    time.sleep(0.2)
    attempt("alive", lambda: read("/proc/1/stat").split(")")[1].split()[0])
    attempt("setenv", lambda: [n for n in os.environ if "AGENT" in n or "DBUS" in n])
    ''', env={"SSH_AUTH_SOCK": "/x", "DBUS_SESSION_BUS_ADDRESS": "x", "SCENE": "/", "VAULT": "/x", "INNER": "/x", "KEY": "/x",
              "TOP": "/x"})
    got = r.lines()
    tap.contains(got["fds"], "did [0, 1, 2]")
    tap.contains(got["pids"], "did 1")
    tap.ok("'S'" in got["alive"], got["alive"])
    tap.contains(got["setenv"], "did []")
    for label, text in got.items():
        if label not in ("fds", "pids", "alive", "setenv"):
            tap.contains(text, "failed ", label)
    tap.ok(len(got) > 30)


@box.each_user
def rules_and_routes_cannot_be_changed(t, user):
    r = Scene(t, user).python('''
    def all_of(new):
        if new:
            become_root()
        for label, command in (("flush", "nft flush ruleset"), ("list", "nft list ruleset | grep ."), ("delete", "nft delete table inet exeat"),
                               ("add", "nft add table inet mine"), ("route", "ip route del default"),
                               ("rule", "ip rule del pref 100"), ("table", "ip route del local default table 100"),
                               ("address", "ip address add 203.0.113.1/32 dev lo"), ("link", "ip link add type dummy"),
                               ("veth", "ip link add type veth"), ("down", "ip link set lo down"),
                               ("sysctl", "echo 1 > /proc/sys/net/ipv4/ip_forward"),
                               ("netns", "nsenter -t 1 -n true"), ("user", "nsenter -t 1 -U true"), ("mnt", "nsenter -t 1 -m true")):
            attempt("%s %s" % (label, new), shell, command)
    forked(lambda: all_of(False))
    forked(lambda: all_of(True))
    attempt("still", lambda: socket.create_connection(("1.1.1.1", 443), 3).recv(100))
    def own_namespace():
        become_root(NEWNET)
        attempt("tap", shell, "ip tuntap add dev tap0 mode tap && ip link set tap0 up")
        attempt("elsewhere", lambda: socket.create_connection(("1.1.1.1", 443), 1).recv(100))
    forked(own_namespace)
    ''')
    got = r.lines()
    tap.contains(got["still"], "DST 1.1.1.1:443 - redirected")
    tap.contains(got["elsewhere"], "failed ENETUNREACH")
    for label, text in got.items():
        if label not in ("still", "tap", "elsewhere"):
            tap.contains(text, "failed ", label)
    tap.ok(len(got) >= 30)


@box.each_user
def memory_shared_on_the_host_is_not_shared_inside(t, user):
    libc = ctypes.CDLL(None)
    key = 0x65786500 + os.getpid() % 255
    shm = libc.shmget(key, 4096, 0o1777)
    if shm < 0:
        tap.skip("no System V shared memory")
    t.after(libc.shmctl, shm, 0, None)
    r = Scene(t, user).python('attempt("shm", lambda: call("shmget", %d, 4096, 0))\n'
                              'attempt("own", lambda: call("shmget", %d, 4096, 0o1777) >= 0)' % (key, key))
    tap.contains(r.lines()["shm"], "failed ENOENT")
    tap.contains(r.lines()["own"], "did True")


@tap.test
def root_inside_does_not_rule_the_machine(t):
    if not work.is_root():
        tap.skip("needs root")
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as f:
        before = f.read()
    scene = Scene(t, "root")
    r = scene.python('''
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
                 "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state",
                 "/sys/fs/cgroup/devices/release_agent", "/sys/fs/cgroup/cgroup.procs", "/proc/irq/default_smp_affinity"):
        attempt("write " + path, lambda: os.open(path, os.O_WRONLY))
    def new_proc():
        become_root(NEWNS | NEWPID)
        pid = os.fork()
        if pid == 0:
            attempt("proc", mount, "proc", "/mnt", "proc")
            attempt("core", lambda: os.open("/mnt/sys/kernel/core_pattern", os.O_WRONLY))
            os._exit(0)
        os.waitpid(pid, 0)
    forked(new_proc)
    def new_sys():
        become_root(NEWNS | NEWNET)
        attempt("sysfs", mount, "sysfs", "/mnt", "sysfs")
        attempt("uevent", lambda: os.open("/mnt/kernel/uevent_helper", os.O_WRONLY))
    forked(new_sys)
    attempt("settings", umount, "/proc/sys")
    attempt("remount", mount, None, "/proc/sys", None, REMOUNT | BIND)
    attempt("sys rw", mount, None, "/sys", None, REMOUNT | BIND)
    attempt("dev", umount, "/dev", 2)
    attempt("devtmpfs", mount, "d", "/mnt", "devtmpfs")
    import stat
    disks = []
    for line in open("/proc/partitions").read().split("\\n")[2:]:
        if line.split():
            major, minor, _, name = line.split()
            disks.append((int(major), int(minor), name))
    for major, minor, name in disks[:2]:
        attempt("disk " + name, lambda: os.open("/dev/" + name, os.O_RDONLY))
        attempt("mknod " + name, lambda: os.mknod("/tmp/exeat-node", 0o600 | stat.S_IFBLK, os.makedev(major, minor)))
        if os.path.exists(os.environ["SCENE"] + "/disk"):
            attempt("old node " + name, lambda: os.open(os.environ["SCENE"] + "/disk", os.O_RDONLY))
    attempt("nodes", lambda: sorted(n for n in os.listdir("/dev") if stat.S_ISBLK(os.lstat("/dev/" + n).st_mode)))
    attempt("mem", lambda: os.open("/dev/mem", os.O_RDONLY))
    attempt("module", lambda: call("syscall", 175, b"x", 1, b""))
    attempt("kexec", lambda: call("syscall", 246, 0, 0, 0, 0))
    attempt("reboot", lambda: call("reboot", 0x01234567))
    attempt("swapoff", lambda: call("swapoff", b"/dev/null"))
    attempt("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))
    # what root needs works
    attempt("null", lambda: os.write(os.open("/dev/null", os.O_WRONLY), b"x"))
    attempt("random", lambda: len(os.read(os.open("/dev/urandom", os.O_RDONLY), 4)))
    attempt("pty", lambda: len(os.openpty()))
    attempt("shm", lambda: open("/dev/shm/x", "w").write("x"))
    attempt("chown", lambda: [os.chown(os.environ["SCENE"], 1, 1), os.stat(os.environ["SCENE"]).st_uid])
    attempt("user pty", lambda: shell("su -s /bin/sh -c 'python3 -c \\"import os; os.openpty()\\"' nobody"))
    attempt("su", lambda: shell("su -s /bin/sh -c 'id -u' nobody").strip())
    attempt("tmpfs", mount, "t", "/mnt", "tmpfs")
    ''', before=with_node(scene))
    got = r.lines()
    for label in ("null", "random", "pty", "user pty", "shm", "chown", "su", "tmpfs"):
        tap.contains(got.pop(label), "did ", label)
    tap.contains(got.pop("nodes"), "did []")
    if got.pop("sysfs").startswith("did"):
        tap.contains(got["uevent"], "failed EROFS")
    for label, text in got.items():
        tap.contains(text, "failed ", label)
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as f:
        tap.equal(f.read(), before)


def with_node(scene):
    """A node of the disk outside of /dev, as a careless chroot has."""
    return ["sh", "-c", "mknod %s/disk b $(awk 'NR==3{print $1, $2}' /proc/partitions); exec \"$@\"" % scene.dir, "sh"]


@tap.test
def a_nested_container_works_inside():
    work.need("bwrap")
    r = box.run("bwrap --ro-bind / / --proc /proc --dev /dev --unshare-pid --tmpfs /tmp sh -c 'echo in; cat /etc/resolv.conf'")
    tap.contains(r.out, "in\n# exeat")


@tap.test
def a_working_directory_that_is_covered_starts_nothing(t):
    scene = Scene(t, None)
    for path in (scene.folder, scene.state):
        r = box.run("echo started; ls", cwd=path, **scene.options)
        tap.equal((r.code, r.out), (125, ""))
        tap.contains(r.err, "working directory")


@tap.test
def a_directory_as_descriptor_starts_nothing():
    fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        r = box.run("echo started", stdin=fd)
    finally:
        os.close(fd)
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(r.err, "descriptor 0 is a directory")


@tap.test
def other_descriptors_stay_outside():
    fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    high = os.dup2(fd, 77, inheritable=True)
    try:
        r = box.run("ls /proc/self/fd", pass_fds=[high])
    finally:
        os.close(high)
        os.close(fd)
    tap.equal(r.out.split()[:3], ["0", "1", "2"])
    tap.lacks(r.out, "77")


@tap.test
def an_agent_of_the_user_is_out_of_reach(t):
    work.need("ssh-agent", "ssh-add")
    user = work.PLAIN_USER if work.account(None) is not None else None
    folder = work.folder("agent.", user=user or "root", mode=0o700)
    sock = os.path.join(folder, "agent")
    agent = work.popen(["ssh-agent", "-D", "-a", sock], user=user or "root", stdout=subprocess.DEVNULL)
    t.after(work.end, agent)
    tap.eventually(lambda: os.path.exists(sock))
    tap.contains(work.sh("ssh-add", "-l", env={"SSH_AUTH_SOCK": sock, "PATH": os.environ["PATH"]}, user=user or "root", check=False), "no identities")
    r = box.run("SSH_AUTH_SOCK=%s ssh-add -l" % sock, env={"SSH_AUTH_SOCK": sock})
    tap.ok(r.code == 2, "the agent answered")
    r = box.run("echo [$SSH_AUTH_SOCK]", env={"SSH_AUTH_SOCK": sock})
    tap.equal(r.out, "[]\n")


shutil.which("python3") or tap.skip_all("python3 is not in the path")
tap.main()
