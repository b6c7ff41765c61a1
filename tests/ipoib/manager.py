"""The connection manager between interfaces: unmodified librdmacm programs that use the addresses of `ib0`."""

from __future__ import annotations

import os
import signal
from functools import partial

from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import Tool, absent
from subnet.fabric import lacks as lacks_of_fabric
from subnet.fabric import up

from .ends import WAIT, Ends, lacks

RUN = '"$VERBENA" run -- '
UTILS = Tool("rping", "rdmacm-utils")
PERFTEST = Tool("ib_write_bw", "perftest")
# Package, server and client of each program; both get the server's address in place of {}.
PROGRAMS = {
    "rping": (UTILS, "rping -s -a {} -C 3", "rping -c -a {} -C 3 -v"),
    "rping, any address": (UTILS, "rping -s -C 3", "rping -c -a {} -C 3 -v"),
    "ucmatose": (UTILS, "ucmatose -b {}", "ucmatose -s {}"),
    "udaddy": (UTILS, "udaddy -b {}", "udaddy -s {}"),
    "rdma_client": (UTILS, "rdma_server", "rdma_client -s {}"),
    "rstream": (UTILS, "rstream -b {} -S 1024 -C 20", "rstream -s {} -S 1024 -C 20"),
    "ib_write_bw -R": (PERFTEST, "ib_write_bw -R -n 100", "ib_write_bw -R -n 100 {}"),
}
NODES = ("host1", "host2")
NODE = '"$VERBENA" fabric exec --node {} '
IPOIB = NODE + '"$VERBENA" ipoib {} --address 10.0.0.{}/24 -- sh -ec \'{}\''
# The client's command is repeated until the server listens.
PINGED = "until " + RUN + "rping -c -a 10.0.0.{} -C 1 -v; do sleep 0.1; done; "


def cases() -> list[Case]:
    """Programs within a host and on a fabric; addresses that no interface has."""
    return [
        *(Case("connection manager", name, partial(connected, name)) for name in PROGRAMS),
        Case("connection manager", "an address that no interface has", unknown),
        Case("connection manager", "an interface that is killed", killed),
        Case("connection manager", "addresses that programs add and remove", changed),
        Case("connection manager", "nodes of a fabric", on_fabric),
        Case("connection manager", "a partition of a fabric", partial(partitioned, "ALL=full", "host2")),
        Case("connection manager", "a limited member of a partition", partial(partitioned, "0x0200000200000001=full, 0x0200000200000201=limited", "host1")),
        Case("connection manager", "ports of the nodes of a fabric", separate),
    ]


def required(*tools: Tool) -> Outcome | None:
    """The reason to skip a case, if tools are missing."""
    missing = absent(list(tools))
    return skipped("lacks " + ", ".join(sorted({tool.package for tool in missing}))) if missing else None


def connected(name: str, place: Place) -> Outcome:
    """A program's client reaches its server, by each IP version if the server takes an address."""
    tool, server, client = PROGRAMS[name]
    if missing := required(tool):
        return missing
    ends = Ends(place)
    # Servers that are given no address listen at any of IPv4 alone.
    versions = ["10.0.0.1", "fd00::1"] if "{}" in server else ["10.0.0.1"]
    serve = "; ".join(RUN + server.format(address) for address in versions)
    other = ends.start(1, serve)
    ask = "".join(f"until {RUN}{client.format(address)}; do sleep 0.1; done; echo connected; " for address in versions)
    ended = ends.run(2, ask)
    [served] = ends.stop(other)
    if failure := lacks(ended, ["^connected$"]) or lacks(served, []):
        return failure
    count = ended.output.count("connected\n")
    return passed() if count == len(versions) else failed(f"{count} of {len(versions)} connections", ended.evidence())


def unknown(place: Place) -> Outcome:
    """An address without an interface is an error that names it."""
    if missing := required(UTILS):
        return missing
    ended = Ends(place).run(2, f"! VERBENA_LOG=info {RUN}rping -c -a 10.0.0.77 -C 1")
    return lacks(ended, ["ADDR_ERROR, error -113", "no interface of this partition on this machine has it"]) or passed()


def killed(place: Place) -> Outcome:
    """The entries of a killed interface lead nowhere, and another interface takes its address over."""
    if missing := required(UTILS):
        return missing
    ends = Ends(place)
    first = ends.start(1, WAIT)
    os.kill(first.pid, signal.SIGKILL)
    first.finish(0)
    gone = ends.run(2, f"! {RUN}rping -c -a 10.0.0.1 -C 1")
    again = ends.start(1, f"{RUN}rping -s -C 1")
    ended = ends.run(2, f"until {RUN}rping -c -a 10.0.0.1 -C 1 -v; do sleep 0.1; done")
    [served] = ends.stop(again)
    return lacks(gone, ["ADDR_ERROR"]) or lacks(ended, ["ping data"]) or lacks(served, []) or passed()


def changed(place: Place) -> Outcome:
    """An address that a program adds is reached, and no longer when it is removed."""
    if missing := required(UTILS):
        return missing
    ends = Ends(place)
    server = ends.start(1, f"ip address add 10.0.0.9/24 dev ib0; {RUN}rping -s -C 1; ip address del 10.0.0.9/24 dev ib0; "
                        "ping -c 1 -w 5 10.0.0.2; touch removed; " + WAIT)
    ended = ends.run(2, f"until {RUN}rping -c -a 10.0.0.9 -C 1 -v; do sleep 0.1; done; until [ -e removed ]; do sleep 0.02; done; "
                     f"! {RUN}rping -c -a 10.0.0.9 -C 1")
    [served] = ends.stop(server)
    return lacks(ended, ["ping data", "ADDR_ERROR"]) or lacks(served, []) or passed()


def on_fabric(place: Place) -> Outcome:
    """Programs at two nodes of a fabric connect by the addresses of their interfaces; the data take the fabric."""
    if missing := required(UTILS):
        return missing
    script = (IPOIB.format("host2", "", 2, RUN + "rping -s -C 1") + " & "
              + IPOIB.format("host1", "", 1, PINGED.format(2) + "echo connected") + "; wait")
    return lacks_of_fabric(up(place, script), {"^ping data": 1, "^connected$": 1}) or passed()


def partitioned(members: str, server: str, place: Place) -> Outcome:
    """Connections between interfaces of a partition are in that partition: in the default one two limited members do not talk."""
    if missing := required(UTILS):
        return missing
    (place.directory / "partitions.conf").write_text(f"Default=0x7fff : ALL=limited, SELF=full;\nstorage=0x10, ipoib : {members};\n")
    mine = "--partition 0x10"
    script = (IPOIB.format(server, mine, 2, RUN + "rping -s -C 1") + " & "
              + IPOIB.format("host3", mine, 1, PINGED.format(2) + "echo connected") + "; wait")
    ended = up(place, script, "--partitions", "partitions.conf", "--topology", "fat-tree:4")
    return lacks_of_fabric(ended, {"^ping data": 1, "^connected$": 1}) or passed()


def separate(place: Place) -> Outcome:
    """Servers at two nodes listen at the same port, and a client reaches that of its node."""
    if missing := required(UTILS):
        return missing
    at = NODE + "sh -ec '{}'"
    script = "".join(at.format(node, RUN + "rping -s -C 1 -v") + f" > {node}.log & " for node in NODES)
    script += "".join(at.format(node, PINGED.replace("10.0.0.{}", "127.0.0.1")) + "; " for node in NODES)
    script += "wait; grep -c 'server ping data' host1.log host2.log"
    ended = up(place, script)
    return lacks_of_fabric(ended, {"^ping data": 2, "^host[12].log:1$": 2}) or passed()
