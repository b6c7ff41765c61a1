"""Packets as third-party decoders see them: every opcode, IPv4 and IPv6, decoded by tshark and scapy."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.build_tree import ROOT, TARGET
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.requirement import Tool

TITLE = "packets, decoded by tshark and scapy"
SCAPY = "/usr/lib/python3/dist-packages/scapy/contrib/roce.py"
REQUIRES = [Tool("tshark", "tshark"), Tool(SCAPY, "python3-scapy")]

# The system's, which has scapy, and not that of an environment.
PYTHON = "/usr/bin/python3"
HERE = Path(__file__).resolve().parent
SECONDS = 120
BUILD_SECONDS = 600

# Opcodes whose headers beyond the BTH tshark 4.0 does not know: FLUSH, ATOMIC WRITE, CNP.
WITHOUT_CRC = {0x1c, 0x1d, 0x81}
FIELDS = ("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn",
          "infiniband.invariant.crc", "_ws.malformed")


@dataclass(frozen=True)
class Frame:
    """The fields of a frame."""

    opcode: int
    destination: int
    psn: int
    data: bytes

    @property
    def empty_datagram(self) -> bool:
        """Whether it is an unreliable datagram without payload: tshark guesses a protocol inside all of them, and calls
        an empty one malformed."""
        headers = {0x64: 8, 0x65: 12}.get(self.opcode)
        envelope = 28 if self.data[0] >> 4 == 4 else 48
        return headers is not None and len(self.data) == envelope + 12 + headers + 4


def cases() -> list[Case]:
    """One a decoder."""
    return [Case("tshark", "", partial(decoded, by_tshark)),
            Case("scapy", "", partial(decoded, by_scapy))]


def decoded(decoder, place: Place) -> Outcome:
    """Makes the frames and hands them to a decoder."""
    cargo = shlex.split(os.environ.get("CARGO", "cargo"))
    # Compiled with the whole workspace, as its tests are: then it exists already.
    built = place.run("build", [*cargo, "build", "--quiet", "--manifest-path", str(ROOT / "Cargo.toml"), "--workspace",
                                "--example", "frames"], BUILD_SECONDS)
    if not built.succeeded:
        return failed("the example that makes the frames does not compile", built.evidence())
    made = place.run("frames", [str(TARGET / "debug/examples/frames"), str(place.directory)], SECONDS)
    if not made.succeeded:
        return failed("no frames were made", made.evidence())
    frames = []
    for line in (place.directory / "frames.txt").read_text().splitlines():
        opcode, destination, psn, data = line.split()
        frames.append(Frame(int(opcode, 16), int(destination, 16), int(psn), bytes.fromhex(data)))
    if len({frame.opcode for frame in frames}) != 65:
        return failed(f"{len({frame.opcode for frame in frames})} opcodes, not 65")
    return decoder(place, frames)


def by_tshark(place: Place, frames: list[Frame]) -> Outcome:
    """Opcode, queue pair, PSN and ICRC of each frame; none malformed. Its guess that some SENDs are calls of RPC
    over RDMA is switched off."""
    arguments = [option for field in FIELDS for option in ("-e", field)]
    # Complaints of running as root go to standard error, which would be among the lines.
    command = shlex.join(["tshark", "-r", str(place.directory / "frames.pcap"),
                          "--disable-protocol", "rpcordma", "-T", "fields", *arguments])
    ended = place.run("tshark", ["sh", "-c", f"{command} 2>/dev/null"], SECONDS)
    rows = ended.output.splitlines()
    if not ended.succeeded or len(rows) != len(frames):
        return failed(f"{len(rows)} of {len(frames)} frames", ended.evidence())
    crcs = 0
    for number, (frame, row) in enumerate(zip(frames, rows), 1):
        opcode, destination, psn, crc, malformed = row.split("\t")
        if (int(opcode, 0), int(destination, 0), int(psn, 0)) != (
                frame.opcode, frame.destination, frame.psn):
            return failed(f"frame {number} was read as {row!r}", frame.data.hex())
        if malformed and not frame.empty_datagram:
            return failed(f"frame {number}, opcode {frame.opcode:#x}, is malformed", frame.data.hex())
        # tshark shows the stored bytes as a big-endian number.
        if crc and int(crc, 0) != int.from_bytes(frame.data[-4:], "big"):
            return failed(f"frame {number}: its last four bytes are not at the ICRC's place: {crc}")
        crcs += bool(crc)
    # XRC's extension header is unknown to it, too, so that only RC, UC and UD must show all.
    expected = sum(frame.opcode < 0x80 and frame.opcode not in WITHOUT_CRC and not frame.empty_datagram
                   for frame in frames)
    if crcs < expected:
        return failed(f"the ICRC of {crcs} frames was found, expected {expected}")
    return passed(f"{len(frames)} frames, {crcs} with their ICRC found")


def by_scapy(place: Place, frames: list[Frame]) -> Outcome:
    """Compares the ICRC that scapy computes over IPv4; it computes none over IPv6."""
    ended = place.run("scapy", [PYTHON, str(HERE / "judge.py"), str(place.directory / "frames.txt")],
                      SECONDS)
    if not ended.succeeded:
        return failed("scapy disagrees", ended.evidence())
    over_ipv4 = sum(frame.data[0] >> 4 == 4 for frame in frames)
    counts = Counter(ended.output.split())
    if counts["equal"] != over_ipv4:
        return failed(f"{counts['equal']} of {over_ipv4} were judged", ended.evidence())
    return passed(f"{over_ipv4} frames with the same ICRC and BTH")
