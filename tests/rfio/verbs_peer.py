"""An end of a reliable connection that the tests control step by step: `rdma.c` on the software adapter."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from harness.build_tree import run
from harness.c_program import compile_program
from harness.place import Place

HERE = Path(__file__).resolve().parent
#: Completion statuses (`enum ibv_wc_status`).
SUCCESS, FLUSHED, REMOTE_INVALID, REMOTE_ACCESS = 0, 5, 9, 10


class Endpoint(NamedTuple):
    """One end, as the protocol has it."""

    pair: int
    sequence: int
    lid: int
    gid: bytes
    mtu: int

    @classmethod
    def of_wire(cls, body: bytes) -> "Endpoint":
        """From the 28 bytes of a message; how many reads may be outstanding is left out."""
        pair, sequence, lid, gid, mtu, _reads = struct.unpack(">IIH16sBB", body[:28])
        return cls(pair, sequence, lid, gid, mtu)

    def to_wire(self) -> bytes:
        """For a message."""
        return struct.pack(">IIH16sBB", self.pair, self.sequence, self.lid, self.gid, self.mtu, 4)


class VerbsPeer:
    """The program, and the socket that it listens to."""

    def __init__(self, place: Place):
        # Named so, the library does not bring the frame of the table of tests with it.
        program = compile_program(HERE / "rdma.c", libraries=["-l:libibverbs.so"])
        directory = tempfile.mkdtemp(prefix="rfio-rdma-")
        name = os.path.join(directory, "s")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
            listener.listen(1)
            listener.settimeout(30)
            self.process = place.start("rdma", run(program, name))
            connection, _ = listener.accept()
        os.unlink(name)
        os.rmdir(directory)
        connection.settimeout(30)
        self.lines = connection.makefile("rw")
        self.address = self.key = 0

    def __enter__(self) -> "VerbsPeer":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.lines.write("exit\n")
            self.lines.flush()
        except OSError:
            pass
        self.process.finish(time.monotonic() + 20)

    def say(self, command: str) -> str:
        """A command and its answer."""
        self.lines.write(command + "\n")
        self.lines.flush()
        answer = self.lines.readline().strip()
        if not answer:
            raise RuntimeError(f"rdma ended at '{command}'")
        return answer

    def do(self, command: str) -> None:
        """A command that must work."""
        answer = self.say(command)
        if answer != "0":
            raise RuntimeError(f"{command}: {answer}")

    def open(self) -> Endpoint:
        """A fresh queue pair; where its memory is stays in `address` and `key`."""
        pair, sequence, lid, gid, mtu, address, key = self.say("open").split()
        self.address, self.key = int(address), int(key)
        return Endpoint(int(pair), int(sequence), int(lid), bytes.fromhex(gid), int(mtu))

    def connect(self, peer: Endpoint) -> None:
        """To the peer's end."""
        self.do(f"connect {peer.pair} {peer.sequence} {peer.lid} {peer.gid.hex()} {peer.mtu}")

    def outcome(self) -> int:
        """The status of the next completion; -1 if none comes."""
        answer = self.say("wait")
        return -1 if answer == "nothing" else int(answer.split()[0])

    def tries(self, command: str) -> int:
        """Posts a request; its completion's status."""
        self.do(command)
        return self.outcome()
