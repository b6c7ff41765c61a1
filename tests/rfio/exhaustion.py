"""Resource exhaustion: authenticated clients that keep their resources; each tries to leave others without."""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
import threading
import time
from shutil import which
from typing import Callable

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .elsewhere import HOST
from .encrypted import certificate
from .attacks import alive
from .service import SECONDS, SECRET, USER, Service, noise, same
from .wire import ANONYMOUS, HEADER, MAGIC, OPEN, Closed, Peer, text

CLOSE, WRITE, CHECKSUM, LIST = 11, 14, 21, 42
EMFILE = 24
BLOCK = 256 << 10
#: Open for reading; for writing, made if missing.
READING, WRITING = struct.pack(">II", 1, 0), struct.pack(">II", 2 | 4, 0o600)


def session(service: Service) -> Peer:
    """One that stands."""
    peer = Peer(service.port)
    assert peer.log_in(USER, SECRET) == 0
    return peer


def until(holds: Callable[[], bool]) -> None:
    """Waits until the condition holds; the case itself then reports a missing event."""
    deadline = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)


def unread_replies(place: Place) -> Outcome:
    """Long replies are requested and not read: they count as memory in use, which is bounded."""
    with Service(place, "tcp") as service:
        (service.export / "d").mkdir()
        for number in range(4000):
            (service.export / "d" / f"{number:0200}").touch()
        before = service.resident_mebibytes()
        attackers = [session(service) for _ in range(60)]
        for peer in attackers:
            for _ in range(8):
                peer.send(LIST, text(b"/d") + struct.pack(">QI", 0, 4096))
        # Until the service answers no more of them.
        answered, deadline = -1, time.monotonic() + 20
        while time.monotonic() < deadline:
            before_that, answered = answered, service.metric('rfio_requests_total{operation="List"}')
            if answered == before_that and answered > 0:
                break
            time.sleep(0.5)
        grown = service.resident_mebibytes() - before
        if grown > 32 + 32:
            return failed(f"60 clients that take no lists cost {grown:.0f} MiB")
        for peer in attackers:
            peer.close()
        return passed(f"grew by {grown:.0f} MiB") if alive(service) else failed("an honest client is not served")


def waiting_writes(place: Place) -> Outcome:
    """Writes wait behind slow requests, more of them than there is memory for: memory is bounded, and all are carried
    out in the end, because a queued write has the memory that it needs."""
    with Service(place, "tcp") as service:
        before, ahead, size = service.resident_mebibytes(), 20, 256 << 10
        data, refused = noise(size), []

        def hoard(number: int) -> None:
            peer = session(service)
            _, body, _ = peer.ask(OPEN, text(b"/%d" % number) + struct.pack(">II", 1 | 2 | 4, 0o600))
            # Long, without data.
            assert peer.ask(18, body[:8] + struct.pack(">Q", 1 << 30))[0] == 0
            sums = body[:8] + struct.pack(">QII", 0, BLOCK, 64)

            def send() -> None:
                for place in range(ahead):
                    peer.send(CHECKSUM, sums)
                    peer.send(WRITE, body[:8] + struct.pack(">QIIB", place * size, size, 0, 0), data)

            sender = threading.Thread(target=send)
            sender.start()
            refused.extend(status for status in [peer.receive()[0] for _ in range(2 * ahead)] if status)
            sender.join()
            peer.close()

        attackers = [threading.Thread(target=hoard, args=(number,)) for number in range(12)]
        for thread in attackers:
            thread.start()
        most = 0.0
        while any(thread.is_alive() for thread in attackers):
            most = max(most, service.resident_mebibytes() - before)
            time.sleep(0.02)
        for thread in attackers:
            thread.join()
        wrong = [number for number in range(12) if (service.export / str(number)).open("rb").read(ahead * size) != data * ahead]
        if refused or wrong:
            return failed(f"refused with {set(refused)}; not written: {wrong}")
        if most > 32 + 32:
            return failed(f"12 clients whose writes wait cost {most:.0f} MiB")
        return passed(f"grew by {most:.0f} MiB") if alive(service) else failed("an honest client is not served")


def unfinished_writes(place: Place) -> Outcome:
    """A payload is announced and comes a byte at a time: its memory becomes available to others of the same user in the
    end."""
    with Service(place, "tcp", "--buffers-per-user", "64K", "--stall-timeout", "1") as service:
        attacker = session(service)
        status, body, _ = attacker.ask(OPEN, text(b"/held-open") + WRITING)
        assert status == 0
        request = body[:8] + struct.pack(">QIIB", 0, 64 << 10, 0, 0)
        attacker.send(WRITE, request, payload_length=64 << 10)
        attacker.socket.sendall(b"x" * 4096)
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.2):
                try:
                    attacker.socket.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        source = service.here / "f"
        source.write_bytes(noise(50_000))
        ended = service.tool("rfcp", source, service.at("f"))
        stop.set()
        thread.join()
        if not ended.succeeded or not same(source, service.export / "f"):
            return failed("an unfinished write keeps another from writing", ended.evidence())
        if service.metric("rfio_stalls_total") < 1:
            return failed("the stall is not counted")
        return passed() if attacker.closed() else failed("the attacker's session goes on")


def open_files(place: Place) -> Outcome:
    """A user opens files without end, in several sessions: refused at the cap, and all other clients go on."""
    with Service(place, "tcp", "--open-files-per-user", "20") as service:
        (service.export / "f").write_bytes(b"x")
        attackers = [session(service) for _ in range(3)]
        answers = [peer.ask(OPEN, text(b"/f") + READING) for peer in attackers for _ in range(10)]
        statuses = [status for status, _, _ in answers]
        if statuses != [0] * 20 + [EMFILE] * 10:
            return failed(f"opened {statuses.count(0)} of 20, the others ended with {set(statuses)}")
        if service.metric("rfio_open_files") != 20:
            return failed("the open files are not in the metrics")
        attackers[0].ask(CLOSE, answers[0][1][:8])
        if attackers[2].ask(OPEN, text(b"/f") + READING)[0] != 0:
            return failed("a closed file is not released")
        attackers[1].close()
        # The service notices it after a while.
        until(lambda: service.metric("rfio_open_files") <= 10)
        ended = service.tool("rfcp", service.at("f"), service.here / "f")
        return passed() if ended.succeeded else failed("a session that ends keeps its files", ended.evidence())


def long_bodies(place: Place) -> Outcome:
    """A body longer than any request of the session can be, and a name with a NUL: the session ends at once."""
    with Service(place, "tcp") as service:
        for what, attempt in {
                "a long body": lambda peer: peer.send(OPEN, b"", body_length=1 << 20),
                "a NUL": lambda peer: peer.send(OPEN, text(b"/f\0/../../etc/passwd") + READING),
                "a path beyond its frame": lambda peer: peer.send(OPEN, struct.pack(">I", 4000) + b"/f")}.items():
            peer = session(service)
            attempt(peer)
            if not peer.closed():
                return failed(f"{what} is answered")
        return passed() if alive(service) else failed("an honest client is not served")


def swapped_links(place: Place) -> Outcome:
    """A directory on the path becomes a link that leads out, and a directory again, as fast as that goes: no open
    reads, and none makes, a file outside."""
    with Service(place, "tcp") as service:
        outside = service.directory / "outside"
        outside.mkdir()
        (outside / "f").write_bytes(b"secret")
        swapped, inside, link = service.export / "d", service.export / "inside", service.export / "link"
        inside.mkdir()
        (inside / "f").write_bytes(b"public")
        stop = threading.Event()

        def swap() -> None:
            while not stop.is_set():
                for target in ("inside", "../outside"):
                    link.symlink_to(target)
                    link.rename(swapped)

        swapped.symlink_to("inside")
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            peer = session(service)
            seen = {0: 0, "refused": 0}
            for number in range(1500):
                # Reading, and making something that is not there.
                status, body, _ = peer.ask(OPEN, text(b"/d/f") + READING)
                if status == 0:
                    _, _, data = peer.ask(12, body[:8] + struct.pack(">QIBB", 0, 6, 0, 0))
                    if data != b"public":
                        return failed(f"a swapped link leads to {data!r}")
                    peer.ask(CLOSE, body[:8])
                seen[0 if status == 0 else "refused"] += 1
                peer.ask(OPEN, text(f"/d/new{number % 7}".encode()) + WRITING)
                if number % 500 == 499:
                    peer.close()
                    peer = session(service)
        finally:
            stop.set()
            thread.join()
        if os.listdir(outside) != ["f"]:
            return failed(f"made outside: {os.listdir(outside)}")
        return passed(f"{seen[0]} opened, {seen['refused']} refused")


def half_a_handshake(place: Place) -> Outcome:
    """TLS that stops half way, or right after its handshake, and a reader of the metrics that sends no request:
    disconnected."""
    if which("openssl") is None:
        return skipped("needs openssl, to make certificates")
    chain, key = certificate(place, "ours")
    with Service(place, "tcp", "--tls-certificate", chain, "--tls-key", key, "--greeting-timeout", "1") as service:
        begun = Peer(service.port)
        begun.socket.sendall(bytes([22, 3, 1, 2, 0, 1]))
        context = ssl.create_default_context(cafile=chain)
        silent = context.wrap_socket(socket.create_connection((HOST, service.port), 20),
                                     server_hostname="localhost")
        idle = socket.create_connection((HOST, service.metrics_port), 20)
        # A whole hello whose body announces a wrong length.
        dripping = Peer(service.port)
        dripping.socket.sendall(HEADER.pack(MAGIC, 1, 1024, 0, 1) + b"\0" * 100)
        for what, connection in (("half a handshake", begun.socket), ("a silent TLS client", silent),
                                 ("half a hello", dripping.socket)):
            try:
                while connection.recv(4096):
                    pass
            except (ConnectionError, ssl.SSLError):
                pass
            except TimeoutError:
                return failed(f"{what} is kept")
        turned_away = service.metric("rfio_connections_turned_away_total")
        idle.close()
        return passed() if turned_away >= 3 and alive(service) else failed(f"{turned_away} turned away")


def checksums_of_nothing(place: Place) -> Outcome:
    """Sixteen sessions of one user ask for checksums of a huge sparse file, as many as they may: another user's light
    requests are answered before the service has worked through the checksums. The test counts work and not time, so
    that it does not matter how fast the machine is."""
    with Service(place, "tcp", "--anonymous", "read") as service:
        with open(service.export / "huge", "wb") as file:
            file.truncate(1 << 40)
        stop = threading.Event()
        blocks = [0] * 16

        def hog(number: int) -> None:
            peer = Peer(service.port, SECONDS)
            assert peer.log_in(b"", None, ANONYMOUS) == 0
            status, body, _ = peer.ask(OPEN, text(b"/huge") + READING)
            assert status == 0
            request = body[:8] + struct.pack(">QII", number << 30, BLOCK, 1024)
            try:
                for _ in range(32):
                    peer.send(CHECKSUM, request)
                while not stop.is_set():
                    _, body, _ = peer.receive()
                    # Four bytes a block, after the file's version.
                    blocks[number] = len(body) // 4
                    peer.send(CHECKSUM, request)
            except (OSError, Closed):
                pass
            peer.close()

        threads = [threading.Thread(target=hog, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        until(lambda: all(blocks))
        honest, light = session(service), 40
        before = service.metric('rfio_requests_total{operation="Checksum"}')
        statuses = {honest.ask(30, text(b"/huge"))[0] for _ in range(light)}
        requests = service.metric('rfio_requests_total{operation="Checksum"}') - before
        stop.set()
        for thread in threads:
            thread.join()
        if statuses != {0} or not all(blocks):
            return failed(f"light requests end with {statuses}, and the heavy ones with {blocks} checksums")
        mebibytes = requests * max(blocks) * BLOCK / light / (1 << 20)
        figures = f"{requests / light:.1f} heavy requests and {mebibytes:.0f} MiB for each light one"
        # In one queue with the others, a light request would have to wait for 4 GiB of them.
        return passed(figures) if mebibytes < 512 else failed(figures)


def missing_bodies(place: Place) -> Outcome:
    """Long bodies are announced and come a byte at a time: their memory counts, and in the end they are discarded."""
    with Service(place, "tcp", "--stall-timeout", "2", "--buffers-per-user", "1M") as service:
        attackers = [session(service) for _ in range(40)]
        for peer in attackers:
            peer.send(13, b"x" * 50_000, body_length=100_000)
        used = [0]
        until(lambda: used.append(service.metric("rfio_buffer_bytes")) or used[-1] >= 200_000)
        if not 200_000 <= max(used) <= 1 << 20:
            return failed(f"40 bodies of 100,000 bytes hold {max(used)} bytes of 1 MiB")
        # Some have memory only when others were given up: whichever are the first.
        ended: list[Peer] = []
        while len(ended) < 5:
            left = [peer for peer in attackers if peer not in ended]
            heard, _, _ = select.select([peer.socket for peer in left], [], [], SECONDS)
            closed = [peer for peer in left if peer.socket in heard and peer.closed()]
            if not closed:
                return failed(f"{len(ended)} of 5 unfinished bodies were discarded")
            ended += closed
        until(lambda: service.metric("rfio_stalls_total") >= len(ended))
        if (stalls := service.metric("rfio_stalls_total")) < len(ended):
            return failed(f"{len(ended)} unfinished bodies were discarded, and {stalls} are counted")
        # Half a header is no better.
        slow = session(service)
        slow.socket.sendall(HEADER.pack(MAGIC, 4, 0, 0, 9)[:7])
        slow.socket.settimeout(SECONDS)
        if not slow.closed():
            return failed("the daemon waits for half a header")
        # The service would wait for them when it is stopped.
        for peer in attackers:
            peer.close()
        return passed() if alive(service) else failed("an honest client is not served")


def idle_clients(place: Place) -> Outcome:
    """The largest allowed number of idle anonymous sessions: the next one is accepted, and one that has a file open
    stays."""
    with Service(place, "tcp", "--anonymous", "read", "--sessions-per-user", "12") as service:
        (service.export / "f").write_bytes(b"x")

        def stranger() -> Peer:
            peer = Peer(service.port)
            status = peer.log_in(b"", None, ANONYMOUS)
            assert status == 0, status
            return peer

        busy = stranger()
        status, body, _ = busy.ask(OPEN, text(b"/f") + READING)
        assert status == 0
        idle = [stranger() for _ in range(11)]
        time.sleep(2.5)
        try:
            fresh = stranger()
        except AssertionError as error:
            return failed(f"other users are refused: status {error}")
        if fresh.ask(30, text(b"/f"))[0] != 0 or busy.ask(12, body[:8] + struct.pack(">QIBB", 0, 1, 0, 0))[2] != b"x":
            return failed("a session, or an open file, is not served")
        if service.metric("rfio_idle_sessions_ended_total") < 1:
            return failed("it is not counted")
        # Another address has its own limit.
        for peer in idle:
            peer.close()
        return passed()


def vanished_writer(place: Place) -> Outcome:
    """A host that vanishes without closing the connection has the sole right to write a file: the file is free again
    soon."""
    if os.geteuid() != 0:
        return skipped("needs root, to let a connection vanish")
    with Service(place, "tcp", "--vanish-timeout", "3") as service:
        sole = text(b"/f") + struct.pack(">II", 1 | 2 | 4 | 64, 0o600)
        vanished, other = session(service), session(service)
        if vanished.ask(OPEN, sole)[0] != 0 or other.ask(OPEN, sole)[0] != 16:
            return failed("there is no sole writer")
        # Until everything is acknowledged: a repetition would be answered by a reset.
        time.sleep(0.7)
        # In repair mode (TCP_REPAIR) a socket is closed without telling the other side.
        vanished.socket.setsockopt(socket.IPPROTO_TCP, 19, 1)
        vanished.close()
        begun = time.monotonic()
        while time.monotonic() < begun + SECONDS:
            if other.ask(OPEN, sole)[0] == 0:
                return passed(f"free after {time.monotonic() - begun:.1f} s")
            time.sleep(0.1)
        return failed("the vanished host's lock lasts")


def idle_scrapers(place: Place) -> Outcome:
    """Silent connections to the metrics do not delay a scrape."""
    with Service(place, "tcp") as service:
        service.metric("rfio_sessions")
        idle = [socket.create_connection((HOST, service.metrics_port), 20) for _ in range(100)]
        for connection in idle[50:]:
            connection.sendall(b"GET /met")
        begun = time.monotonic()
        service.metric("rfio_sessions")
        took = time.monotonic() - begun
        for connection in idle:
            connection.close()
        # Each silent one may take five seconds to send its request: waiting for a single one would show.
        return passed(f"{took * 1e3:.0f} ms") if took < 4.5 else failed(f"a scrape takes {took:.1f} s")


def fifos_and_devices(place: Place) -> Outcome:
    """Files that are not regular are refused without being opened: a process that waits on the other side of a FIFO
    gets no peer."""
    with Service(place, "tcp") as service:
        os.mkfifo(service.export / "fifo")
        os.mkfifo(service.export / "back")
        reader = os.open(service.export / "back", os.O_RDONLY | os.O_NONBLOCK)
        opened = threading.Event()

        def write() -> None:
            os.close(os.open(service.export / "fifo", os.O_WRONLY))
            opened.set()

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        peer = session(service)
        for name, flags in ((b"/fifo", READING), (b"/back", WRITING), (b"/fifo", struct.pack(">II", 1 | 128, 0))):
            if peer.ask(OPEN, text(name) + flags)[0] == 0:
                return failed(f"{name!r} is opened")
        if peer.ask(43, text(b"/fifo") + struct.pack(">I", 1000))[0] == 0:
            return failed("a FIFO is fetched")
        came = opened.wait(1)
        if not came:
            # Ends the writer's wait.
            os.close(os.open(service.export / "fifo", os.O_RDONLY | os.O_NONBLOCK))
            thread.join()
        os.close(reader)
        return failed("the service opened a FIFO") if came else passed()
