"""Limits by address: this host has many, 127.0.0.2 and so on, and each is a separate client."""

from __future__ import annotations

import errno
import os
import signal
import struct
import time

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .service import SECRET, USER, Service, noise
from .wire import OPEN, PING, READ, READ_VECTOR, Peer, text


class Limited(Service):
    """A service with these limits by address."""

    def __init__(self, place: Place, rules: str, *options: str):
        self.rules = place.directory / "addresses"
        self.rules.write_text(rules)
        super().__init__(place, "tcp", "--addresses", self.rules, *options)

    def change(self, rules: str) -> str:
        """Reloads other limits; returns the daemon's message."""
        before = len(self.daemon.output())
        self.rules.write_text(rules)
        os.kill(self.daemon.pid, signal.SIGHUP)
        deadline = time.monotonic() + 20
        while "\n" not in self.daemon.output()[before:] and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.daemon.output()[before:]


def enter(service: Service, source: str) -> tuple[Peer, int]:
    """A session from an address: the status of its refusal, or 0."""
    peer = Peer(service.port, source=source)
    return peer, peer.log_in(USER, SECRET)


def sessions(place: Place) -> Outcome:
    """So many sessions of each host, and of a network together; others are not touched; one that ends frees space."""
    with Limited(place, "127.0.0.0/8 sessions=2\n127.1.0.0/16 together sessions=3\n127.9.0.0/16 refuse\n") as service:
        kept = [enter(service, source) for source in ("127.0.0.2",) * 2 + ("127.0.0.3",) * 2 + ("127.1.0.1", "127.1.0.2", "127.1.0.3")]
        if any(status for _, status in kept):
            return failed(f"within the limits: {[status for _, status in kept]}")
        for source, wanted in (("127.0.0.2", errno.EBUSY), ("127.1.0.4", errno.EBUSY), ("127.9.0.1", errno.EACCES), ("127.0.0.4", 0)):
            status = enter(service, source)[1]
            if status != wanted:
                return failed(f"from {source}: {status}, not {wanted}")
        if service.metric("rfio_address_refusals_total") != 3:
            return failed("refusals are not counted")
        kept[0][0].close()
        deadline = time.monotonic() + 20
        while enter(service, "127.0.0.2")[1]:
            if time.monotonic() > deadline:
                return failed("a session that has ended makes no room")
        return passed()


def words(place: Place) -> Outcome:
    """The user's message says how many sessions are open, or that the network is refused; the exit code is that of
    busy, or of no permission."""
    with Limited(place, "127.0.0.1 sessions=1\n") as service:
        (service.export / "f").write_bytes(b"x")
        kept = Peer(service.port)
        if kept.log_in(USER, SECRET):
            return failed("the first session is refused")
        ended = service.tool("rfcp", service.at("f"), service.here / "f")
        if ended.status != 16 or "sessions: 127.0.0.1 already has 1, the limit of each address in 127.0.0.1" not in ended.output:
            return failed("a limit", ended.evidence())
        service.change("127.0.0.0/8 refuse\n")
        ended = service.tool("rfcp", service.at("f"), service.here / "f")
        if ended.status != 2 or "connections from 127.0.0.0/8 are refused" not in ended.output:
            return failed("a refusal", ended.evidence())
        status, _, _ = kept.ask(PING)
        return passed() if status == 0 else failed("an existing session is ended")


def rates(place: Place) -> Outcome:
    """Requests and bytes of all of a host's sessions are limited to its rate, none of them is refused, and another
    host's are not slowed."""
    with Limited(place, "127.0.0.2 requests=100\n127.0.0.4 bytes=4M\n") as service:
        begun = time.monotonic()
        peers = [enter(service, "127.0.0.2")[0] for _ in range(4)]
        asked = 0
        while time.monotonic() - begun < 2:
            for peer in peers:
                peer.send(PING)
            for peer in peers:
                if peer.receive()[0]:
                    return failed("a request is refused")
                asked += 1
        # One more for each session, which may come in before another one's is counted.
        if asked > 100 * (1 + time.monotonic() - begun) + len(peers):
            return failed(f"{asked} requests at 100 a second")
        if service.metric("rfio_address_waits_total") == 0:
            return failed("delayed requests are not counted")
        begun, other = time.monotonic(), enter(service, "127.0.0.3")[0]
        for _ in range(1000):
            other.ask(PING)
        if time.monotonic() - begun > 9:
            return failed("another host is held back")
        data = noise(8 << 20)
        (service.export / "f").write_bytes(data)
        reader = enter(service, "127.0.0.4")[0]
        _, body, _ = reader.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
        begun, read = time.monotonic(), b""
        while len(read) < len(data):
            read += reader.ask(READ, body[:8] + struct.pack(">QIBB", len(read), 1 << 20, 0, 0))[2]
        # The last MiB is begun when the other seven have been paid for: four at once, and four a second.
        took = time.monotonic() - begun
        return passed() if read == data and took >= 0.74 else failed(f"8 MiB at 4 MiB/s took {took} s")


def reloaded(place: Place) -> Outcome:
    """SIGHUP: new limits hold for existing sessions, too; an invalid file changes nothing, and the line is named."""
    with Limited(place, "127.0.0.2 sessions=1\n") as service:
        peer, _ = enter(service, "127.0.0.2")
        said = service.change("127.0.0.2 sessions=2 requests=5\n")
        second, status = enter(service, "127.0.0.2")
        if "rfiod: reloaded" not in said or status:
            return failed(f"a wider limit does not hold: {said}")
        begun = time.monotonic()
        for _ in range(9):
            peer.ask(PING)
        # Five at once; the last of the others is begun when three more have been paid for.
        if time.monotonic() - begun < 0.6:
            return failed("a new rate does not hold for an existing session")
        said = service.change("127.0.0.2 sessions=2\n127.0.0.2 sessions=many\n")
        if "line 2" not in said or "reload failed" not in said:
            return failed(f"a bad line is not named: {said}")
        status = enter(service, "127.0.0.2")[1]
        second.close()
        return passed() if status == errno.EBUSY else failed(f"a bad file has changed something: {status}")


def claims(place: Place) -> Outcome:
    """Requests that are not served are not charged: lengths beyond any limit, of a file that is not open, and of one
    that is short."""
    with Limited(place, "127.0.0.2 bytes=64k\n") as service:
        (service.export / "f").write_bytes(b"x")
        peer = enter(service, "127.0.0.2")[0]
        _, body, _ = peer.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
        begun = time.monotonic()
        for handle in (bytes(8), body[:8]):
            for _ in range(8):
                peer.ask(READ, handle + struct.pack(">QIBB", 0, 1 << 20, 0, 0))
        huge = struct.pack(">I", 1024) + struct.pack(">QI", 0, 0xffffffff) * 1024
        peer.ask(READ_VECTOR, body[:8] + huge + bytes(2))
        status, _, _ = peer.ask(PING)
        # A MiB would be charged for 16 seconds.
        took = time.monotonic() - begun
        return passed() if status == 0 and took < 10 else failed(f"{status} after {took} s")


def crowd(place: Place) -> Outcome:
    """Connections from a refused network, however many, do not displace other connections that are not authenticated
    yet."""
    with Limited(place, "127.9.0.0/16 refuse\n", "--strangers", "8", "--threads", "1") as service:
        honest = Peer(service.port)
        refused = [Peer(service.port, source="127.9.0.1") for _ in range(40)]
        deadline = time.monotonic() + 20
        while service.metric("rfio_connections_turned_away_total") < 33 and time.monotonic() < deadline:
            time.sleep(0.01)
        turned_away = service.metric("rfio_connections_turned_away_total")
        status = honest.log_in(USER, SECRET)
        for peer in refused:
            peer.close()
        return passed() if (status, turned_away) == (0, 33) else failed(f"{status}; {turned_away} turned away")


def ended_clients(place: Place) -> Outcome:
    """A client that leaves while its rate delays it has no session any more, and frees space for another."""
    with Limited(place, "127.0.0.2 sessions=1 bytes=1k\n") as service:
        (service.export / "f").write_bytes(noise(1 << 20))
        peer = enter(service, "127.0.0.2")[0]
        _, body, _ = peer.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
        # Paid for in a quarter of an hour.
        peer.ask(READ, body[:8] + struct.pack(">QIBB", 0, 1 << 20, 0, 0))
        peer.send(PING)
        peer.close()
        deadline = time.monotonic() + 20
        while enter(service, "127.0.0.2")[1]:
            if time.monotonic() > deadline:
                return failed("a client that has ended still has a session")
        # The debt is the address's.
        deadline = time.monotonic() + 20
        while service.metric("rfio_address_waits_total") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        return passed() if service.metric("rfio_address_waits_total") >= 2 else failed("its debt is forgotten")


CASES = {"sessions": sessions, "words": words, "rates": rates, "reloaded": reloaded, "claims": claims, "crowd": crowd, "gone": ended_clients}
