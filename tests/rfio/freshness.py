"""Reads return the file's current content: after writes that its times do not show, and while it grows."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import threading
import time
from shutil import which

from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .service import SECRET, USER, Service, noise
from .wire import OPEN, READ, Peer, text

SIZE = 4 << 20


def read_by(service: Service, name: str) -> bytes:
    """Returns rfcat's output."""
    cat = service.begin("rfcat", service.at(name))
    ended = cat.finish(time.monotonic() + 60)
    return cat.log.read_bytes() if ended.succeeded else b""


def mapped_writes(place: Place, fabric: str) -> Outcome:
    """Stores through a mapping after the file was read: the next reader sees them, and a copy contains them."""
    with Service(place, fabric) as service:
        file = service.export / "f"
        file.write_bytes(bytes(SIZE))
        with open(file, "r+b") as opened:
            memory = mmap.mmap(opened.fileno(), SIZE)
        memory[0:1] = b"1"
        # From here on the page is dirty and further stores into it change no time.
        time.sleep(0.1)
        for turn in range(2, 8):
            if read_by(service, "f") != bytes(memory):
                return failed(f"reading number {turn} gets old bytes")
            memory[0:1] = str(turn).encode()
            copy = service.here / f"copy{turn}"
            options = ["--checksum"] if turn % 2 else []
            time.sleep(1.1)
            ended = service.tool("rfcp", *options, service.at("f"), copy)
            if not ended.succeeded or copy.read_bytes() != bytes(memory):
                return failed(f"copy number {turn} has old bytes and says it is right", ended.evidence())
        memory.close()
        if read_by(service, "f")[:1] != b"7":
            return failed("old bytes after the mapping was removed")
        hits = service.metric("rfio_cache_hits_total")
        time.sleep(0.1)
        for _ in range(2):
            if read_by(service, "f")[:1] != b"7":
                return failed("other bytes")
        if service.metric("rfio_cache_hits_total") <= hits:
            return failed("a file without writers is not cached any more")
        return passed()


def whole_second_times(place: Place) -> Outcome:
    """A file system that keeps whole seconds: rewritten within the second, the file is read anew."""
    if os.geteuid() != 0 or which("mkfs.ext4") is None:
        return skipped("needs root and mkfs.ext4, for a file system with times of whole seconds")
    image, small = place.directory / "image", place.directory / "small"
    small.mkdir()
    with open(image, "wb") as made:
        made.truncate(64 << 20)
    # Inodes of 128 bytes have no space for nanoseconds.
    subprocess.run(["mkfs.ext4", "-q", "-I", "128", image], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", image, small], check=True)
    try:
        with Service(place, "tcp", export=small) as service:
            for turn in range(3):
                time.sleep(1.1 - time.time() % 1)
                for part in (b"a", b"b", b"c"):
                    (small / "f").write_bytes(part * SIZE)
                    time.sleep(0.1)
                    if read_by(service, "f") != part * SIZE:
                        return failed(f"turn {turn}: old bytes for {part.decode()}")
        return passed()
    finally:
        subprocess.run(["umount", small], check=True)


def growing_files(place: Place, fabric: str) -> Outcome:
    """A file that is written at its end: every reader gets the earlier data, and rfcat copies the data it finds."""
    with Service(place, fabric) as service:
        file = service.export / "log"
        front = noise(2_000_000)
        file.write_bytes(front)
        stop = threading.Event()

        def grow() -> None:
            with open(file, "ab", buffering=0) as end:
                while not stop.is_set():
                    end.write(b"another line\n" * 10)
                    time.sleep(0.0003)

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            peer = Peer(service.port)
            assert peer.log_in(USER, SECRET) == 0
            status, body, _ = peer.ask(OPEN, text(b"/log") + struct.pack(">II", 1, 0))
            assert status == 0
            refused = 0
            for number in range(300):
                at = (number * 7919) % 1_500_000
                length = (1000, 50_000, 400_000)[number % 3]
                status, answer, data = peer.ask(READ, body[:8] + struct.pack(">QIBB", at, length, 0, 0))
                refused += status != 0
                if status == 0 and data != front[at:at + length][:len(data)] or not status and not data:
                    return failed("an old range has other bytes")
            if refused:
                return failed(f"{refused} of 300 reads of old ranges are refused")
            for number in range(8):
                data = read_by(service, "log")
                if not data.startswith(front):
                    return failed(f"rfcat number {number} failed")
        finally:
            stop.set()
            thread.join()
        return passed()
