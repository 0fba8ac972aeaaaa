"""C05: one policy for clear text and for TLS: method and path count on both, and one scheme opens nothing on the other."""
import client
import tap
from pki import Pki
from servers import RawServer, response

pki = Pki()


def ask(t, policy, code):
    clear = t.use(RawServer(response(200, "clear")))
    secure = t.use(RawServer(response(200, "secure"), tls=pki.leaf("a.test")))
    r = client.run(policy, code, resolve=[clear.resolve("a.test", 80), secure.resolve("a.test"), clear.resolve("a.test", 8080)],
                   upstream_ca=pki.ca)
    return r, clear, secure


CURL = '''
    def curl(*words):
        return subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *words], stdout=subprocess.PIPE, text=True).stdout
'''


@tap.test
def a_method_that_no_rule_permits_is_denied_alike(t):
    r, clear, secure = ask(t, "allow GET http://a.test/**\nallow GET https://a.test/**\n", [CURL, '''
        report(curl("http://a.test/data"), curl("https://a.test/data"), curl("-X", "POST", "http://a.test/data"),
               curl("-X", "POST", "https://a.test/data"))
        c = tcp("a.test", 80)
        c.send("POST http://a.test/data HTTP/1.1\\r\\nHost: a.test\\r\\nContent-Length: 0\\r\\n\\r\\n")
        report(c.answer().status)
        c = tcp("a.test", 80)
        c.send("GET http://a.test/data HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
        report(c.answer().status)
    '''])
    tap.equal(r.reports, [["200", "200", "403", "403"], 403, 200])
    tap.equal([q.line for q in clear.requests], ["GET /data HTTP/1.1"] * 2)
    tap.equal([q.line for q in secure.requests], ["GET /data HTTP/1.1"])


@tap.test
def a_rule_for_https_says_nothing_about_http(t):
    r, clear, _ = ask(t, "allow GET https://a.test/**\n", [CURL, '''
        p = subprocess.run(["curl", "-s", "http://a.test/data"], stdout=subprocess.PIPE, text=True)
        report(p.stdout)
        report(curl("http://a.test:8080/data"), curl("http://a.test:443/data"), curl("https://a.test/data"))
    '''])
    tap.contains(r.reports[0], "http://a.test")
    tap.equal(r.reports[1], ["403", "403", "200"])
    tap.equal(clear.requests, [])
    tap.equal([v["verdict"] for v in r.verdicts()], ["deny", "deny", "deny", "allow"])


@tap.test
def and_a_rule_for_http_nothing_about_https(t):
    r, clear, secure = ask(t, "allow GET http://a.test/**\n", [CURL, '''
        report(curl("https://a.test/data"), curl("--http2", "https://a.test/data"), curl("https://a.test:8080/data"), curl("http://a.test:8080/data"), curl("http://a.test/data"))
    '''])
    tap.equal(r.reports[0][3:], ["403", "200"])
    tap.ok(set(r.reports[0][:3]) <= {"403", "000"}, r.reports)
    tap.equal((len(clear.requests), secure.requests), (1, []))


@tap.test
def paths_queries_and_denials_count_alike(t):
    """In clear text, by a proxy's form, by HTTP/1.0, and over TLS by either version of HTTP."""
    rules = "".join("allow GET,POST %(s)s://a.test/data/*\ndeny POST %(s)s://a.test/data/closed\n" % {"s": s} for s in ("http", "https"))
    r, clear, secure = ask(t, rules, [CURL, '''
        ways = (("http", []), ("https", ["--http1.1"]), ("https", ["--http2"]), ("http", ["-x", "http://proxy.test:3128"]), ("http", ["--http1.0"]))
        for scheme, words in ways:
            url = scheme + "://a.test"
            report(curl(*words, url + "/data/x"), curl(*words, url + "/data/x?q"), curl(*words, "-d", "x", url + "/data/x"), curl(*words, "-d", "x", url + "/data/closed"),
                   curl(*words, url + "/data/closed"), curl(*words, url + "/data/x/y"), curl(*words, url + "/"), curl(*words, "--path-as-is", url + "/data/../x"),
                   curl(*words, "-X", "DELETE", url + "/data/x"))
    '''])
    first = r.reports[0]
    tap.equal(first[2:4], ["200", "403"])
    tap.equal([first[0]] + first[4:7] + first[8:], ["200", "200", "403", "403", "403"])
    tap.ok(first[7] in ("400", "403"), first)
    tap.equal(r.reports, [first] * 5)
    tap.equal(len(clear.requests), 3 * first.count("200"))
    tap.equal(len(secure.requests), 2 * first.count("200"))


tap.main()
