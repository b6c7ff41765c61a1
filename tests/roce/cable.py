"""The packets on the cable between two hosts, as third-party analysers see them there, independent of the adapter's
counters."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Callable

from capture.packets import OPCODES, examine, rows
from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.process import Process, wait_for_any

from .hosts import Host, Hosts

SECONDS = 60
OPERATIONS = Path(__file__).resolve().parent.parent / "capture" / "operations.c"
# Indices of the GID table.
GIDS = {"IPv4": 1, "IPv6": 2}


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """Every operation of every transport."""
    return [Case("what tshark sees", column, on_hosts(partial(decoded, gid))) for column, gid in GIDS.items()]


def begin(host: Host, hosts: Hosts, file: Path) -> Process:
    """Captures the packets at a host's end of the cable."""
    capturing = hosts.start(host, "tshark", host.inside(
        ["tshark", "-q", "-i", host.interface, "-f", "udp port 4791", "-w", str(file)]))
    deadline = time.monotonic() + SECONDS
    while "Capturing on" not in capturing.output() and capturing.running and time.monotonic() < deadline:
        wait_for_any([capturing], time.monotonic() + 0.02)
    return capturing


def every_operation(gid: int, hosts: Hosts) -> Outcome:
    """Each once or twice."""
    program = c_program.compile_program(OPERATIONS)
    command = ["env", f"GID_INDEX={gid}", f"PEER={hosts.members[0].address}", program]
    return hosts.exchange([*command, "answer"], [*command, "ask"], SECONDS).outcome()


def decoded(gid: int, hosts: Hosts) -> Outcome:
    """Names, nothing malformed, and every ICRC as zlib and scapy compute it."""
    hosts.segment()
    host = hosts.members[0]
    file = hosts.place.directory / "roce.pcapng"
    capturing = begin(host, hosts, file)
    deadline = time.monotonic() + SECONDS
    # A capture begins somewhat later than it says, and writes somewhat later than it sees.
    seen: set[int] = set()
    while not OPCODES <= seen and capturing.running and time.monotonic() < deadline:
        outcome = every_operation(gid, hosts)
        if outcome.evidence:
            return outcome
        seen = {int(row["infiniband.bth.opcode"]) for row in rows(file, ()) if row["infiniband.bth.opcode"]}
    os.kill(capturing.pid, signal.SIGINT)
    ended = capturing.finish(time.monotonic() + SECONDS)
    if ended.timed_out:
        return failed("tshark does not end", ended.evidence())
    found, wrong = examine(file, OPCODES, ())
    return wrong or passed(f"{len(found)} packets")
