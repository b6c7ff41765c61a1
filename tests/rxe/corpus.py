"""Inputs for the fuzz target `packet` out of a capture: of each operation that Linux' Soft-RoCE has sent, the shortest
packet, and of each message of its connection manager one, from the IP header on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from harness.outcome import Outcome, failed, passed

SECONDS = 60
# The least opcodes of a capture of all tests: SEND first, middle, last, only; WRITE first, only; READ request and
# responses; ACK, atomic ACK, compare-and-swap or fetch-and-add; UC and UD SEND only.
WANTED = {0x00, 0x01, 0x02, 0x04, 0x06, 0x08, 0x0c, 0x0d, 0x0f, 0x10, 0x11, 0x12, 0x14, 0x24, 0x64}
GENERAL_SERVICES = 0x64, 1
HEADERS_BEFORE_MAD = 12 + 8
ATTRIBUTE = slice(16, 18)


def packets(capture: Path, sender: str) -> list[tuple[bytes, int, int]]:
    """The IP packets that one side sent: their bytes, operation, and the number of the queue pair that they are for."""
    done = subprocess.run(["tshark", "-r", str(capture), "--disable-protocol", "rpcordma", "-Y",
                           f"infiniband && ip.src == {sender}", "-T", "json", "-x"],
                          capture_output=True, check=True, timeout=SECONDS)
    found = []
    for packet in json.loads(done.stdout):
        layers = packet["_source"]["layers"]
        frame = bytes.fromhex(layers["frame_raw"][0])
        ip = frame[14:]
        transport = ip[28:]
        found.append((ip, transport[0], int.from_bytes(transport[5:8], "big")))
    return found


def keep(capture: Path, directory: Path, sender: str) -> Outcome:
    """Writes the corpus, if the capture has everything."""
    kept: dict[str, bytes] = {}
    seen = set()
    for ip, operation, queue_pair in packets(capture, sender):
        seen.add(operation)
        name = f"rxe-{operation:02x}"
        if (operation, queue_pair) == GENERAL_SERVICES:
            mad = ip[28 + HEADERS_BEFORE_MAD:]
            name += f"-cm-{mad[ATTRIBUTE].hex()}"
        if name not in kept or len(ip) < len(kept[name]):
            kept[name] = ip
    if lacking := sorted(WANTED - seen):
        return failed("no packet of operation " + ", ".join(f"{operation:#04x}" for operation in lacking),
                      f"seen: {sorted(seen)}")
    directory.mkdir(exist_ok=True)
    for name, ip in kept.items():
        (directory / name).write_bytes(ip)
    return passed(f"{len(kept)} packets in {directory}")
