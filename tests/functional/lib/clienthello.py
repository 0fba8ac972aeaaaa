"""ClientHellos, by Python's own TLS, for what runs inside (CLIENT, a text to be put before the code that client.run is given).

    handshake(sni, size) -> the TLS, what it reads and what it has written: a hello of about that size (0: as it is)
    hello(sni, size, ech) -> the bytes of one; with_name(), with_extension(), records() … make others of them
    first(host, data) -> what comes first in answer: "alert 49" for a refusal, "record 22" for a ServerHello, else text
"""

CLIENT = '''
def handshake(sni, size=0):
    context = ssl.create_default_context()
    context.check_hostname = sni is not None
    if size:
        context.set_alpn_protocols(["http/1.1"] + [("x%05d" % i) + "p" * 100 for i in range(max(size - 500, 0) // 107)])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=sni)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return tls, incoming, outgoing
def hello(sni, size=0, ech=False):
    data = handshake(sni, size)[2].read()
    return with_extension(data, 0xfe0d, b"\\0\\0\\1\\0\\1\\7\\0\\x20" + b"e" * 32 + b"\\0\\x20" + b"p" * 32) if ech else data
def taken_apart(data):
    """The message up to its extensions, and these."""
    body = data[5:]
    at = 4 + 2 + 32
    at += 1 + body[at]
    at += 2 + struct.unpack(">H", body[at:at + 2])[0]
    at += 1 + body[at]
    return body[4:at], body[at + 2:]
def put_together(front, extensions):
    message = front + struct.pack(">H", len(extensions)) + extensions
    message = b"\\1" + struct.pack(">I", len(message))[1:] + message
    return records(message, 16000)
def message_of(data):
    out = b""
    while data:
        n = struct.unpack(">H", data[3:5])[0]
        out, data = out + data[5:5 + n], data[5 + n:]
    return out
def records(message, step):
    return b"".join(b"\\x16\\x03\\x01" + struct.pack(">H", len(message[i:i + step])) + message[i:i + step] for i in range(0, len(message), step))
def with_extension(data, kind, value):
    front, extensions = taken_apart(data)
    return put_together(front, extensions + struct.pack(">HH", kind, len(value)) + value)
def with_name(data, name):
    """The same with another server_name, whatever it is; None: without."""
    front, rest = taken_apart(data)
    others = b""
    while rest:
        kind, n = struct.unpack(">HH", rest[:4])
        others, rest = others + (rest[:4 + n] if kind else b""), rest[4 + n:]
    if name is not None:
        entry = b"\\0" + struct.pack(">H", len(name)) + name
        others += struct.pack(">HHH", 0, len(entry) + 2, len(entry)) + entry
    return put_together(front, others)
def first(host, data, port=443):
    c = tcp(host, port)
    c.send(data)
    got = c.exactly(7)
    c.close()
    if len(got) == 7 and got[0] == 21:
        return "alert %d" % got[6]
    return "record 22" if got[:1] == b"\\x16" else got.decode("latin-1")
'''
