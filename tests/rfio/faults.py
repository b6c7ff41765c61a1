"""Faults during a copy: acceptance 3."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import socket
import subprocess
import time

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .service import SECRET, USER, Service, noise, same
from .wire import OPEN, READ, Peer, text

import struct


def disk_full(place: Place, fabric: str) -> Outcome:
    """No space on the server: exit code 28, no file, and other clients go on. No space here, with parallel sessions: the
    same exit code and no signal, and the copy continues once there is space."""
    if os.geteuid() != 0:
        return skipped("needs root, to mount a small file system")
    small = place.directory / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], check=True)
    try:
        with Service(place, fabric, export=small) as service:
            large, little = service.here / "large", service.here / "little"
            large.write_bytes(noise(20 << 20))
            little.write_bytes(noise(100_000))
            ended = service.tool("rfcp", large, service.at("large"))
            if ended.status != 28 or (small / "large").exists():
                return failed("a full disk is not exit code 28", ended.evidence())
            (small / ".large.rfpart").unlink()
            ended = service.tool("rfcp", little, service.at("little"))
            if not ended.succeeded or not same(little, small / "little"):
                return failed("the server does not go on", ended.evidence())
        with Service(place, fabric) as service:
            large = service.export / "large"
            large.write_bytes(noise(20 << 20))
            ended = service.tool("rfcp", "-P", 4, service.at("large"), small / "large")
            if ended.status != 28 or (small / "large").exists():
                return failed("a full disk here is not exit code 28", ended.evidence())
            subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
            ended = service.tool("rfcp", "-P", 4, "--continue", "--json", service.at("large"), small / "large")
            if not ended.succeeded or not same(large, small / "large"):
                return failed("the copy does not continue", ended.evidence())
            if json.loads(ended.output.splitlines()[-1])["kept_bytes"] == 0:
                return failed("nothing of the first attempt is kept", ended.evidence())
        return passed()
    finally:
        subprocess.run(["umount", small], check=True)


def changed_while_read(place: Place, fabric: str, how: str) -> Outcome:
    """The source is truncated, or replaced by another: an error with the reason, and no file."""
    with Service(place, fabric) as service:
        source = service.export / "f"
        source.write_bytes(noise(64 << 20))
        fifo = service.here / "fifo"
        os.mkfifo(fifo)
        copy = service.begin("rfcp", service.at("f"), fifo)
        with open(fifo, "rb") as pipe:
            pipe.read(1 << 20)
            if how == "truncated":
                os.truncate(source, 1000)
            else:
                other = service.export / "other"
                other.write_bytes(noise(64 << 20, 2))
                other.rename(source)
            while pipe.read(1 << 20):
                pass
        ended = copy.finish(time.monotonic() + 60)
        if ended.status != 2 or "changed" not in ended.output:
            return failed("the change was not noticed", ended.evidence())
        return passed()


def slow_readers(place: Place, fabric: str) -> Outcome:
    """Clients that send requests and do not read the replies: others read on, and the server's memory stays bounded."""
    with Service(place, fabric, "--cache", "8M") as service:
        data = noise(16 << 20)
        (service.export / "f").write_bytes(data)
        before = service.resident_mebibytes()
        slow = []
        for _ in range(60):
            peer = Peer(service.port)
            assert peer.log_in(USER, SECRET) == 0
            status, body, _ = peer.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
            assert status == 0
            handle = body[:8]
            for at in range(0, 16 << 20, 1 << 20):
                peer.send(READ, handle + struct.pack(">QIBB", at, 1 << 20, 0, 0))
            slow.append(peer)
        ended = service.tool("rfcp", service.at("f"), service.here / "copy")
        if not ended.succeeded or (service.here / "copy").read_bytes() != data:
            return failed("slow readers keep others from reading", ended.evidence())
        grown = service.resident_mebibytes() - before
        if grown > 8 + 32 + 24:
            return failed(f"the server grew by {grown:.0f} MiB")
        # They get all their data in the end, piece by piece.
        for peer in slow[::20]:
            status, body, payload = peer.receive()
            length = struct.unpack(">I", body[:4])[0]
            if status != 0 or payload != data[:length] or length == 0:
                return failed("a slow reader got other bytes")
        for peer in slow:
            peer.close()
        return passed(f"grew by {grown:.0f} MiB with 60 readers that take nothing")


def half_open(place: Place, fabric: str) -> Outcome:
    """Ten thousand silent connections: others are served, the server stays small."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 10_500:
        return skipped("needs 10,500 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Service(place, fabric) as service:
        (service.export / "f").write_bytes(noise(1 << 20))
        before = service.resident_mebibytes()
        silent = []
        for number in range(10_000):
            # A high number, so that programs which watch the tools' ends by select(2) keep low numbers.
            with socket.create_connection(("127.0.0.1", service.port), 20) as connection:
                silent.append(fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, 2000))
            if number % 2500 == 0:
                ended = service.tool("rfcp", service.at("f"), service.here / f"copy{number}")
                if not ended.succeeded:
                    return failed(f"no client is served beside {number} silent connections", ended.evidence())
        ended = service.tool("rfcp", service.at("f"), service.here / "copy")
        grown = service.resident_mebibytes() - before
        turned_away = service.metric("rfio_connections_turned_away_total")
        for connection in silent:
            os.close(connection)
        if not ended.succeeded:
            return failed("no client is served beside 10,000 silent connections", ended.evidence())
        if grown > 64 or turned_away < 9_000:
            return failed(f"grew by {grown:.0f} MiB, turned {turned_away} away")
        return passed(f"grew by {grown:.0f} MiB")


def server_restarted(place: Place, fabric: str) -> Outcome:
    """A clean stop accepts no session and loses nothing; a new server serves the same."""
    with Service(place, fabric) as service:
        (service.export / "f").write_bytes(noise(1 << 20))
        ended = service.stop()
        if not ended.succeeded or "stopping" not in ended.output:
            return failed("the daemon does not stop cleanly", ended.evidence())
        ended = service.tool("rfcp", service.at("f"), service.here / "copy")
        if ended.status != 2:
            return failed("no server is not exit code 2", ended.evidence())
        service.start()
        ended = service.tool("rfcp", service.at("f"), service.here / "copy")
        return passed() if ended.succeeded else failed("not served again", ended.evidence())


def reloaded(place: Place) -> Outcome:
    """SIGHUP: new secrets are in force for new sessions, existing ones go on, and a bad file changes nothing."""
    with Service(place, "tcp") as service:
        standing = Peer(service.port)
        assert standing.log_in(USER, SECRET) == 0

        def hang_up(words: str) -> bool:
            before = service.daemon.output().count(words)
            os.kill(service.daemon.pid, 1)
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and service.daemon.output().count(words) == before:
                time.sleep(0.01)
            return service.daemon.output().count(words) > before

        old = service.secrets.read_bytes()
        service.secrets.write_bytes(b"other:" + SECRET[::-1] + b"\n")
        if not hang_up("rfiod: reloaded"):
            return failed("SIGHUP does nothing", service.daemon.output())
        fresh = Peer(service.port)
        if fresh.log_in(b"other", SECRET[::-1]) != 0 or Peer(service.port).log_in(USER, SECRET) == 0:
            return failed("the new secrets are not in force")
        if standing.ask(30, text(b"/"))[0] != 0:
            return failed("a session that stood has ended")
        service.secrets.write_bytes(b"no secret at all\n")
        if not hang_up("reload failed") or Peer(service.port).log_in(b"other", SECRET[::-1]) != 0:
            return failed("a bad file is taken", service.daemon.output())
        service.secrets.write_bytes(old)
        return passed()


def two_writers(place: Place, fabric: str) -> Outcome:
    """A second copy to the same place fails because it is busy: exit code 16."""
    with Service(place, fabric) as service:
        (service.here / "f").write_bytes(noise(1000))
        fifo = service.here / "fifo"
        os.mkfifo(fifo)
        first = service.begin("rfcp", fifo, service.at("f"))
        with open(fifo, "wb") as pipe:
            pipe.write(b"first")
            pipe.flush()
            while not (service.export / ".f.rfpart").exists():
                time.sleep(0.005)
            second = service.tool("rfcp", service.here / "f", service.at("f"))
        ended = first.finish(time.monotonic() + 30)
        if second.status != 16 or not ended.succeeded:
            return failed("two writers of one file", second.evidence() + ended.evidence())
        return passed() if (service.export / "f").read_bytes() == b"first" else failed("mixed bytes")
