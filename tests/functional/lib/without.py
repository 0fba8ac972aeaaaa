"""A host that lacks something: words before a command, in which a system call fails.

    without.ipv6()             # socket(AF_INET6) -> EAFNOSUPPORT
    without.tproxy()           # TCP is led by NAT, as where the kernel has no TPROXY
    without.user_namespaces()  # clone(CLONE_NEWUSER) -> EPERM
    without.call(NUMBER, ARGUMENT, MASK, ERRNO)   # if the first argument & MASK is ARGUMENT, or the one of that index
"""
import errno
import os

import tap
import work

# A classic BPF program, loaded by prctl; what it runs inherits it. no_new_privs comes with it.
SOURCE = '''
import ctypes, os, struct, sys
NR, ARG, MASK, ERRNO, INDEX = (int(x, 0) for x in sys.argv[1:6])
code = [(0x20, 0, 0, 0), (0x15, 0, 3, NR), (0x20, 0, 0, 16 + 8 * INDEX), (0x54, 0, 0, MASK), (0x15, 1, 0, ARG),
        (0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x00050000 | ERRNO)]
packed = b"".join(struct.pack("HBBI", *c) for c in code)
memory = ctypes.create_string_buffer(packed)
class Prog(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("p", ctypes.c_void_p)]
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
prog = Prog(len(code), ctypes.addressof(memory))
if libc.prctl(22, 2, ctypes.byref(prog), 0, 0):
    sys.exit("no seccomp")
os.execvp(sys.argv[6], sys.argv[6:])
'''

CLONE, SOCKET, MOUNT, SECCOMP, SETSOCKOPT = 56, 41, 165, 317, 54


def call(number, argument, mask, error, index=0):
    if os.uname().machine != "x86_64":
        tap.skip("written for x86-64")
    path = work.write(os.path.join(work.folder(), "without.py"), SOURCE)
    return ["python3", path, str(number), str(argument), str(mask), str(error), str(index)]


def tproxy():
    """IP_TRANSPARENT can't be set."""
    return call(SETSOCKOPT, 19, 0xffffffff, errno.EPERM, index=2)


def ipv6():
    return call(SOCKET, 10, 0xffffffff, errno.EAFNOSUPPORT)


def netlink():
    return call(SOCKET, 16, 0xffffffff, errno.EPERM)


def netfilter():
    """socket(AF_NETLINK, .., NETLINK_NETFILTER) -> EPROTONOSUPPORT, as from a kernel that has no nftables. The protocol is looked at alone."""
    return call(SOCKET, 12, 0xffffffff, errno.EPROTONOSUPPORT, index=2)


def user_namespaces():
    return call(CLONE, 0x10000000, 0x10000000, errno.EPERM)


def mounts():
    return call(MOUNT, 0, 0, errno.EPERM)


def seccomp():
    return call(SECCOMP, 1, 0xffffffff, errno.EINVAL)
