"""Memory of a running exeat.

    memory.resident(sandbox.pid)                # KiB, of all its processes
"""
import os


def resident(pid):
    """KiB of memory that exeat's processes hold (not those of the command)."""
    parents, sizes = {}, {}
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%d/status" % int(name), encoding="utf-8", errors="replace") as f:
                fields = dict(line.split(":\t", 1) for line in f if ":\t" in line)
        except (ValueError, OSError):
            continue
        parents[int(name)] = int(fields["PPid"])
        if fields["Name"].strip() in ("exeat", "keeper", "scribe", "worker"):
            sizes[int(name)] = int(fields.get("RssAnon", "0 kB").split()[0])
    total = 0
    for process, size in sizes.items():
        at = process
        while at in parents and at != pid:
            at = parents[at]
        total += size if at == pid else 0
    return total
