"""A name server, UDP and TCP on the same port.

    DnsServer({"a.test": ["10.9.0.2", "fd00::2"], "rebind.test": rotate(["10.9.0.2"], ["127.0.0.1"])})

A value is a list of addresses (A and AAAA are told apart by themselves), "cname:NAME", "nxdomain",
"servfail", "refused", "drop" (no answer at all), "truncate" (over UDP; the TCP answer comes from
`over_tcp`), or a function of (name, type) that returns one of these. `queries` lists what was asked.
"""
import ipaddress
import socket
import struct
import threading
import time

A, CNAME, AAAA = 1, 5, 28
RCODES = {"servfail": 2, "nxdomain": 3, "refused": 5}


def rotate(*answers):
    """Gives one answer after the other, the last one for ever; A and AAAA are counted apart."""
    asked = {}

    def answer(_name, qtype):
        count = asked.get(qtype, 0)
        asked[qtype] = count + 1
        return answers[min(count, len(answers) - 1)]
    return answer


def encode_name(name):
    out = b""
    for label in name.rstrip(".").split("."):
        if label:
            out += bytes([len(label)]) + label.encode("latin-1")
    return out + b"\0"


def decode_name(data, at):
    labels = []
    while data[at]:
        size = data[at]
        labels.append(data[at + 1:at + 1 + size].decode("latin-1"))
        at += 1 + size
    return ".".join(labels), at + 1


class DnsServer:
    def __init__(self, records, address="127.0.0.1", port=0, ttl=0, over_tcp=None, delay=0.0):
        self.records = records
        self.over_tcp = over_tcp or {}
        self.ttl = ttl
        self.delay = delay
        self.queries = []
        self.address = address
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.udp, self.tcp = self._bind(family, address, port)
        self.port = self.udp.getsockname()[1]
        self.tcp.listen(64)
        self.stopped = False
        for target in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=target, daemon=True).start()

    @staticmethod
    def _bind(family, address, port):
        """Both sockets on one port; a free one of UDP may be taken for TCP, so this may need a few tries."""
        for attempt in range(50):
            udp = socket.socket(family, socket.SOCK_DGRAM)
            tcp = socket.socket(family, socket.SOCK_STREAM)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                udp.bind((address, port))
                tcp.bind((address, udp.getsockname()[1]))
                return udp, tcp
            except OSError:
                udp.close()
                tcp.close()
                if attempt == 49:
                    raise
                if port:
                    time.sleep(0.05)  # one that has just been stopped may still be in its last system call
        raise AssertionError("no port")

    def answer(self, query, over_tcp):
        """The answer's bytes, or None for none."""
        ident, flags, questions = struct.unpack(">HHH", query[:6])
        if questions != 1:
            return struct.pack(">HHHHHH", ident, 0x8001, 0, 0, 0, 0)
        name, at = decode_name(query, 12)
        qtype, _ = struct.unpack(">HH", query[at:at + 4])
        question = query[12:at + 4]
        self.queries.append((name, qtype, "tcp" if over_tcp else "udp"))
        table = {**self.records, **self.over_tcp} if over_tcp else self.records
        found = table.get(name.lower(), "nxdomain")
        if callable(found):
            found = found(name, qtype)
        if found == "drop":
            return None
        rcode, truncated, rrs = 0, 0, []
        if found == "truncate":
            truncated = 0x0200
        elif isinstance(found, str) and found.startswith("cname:"):
            rrs = self._cname(found[6:], qtype, table)
        elif isinstance(found, str):
            rcode = RCODES[found]
        else:
            rrs = self._addresses(b"\xc0\x0c", found, qtype)
        head = struct.pack(">HHHHHH", ident, 0x8480 | (flags & 0x0100) | truncated | rcode, 1, len(rrs), 0, 0)
        return head + question + b"".join(rrs)

    def _cname(self, target, qtype, table):
        encoded = encode_name(target)
        rr = b"\xc0\x0c" + struct.pack(">HHIH", CNAME, 1, self.ttl, len(encoded)) + encoded
        found = table.get(target.lower(), [])
        found = found(target, qtype) if callable(found) else found
        return [rr] + (self._addresses(encoded, found, qtype) if isinstance(found, list) else [])

    def _addresses(self, owner, addresses, qtype):
        rrs = []
        for text in addresses:
            packed = ipaddress.ip_address(text).packed
            kind = A if len(packed) == 4 else AAAA
            if kind == qtype:
                rrs.append(owner + struct.pack(">HHIH", kind, 1, self.ttl, len(packed)) + packed)
        return rrs

    def _serve_udp(self):
        while not self.stopped:
            try:
                query, peer = self.udp.recvfrom(4096)
                reply = self.answer(query, False)
                if self.delay:
                    threading.Timer(self.delay, self._send, (reply, peer)).start()
                else:
                    self._send(reply, peer)
            except OSError:
                return
            except (IndexError, struct.error):
                continue

    def _send(self, reply, peer):
        if reply is not None and not self.stopped:
            self.udp.sendto(reply, peer)

    def _serve_tcp(self):
        while not self.stopped:
            try:
                sock, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._tcp_client, args=(sock,), daemon=True).start()

    def _tcp_client(self, sock):
        with sock:
            sock.settimeout(5)
            try:
                stream = sock.makefile("rb")
                while True:
                    size = stream.read(2)
                    if len(size) < 2:
                        return
                    reply = self.answer(stream.read(struct.unpack(">H", size)[0]), True)
                    if reply is not None:
                        sock.sendall(struct.pack(">H", len(reply)) + reply)
            except (OSError, IndexError, struct.error):
                return

    def stop(self):
        self.stopped = True
        for sock in (self.udp, self.tcp):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
