"""Clients and servers that are hostile at random, by HTTP/1.1 and HTTP/2 on either side: what a server sees was permitted, once,
with the credential that its rule lends and no other; what a client sees is the answer to its own request; each request has one
verdict and one outcome.

EXEAT_SEED=N begins with that seed, EXEAT_SEEDS=N takes so many, EXEAT_SESSIONS=N so many connections of each."""
import collections
import json
import os
import random
import re

import client
import h2
import hostileclient
import hostileserver
import tap
from pki import Pki
from tellserver import TellServer

h2.needed(tap.skip_all)
pki = Pki()
SECRET = "SECRET-lent-to-the-sandbox"
POLICY = "".join("allow GET,HEAD,POST,PUT,DELETE https://%s.test/ok/**\nallow GET,HEAD,POST,PUT,DELETE https://%s.test/cred/** with token\n"
                 % (name, name) for name in "ab")
VAULT = "credential token\n    for     https://a.test https://b.test\n    from    env TOKEN\n    inject  bearer\n"
ONCE = ("POST",)
PERMITTED = re.compile("/(ok|cred)/")


class Judge:
    def __init__(self, r, seen, where):
        self.where = where
        self.asked = {x["ask"]: x for x in r.reports if "ask" in x}
        self.answers = [x for x in r.reports if "status" in x]
        self.decisions = r.decisions
        self.wrong = [x["wrong"] for x in r.reports + seen if "wrong" in x]
        self.heads = [x for x in seen if "target" in x]
        self.bodies = [x for x in seen if "body" in x]

    def check(self, good, *what):
        if not good:
            self.wrong.append(" ".join(str(x) for x in what))

    def upstream(self):
        """What the servers saw."""
        times = collections.Counter()
        for x in self.heads:
            asked = self.asked.get(x["name"])
            self.check(asked, "seen, and not asked for:", x)
            if not asked:
                continue
            times[x["name"]] += 1
            self.check(PERMITTED.match(asked["path"]) and x["target"] == asked["path"], "seen, and not permitted:", x, asked)
            self.check(x["method"] == ("CONNECT" if asked["kind"] == "upgrade" and x["version"] == "h2" else asked["method"]), "another method:", x, asked)
            self.check(set(x["host"]) == {asked["host"]} and x["sni"] == asked["host"], "another host:", x, asked)
            self.check(x["auth"] == (["Bearer " + SECRET] if asked["path"].startswith("/cred/") else []), "another credential:", x)
            self.check(x["lines"] and set(x["more"]) <= {"te", "upgrade"}, "fields that may not be:", x)
        for name, n in times.items():
            often = 1 if self.asked[name]["method"] in ONCE and self.asked[name]["host"] == "a.test" else 2
            self.check(n <= often, "seen %d times:" % n, self.asked[name])
        for x in self.bodies:
            asked = self.asked.get(x["name"])
            if asked:
                self.check(x["good"] and x["body"] == (asked["size"] or 0) or asked["kind"] in ("broken", "upgrade"), "another body:", x, asked)
        return times

    def records(self, times):
        """One verdict and one outcome of each."""
        verdicts, outcomes = collections.defaultdict(list), collections.Counter()
        for d in self.decisions:
            found = re.search(r"/(?:ok|cred|no)/([^/?]+)/", d.get("url") or "")
            if d["event"] == "verdict" and found:
                verdicts[found.group(1)].append(d)
            elif d["event"] == "outcome":
                outcomes[d["id"]] += 1
            self.check(SECRET not in json.dumps(d), "the secret is recorded:", d)
        for name, of in verdicts.items():
            asked = self.asked.get(name)
            self.check(asked, "recorded, and not asked for:", of)
            self.check(len(of) == 1 and outcomes[of[0]["id"]] == 1, "not one verdict and one outcome:", of, [outcomes[d["id"]] for d in of])
            if asked:
                self.check(of[0]["verdict"] == "deny" or PERMITTED.match(asked["path"]), "permitted:", of, asked)
                self.check(of[0].get("credential") == ("token" if asked["path"].startswith("/cred/") and of[0]["verdict"] == "allow" else None), "lent:", of)
        for name in times:
            self.check(verdicts[name] and verdicts[name][0]["verdict"] == "allow", "seen, and not recorded as permitted:", name, verdicts[name])
        for a in self.answers:
            if a["own"]:
                of = [d.get("url") or "" for d in self.decisions if d["id"] == a["own"][0] and d["event"] == "verdict"]
                self.check(of and ("/" + a["name"] + "/" in of[0] or of[0].count("/") == 2), "an answer to another:", a, of)
            else:
                self.check(times[a["name"]], "an answer of nobody:", a)
        return sum(1 for of in verdicts.values() if of[0]["verdict"] == "allow"), len(verdicts)


def one(t, seed, sessions):
    server = t.use(TellServer("python3", hostileserver.PROGRAM, *pki.leaf("a.test", "b.test")))
    tap.eventually(lambda: server.seen)
    pins = ["a.test:443:127.0.0.1:%d" % server.port, "b.test:443:127.0.0.1:%d" % server.seen[0]["two"]]
    code = "SEED, SESSIONS, SECRET = %d, %d, %r\n" % (seed, sessions, SECRET)
    r = client.run(POLICY, [h2.CLIENT, code + hostileclient.PROGRAM], resolve=pins, upstream_ca=pki.ca, vault=VAULT, env={"TOKEN": SECRET}, timeout=600)
    tap.eventually(lambda: any(x.get("name") == "last" and "body" in x for x in list(server.seen)), message="the last request came to nothing")
    judge = Judge(r, list(server.seen), "seed %d" % seed)
    times = judge.upstream()
    allowed, decided = judge.records(times)
    statuses = collections.Counter(a["status"] for a in judge.answers)
    print("# seed %d: %d requests, %d decided, %d permitted, %d seen by servers, %d answered (%s); %.1f s" % (
        seed, len(judge.asked), decided, allowed, sum(times.values()), len(judge.answers),
        ", ".join("%d: %d" % x for x in sorted(statuses.items())), r.seconds))
    for x in r.reports:
        if "note" in x:
            tap.note(x["note"])
    for x in judge.wrong[:10]:
        print("# " + x)
    tap.equal(judge.wrong[:10], [], judge.where)
    tap.lacks(r.err, "Sanitizer", judge.where)


@tap.test(timeout=3600)
def at_random_servers_see_what_was_permitted_and_clients_their_own_answers(t):
    first = int(os.environ.get("EXEAT_SEED", "0")) or random.randrange(1 << 30)
    print("# EXEAT_SEED=%d" % first)
    for seed in range(first, first + int(os.environ.get("EXEAT_SEEDS", "1"))):
        one(t, seed, int(os.environ.get("EXEAT_SESSIONS", "150")))


if __name__ == "__main__":
    tap.main()
