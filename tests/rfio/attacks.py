"""Every vulnerability of the old service, attacked: acceptance 4. Each case attacks and must not get in."""

from __future__ import annotations

import json
import os
import struct
import time

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .elsewhere import ELSEWHERE
from .service import SECRET, USER, Service
from .wire import ANONYMOUS, HELLO, OPEN, PING, READ, READ_VECTOR, Closed, Peer, text

EACCES, EBUSY, EBADF = 13, 16, 9


def alive(service: Service) -> bool:
    """Whether a regular client is still served."""
    return service.tool("rfdir", service.at("")).succeeded


def asserted_identity(place: Place) -> Outcome:
    """A client that only asserts its name: with no secret, a wrong one, another's name, or anonymously."""
    with Service(place, "tcp") as service:
        for user, secret in ((USER, None), (USER, b"wrong" * 8), (b"root", SECRET), (b"", SECRET)):
            peer = Peer(service.port)
            if peer.log_in(user, secret) != EACCES or not peer.closed():
                return failed(f"{user!r} with {secret!r} is not refused")
        peer = Peer(service.port)
        if peer.log_in(b"root", None, ANONYMOUS) != EACCES:
            return failed("an unknown client is not refused")
        entries = [json.loads(line) for line in service.audit.read_text().splitlines()]
        refused = [entry for entry in entries if entry["event"] == "authentication refused"]
        if len(refused) < 4 or service.metric("rfio_authentication_failures_total") < 4:
            return failed("the attempts are not in the audit log and the metrics")
        return passed() if alive(service) else failed("an honest client is not served")


def nothing_before_the_proof(place: Place) -> Outcome:
    """Requests, payloads and large bodies before the proof: the connection ends."""
    with Service(place, "tcp") as service:
        attempts = {
            "a request": lambda peer: peer.send(OPEN, text(b"/") + struct.pack(">II", 1, 0)),
            "a payload": lambda peer: peer.send(HELLO, b"", payload_length=1 << 20),
            "a large body": lambda peer: peer.send(HELLO, b"", body_length=1 << 20),
            "nonsense": lambda peer: peer.socket.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
            "TLS": lambda peer: peer.socket.sendall(bytes([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3])),
        }
        for what, attempt in attempts.items():
            peer = Peer(service.port)
            attempt(peer)
            if not peer.closed():
                return failed(f"{what} is answered")
        return passed() if alive(service) else failed("an honest client is not served")


def commands(place: Place) -> Outcome:
    """No request runs a command: every operation number that is not defined ends the session."""
    with Service(place, "tcp") as service:
        defined = {1, 2, 3, 4, 60, *range(10, 24), *range(30, 50)}
        for operation in [number for number in range(0, 200) if number not in defined] + [0x7fff]:
            peer = Peer(service.port)
            assert peer.log_in(USER, SECRET) == 0
            peer.send(operation, text(b"id > /tmp/owned"))
            if not peer.closed():
                return failed(f"operation {operation} is answered")
            peer.close()
        return passed()


def outside_the_root(place: Place) -> Outcome:
    """Paths that climb out, by dots or by links, for every tool."""
    with Service(place, "tcp") as service:
        outside = service.directory / "outside"
        outside.write_text("secret")
        (service.export / "d").mkdir()
        (service.export / "absolute").symlink_to(outside)
        (service.export / "relative").symlink_to("../outside")
        (service.export / "up").symlink_to("..")
        (service.export / "proc").symlink_to("/proc/self/root/etc/passwd")
        for name in ("../outside", "d/../../outside", "absolute", "relative", "up/outside", "proc"):
            ended = service.tool("rfcat", service.at(name))
            if ended.status != 2 or "secret" in ended.output:
                return failed(f"{name} leads outside", ended.evidence())
        for name in ("../new", "up/new", "d/../../new"):
            ended = service.tool("rfcp", "/etc/hostname", service.at(name))
            if ended.succeeded or (service.directory / "new").exists():
                return failed(f"{name} is written outside", ended.evidence())
            ended = service.tool("rfmkdir", service.at(name))
            if ended.succeeded:
                return failed(f"{name} is made outside", ended.evidence())
        ended = service.tool("rfrm", service.at("up/outside"))
        return passed() if outside.exists() and not ended.succeeded else failed("removed outside")


def sizes(place: Place) -> Outcome:
    """Sizes and counts in messages that would overflow or exhaust: refused, and memory does not grow."""
    with Service(place, "tcp") as service:
        (service.export / "f").write_bytes(b"x" * 100)
        before = service.resident_mebibytes()

        def session() -> tuple[Peer, bytes]:
            peer = Peer(service.port)
            assert peer.log_in(USER, SECRET) == 0
            status, body, _ = peer.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
            assert status == 0
            return peer, body[:8]

        peer, handle = session()
        for offset, length in ((0, 0xffffffff), (2 ** 64 - 1, 2), (2 ** 63 - 1, 1)):
            status, _, payload = peer.ask(READ, handle + struct.pack(">QIBB", offset, length, 1, 0))
            if status == 0 or payload:
                return failed(f"a read of {length} at {offset} is answered")
        ranges = struct.pack(">I", 3) + struct.pack(">QI", 0, 0xffffffff) * 3
        status, _, _ = peer.ask(READ_VECTOR, handle + ranges + b"\0\0")
        if status == 0:
            return failed("a vector whose sum overflows is answered")
        # Counts whose product with the element's size wraps in 32 bits, or that no data follow.
        for count in (0x15555556, 0xffffffff, 65_536):
            peer, handle = session()
            peer.send(READ_VECTOR, handle + struct.pack(">I", count) + b"\0" * 64)
            if not peer.closed():
                return failed(f"a vector of {count} ranges is answered")
        for lies in ({"body_length": 0xffffffff}, {"payload_length": 0xffffffff}, {"payload": b"x"}):
            peer, _ = session()
            peer.send(PING, b"", **lies)
            if not peer.closed():
                return failed(f"{lies} is answered")
        grown = service.resident_mebibytes() - before
        return passed() if grown < 16 and alive(service) else failed(f"grew by {grown:.0f} MiB")


def stolen_handles(place: Place) -> Outcome:
    """Handles of another session are invalid."""
    with Service(place, "tcp") as service:
        (service.export / "f").write_bytes(b"secret")
        owner, attacker = Peer(service.port), Peer(service.port)
        for peer in (owner, attacker):
            assert peer.log_in(USER, SECRET) == 0
        _, body, _ = owner.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
        for handle in (body[:8], struct.pack(">Q", 0), struct.pack(">Q", 2 ** 64 - 1)):
            status, _, payload = attacker.ask(READ, handle + struct.pack(">QIBB", 0, 6, 0, 0))
            if status != EBADF or payload:
                return failed("another session's handle works")
        return passed()


def tampering(place: Place) -> Outcome:
    """A frame that was changed, or sent again, ends the session."""
    with Service(place, "tcp") as service:
        peer = Peer(service.port)
        assert peer.log_in(USER, SECRET) == 0
        assert peer.ask(PING)[0] == 0
        peer.send(PING, damage_tag=True)
        if not peer.closed():
            return failed("a changed frame is answered")
        peer = Peer(service.port)
        assert peer.log_in(USER, SECRET) == 0
        assert peer.ask(PING)[0] == 0
        peer.sequence[0] -= 1
        peer.send(PING)
        return passed() if peer.closed() else failed("a repeated frame is answered")


def groups(place: Place) -> Outcome:
    """A daemon that gives up root keeps no supplementary group of it."""
    if os.geteuid() != 0:
        return skipped("needs root, to give it up")
    if ELSEWHERE:
        return skipped("only root exists in the namespaces of the two hosts")
    with Service(place, "tcp", "--user", "nobody") as service:
        status = service.status()
        if status.get("Groups", "") != "" or set(status["Uid"].split()) != {status["Uid"].split()[0]} \
                or status["Uid"].split()[0] == "0" or "0" in status["Gid"].split():
            return failed(f"Uid {status['Uid']}, Gid {status['Gid']}, Groups {status.get('Groups')}")
        if status["NoNewPrivs"] != "1":
            return failed("new privileges could be gained")
        return passed()


def no_process_per_connection(place: Place) -> Outcome:
    """Sessions cost neither processes nor threads, and their number is bounded per user."""
    with Service(place, "tcp", "--sessions-per-user", "50") as service:
        before = service.status()["Threads"]
        sessions = []
        (service.export / "f").write_bytes(b"x")
        for _ in range(50):
            sessions.append(Peer(service.port))
            assert sessions[-1].log_in(USER, SECRET) == 0
            # A session without open files would free space.
            assert sessions[-1].ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))[0] == 0
        if service.status()["Threads"] != before:
            return failed("sessions cost threads")
        if Peer(service.port).log_in(USER, SECRET) != EBUSY:
            return failed("the cap does not hold")
        ended = service.tool("rfcp", service.at("f"), service.here / "f")
        if ended.status != 16:
            return failed("a full server is not exit code 16", ended.evidence())
        sessions.pop().close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if Peer(service.port).log_in(USER, SECRET) == 0:
                return passed()
        return failed("a closed session is not released")


def silence(place: Place) -> Outcome:
    """A client that does not authenticate in time is disconnected, at any stage."""
    with Service(place, "tcp", "--greeting-timeout", "1") as service:
        silent, stopped = Peer(service.port), Peer(service.port)
        hello = struct.pack(">HHI", 2, 2, 2) + text(USER) + bytes(32)
        assert stopped.ask(HELLO, hello)[0] == 0
        drip = Peer(service.port)
        drip.socket.sendall(b"RF")
        for peer in (silent, stopped, drip):
            try:
                peer.exactly(1)
            except Closed:
                continue
            return failed("a silent connection is answered")
        return passed()


def read_only(place: Place) -> Outcome:
    """Anonymous users with read permission may not change anything."""
    with Service(place, "tcp", "--anonymous", "read") as service:
        (service.export / "f").write_bytes(b"x")
        anonymous = {"RFIO_SECRETS": "/nonexistent"}
        if not service.tool("rfcat", service.at("f"), **anonymous).succeeded:
            return failed("an anonymous client may not read")
        for program, *arguments in (
                ("rfcp", "/etc/hostname", service.at("new")), ("rfrm", service.at("f")),
                ("rfmkdir", service.at("d")), ("rfrename", service.at("f"), service.at("g")),
                ("rfchmod", "777", service.at("f"))):
            ended = service.tool(program, *arguments, **anonymous)
            if ended.status != 2 or os.listdir(service.export) != ["f"]:
                return failed(f"an anonymous client may {program}", ended.evidence())
        return passed()
