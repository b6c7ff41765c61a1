"""A file of RoCEv2 packets as third-party analysers read it: tshark, and scapy's and zlib's checksums."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Optional, Sequence

from harness.outcome import Outcome, failed

HERE = Path(__file__).resolve().parent
# The system's, which is where scapy is if it is.
PYTHON = "/usr/bin/python3"
SECONDS = 60
RC, UC, UD, XRC = 0x00, 0x20, 0x60, 0xa0
# The opcodes of the requests of `operations.c` and of their answers.
OPCODES = ({RC | low for low in (0, 1, 2, 3, 4, 6, 7, 8, 9, 0x0a, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13,
                                 0x14, 0x17, 0x1c, 0x1d)}
           | {UC | low for low in (0, 1, 2, 3, 5, 6, 7, 8, 0x0b)}
           | {UD | low for low in (4, 5)}
           | {XRC | low for low in (0, 1, 2, 6, 7, 8, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x11)})
# And the syndromes of its acknowledgements: done, receiver not ready (code 12), remote access error.
SYNDROMES = {0x1f, 0x20 | 12, 0x62}
# Fields and opcodes that tshark 4.0 does not know: it prints no name for them and no error.
FIELDS = ("infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.aeth.syndrome", "infiniband.bth.destqp",
          "_ws.malformed", "_ws.expert.severity")
SEVERE = 0x600000
# Protocols whose checksums are right in the file. A kernel leaves them to the network card, so packets captured on an
# interface lack them.
CHECKED = ("udp", "ip")


def rows(file: Path, checked: Sequence[str] = CHECKED) -> list[dict[str, str]]:
    """Returns tshark's fields of each packet. RPC over RDMA is disabled: tshark guesses it from a SEND's payload and
    claims any bytes. Of the checksums, those of `checked` are verified."""
    checks = [word for name in checked for word in ("-o", f"{name}.check_checksum:TRUE")]
    fields = [word for name in FIELDS for word in ("-e", name)]
    done = subprocess.run(["tshark", "-r", str(file), "--disable-protocol", "rpcordma", *checks,
                           "-T", "fields", *fields],
                          capture_output=True, text=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL)
    return [dict(zip(FIELDS, line.split("\t"))) for line in done.stdout.splitlines()]


def examine(file: Path, wanted: set[int], checked: Sequence[str] = CHECKED) -> tuple[list[dict[str, str]], Optional[Outcome]]:
    """Checks that no packet is malformed, every checksum is right and every wanted opcode occurs; else returns the
    faults."""
    found = rows(file, checked)
    bad = [row for row in found if not row["infiniband.bth.opcode"] or row["_ws.malformed"]
           or any(int(word) >= SEVERE for word in row["_ws.expert.severity"].split(",") if word)]
    if bad or not found:
        return found, failed(f"{len(bad)} of {len(found)} packets malformed", str(bad[:5]))
    done = subprocess.run([PYTHON, str(HERE / "checksums.py"), str(file)], capture_output=True, text=True,
                          check=False, timeout=SECONDS, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return found, failed("checksums", done.stdout + done.stderr)
    lacking = wanted - {int(row["infiniband.bth.opcode"]) for row in found}
    if lacking:
        return found, failed(f"no packet of opcode {', '.join(f'{one:#04x}' for one in sorted(lacking))}")
    return found, None
