"""C46: a chunked push stays chunked, and a client that pauses within it is waited for."""
import pushes
import tap


@tap.test
def a_big_push_reaches_the_server_chunked_and_whole(t):
    git = pushes.serve(t)
    r = pushes.run(git, pushes.PUSH, pushes.CLONE + "head -c 3000000 /dev/urandom > big; git add big; git commit -qm big; "
                   "git push -q origin HEAD:refs/heads/fix/big; git rev-parse HEAD")
    tap.equal(r.code, 0, r.err)
    tap.equal(git.refs(pushes.REPO)["refs/heads/fix/big"], r.out.strip())
    big = pushes.posts(git, "receive-pack")[-1].request
    tap.equal((big.header("transfer-encoding"), big.header("content-length")), ("chunked", None))


@tap.test
def a_pause_behind_the_command_list_is_no_end(t):
    """The command list goes up before the pack, which comes much later than a head may."""
    git = pushes.serve(t)
    r = pushes.by_hand(git, pushes.PUSH, '''
        pack = b"PACK" + b"\\0\\0\\0\\2\\0\\0\\0\\0" + bytes.fromhex("029d08823bd8a8eab510ad6ac75c823cfd3ed31e")
        body = command("refs/heads/fix/a", caps=CAPS) + b"0000"
        c = tls("g.test")
        c.send("POST /acme/app.git/git-receive-pack HTTP/1.1\\r\\nHost: g.test\\r\\nContent-Type: %s\\r\\n"
               "Transfer-Encoding: chunked\\r\\n\\r\\n" % PUSH_TYPE)
        c.send(b"%x\\r\\n%s\\r\\n" % (len(body), body))
        began = time.time()
        spin(20)
        c.timeout(20)
        c.send(b"%x\\r\\n%s\\r\\n0\\r\\n\\r\\n" % (len(pack), pack))
        report(c.answer().status)
    ''')
    tap.equal(r.reports, [200])
    tap.equal(len(git.hits), 1)


tap.main()
