"""Runs a whole test program in a network and mount namespace of its own.

    import netns
    netns.enter(addresses=["10.9.0.1/24", "10.9.0.2/24"], resolv="nameserver 10.9.0.1\\n")

Called before anything else, at the top of the program; the program is started anew inside. There, loopback is
up and has these addresses (10.9.0.0/24 and the like reach the program's own servers, on any port, 53
included), resolv.conf says what is wanted, and nothing of this is seen outside. Without root a user
namespace is made as well.
"""
import os
import subprocess
import sys

import work

INSIDE = "EXEAT_TEST_NETNS"


def enter(addresses=(), resolv=None, hosts=None, ipv6=True):
    if INSIDE not in os.environ:
        _start()
    os.environ.pop(INSIDE, None)
    if not ipv6:
        _write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")
        _write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
    _run("ip", "link", "set", "lo", "up")
    for address in addresses:
        _run("ip", "address", "add", address, "dev", "lo", *(["nodad"] if ":" in address else []))
    for path, content in (("/etc/resolv.conf", resolv), ("/etc/hosts", hosts)):
        if content is not None:
            _lay_over(path, content)


def cut_off(sock):
    """Nothing passes on this connection any more, in neither direction, and nobody is told, as where a NAT has forgotten it."""
    ours, theirs = sock.getsockname()[1], sock.getpeername()[1]
    rules = "".join("add rule inet test out tcp sport %d tcp dport %d drop\n" % ports for ports in ((ours, theirs), (theirs, ours)))
    table = "add table inet test\nadd chain inet test out { type filter hook output priority 0; policy accept; }\n"
    subprocess.run(["nft", "-f", "-"], check=True, text=True, input=table + rules)


def _start():
    """Runs this program again in new namespaces, and ends with its status."""
    import tap
    args = ["unshare", "--net", "--mount", "--propagation", "private"]
    if os.getuid() != 0:
        args += ["--user", "--map-root-user"]
    probe = subprocess.run(args + ["true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        tap.skip_all("no namespaces for the test: " + probe.stderr.strip())
        tap.main()
    os.environ[INSIDE] = "1"
    os.execvp(args[0], args + ["--", sys.executable, os.path.abspath(sys.argv[0])] + sys.argv[1:])


def _lay_over(path, content):
    """The file's new content, by a mount, for this namespace alone."""
    new = work.write(os.path.join(work.folder("etc."), os.path.basename(path)), content)
    target = os.path.realpath(path)
    if not os.path.exists(target):
        raise AssertionError("%s is not there, nothing to mount over" % target)
    _run("mount", "--bind", new, target)


def _write(path, content):
    with open(path, "w", encoding="ascii") as f:
        f.write(content)


def _run(*args):
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("%s: %s" % (" ".join(args), done.stderr.strip()))
