"""Many processes on many hosts, of which some are killed: only the peers of killed ones notice, and the killed
processes' share of the port becomes free."""

from __future__ import annotations

import os
import time
from pathlib import Path

from harness import c_program
from harness.build_tree import DEVICE, VERBENA
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import wait_for_any

from .hosts import PORT, Hosts, NoNamespaces, SetupFailed, SwitchedHosts

HERE = Path(__file__).resolve().parent
# How long the crowd works, and how long it and the hosts may take in addition.
CROWD_SECONDS = int(os.environ.get("CROWD_SECONDS") or 5)
# By night also so many kills, one a round.
ROUNDS = int(os.environ.get("CROWD_ROUNDS") or 0)
SECONDS = 400
# More than have space on a host at the same time.
LIVES = 70


def crowd(work: str, place: Place) -> Outcome:
    """64 processes on 16 hosts, all to all, of which some are stopped and some are killed, or one a round. In the end
    the port is free."""
    try:
        program = c_program.compile_program(HERE.parent / "stress" / "crowd.c")
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    try:
        with SwitchedHosts(place) as hosts:
            first = hosts.members[0]
            dealt = " ".join(f"{host.keeper.pid}:{host.runtime}" for host in hosts.members)
            # Each host's own interface is found, for they have different names.
            command = [str(VERBENA), "run", "--link", "roce", "--", "env", f"CROWD_HOSTS={dealt}",
                       f"CROWD_SECONDS={CROWD_SECONDS}", str(program), work]
            ended = hosts.run(first, "crowd", first.inside(command), SECONDS + CROWD_SECONDS)
            if not ended.succeeded:
                return failed(ended.describe(), ended.evidence())
            if any(host.has_port_of_roce() for host in hosts.members):
                return failed("a process still has the port", ended.evidence())
            return passed(ended.output.splitlines()[-1])
    except NoNamespaces as words:
        return skipped(str(words))
    except SetupFailed as words:
        return failed("the hosts could not be made", str(words))


def lives(hosts: Hosts) -> Outcome:
    """While one process runs, more are killed on its host than the port has space for, and the next one gets its part of
    it."""
    first = hosts.members[0]
    command = ["ibv_rc_pingpong", "-d", DEVICE, "-g", 1, "-p"]
    deadline = time.monotonic() + SECONDS

    def serve(port: int):
        serving = hosts.start(first, f"server-{port}", first.on_adapter(*command, port))
        # It has its queue pair before it listens.
        while serving.running and not first.listens(port) and time.monotonic() < deadline:
            wait_for_any([serving], time.monotonic() + 0.005)
        return serving

    staying = serve(PORT + 1)
    for life in range(LIVES):
        dying = serve(PORT + 2 + life)
        if not dying.running:
            return failed(f"life {life} did not begin", dying.output())
        dying.finish(time.monotonic())
    done = hosts.exchange([*command, PORT], [*command, PORT, first.address], SECONDS)
    outcome = done.outcome(f"{LIVES} lives")
    if not staying.running:
        return failed("the surviving process has ended", staying.output())
    staying.finish(time.monotonic())
    return outcome
