"""Congestion at a switch between two hosts: marked packets, and the notifications (CNP) that the receiver of one
sends."""

from __future__ import annotations

from functools import partial
from typing import Callable

from harness import counters
from harness.build_tree import DEVICE
from harness.case import Case
from harness.outcome import Outcome, failed, passed

from .hosts import PORT, Hosts, Wire

SECONDS = 60
# Indices of the GID table.
GIDS = {"IPv4": 1, "IPv6": 2}
MARKED = Wire(marked=20)


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """With a switch that marks some of the packets, and with one that marks none."""
    found = [Case("a congested switch", column, on_hosts(partial(notified, gid), wire=MARKED))
             for column, gid in GIDS.items()]
    return [*found, Case("a switch that is not congested", "", on_hosts(quiet, wire=Wire()))]


def exchange(gid: int, hosts: Hosts) -> Outcome:
    """Data in both directions, verified."""
    command = ["ibv_rc_pingpong", "-d", DEVICE, "-g", gid, "-c", "-p", PORT, "-s", 100001, "-n", 100]
    return hosts.exchange(command, [*command, hosts.members[0].address], SECONDS).outcome()


def notified(gid: int, hosts: Hosts) -> Outcome:
    """The data arrive; a receiver of marked packets sends a notification, and their sender gets it."""
    outcome = exchange(gid, hosts)
    if outcome != passed():
        return outcome
    counted = counters.total(hosts.place)
    names = ("marked_packets", "congestion_notifications_sent", "congestion_notifications_received")
    marked, sent, received = (counted[name] for name in names)
    # Nothing is lost, so all that were sent before the end are received.
    if not marked >= sent >= received > 0:
        return failed(f"marked {marked}, notifications sent {sent}, received {received}")
    if counted["lost_retries"]:
        return failed(f"a congested switch loses nothing, and {counted['lost_retries']} were sent again")
    return passed()


def quiet(hosts: Hosts) -> Outcome:
    """No congestion notification is sent."""
    outcome = exchange(GIDS["IPv4"], hosts)
    counted = counters.total(hosts.place)
    said = counted["marked_packets"] + counted["congestion_notifications_sent"]
    return outcome if outcome != passed() or said == 0 else failed(f"{said} congestion notifications")
