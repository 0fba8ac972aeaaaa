"""The policy language on the wire: conditions on bodies, limits, max-body, ask, private addresses."""
import gzip
import json
import os
import shutil

import client
import tap
from pki import Pki
from servers import RawServer, response

pki = Pki()

POLICY = '''
allow POST https://a.test/json   where json base == "main"
allow POST https://a.test/small  max-body 64KiB where json base == "main"
allow POST https://a.test/deny
deny  POST https://a.test/deny   where json role == admin
allow GET,POST https://a.test/graphql where graphql operation == query
allow GET,POST https://a.test/limit limit 3/d
allow POST https://a.test/max    max-body 1KiB
ask   POST https://a.test/ask    note "releases are looked at"
allow GET  https://a.test/head   where header X-Kind ~ (a|b)+ and query ref == main
'''

CURL = '''
def curl(*words, data=None):
    p = subprocess.run(["curl", "-sS", "-m", "20", "-w", "\\n%{http_code}", *words], input=data,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    body, _, status = p.stdout.decode("latin-1").rpartition("\\n")
    return [int(status), body]

def post(path, body, *words, type="application/json"):
    if isinstance(body, str):
        body = body.encode()
    return curl("-H", "Content-Type: " + type, "--data-binary", "@-", *words, "https://a.test" + path, data=body)
'''


ANSWER = [("body",), response(200, "ok")]


def through(t, code, policy=POLICY):
    server = t.use(RawServer(ANSWER, tls=pki.leaf("a.test")))
    r = client.run(policy, [CURL, code], resolve=[server.resolve("a.test")],
                   upstream_ca=pki.ca)
    return r, server


def statuses(r):
    return [report[0] for report in r.reports]


@tap.test
def a_condition_on_json_decides_and_the_body_arrives_whole(t):
    good = json.dumps({"base": "main", "fill": "x" * 300000})
    r, server = through(t, '''
        report(post("/json", %r))
        report(post("/json", %r, "-H", "Transfer-Encoding: chunked"))
        report(post("/json", '{"base":"other"}'))
    ''' % (good, good))
    tap.equal(statuses(r), [200, 200, 403])
    tap.equal([q.body.decode() for q in server.requests], [good, good])
    tap.ok('base == "main"' in r.reports[2][1], r.reports[2])
    tap.equal(r.verdict(verdict="deny")["reason"].count("base"), 1)


@tap.test
def what_can_not_be_read_for_certain_is_no_match(t):
    packed = gzip.compress(b'{"base":"main"}')
    r, server = through(t, '''
        report(post("/json", '{"base":"main","base":"main"}'))
        report(post("/json", '{"base":"main","BASE":"x"}'))
        report(post("/json", '{"base":["main"]}'))
        report(post("/json", '{"base":"main"'))
        report(post("/json", '{"base":"main"}', type="text/plain"))
        report(post("/json", '{"base":"main"}', type="application/json; charset=utf-16"))
        report(post("/json", %r, "-H", "Content-Encoding: gzip"))
        report(post("/json", ""))
    ''' % packed)
    tap.equal(statuses(r), [403] * 8)
    tap.equal(server.requests, [])


@tap.test
def the_same_is_a_match_for_a_deny(t):
    packed = gzip.compress(b'{"role":"user"}')
    r, server = through(t, '''
        report(post("/deny", '{"role":"user"}'))
        report(post("/deny", '{}'))
        report(post("/deny", '{"role":"admin"}'))
        report(post("/deny", '{"role":"user","role":"admin"}'))
        report(post("/deny", '{"ROLE":"admin"}'))
        report(post("/deny", 'role=user', type="application/x-www-form-urlencoded"))
        report(post("/deny", %r, "-H", "Content-Encoding: gzip"))
    ''' % packed)
    tap.equal(statuses(r), [200, 200, 403, 403, 403, 403, 403])
    tap.equal(len(server.requests), 2)


@tap.test
def a_body_over_the_limit_is_not_held(t):
    r, server = through(t, '''
        big = json.dumps({"base": "main", "fill": "x" * 1100000})
        report(post("/json", big))
        report(post("/json", big, "-H", "Transfer-Encoding: chunked", "-H", "Expect:"))
        report(post("/small", json.dumps({"base": "main", "fill": "x" * 60000})))
        report(post("/small", json.dumps({"base": "main", "fill": "x" * 70000})))
        report(post("/deny", '{"role":"user","fill":"' + "x" * 1100000 + '"}'))
    ''')
    tap.equal(statuses(r), [403, 403, 200, 403, 403])
    tap.equal([len(q.body) for q in server.requests], [60000 + len('{"base": "main", "fill": ""}')])


@tap.test
def a_limit_answers_429_and_says_when_to_come_again(t):
    r, server = through(t, '''
        for _ in range(4):
            report(curl("https://a.test/limit"))
        report(curl("-i", "https://a.test/limit"))
    ''')
    tap.equal(statuses(r), [200, 200, 200, 429, 429])
    wait = [line.split(":")[1] for line in r.reports[4][1].lower().split("\r\n") if line.startswith("retry-after")]
    tap.ok(len(wait) == 1 and 20000 < int(wait[0]) <= 28800, r.reports[4])
    tap.equal(len(server.requests), 3)
    tap.equal(["permits 3 requests a day" in v["reason"] for v in r.verdicts(verdict="deny")], [True, True])


@tap.test
def a_limit_counts_for_all_workers_together(t):
    server = t.use(RawServer(ANSWER, tls=pki.leaf("a.test")))
    r = client.run(POLICY, [CURL, '''
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            report(sorted(pool.map(lambda _: curl("https://a.test/limit")[0], range(32))))
    '''], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, workers=4)
    tap.equal(r.reports, [[200] * 3 + [429] * 29])
    tap.equal(len(server.requests), 3)


@tap.test
def bodies_that_were_judged_are_held_no_more(t):
    """Bodies that were judged are held no more: of those that wait there may be 64 MiB in a sandbox"""
    server = t.use(RawServer(answer=ANSWER, tls=pki.leaf("a.test")))
    r = client.run(POLICY, '''
        c = tls("a.test")
        body = b'{"base": "main", "more": "' + b"x" * 1000000 + b'"}'
        head = b"POST /json HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
        def post():
            c.send(head + body)
            return c.answer().status
        report([post() for _ in range(70)].count(200))
    ''', resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
    tap.equal(r.reports, [70])


@tap.test
def max_body_refuses_what_is_declared_and_cuts_off_what_is_not(t):
    r, server = through(t, '''
        report(post("/max", b"x" * 1024))
        report(post("/max", b"x" * 1025))
        report(post("/max", b"x" * 1024, "-H", "Transfer-Encoding: chunked"))
        report(post("/max", b"x" * 200000, "-H", "Transfer-Encoding: chunked"))
    ''')
    tap.equal(statuses(r), [200, 413, 200, 413])
    tap.equal([len(q.body) for q in server.requests if q.body is not None and len(q.body) == 1024], [1024, 1024])
    tap.ok(all(len(q.body or b"") <= 1024 for q in server.requests), server.requests)
    tap.equal([q for q in server.requests if q.header("content-length") == "1025"], [])


@tap.test
def graphql_queries_pass_and_mutations_do_not(t):
    r, server = through(t, '''
        def gql(document, **more):
            return post("/graphql", json.dumps(dict(query=document, **more)))
        report(gql("{ viewer { login } }"))
        report(gql("query A { ...R } fragment R on Query { viewer { login } }", operationName="A"))
        report(gql("mutation { deleteRef(input: {}) { id } }"))
        report(gql("query A { a } mutation B { b }", operationName="A"))
        report(post("/graphql", json.dumps([{"query": "{ a }"}, {"query": "{ b }"}])))
        report(post("/graphql", json.dumps([{"query": "{ a }"}, {"query": "mutation { b }"}])))
        report(post("/graphql", '{"id":"42"}'))
        report(gql("{ a }", extensions={"persistedQuery": {"version": 1}}))
        report(curl("-G", "--data-urlencode", "query={ viewer { login } }", "https://a.test/graphql"))
        report(curl("-G", "--data-urlencode", "query=mutation { a }", "https://a.test/graphql"))
    ''')
    tap.equal(statuses(r), [200, 200, 403, 403, 200, 403, 403, 403, 200, 403])


@tap.test
def an_ask_is_refused_in_words_of_its_own(t):
    r, server = through(t, 'report(post("/ask", "{}"))')
    tap.equal(statuses(r), [403])
    tap.ok("can't wait for one" in r.reports[0][1] and "releases are looked at" in r.reports[0][1], r.reports[0])
    tap.equal(server.requests, [])


@tap.test
def headers_and_queries_are_conditions(t):
    r, server = through(t, '''
        report(curl("-H", "X-Kind: abba", "https://a.test/head?ref=main"))
        report(curl("-H", "X-Kind: abba", "https://a.test/head?ref=main&ref=x"))
        report(curl("-H", "X-Kind: abba", "-H", "x-kind: a", "https://a.test/head?ref=main"))
        report(curl("-H", "X-Kind: abc", "https://a.test/head?ref=main"))
    ''')
    tap.equal(statuses(r), [200, 403, 403, 403])


@tap.test
def a_header_is_judged_as_the_server_will_see_it(t):
    fields = ["X-Kind: a", "X-Kind: a\r\nConnection: x-kind", "X-Kind: a\r\nConnection: keep-alive, X_KIND", "X_Kind: a",
              "X-Kind: a\r\nX_Kind: b", "X-Kind: a\r\nX.Kind: b", "X-Kinds: b\r\nX-Kind: a"]
    policy = POLICY + "allow GET https://a.test/hop where header Forwarded == a\n" \
        "allow GET https://a.test/deny\ndeny GET https://a.test/deny where header X-Kind == b\n"
    r, server = through(t, '''
        c = tls("a.test")
        report([c.get("/head?ref=main", extra=x + "\\r\\n").status for x in %r])
        report(c.get("/hop", extra="Forwarded: a\\r\\n").status)
        report([c.get("/deny", extra=x).status for x in ("X_Kind: b\\r\\n", "X-Kind: b\\r\\n", "X-Kind: b\\r\\nConnection: x-kind\\r\\n")])
    ''' % fields, policy=policy)
    tap.equal(r.reports, [[200, 403, 403, 403, 403, 403, 200], 403, [403, 403, 200]])
    tap.equal([q.all("x-kind") for q in server.requests], [["a"], ["a"], []])


@tap.test
def a_trailer_is_no_second_value_of_a_header(t):
    policy = "allow POST https://a.test/ok where header X-Kind == a\n"
    wire = "POST /ok HTTP/1.1\r\nHost: a.test\r\nX-Kind: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX_Kind: b\r\nX-Sum: 1\r\nx-kind: b\r\n\r\n"
    r, server = through(t, '''
        c = tls("a.test")
        c.send(%r)
        report(c.answer().status)
    ''' % wire, policy=policy)
    tap.equal(r.reports, [200])
    tap.equal(server.requests[0].trailers, ["X-Sum: 1"])


@tap.test
def pipelined_requests_behind_a_held_body_keep_their_order(t):
    r, server = through(t, '''
        c = tls("a.test")
        body = '{"base":"main"}'
        one = "POST /json HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body)
        other = one.replace("main", "evil")
        c.send(one + other + one)
        report([c.answer().status for _ in range(3)])
    ''')
    tap.equal(r.reports, [[200, 403, 200]])
    tap.equal(len(server.requests), 2)


@tap.test
def a_sandbox_can_not_make_a_worker_hold_without_bound(t):
    r, server = through(t, '''
        head = "POST /json HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Type: application/json\\r\\nContent-Length: 1048576\\r\\n\\r\\n"
        open_ones = []
        for i in range(66):
            c = tls("a.test")
            c.send(head)
            c.send(b" " * 1040000)
            open_ones.append(c)
        c = tls("a.test")
        c.send(head)
        c.send(b" " * 1040000)
        report(c.answer().status)
        for c in open_ones:
            c.close()
        for _ in range(200):
            status = post("/json", '{"base":"main"}')[0]
            if status == 200:
                break
            time.sleep(0.1)
        report(status)
    ''')
    tap.equal(r.reports, [403, 200])
    tap.ok(any("too many bodies" in v["reason"] for v in r.verdicts(verdict="deny")), r)


@tap.test
def gh_reads_by_graphql_and_writes_nothing(t):
    if not shutil.which("gh"):
        tap.skip("no gh")
    server = t.use(RawServer([("body",), response(200, '{"data":{"viewer":{"login":"someone"}}}',
                                                  [("Content-Type", "application/json")])],
                             tls=pki.leaf("api.github.com")))
    preset = os.path.join(os.path.dirname(__file__), "..", "..", "policy", "github-graphql-read.policy")
    with open(preset) as f:
        policy = f.read()
    r = client.run(policy, '''
        env = dict(os.environ, GH_TOKEN="SECRET-none", GH_PROMPT_DISABLED="1", GH_NO_UPDATE_NOTIFIER="1")
        def gh(query):
            p = subprocess.run(["gh", "api", "graphql", "-f", "query=" + query], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=20)
            return [p.returncode, p.stdout]
        report(gh("query($a: Int = 1) { viewer { login } }"))
        report(gh("mutation { deleteRef(input: {refId: 1}) { clientMutationId } }"))
    ''', resolve=[server.resolve("api.github.com")], upstream_ca=pki.ca)
    tap.equal(r.reports[0][0], 0)
    tap.ok("someone" in r.reports[0][1], r.reports)
    tap.ok(r.reports[1][0] != 0 and "403" in r.reports[1][1], r.reports)
    tap.equal(len(server.requests), 1)


if __name__ == "__main__":
    tap.main()
