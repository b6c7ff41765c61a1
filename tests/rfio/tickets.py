"""Tickets: their rights, and every way of misusing one. They are made here a second time, as docs/rfio-protocol.md has
it."""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import random
import signal
import struct
import threading
import time
from typing import Iterator

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import Service, noise
from .wire import OPEN, READ, Closed, Peer, text

ISSUER, SHARED = b"xrootd", b"what the issuer and rfiod share"
READING, WRITING, CREATING = 1, 2, 4
STATUS, UNLINK, WRITE, TRUNCATE = 30, 35, 14, 18
SECOND = 10 ** 9
DATA = noise(300_001)


def claims(path: bytes = b"/f", access: int = READING, *, user: bytes = b"ann", issuer: bytes = ISSUER, issued: int = 0,
           life: int = 60 * SECOND, nonce: bytes = b"") -> bytes:
    """Returns a ticket's content; issued now by default."""
    issued = issued or time.time_ns()
    return (text(issuer) + text(user) + text(path) + struct.pack(">Iqq", access, issued, issued + life)
            + (nonce or os.urandom(16)))


def key(what: bytes, secret: bytes = SHARED) -> bytes:
    """The key that proves it."""
    return hmac.new(secret, b"RFIO 2 ticket\0" + what, hashlib.sha256).digest()


class Taking(Service):
    """A service that accepts the issuer's tickets, at once: its clock is the issuer's."""

    def __init__(self, place: Place, fabric: str = "tcp", *options: str, skew: int = 0):
        self.shared = place.directory / "tickets"
        self.shared.touch(0o600)
        self.shared.write_bytes(ISSUER + b":" + SHARED + b"\n")
        super().__init__(place, fabric, "--tickets", self.shared, "--ticket-skew", str(skew), *options)
        for name in ("f", "g"):
            (self.export / name).write_bytes(DATA)


def enter(service: Service, what: bytes, proof: bytes = b"") -> tuple[Peer, int, str]:
    """A session by a ticket, with its right key if none is given; or the refusal."""
    peer = Peer(service.port)
    return peer, *peer.redeem(what, proof or key(what))


def opened(peer: Peer, path: bytes, flags: int) -> tuple[int, bytes]:
    """Opens a file; returns the status, and the handle or the message."""
    status, body, _ = peer.ask(OPEN, text(path) + struct.pack(">II", flags, 0o644))
    return status, body[:8] if status == 0 else body[4:]


def good_once(place: Place) -> Outcome:
    """A ticket reads its file; a second use opens nothing and is refused with the reason."""
    with Taking(place) as service:
        what = claims()
        peer, status, words = enter(service, what)
        if status:
            return failed(f"a good ticket is refused: {words}")
        status, handle = opened(peer, b"/f", READING)
        if status:
            return failed(f"its file does not open: {handle!r}")
        status, _, data = peer.ask(READ, handle + struct.pack(">QIBB", 0, len(DATA), 0, 0))
        if status or data != DATA:
            return failed("the bytes differ")
        for moment in ("while its session stands", "after its session"):
            _, status, words = enter(service, what)
            if status != errno.EACCES or "already used" not in words:
                return failed(f"{moment} a used ticket is answered with {status} {words}")
            peer.close()
        counted = [service.metric(f"rfio_tickets_{kind}_total") for kind in ("redeemed", "refused")]
        return passed() if counted == [1, 2] else failed(f"counted {counted}, not 1 and 2")


def good_for_nothing_else(place: Place) -> Outcome:
    """Another file, more access than the ticket grants, the same file again, any operation by name: refused, and the
    session goes on."""
    with Taking(place) as service:
        (service.export / "d").mkdir()
        peer, status, words = enter(service, claims())
        if status:
            return failed(words)
        for path, flags in ((b"/g", READING), (b"/f/", READING), (b"//f", READING), (b"/d/../f", READING), (b"/f", WRITING),
                            (b"/f", READING | WRITING), (b"/f", READING | CREATING), (b"/new", WRITING | CREATING)):
            status, words = opened(peer, path, flags)
            if status not in (errno.EACCES, errno.EROFS):
                return failed(f"Open {path} {flags}: {status} {words}")
        for operation, body in ((STATUS, text(b"/f")), (UNLINK, text(b"/f"))):
            status, _, _ = peer.ask(operation, body)
            if status not in (errno.EACCES, errno.EROFS):
                return failed(f"operation {operation}: {status}")
        status, handle = opened(peer, b"/f", READING)
        if status:
            return failed(f"after refusals its file does not open: {handle!r}")
        write = handle + struct.pack(">QI", 0, 4) + struct.pack(">I", 0) + b"\0"
        if peer.ask(WRITE, write, b"evil")[0] == 0 or peer.ask(TRUNCATE, handle + struct.pack(">Q", 0))[0] == 0:
            return failed("a ticket for reading writes")
        if opened(peer, b"/f", READING)[0] == 0:
            return failed("a ticket opens its file twice")
        peer, _, _ = enter(service, claims(access=WRITING))
        status, handle = opened(peer, b"/f", WRITING)
        if status or peer.ask(WRITE, handle + struct.pack(">QI", 0, 4) + struct.pack(">I", 0) + b"\0", b"good")[0]:
            return failed("a ticket for writing does not write")
        if peer.ask(UNLINK, text(b"/f"))[0] != errno.EACCES:
            return failed("a ticket for writing removes its file")
        now = (service.export / "f").read_bytes()
        return passed() if now == b"good" + DATA[4:] else failed("the file holds something else")


def not_in_time(place: Place) -> Outcome:
    """Expired, of the future, for longer than any may be, for no time; clocks that differ by seconds do no harm."""
    with Taking(place, skew=2) as service:
        # Tickets possibly from before the start are refused: until one of a second ago cannot be.
        deadline = time.monotonic() + 30
        while enter(service, claims(issued=time.time_ns() - SECOND))[1] != 0:
            if time.monotonic() > deadline:
                return failed("no ticket is ever accepted")
            time.sleep(0.1)
        now = time.time_ns()
        for issued, life, accepted in ((now + SECOND, 60, ""), (now - 61 * SECOND, 60, "predate this server's start"),
                                       (now - SECOND, 2, ""), (now + 10 * SECOND, 60, "in the future"),
                                       (now - 10 * SECOND, 5, "the ticket expired"), (now, 301, "longer than"), (now, 0, "longer than"),
                                       (now, -60, "longer than"), (-1 << 62, 60, "the ticket expired"), ((1 << 63) - 61 * SECOND, 60, "future")):
            _, status, words = enter(service, claims(issued=issued, life=life * SECOND))
            if (status == 0) != (accepted == "") or accepted not in words:
                return failed(f"issued {(issued - now) / SECOND} s from now for {life} s: {status} {words}")
        return passed()


def forged(place: Place) -> Outcome:
    """Another secret, an unknown issuer, changed claims, a proof that was overheard: none of it is accepted, nor uses
    up the real ticket. The refusal says no more than that."""
    with Taking(place) as service:
        real = claims()
        attempts: list[tuple[bytes, bytes]] = [(real, bytes(32)), (real, key(real, b"another secret than theirs")),
                                               (claims(issuer=b"me"), b""), (claims(issuer=b""), b"")]
        for at in range(0, len(real), 3):
            changed = bytearray(real)
            changed[at] ^= 1
            attempts.append((bytes(changed), key(real)))
        for what, proof in attempts:
            try:
                _, status, words = enter(service, what, proof)
            except Closed:
                # Lengths that make no sense break the protocol.
                continue
            if status != errno.EACCES or "access denied" not in words:
                return failed(f"{what!r} is answered with {status} {words}")
        _, status, words = enter(service, claims(access=8))
        if status != errno.EINVAL:
            return failed(f"an unknown access: {status} {words}")
        _, status, words = enter(service, real)
        return passed() if status == 0 else failed(f"forgeries have used the real ticket up: {words}")


def raced(place: Place) -> Outcome:
    """Of many clients that redeem a ticket at the same moment exactly one is accepted."""
    with Taking(place, "tcp", "--threads", "4") as service:
        for _ in range(20):
            what, let_in = claims(), []
            barrier = threading.Barrier(8)

            def attempt() -> None:
                barrier.wait()
                if enter(service, what)[1] == 0:
                    let_in.append(1)

            threads = [threading.Thread(target=attempt) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if len(let_in) != 1:
                return failed(f"{len(let_in)} of 8 are accepted")
        return passed()


def restarted(place: Place) -> Outcome:
    """A ticket that was used is not good again with the server that comes after."""
    with Taking(place) as service:
        what = claims()
        if enter(service, what)[1]:
            return failed("a good ticket is refused")
        service.kill()
        service.start()
        _, status, words = enter(service, what)
        if status != errno.EAGAIN or "start" not in words:
            return failed(f"after a restart: {status} {words}")
        return passed() if enter(service, claims())[1] == 0 else failed("after a restart a fresh ticket is refused")


def reloaded(place: Place) -> Outcome:
    """SIGHUP: a new issuer is known, the old one is not; a bad file changes nothing. A server without issuers refuses
    tickets with the reason."""
    with Taking(place) as service:
        def reload(content: bytes, words: str) -> None:
            before = service.daemon.output().count(words)
            service.shared.write_bytes(content)
            os.kill(service.daemon.pid, signal.SIGHUP)
            deadline = time.monotonic() + 20
            while service.daemon.output().count(words) == before and time.monotonic() < deadline:
                time.sleep(0.01)

        other = claims(issuer=b"second")
        reload(b"second:" + SHARED + b"2\n", "rfiod: reloaded")
        if enter(service, claims())[1] == 0 or enter(service, other, key(other, SHARED + b"2"))[1]:
            return failed("the new issuer is not known, or the old one is")
        reload(b"second:short\n", "reload failed")
        other = claims(issuer=b"second")
        if enter(service, other, key(other, SHARED + b"2"))[1]:
            return failed("a bad file has changed something")
    with Service(place, "tcp") as service:
        _, status, words = enter(service, claims())
        return passed() if status == errno.EACCES and "accepts no tickets" in words else failed(f"{status} {words}")


def nonsense(place: Place) -> Outcome:
    """Truncated, too long and random claims end the connection or are refused; the server goes on."""
    with Taking(place) as service:
        dice = random.Random(3)
        longest = claims(path=b"/" + b"x" * 4094, user=b"u" * 1024)
        _, status, words = enter(service, longest)
        if status:
            return failed(f"the longest claims are refused: {words}")
        for what in spoilt(dice):
            try:
                if enter(service, what, bytes(32))[1] == 0:
                    return failed(f"{what!r} lets in")
            except Closed:
                pass
        return passed() if enter(service, claims())[1] == 0 else failed("the server does not go on")


def spoilt(dice: random.Random) -> Iterator[bytes]:
    """Claims that make no sense."""
    real = claims()
    for cut in range(0, len(real), 5):
        yield real[:cut]
    for _ in range(100):
        yield dice.randbytes(dice.randrange(200))
    yield claims(path=b"/" + b"x" * 4095)
    yield claims(user=b"u" * 1025)
    yield claims(path=b"/a\0b")
    yield claims(user=b"\xff\xfe")
    yield real + b"\0"


CASES = {
    "a ticket is good once": good_once, "a ticket is good for nothing else": good_for_nothing_else,
    "tickets out of their time": not_in_time, "forged tickets": forged, "a ticket that many redeem at once": raced,
    "used tickets after a restart": restarted, "issuers come and go": reloaded, "tickets that make no sense": nonsense}
