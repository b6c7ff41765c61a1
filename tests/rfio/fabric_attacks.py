"""Attacks over the fabric: clients and servers that break the protocol's rules."""

from __future__ import annotations

import json
import os
import socket
import struct
import time

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import SECRET, USER, Service, noise
from .verbs_peer import REMOTE_ACCESS, SUCCESS, Endpoint, VerbsPeer
from .wire import CONNECT, HEADER, HELLO, MAGIC, OPEN, PING, PROVE, READ, Peer, text

EACCES, EINVAL, COMMUNICATION, NOT_SUPPORTED = 13, 22, 1018, 1022
#: Data beyond the part that goes with the reply anyway.
LENGTH = 256 << 10


def logged_in(service: Service) -> tuple[Peer, bytes]:
    """A session with the file `f` open."""
    peer = Peer(service.port)
    assert peer.log_in(USER, SECRET) == 0
    status, body, _ = peer.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
    assert status == 0
    return peer, body[:8]


def pair_up(peer: Peer, verbs: VerbsPeer) -> bytes:
    """A data queue pair; the token that the server expects over it."""
    status, body, _ = peer.ask(CONNECT, verbs.open().to_wire())
    assert status == 0, status
    verbs.connect(Endpoint.of_wire(body))
    return body[28:60]


def read(peer: Peer, handle: bytes, address: int, key: int, window: int = LENGTH) -> tuple[int, bytes, bytes]:
    """A read of `LENGTH` bytes into a window."""
    return peer.ask(READ, handle + struct.pack(">QIBBQII", 0, LENGTH, 0, 1, address, key, window))


def still_served(service: Service, data: bytes) -> bool:
    """Whether a regular client gets the file by RDMA."""
    before = service.metric("rfio_fabric_sent_bytes_total")
    ended = service.tool("rfcp", service.at("f"), service.here / "copy")
    return ended.succeeded and (service.here / "copy").read_bytes() == data and \
        service.metric("rfio_fabric_sent_bytes_total") >= before + len(data)


def tokens(place: Place) -> Outcome:
    """The data queue pair does nothing without its token: none, a wrong one, a part of it, another pair's, a used
    one."""
    with Service(place, "verbs") as service, VerbsPeer(place) as verbs:
        data = noise(LENGTH)
        (service.export / "f").write_bytes(data)
        peer, handle = logged_in(service)
        status, _, _ = read(peer, handle, 1 << 20, 1)
        if status != NOT_SUPPORTED:
            return failed(f"a window without a queue pair: {status}")
        first = pair_up(peer, verbs)
        for what, shown in (("nothing", None), ("zeros", bytes(32)), ("a part", first[:31]),
                            ("an earlier pair's token", first)):
            pair_up(peer, verbs)
            if shown is not None and verbs.tries(f"send {shown.hex()}") != SUCCESS:
                return failed(f"{what} cannot be sent")
            status, _, payload = read(peer, handle, verbs.address, verbs.key)
            if status != EACCES or payload:
                return failed(f"{what} connects a queue pair: {status}")
            status, _, _ = read(peer, handle, verbs.address, verbs.key)
            if status != NOT_SUPPORTED:
                return failed(f"after {what} the queue pair is still connected: {status}")
        # The right one, once; then the same session's pair is worth as much as it should be, and not more.
        token = pair_up(peer, verbs)
        verbs.do("receive")
        if verbs.tries(f"send {token.hex()}") != SUCCESS:
            return failed("the token cannot be sent")
        status, _, payload = read(peer, handle, verbs.address, verbs.key)
        if status != 0 or payload or verbs.outcome() != SUCCESS:
            return failed(f"the right token is refused: {status}")
        if bytes.fromhex(verbs.say("peek 4096")) != data[:4096]:
            return failed("other bytes arrived")
        pair_up(peer, verbs)
        verbs.tries(f"send {token.hex()}")
        status, _, _ = read(peer, handle, verbs.address, verbs.key)
        if status != EACCES:
            return failed(f"a token is accepted twice: {status}")
        return passed() if still_served(service, data) else failed("an honest client is not served")


def bad_keys(place: Place) -> Outcome:
    """An invalid window ends the client's own queue pair and nothing else."""
    with Service(place, "verbs") as service, VerbsPeer(place) as verbs:
        data = noise(4 << 20)
        (service.export / "f").write_bytes(data)
        fifo = service.here / "fifo"
        os.mkfifo(fifo)
        other = service.begin("rfcp", service.at("f"), fifo)
        with open(fifo, "rb") as pipe:
            arrived = pipe.read(1 << 16)
            peer, handle = logged_in(service)
            for wrong_address, wrong_key in ((0, 1), (0, 0xffffff00), (1 << 40, 0), (4 << 20, 0)):
                token = pair_up(peer, verbs)
                verbs.do("receive")
                if verbs.tries(f"send {token.hex()}") != SUCCESS:
                    return failed("the token cannot be sent")
                address = verbs.address + wrong_address
                key = verbs.key ^ wrong_key
                status, _, payload = read(peer, handle, address, key)
                if status != COMMUNICATION or payload:
                    return failed(f"key {key:#x}, address {address:#x}: {status}")
                if peer.ask(PING)[0] != 0:
                    return failed("the session ended with its queue pair")
            for address, window in ((verbs.address, LENGTH - 1), (2 ** 64 - 10, LENGTH)):
                token = pair_up(peer, verbs)
                verbs.tries(f"send {token.hex()}")
                status, _, _ = read(peer, handle, address, verbs.key, window)
                if status != EINVAL:
                    return failed(f"a window of {window} at {address:#x}: {status}")
            while more := pipe.read(1 << 20):
                arrived += more
        ended = other.finish(time.monotonic() + 30)
        if not ended.succeeded or arrived != data:
            return failed("another client's copy was disturbed", ended.evidence())
        if service.metric("rfio_fabric_failures_total") < 4:
            return failed("the failures are not counted")
        events = [json.loads(line)["event"] for line in service.audit.read_text().splitlines()]
        if events.count("queue pair lost") < 4:
            return failed("the failures are not in the audit log")
        return passed() if still_served(service, data) else failed("an honest client is not served")


def server_memory(place: Place) -> Outcome:
    """No key gives access to the server's memory: neither the server's own keys nor neighbouring ones, to read or to
    write."""
    with Service(place, "verbs") as service, VerbsPeer(place) as verbs:
        data = noise(LENGTH)
        (service.export / "f").write_bytes(data)
        if not still_served(service, data):
            return failed("the cache is empty")
        maps = [line.split() for line in open(f"/proc/{service.daemon.pid}/maps", encoding="ascii")]
        places = [int(line[0].split("-")[0], 16) for line in maps if "verbena" in " ".join(line[5:])][:2] or [1 << 20]
        peer, _ = logged_in(service)
        verbs.do("fill 90")
        # The software adapter deals keys out in order, with a tag in the lowest byte; a real one as it likes.
        keys = [(index << 8) | tag for index in range(0, 8) for tag in (0, 1)]
        for command in ("read", "write"):
            for key in keys:
                token = pair_up(peer, verbs)
                verbs.tries(f"send {token.hex()}")
                verbs.do("fill 90")
                tail = " -" if command == "write" else ""
                status = verbs.tries(f"{command} {places[key % len(places)]} {key} 64{tail}")
                if status == SUCCESS:
                    return failed(f"key {key:#x} opens the server's memory to {command}")
                if verbs.say("peek 64") != "5a" * 64:
                    return failed(f"key {key:#x} gave bytes")
        return passed(f"{2 * len(keys)} attempts") if still_served(service, data) else \
            failed("an honest client is not served")


class HostileServer:
    """A server that speaks the protocol to one client and then does as it likes."""

    def __init__(self, verbs: VerbsPeer, size: int):
        self.verbs = verbs
        self.size = size
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(30)
        self.port = self.listener.getsockname()[1]
        self.peer: socket.socket

    def accept(self) -> None:
        """Takes the client."""
        self.peer, _ = self.listener.accept()
        self.peer.settimeout(30)

    def request(self) -> tuple[int, int, bytes]:
        """The next request: operation, number, body."""
        header = self.exactly(HEADER.size)
        magic, kind, body, payload, number = HEADER.unpack(header)
        assert magic == MAGIC
        rest = self.exactly(body + payload)
        return kind, number, rest[:body]

    def exactly(self, count: int) -> bytes:
        """So many bytes."""
        data = b""
        while len(data) < count:
            more = self.peer.recv(count - len(data))
            if not more:
                raise ConnectionError("the client closed the connection")
            data += more
        return data

    def reply(self, kind: int, number: int, body: bytes) -> None:
        """A reply."""
        self.peer.sendall(HEADER.pack(MAGIC, kind | 0x8000, 4 + len(body), 0, number) + bytes(4) + body)

    def attributes(self) -> bytes:
        """Returns the attributes of a regular file."""
        return struct.pack(">QQIQIIQQqqqQB", 1, 2, 0o100644, 1, 0, 0, self.size, self.size // 512, 0, 0, 0, 7, 1)

    def serve_until_reads(self, count: int) -> list[tuple[int, int, int, int, int, int]]:
        """Handshakes, connects, opens; then serves so many reads: (number, offset, length, address, key, window)."""
        reads = []
        while len(reads) < count:
            kind, number, body = self.request()
            if kind == HELLO:
                self.reply(kind, number, struct.pack(">HI", 2, 4) + bytes(32))
            elif kind == PROVE:
                self.reply(kind, number, bytes(32) + text(b"nobody")
                           + struct.pack(">IIIIBB", 4 << 20, 1024, 256 << 10, 64, 1, 0))
            elif kind == CONNECT:
                mine = self.verbs.open()
                self.verbs.do("receive")
                self.verbs.connect(Endpoint.of_wire(body))
                self.reply(kind, number, mine.to_wire() + bytes(32))
                assert self.verbs.outcome() == SUCCESS, "the token did not come"
            elif kind == READ:
                _, offset, length, _, has_window = struct.unpack(">QQIBB", body[:22])
                assert has_window, "the client offers no window"
                reads.append((number, offset, length, *struct.unpack(">QII", body[22:38])))
            else:
                self.reply(kind, number, struct.pack(">Q", 5) + self.attributes() if kind == OPEN else
                           self.attributes())
        return reads

    def answer_read(self, number: int, length: int, address: int, key: int) -> None:
        """Writes the data and replies."""
        status = self.verbs.tries(f"write {address} {key} {length} {number & 0xffffffff}")
        assert status == SUCCESS, f"the window does not take the data: {status}"
        self.reply(READ, number, struct.pack(">IBQI", length, 0, 7, 0))


def late_server(place: Place) -> Outcome:
    """A server that writes to a client's memory after the request is over, reads from it, or writes beside the window:
    the client's adapter refuses, and no byte of the delivered data changes."""
    with VerbsPeer(place) as verbs, Service(place, "verbs") as service:
        for what in ("late write", "read", "beside the window"):
            hostile = HostileServer(verbs, 64 << 20)
            client = service.begin("rfcp", "-q", "--retry", 0, "--no-block-checksums", f"rfio://127.0.0.1:{hostile.port}/f",
                                   service.here / "copy", RFIO_SECRETS="/nonexistent")
            hostile.accept()
            reads = hostile.serve_until_reads(2)
            # The token came to the front of the memory.
            verbs.do("fill 65")
            number, _, length, address, key, window = reads[0]
            if length < LENGTH or window != length:
                return failed(f"the window of {length} bytes has {window}")
            if what == "late write":
                hostile.answer_read(number, length, address, key)
                # The client asks for the next piece when it is done with this one.
                later = hostile.serve_until_reads(1)
                if later[0][3] == address and later[0][4] == key:
                    return failed("a key is used for two requests running")
                verbs.do("fill 90")
                status = verbs.tries(f"write {address} {key} {length} -")
            elif what == "read":
                status = verbs.tries(f"read {address} {key} 64")
            else:
                status = verbs.tries(f"write {address + length - 32} {key} 64 -")
            hostile.peer.close()
            hostile.listener.close()
            ended = client.finish(time.monotonic() + 20)
            if ended.timed_out:
                return failed(f"{what}: the client does not end", ended.evidence())
            if status != REMOTE_ACCESS:
                return failed(f"{what}: completion status {status}")
            if (service.here / "copy").exists():
                return failed(f"{what}: the copy has its name")
            part = (service.here / ".copy.rfpart").read_bytes()
            if b"Z" in part or (what == "late write" and part[:length] != b"A" * length):
                return failed(f"{what}: delivered data changed")
        return passed()
