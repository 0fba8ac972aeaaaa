"""C74: the ClientHello is read whole, whatever its size and however it comes; too big or too slow a one is ended."""
import clienthello
import onehost
import tap

FINISH = '''
    def finish(sock, tls, incoming, outgoing):
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                data = sock.recv(65536)
                if not data:
                    return "ended"
                incoming.write(data)
        tls.write(b"GET /ok HTTP/1.1\\r\\nHost: a.test\\r\\nConnection: close\\r\\n\\r\\n")
        sock.sendall(outgoing.read())
        while True:
            try:
                return int(tls.read(4096).split()[1])
            except ssl.SSLWantReadError:
                incoming.write(sock.recv(65536))
'''


@tap.test
def every_size_and_every_cut(t):
    r, server = onehost.through(t, [clienthello.CLIENT, FINISH, '''
        for size in (1300, 5300, 15300):
            for how in ("whole", "bytes", "gap", "small records", "records and bytes"):
                tls, incoming, outgoing = handshake("a.test", size)
                data = outgoing.read()
                sock = socket.create_connection(("a.test", 443), 10)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if how == "gap":
                    sock.sendall(data[:500])
                    time.sleep(0.3)
                    sock.sendall(data[500:])
                elif how == "bytes":
                    for i in range(len(data)):
                        sock.sendall(data[i:i + 1])
                elif how == "small records":
                    sock.sendall(records(message_of(data), 1))
                elif how == "records and bytes":
                    data = records(message_of(data), 200)
                    for i in range(len(data)):
                        sock.sendall(data[i:i + 1])
                else:
                    sock.sendall(data)
                try:
                    report(size, how, finish(sock, tls, incoming, outgoing))
                except (ssl.SSLError, OSError) as e:
                    report(size, how, str(e))
    '''], timeout=100)
    tap.equal(len(r.reports), 15)
    tap.equal([x for x in r.reports if x[2] != 200], [])
    tap.equal(len(server.requests), 15)


@tap.test
def a_hello_of_100_kilobytes_is_refused(t):
    r, server = onehost.through(t, [clienthello.CLIENT, FINISH, '''
        sock = socket.create_connection(("a.test", 443), 10)
        message = b"\\x01\\x01\\x86\\xa0" + b"\\x03\\x03" + b"x" * 99998
        wire = records(message, 16000)
        try:
            sock.sendall(wire)
            sock.settimeout(10)
            got = sock.recv(10)
            report(len(got) < 10 or got[0] == 21)
        except OSError:
            report(True)
    '''])
    tap.equal(r.reports, [True])
    tap.equal(r.verdict()["code"], "hello-too-long")
    tap.equal(len(server.connections), 0)


@tap.test
def the_name_may_stand_last(t):
    """SNI as the last extension, in a record of its own, behind 15 kB of others; and records of one byte each."""
    r, _ = onehost.through(t, [clienthello.CLIENT, FINISH, '''
        def name_last(data):
            """The same ClientHello with the server_name extension moved to its end."""
            body = data[5:] if data[0] == 22 else data
            at = 4 + 2 + 32
            at += 1 + body[at]
            at += 2 + struct.unpack(">H", body[at:at + 2])[0]
            at += 1 + body[at]
            size = struct.unpack(">H", body[at:at + 2])[0]
            rest, others, name = body[at + 2:at + 2 + size], b"", b""
            while rest:
                kind, n = struct.unpack(">HH", rest[:4])
                if kind == 0:
                    name = rest[:4 + n]
                else:
                    others += rest[:4 + n]
                rest = rest[4 + n:]
            return body[:at + 2] + others, name
        for size in (1300, 5300, 15300):
            head, name = name_last(hello("a.test", size))
            assert name
            record = lambda part: b"\\x16\\x03\\x01" + struct.pack(">H", len(part)) + part
            for wire in (record(head) + record(name), record(head + name[:-1]) + record(name[-1:]), records(head + name, 1)):
                sock = socket.create_connection(("a.test", 443), 10)
                sock.sendall(wire)
                report(size, len(wire), sock.recv(1)[0])
                sock.close()
    '''])
    tap.equal(len(r.reports), 9)
    tap.equal([x for x in r.reports if x[2] != 22], [], "no ServerHello")
    tap.equal([v for v in r.verdicts() if v["code"] == "no-sni"], [])


TUNNEL = "tunnel https://a.test\n"


@tap.test
def the_same_where_it_is_to_be_passed_through_unread(t):
    """No record says more than the name, so that it has to be read just as whole; the server then has the very bytes."""
    r, server = onehost.through(t, [clienthello.CLIENT, FINISH, '''
        for size in (1300, 5300, 15300):
            for how in ("whole", "bytes", "gap", "small records", "records and bytes"):
                tls, incoming, outgoing = handshake("a.test", size)
                data = outgoing.read()
                if "records" in how:
                    data = records(message_of(data), 1 if how == "small records" else 200)
                sock = socket.create_connection(("a.test", 443), 10)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pieces = [data[:500], data[500:]] if how == "gap" else [data[i:i + 1] for i in range(len(data))] if "bytes" in how else [data]
                for piece in pieces:
                    sock.sendall(piece)
                    if how == "gap":
                        time.sleep(0.3)
                sock.settimeout(10)
                try:
                    report(size, how, finish(sock, tls, incoming, outgoing))
                except (ssl.SSLError, OSError) as e:
                    report(size, how, str(e))
                sock.close()
        for wire in (records(b"\\x01\\x01\\x86\\xa0" + b"\\x03\\x03" + b"x" * 99998, 16000),):
            sock = socket.create_connection(("a.test", 443), 10)
            try:
                sock.sendall(wire)
                sock.settimeout(10)
                report(len(sock.recv(10)) < 10)
            except OSError:
                report(True)
    '''], timeout=100, policy=TUNNEL, env={"SSL_CERT_FILE": onehost.authority().ca})
    tap.equal(len(r.reports), 16)
    # both ends have come to the same keys: they have read the same hello
    tap.equal([x for x in r.reports[:15] if x[2] != 200], [])
    tap.equal([q.target for q in server.requests], ["/ok"] * 15)
    tap.equal([v["code"] for v in r.verdicts()], ["tunnelled"] * 15 + ["hello-too-long"])


@tap.test
def whatever_way_it_comes_and_whatever_it_offers(t):
    """By a CONNECT, to an IPv6 address, of TLS 1.2 alone, with HTTP/2 among its offers; to be read, and to be passed through."""
    for policy in (onehost.POLICY, TUNNEL):
        r, server = onehost.through(t, [clienthello.CLIENT, FINISH, '''
            def offer(context):
                """The long list with h2 in front: what is chosen is no matter here."""
                context.set_alpn_protocols(["h2", "http/1.1"] + [("x%05d" % i) + "p" * 100 for i in range(130)])
            def older(context):
                context.set_alpn_protocols([("x%05d" % i) + "p" * 100 for i in range(130)] + ["http/1.1"])
                context.maximum_version = ssl.TLSVersion.TLSv1_2
            for change in (offer, older):
                for way in ("connect", "2001:db8::1", "203.0.113.7"):
                    for step in (1, 200, 16000):
                        context = ssl.create_default_context()
                        change(context)
                        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                        tls = context.wrap_bio(incoming, outgoing, server_hostname="a.test")
                        try:
                            tls.do_handshake()
                        except ssl.SSLWantReadError:
                            pass
                        c = connect("a.test:443", ("198.51.100.1", 3128)) if way == "connect" else tcp(way, 443)
                        assert way != "connect" or c.granted.status == 200
                        data = outgoing.read()
                        assert len(data) > 13000
                        c.send(records(message_of(data), step))
                        try:
                            while True:
                                try:
                                    tls.do_handshake()
                                    break
                                except ssl.SSLWantReadError:
                                    c.send(outgoing.read())
                                    incoming.write(c.recv() or sys.exit("ended"))
                            report(change.__name__, way, step, tls.version())
                        except ssl.SSLError as e:
                            report(change.__name__, way, step, str(e))
                        c.close()
        '''], policy=policy, env={"SSL_CERT_FILE": onehost.authority().ca})
        tap.equal(len(r.reports), 18)
        tap.equal([x for x in r.reports if x[3] != ("TLSv1.3" if x[0] == "offer" else "TLSv1.2")], [])
        tap.equal([v for v in r.verdicts() if v["code"] in ("no-sni", "hello-too-long")], [])
        if policy == TUNNEL:
            tap.equal([v["code"] for v in r.verdicts()], ["tunnelled"] * 18)


@tap.test
def a_byte_every_ten_seconds_is_ended_in_either(t):
    a_byte_every_ten_seconds(t, TUNNEL)


@tap.test
def a_byte_every_ten_seconds_is_ended(t):
    a_byte_every_ten_seconds(t, onehost.POLICY)


def a_byte_every_ten_seconds(t, policy):
    r, server = onehost.through(t, [clienthello.CLIENT, FINISH, '''
        data = hello("a.test", 1300)
        c = tcp("a.test", 443)
        began = time.monotonic()
        try:
            for i in range(7):
                c.send(data[i:i + 1])
                c.timeout(10)
                if c.recv() == b"" and c.ended != "timeout":
                    break
                c.ended = None
        except OSError:
            pass
        report(time.monotonic() - began, i)
    '''], timeout=100, policy=policy)
    seconds, sent = r.reports[0]
    tap.ok(seconds > 25 and sent < 6, r.reports)  # before the last byte: a busy machine may take longer than the limit says
    tap.equal(r.verdict()["code"], "handshake-timeout")
    tap.equal(len(server.connections), 0)


tap.main()
