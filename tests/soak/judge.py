"""What the soak is judged by, once it is over: notes of the clients and of the upstreams, the log of decisions, what Redis has,
and the samples of memory.

Each function returns (figures, findings): words for the report, and what is not as it must be.
"""
import collections
import json
import re

HELD = re.compile(r"exeat: process (\d+) holds (\d+) bytes at ([\d.]+)$")
ID = re.compile(r"\bq\d+-\d+\b")
# Of these a request that was answered has one verdict by its id; the others may be asked for more than once (git), or have no
# id in their records (a head that can't be read has no URL).
ONCE = ("http1", "http2", "denied", "websocket", "grpc")


class Records:
    """The log of decisions, by id and by the request's own id."""

    def __init__(self, path):
        self.verdicts = {}                          # id: (verdict, method, code, request's id or None)
        self.of_request = collections.defaultdict(list)  # request's id: ids
        self.outcomes = {}
        self.findings = []
        self.keys = set()                           # (event, id), as Redis must have them
        self.codes = collections.Counter()
        self.lines = self.errands = 0
        with open(path, encoding="utf-8") as f:
            for line in f:
                self._one(json.loads(line))

    def _one(self, r):
        self.lines += 1
        event = r["event"]
        if event == "gap":
            self.findings.append("records are missing: %r" % r)
            return
        key = (event, r["id"])
        if key in self.keys and event != "errand":
            self.findings.append("recorded twice: %r" % r)
        self.keys.add(key)
        if event == "verdict":
            found = ID.search(r.get("url", ""))
            self.verdicts[r["id"]] = (r["verdict"], r.get("method"), r.get("code"), found and found.group())
            self.codes[r["verdict"], r.get("code")] += 1
            if found:
                self.of_request[found.group()].append(r["id"])
        elif event == "outcome":
            self.outcomes[r["id"]] = r.get("status")
            if r["id"] not in self.verdicts:
                self.findings.append("an outcome without a verdict before it: %r" % r)
        else:
            self.errands += 1

    def check(self):
        """Every request has one outcome; what was no request (a refused connection, a name) may have none."""
        lacking = [(i, v) for i, v in self.verdicts.items() if v[1] not in (None, "DNS") and i not in self.outcomes]
        self.findings += ["no outcome: %s %r" % one for one in lacking[:20]]
        if len(lacking) > 20:
            self.findings.append("… and %d more without an outcome" % (len(lacking) - 20))
        figures = {"records": self.lines, "verdicts": len(self.verdicts), "outcomes": len(self.outcomes), "errands": self.errands}
        return figures, self.findings


class Notes:
    def __init__(self, path):
        self.intents, self.answers, self.sent = {}, collections.defaultdict(list), {}
        self.kinds = collections.Counter()
        self.killed = 0
        with open(path, encoding="utf-8") as f:
            for line in f:
                self._one(line.split())

    def _one(self, words):
        if words[0] == "I":
            self.intents[words[1]] = words[2]
            self.kinds[words[2]] += 1
        elif words[0] == "A":
            self.answers[words[1]].append((int(words[2]), words[3]))
        elif words[0] == "T":
            self.sent[words[1]] = int(words[2])
        elif words[0] == "K":
            self.killed += 1


def clients(notes, records):
    """Requests beside verdicts."""
    findings = []
    for name, ids in records.of_request.items():
        kind = notes.intents.get(name)
        if kind is None:
            findings.append("a record without a request: %s %r" % (name, records.verdicts[ids[0]]))
        elif len(ids) > 1 and kind not in ("git", "lfs"):
            findings.append("%s (%s) has %d verdicts: %r" % (name, kind, len(ids), ids))
    for name, answers in notes.answers.items():
        kind = notes.intents.get(name)
        ids = records.of_request.get(name, [])
        if kind in ONCE and len(ids) != 1:
            findings.append("%s (%s) was answered %r and has %d verdicts" % (name, kind, answers, len(ids)))
        for status, decision in answers:
            if decision != "-" and decision not in records.verdicts:
                findings.append("%s was told of decision %s, which is in no record" % (name, decision))
            if kind == "malformed" and status >= 400 and decision == "-" and not ids:
                findings.append("%s was refused with %d and has no record" % (name, status))
    for name, sent in notes.sent.items():
        if len(records.of_request.get(name, [])) != sent:
            findings.append("git sent %d requests as %s, and there are %d verdicts" % (sent, name, len(records.of_request.get(name, []))))
    figures = {"requests": sum(notes.kinds.values()), "requests by kind": dict(notes.kinds), "clients killed": notes.killed,
               "answered": len(notes.answers), "requests of git that ended by itself": sum(notes.sent.values())}
    return figures, findings


def upstreams(lines, notes, records):
    """Nothing came to an upstream that was not permitted first."""
    findings, came = [], collections.Counter()
    for line in lines:
        kind, _, target = line.partition(" ")
        found = ID.search(target)
        if found and kind != "tunnel":
            came[found.group()] += 1
    for name, times in came.items():
        ids = [i for i in records.of_request.get(name, []) if records.verdicts[i][0] == "allow"]
        if not ids:
            findings.append("%s came to an upstream, and no record permits it" % name)
        elif times > 2 and notes.intents.get(name) not in ("git", "lfs"):
            findings.append("%s came to an upstream %d times" % (name, times))
    again = sum(1 for name, times in came.items() if times > 1 and notes.intents.get(name) not in ("git", "lfs"))
    return {"requests at upstreams": sum(came.values()), "sent to upstreams again": again}, findings


def in_redis(keys, records):
    """`keys` is the list of (event, id) of the stream. A record whose confirmation was lost may be there twice."""
    unique = set(keys)
    findings = []
    for what, some in (("Redis lacks", records.keys - unique), ("Redis alone has", unique - records.keys)):
        if some:
            findings.append("%s %d records: %r …" % (what, len(some), sorted(some)[:3]))
    errands = sum(1 for event, _ in keys if event == "errand")
    return {"records in Redis": len(keys), "of these again": len(keys) - len(unique) - max(0, errands - len([k for k in unique if k[0] == "errand"]))}, findings


def slope(points):
    """Of the straight line that is nearest to these (x, y)."""
    n = len(points)
    mx, my = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    below = sum((x - mx) ** 2 for x, _ in points)
    return sum((x - mx) * (y - my) for x, y in points) / below if below else 0.0


def held(lines, processes, began):
    """What the processes said of what they have allocated, as samples: {"t", "role", "held"}, in KiB."""
    roles = {pid: role for role, pid in processes.items()}
    roles[1] = "init"  # as it knows itself
    found = [HELD.match(line) for line in lines]
    return [{"t": float(m[3]) - began, "role": roles[int(m[1])], "held": int(m[2]) / 1024} for m in found if m and int(m[1]) in roles]


def grown(points):
    """By the line through (t, KiB); and words for the report."""
    by = slope(points) * (points[-1][0] - points[0][0])
    tenth = max(1, len(points) // 10)
    first, last = (sorted(p for _, p in part)[len(part) // 2] for part in (points[:tenth], points[-tenth:]))
    return by, {"first KiB": round(first), "last KiB": round(last), "grown by fit KiB": round(by), "most KiB": round(max(p for _, p in points))}


def memory(samples, held_samples, warm_up, limits):
    """`samples` are {"t", "role", "pid", "rss", "pss", "anon", "fds"}. What a process has allocated grows by at most limits.limit KiB
    over the time after the warm-up, by the line through the samples of that; where there are none, its own memory grows by at most
    limits.limit_anonymous. (What processes share is a table of fixed size, whose pages come as they are written to.)"""
    figures, findings = {}, []
    for role in sorted(set(s["role"] for s in samples)):
        figures[role] = {"most PSS KiB": max(s["pss"] for s in samples if s["role"] == role)}
        judged = False
        for kind, some, limit in (("held", held_samples, limits.limit), ("anon", samples, limits.limit_anonymous)):
            points = [(s["t"], s[kind]) for s in some if s["role"] == role and s["t"] >= warm_up]
            if len(points) < 6:
                continue
            by, figures[role][kind] = grown(points)
            if by > limit and not judged:
                findings.append("%s (%s) grew by %d KiB in %d s (limit %d)" % (role, kind, by, points[-1][0] - points[0][0], limit))
            judged = True
    return figures, findings
