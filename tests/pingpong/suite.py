"""The example programs of rdma-core (package ibverbs-utils), on each path to the peer."""

from __future__ import annotations

from functools import partial

from harness.build_tree import DEVICE, PATHS, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import exchange, free_port
from harness.place import Place
from harness.requirement import Tool

TITLE = "rdma-core's example programs"
REQUIRES = [Tool("ibv_rc_pingpong", "ibverbs-utils")]

SECONDS = 60
# With `-c` the program checks the received bytes.
VARIANTS = {
    "rc": [[], ["-e"], ["-N"], ["-N", "-e"], ["-o"], ["-c"], ["-t"], ["-g", "0"], ["-s", "1000000", "-n", "100"]],
    "uc": [[], ["-e"], ["-c"]],
    "ud": [[], ["-e"], ["-c"]],
    "srq": [[], ["-e"], ["-c"]],
    "xsrq": [[], ["-e"]],
}


def cases() -> list[Case]:
    """Each program with each of its options, on each path."""
    found = [Case("ibv_devinfo -v", "mapped", devinfo)]
    for transport, variants in VARIANTS.items():
        for options in variants:
            row = " ".join([f"ibv_{transport}_pingpong", *options])
            for path in PATHS:
                found.append(Case(row, path, partial(pingpong, transport, options, path)))
    return found


def devinfo(place: Place) -> Outcome:
    """One active port with an InfiniBand link layer."""
    ended = place.run("devinfo", run("ibv_devinfo", "-v"), SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    lines = [" ".join(line.split()) for line in ended.output.splitlines()]
    wanted = [f"hca_id: {DEVICE}", "phys_port_cnt: 1", "state: PORT_ACTIVE (4)",
              "link_layer: InfiniBand"]
    if lacking := [line for line in wanted if line not in lines]:
        return failed(f"does not say: {', '.join(lacking)}", ended.evidence())
    if "port_lid: 0" in lines:
        return failed("the port has no LID", ended.evidence())
    return passed()


def pingpong(transport: str, options: list[str], path: str, place: Place) -> Outcome:
    """Server and client return 0."""
    port = free_port()
    command = run(f"ibv_{transport}_pingpong", "-d", DEVICE, "-p", port, *options)
    return exchange(place, command, [*command, "127.0.0.1"], port, SECONDS, path).outcome()
