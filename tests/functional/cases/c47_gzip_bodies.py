"""C47: a compressed request goes on as it is; what must be judged is read through the compression, within bounds."""
import gzip

import pushes
import tap


@tap.test
def a_clone_with_many_refs_compresses_its_request(t):
    git = pushes.serve(t)
    head = git.refs(pushes.REPO)["refs/heads/main"]
    for i in range(150):
        head = git.commit(pushes.REPO, "refs/heads/n%d" % i, {"A": "%d\n" % i}, parent=head if i % 10 else None)
    r = pushes.run(git, pushes.FETCH, pushes.CLONE + "git branch -r | wc -l")
    tap.equal(r.code, 0, r.err)
    tap.ok(int(r.out) >= 150, r.out)
    tap.ok(any(h.request.header("content-encoding") == "gzip" for h in pushes.posts(git, "upload-pack")), git.hits)


@tap.test
def a_compressed_push_is_judged_and_goes_on_unchanged(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        import gzip
        pack = b"0000PACK" + b"\\0\\0\\0\\2\\0\\0\\0\\0" + bytes.fromhex("029d08823bd8a8eab510ad6ac75c823cfd3ed31e")
        def both(*refs):
            return b"".join(command(ref, caps="" if i else CAPS) for i, ref in enumerate(refs)) + pack
        for refs in (("refs/heads/main",), ("refs/heads/fix/a", "refs/heads/main"), ("refs/heads/fix/a",)):
            body = gzip.compress(both(*refs), mtime=0)
            for encoding in ("gzip", "x-gzip"):
                a = push(body, "Content-Encoding: %s\\r\\n" % encoding)
                report(refs, a.status, named(a))
        a = push(gzip.compress(both("refs/heads/fix/a"))[:40], "Content-Encoding: gzip\\r\\n")
        report(["cut"], a.status, b"exeat" in a.body)
        for encoding in ("deflate", "br", "zstd", "gzip, gzip", "identity", "chunked"):
            a = push(both("refs/heads/fix/a"), "Content-Encoding: %s\\r\\n" % encoding)
            report([encoding], a.status, b"exeat" in a.body)
    ''')
    tap.equal([x[2] for x in r.reports[:4]], [["refs/heads/main"]] * 2 + [["refs/heads/fix/a", "refs/heads/main"]] * 2)
    tap.ok(all(x[2] is True for x in r.reports[6:]), r.reports)
    # of the refused ones nothing went up, the others did, byte for byte
    tap.equal([h.request.header("content-encoding") for h in git.hits], ["gzip", "x-gzip"])
    bodies = [part for c in git.connections for part in bytes(c.received).split(b"\r\n\r\n") if part.startswith(b"\x1f\x8b")]
    tap.equal(len(bodies), 2)
    for body in bodies:
        tap.ok(gzip.decompress(body[:body.rfind(b"\0\0") + 2]).endswith(bytes.fromhex("ad6ac75c823cfd3ed31e")))


@tap.test
def a_bomb_is_refused_before_it_has_been_read(t):
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        import zlib
        def bomb(line, size):
            z = zlib.compressobj(9, zlib.DEFLATED, 31)
            block = line * (1000000 // len(line))
            return b"".join(z.compress(block) for _ in range(size)) + z.flush()
        for line in (pkt("shallow " + "1" * 40), command("refs/heads/fix/a")):
            report(push(bomb(line, 200), "Content-Encoding: gzip\\r\\n").status)
    ''')
    tap.equal(r.reports, [200, 200])
    tap.equal([v["reason"] for v in r.verdicts()], ["the command list is too long", "too many commands in one push"])
    tap.equal(git.hits, [])


tap.main()
