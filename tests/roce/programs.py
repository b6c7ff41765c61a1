"""Random programs of the verbs between two hosts, on the adapter and on an executable specification (`tests/oracle` has
them on one host)."""

from __future__ import annotations

import os

from harness import build_tree
from harness.outcome import Outcome, failed, passed

from .hosts import Hosts

ORACLE = build_tree.TARGET / "release" / "verbena-oracle"
# Seconds of random programs; nights take longer, and other programs each time (an empty seed).
SECONDS = int(os.environ.get("VERBENA_ORACLE_SECONDS", "6"))
SEED = os.environ.get("VERBENA_ORACLE_SEED", "1")
# For making a program smaller, and for the program that is running when the time is over.
GRACE = 120
# Packets that a network loses are sent again, up to seven times.
PATIENCE = 20


# Programs that must end well over any wire. Elsewhere a lost or late packet may change the end: a lost refusal looks
# like a dead responder, and a process' messages may arrive after it has been killed.
ENDS_WELL = "xrc,srq,reads,atomics,immediates,inline,rnr,drains,pages"


def random_programs(only: str, hosts: Hosts) -> Outcome:
    """Programs of two processes, one on each host."""
    first, second = hosts.members
    there = f"{second.interface}@/proc/{second.keeper.pid}/ns/net"
    options: list[object] = ["--host", first.interface, "--host", there, "--processes", 2, "--seconds", SECONDS,
                             "--patience", PATIENCE, "--directory", first.runtime]
    options += ["--seed", SEED] if SEED else []
    options += ["--only", only] if only else []
    command = first.inside(build_tree.run(ORACLE, *options))
    ended = hosts.run(first, "oracle", command, SECONDS + GRACE)
    if not ended.succeeded:
        # The difference rather than the programs' descriptions.
        _, start, difference = ended.output.partition("difference: ")
        return failed(ended.describe(), start + difference if start else ended.evidence())
    lines = [line for line in ended.output.splitlines() if "differences" in line]
    return passed(lines[-1] if lines else "")
