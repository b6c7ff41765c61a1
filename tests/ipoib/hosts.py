"""Ends on two hosts, over RoCE."""

from __future__ import annotations

from functools import partial

from harness.case import Case
from harness.outcome import Outcome, failed, passed
from roce.hosts import Host, Hosts, Wire
from roce.suite import on_hosts

from .ends import HERE, WAIT, Ends, lacks

ENVIRONMENT = 3
BYTES = 4 << 20


def cases() -> list[Case]:
    """Two MTUs, and a network that loses packets."""
    return [
        Case("two hosts", "MTU 9000", on_hosts(partial(reached, ["10.0.0.1", "fd00::1"]), mtu=9000)),
        Case("two hosts", "MTU 1500", on_hosts(small)),
        Case("two hosts", "packets are lost", on_hosts(partial(reached, ["10.0.0.1", "fd00::1"]), mtu=9000, wire=Wire(lost=20))),
        Case("two hosts", "connected mode, MTU 1500", on_hosts(connected)),
        Case("two hosts", "connected mode, packets are lost", on_hosts(connected, mtu=9000, wire=Wire(lost=20))),
    ]


def connected(hosts: Hosts) -> Outcome:
    """In connected mode both versions work, also where datagrams are too short for IPv6."""
    return reached(["10.0.0.1", "fd00::1"], hosts, "--mode", "connected")


def on(host: Host) -> tuple[list[str], list[str]]:
    """The options of an end on a host, and the words before its command."""
    return ["--link", "roce", "--interface", host.interface], host.inside(["env", f"VERBENA_RUNTIME_DIR={host.runtime}"])


def reached(addresses: list[str], hosts: Hosts, *more: str) -> Outcome:
    """A transfer by TCP to each address arrives."""
    first, second = hosts.members
    ends = Ends(hosts.place, versions=len(addresses))
    tool = f"python3 '{HERE / 'transfer.py'}'"
    options, through = on(first)
    server = ends.start(1, "".join(f"{tool} receive {address}; " for address in addresses) + WAIT, *options, *more, through=through)
    options, through = on(second)
    ended = ends.run(2, "; ".join(f"{tool} send {address} {BYTES}" for address in addresses), *options, *more, through=through)
    [server] = ends.stop(server)
    if failure := lacks(ended, [r"^the same bytes$"]) or lacks(server, []):
        return failure
    count = ended.output.count("the same bytes")
    return passed(f"{count} transfers") if count == len(addresses) else failed(f"{count} transfers", ended.evidence())


def small(hosts: Hosts) -> Outcome:
    """With Ethernet's usual MTU IPv4 works, and IPv6 is refused with the reason."""
    options, through = on(hosts.members[0])
    ended = Ends(hosts.place).run(1, "true", *options, through=through)
    if ended.status != ENVIRONMENT or "MTU is 1020, and IPv6 needs 1280" not in ended.output:
        return failed("IPv6 is not refused", ended.evidence())
    return reached(["10.0.0.1"], hosts)
