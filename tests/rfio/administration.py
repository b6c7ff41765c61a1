"""The administrator's guarantees: descriptors are shared out, users are banned, sessions are listed and ended, and a
service that stops answers the requests that it has begun."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import struct
import threading
import time
from typing import Callable

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .exhaustion import CLOSE, READING, WRITE, WRITING, session
from .rights import Restricted
from .service import SECRET, USER, Service, noise
from .wire import OPEN, PING, READ, Closed, Peer, text


def few_descriptors(place: Place) -> Outcome:
    """One user takes all sessions and then all files that one user may have: that user is refused, others copy."""
    with Restricted(place, (USER, b"other"), {}) as service:
        service.stop()
        # The daemon raises the soft limit itself.
        service.wrapper = ("prlimit", "--nofile=200:256")
        service.start()
        said = service.daemon.output()
        if not re.search(r"warning: the limit of open files is 256, so --sessions is \d+ instead of 4096", said):
            return failed("no warning of a low limit", said)
        hoarded, status = [], 0
        while not status and len(hoarded) < 242:
            peer = Peer(service.port)
            status = peer.log_in(USER, SECRET)
            if not status:
                # A session with an open file is not idle, and makes no space.
                opened = peer.ask(OPEN, text(b"/f%d" % len(hoarded)) + WRITING)[0]
                if opened not in (0, errno.EMFILE):
                    return failed(f"a file is refused with {opened}")
                hoarded.append(peer)
        if status != errno.EBUSY:
            return failed(f"one user has {len(hoarded)} sessions of 256 descriptors; the next is answered with {status}")
        source = service.here / "f"
        source.write_bytes(noise(1 << 20))
        for _ in range(3):
            ended = service.tool("rfcp", source, service.at("copy"), RFIO_USER="other")
            if not ended.succeeded:
                return failed(f"another user is kept out by {len(hoarded)} sessions", ended.evidence())
        return passed(f"{len(hoarded)} sessions of one user")


def banned(place: Place) -> Outcome:
    """A ban ends the user's sessions and refuses new ones; others go on; a bad file changes nothing."""
    users = (b"ann", b"bob", b"a b")
    with Restricted(place, users, {"banned": b""}) as service:
        ann, bob, odd = (service.enter(user) for user in users)
        if not service.change("banned", b"ann bob\n", "reload failed"):
            return failed("a bad file is accepted")
        if any(peer.ask(PING)[0] for peer in (ann, bob, odd)):
            return failed("a bad file ends sessions")
        if not service.change("banned", b"# why\nann\na\\040b\n"):
            return failed("a good file is refused", service.daemon.output())
        for peer in (ann, odd):
            if not peer.closed():
                return failed("a banned user's session goes on")
        if bob.ask(PING)[0]:
            return failed("another user's session has ended")
        if Peer(service.port).log_in(b"ann", SECRET) != errno.EACCES or Peer(service.port).log_in(b"bob", SECRET):
            return failed("a banned user is accepted, or another is not")
        events = [json.loads(line) for line in service.audit.read_text().splitlines()]
        ends = [event for event in events if event["event"] == "ended" and "banned" in event["reason"]]
        if sorted(event["user"] for event in ends) != ["a b", "ann"]:
            return failed(f"the audit log has {ends}")
        if not service.change("banned", b"") or Peer(service.port).log_in(b"ann", SECRET):
            return failed("the end of a ban has no effect")
        return passed()


def ended_by_hand(place: Place) -> Outcome:
    """`rfiod sessions` lists the sessions, `rfiod end` ends one session or all of a user; only root and the daemon's
    user may call them."""
    with Restricted(place, (b"ann", b"b\tb"), {}) as service:
        admin = service.directory / "admin"
        service.stop()
        service.options = (*service.options, "--admin", str(admin))
        service.start()
        first, second, other = service.enter(b"ann"), service.enter(b"ann"), service.enter(b"b\tb")
        ended = service.tool("rfiod", "sessions", "--admin", admin, "--json")
        sessions = json.loads(ended.output)["sessions"] if ended.succeeded else []
        if [one["user"] for one in sessions] != ["ann", "ann", "b\tb"]:
            return failed("the list of sessions is wrong", ended.evidence())
        table = service.tool("rfiod", "sessions", "--admin", admin)
        if not table.succeeded or "b\\tb" not in table.output or "\t" in table.output:
            return failed("the table shows names without escapes", table.evidence())
        ended = service.tool("rfiod", "end", sessions[0]["session"], "--admin", admin)
        if not ended.succeeded or not first.closed() or second.ask(PING)[0]:
            return failed("the one session does not end", ended.evidence())
        ended = service.tool("rfiod", "end", "b\tb", "--admin", admin)
        if not ended.succeeded or not other.closed() or second.ask(PING)[0]:
            return failed("the user's sessions do not end", ended.evidence())
        for target in ("no-such-user", "999999"):
            if service.tool("rfiod", "end", target, "--admin", admin).status != 2:
                return failed(f"'rfiod end {target}' is no error")
        os.chmod(service.directory, 0o755)
        os.chmod(admin, 0o666)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setuid(1)
                peer = socket.socket(socket.AF_UNIX)
                peer.connect(str(admin))
                try:
                    peer.sendall(b'{"end_user": "ann"}\n')
                except BrokenPipeError:
                    # It is refused before it asks.
                    pass
                code = 0 if b"only root" in peer.recv(1000) else 2
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1] or second.ask(PING)[0]:
            return failed("another user of this host ends sessions")
        service.stop()
        return passed() if not admin.exists() else failed("the socket stays")


def drained(place: Place) -> Outcome:
    """At SIGTERM requests under way are answered, to the last byte, new ones are refused with the status that says
    'again', and the daemon ends in time, no matter how clients behave."""
    with Service(place, "tcp") as service:
        (service.export / "f").write_bytes(noise(64 << 20))
        slow, idle, stubborn = session(service), session(service), session(service)
        status, body, _ = slow.ask(OPEN, text(b"/f") + READING)
        assert status == 0
        # 4 MiB each, which the client does not read yet.
        for number in range(3):
            slow.send(READ, body[:8] + struct.pack(">QIBB", number * (4 << 20), 4 << 20, 0, 0))
        time.sleep(0.3)
        begun = time.monotonic()
        os.kill(service.daemon.pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while "stopping" not in service.daemon.output() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.05)
        status, words, _ = idle.ask(30, text(b"/"))
        if status != errno.ESHUTDOWN or b"retry shortly" not in words:
            return failed(f"a new request is answered with {status} {words!r}")
        try:
            refused = Peer(service.port).log_in(USER, SECRET)
        except (Closed, OSError):
            refused = -1
        if refused == 0:
            return failed("a new session is accepted")

        def ask_on() -> None:
            try:
                while True:
                    stubborn.ask(PING)
            except (Closed, OSError):
                pass

        thread = threading.Thread(target=ask_on)
        thread.start()
        time.sleep(1)
        # Later than the end of idle sessions.
        whole = noise(64 << 20)
        for number in range(3):
            status, _, data = slow.receive()
            # Requests that the daemon had not read before the stop are new.
            if number and status == errno.ESHUTDOWN:
                continue
            if status or not data or data != whole[number * (4 << 20):][:len(data)]:
                return failed(f"read {number} under way is answered with {status} and {len(data)} bytes")
        ended = service.daemon.finish(time.monotonic() + 30)
        service.daemon = None
        took = time.monotonic() - begun
        thread.join()
        if not ended.succeeded or took > 8:
            return failed(f"the end came after {took:.1f} s", ended.evidence())
        return passed(f"in {took:.1f} s")


def drained_in_time(place: Place) -> Outcome:
    """A client that reads nothing does not keep a service from ending."""
    with Service(place, "tcp", "--stop-timeout", "2") as service:
        (service.export / "f").write_bytes(noise(64 << 20))
        peers = [session(service) for _ in range(4)]
        for peer in peers:
            _, body, _ = peer.ask(OPEN, text(b"/f") + READING)
            for number in range(8):
                peer.send(READ, body[:8] + struct.pack(">QIBB", number * (4 << 20), 4 << 20, 0, 0))
        time.sleep(0.5)
        begun = time.monotonic()
        ended = service.stop()
        took = time.monotonic() - begun
        return passed(f"in {took:.1f} s") if ended.succeeded and took < 6 else failed(f"after {took:.1f} s", ended.evidence())


def uploads_are_closed(place: Place) -> Outcome:
    """Files with acknowledged writes before the stop may be closed during it."""
    with Service(place, "tcp") as service:
        peer = session(service)
        _, body, _ = peer.ask(OPEN, text(b"/f") + WRITING)
        assert peer.ask(WRITE, body[:8] + struct.pack(">QIIB", 0, 4, 0, 0), b"data")[0] == 0
        os.kill(service.daemon.pid, signal.SIGTERM)
        time.sleep(0.1)
        late, status = peer.ask(WRITE, body[:8] + struct.pack(">QIIB", 4, 4, 0, 0), b"late")[0], peer.ask(CLOSE, body[:8])[0]
        if late != errno.ESHUTDOWN or status:
            return failed(f"write {late}, close {status}")
        return passed() if (service.export / "f").read_bytes() == b"data" else failed("other bytes are there")


CASES: dict[str, Callable[[Place], Outcome]] = {
    "few descriptors": few_descriptors, "banned users": banned, "sessions ended by hand": ended_by_hand,
    "a stop": drained, "a stop in time": drained_in_time, "a stop in the middle of an upload": uploads_are_closed,
}
