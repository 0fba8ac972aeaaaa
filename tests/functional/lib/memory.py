"""Memory of a running exeat.

    memory.resident(sandbox.pid)                # KiB, of all its processes
"""


def resident(pid):
    """KiB of memory that exeat's processes hold (not those of the command)."""
    total, left = 0, [pid]
    while left:
        process = left.pop()
        try:
            with open("/proc/%d/status" % process, encoding="utf-8", errors="replace") as f:
                fields = dict(line.split(":\t", 1) for line in f if ":\t" in line)
            with open("/proc/%d/task/%d/children" % (process, process), encoding="ascii") as f:
                left += [int(child) for child in f.read().split()]
        except OSError:
            continue
        if fields["Name"].strip() in ("exeat", "keeper", "scribe", "worker"):
            total += int(fields.get("RssAnon", "0 kB").split()[0])
    return total
