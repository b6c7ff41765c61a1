"""The events that programs get when the port's network interface changes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable, Sequence

from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.process import Process, wait_for_any

from .connections import SECONDS
from .hosts import Host, Hosts

HERE = Path(__file__).resolve().parent
# In its own subnet, so that it is not removed with the first address of its subnet.
ANOTHER = "10.9.0.50"
# As /usr/bin/ibv_asyncwatch and ibv_event_type_str(3) have it.
NUMBERS = {"active": "(9)", "error": "(10)", "GID": "(18)"}


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """With an ordinary program and with one that prints every change."""
    return [Case("ibv_asyncwatch", "", on_hosts(watched)),
            Case("the port follows its interface", "", on_hosts(followed))]


def await_line(process: Process, said: str, *parts: str) -> bool:
    """Whether it prints a line with all of these after the text `said`."""
    deadline = time.monotonic() + SECONDS
    while process.running and time.monotonic() < deadline:
        news = process.output()[len(said):].splitlines()
        if any(all(part in line for part in parts) for line in news):
            return True
        wait_for_any([process], time.monotonic() + 0.02)
    return False


def unplug(host: Host) -> None:
    """Sets a host's interface down, so that the peer loses its link."""
    host.setup("ip", "link", "set", host.interface, "down")


def steps(hosts: Hosts) -> Sequence[tuple[str, Callable[[], None]]]:
    """Changes to the first host's interface, and the event of each."""
    first, second = hosts.members
    address = ("dev", first.interface)
    return [("GID", lambda: first.setup("ip", "addr", "add", f"{ANOTHER}/32", *address)),
            ("error", lambda: unplug(second)),
            ("active", lambda: second.setup("ip", "link", "set", second.interface, "up")),
            ("GID", lambda: first.setup("ip", "addr", "del", f"{ANOTHER}/32", *address))]


def watched(hosts: Hosts) -> Outcome:
    """rdma-core's program prints each event."""
    first = hosts.members[0]
    watching = hosts.start(first, "watch", first.on_adapter("stdbuf", "-oL", "ibv_asyncwatch"))
    if not await_line(watching, "", "async event FD"):
        return failed("does not begin", watching.finish(time.monotonic()).evidence())
    for event, happen in steps(hosts):
        said = watching.output()
        happen()
        if not await_line(watching, said, NUMBERS[event], "port 1"):
            return failed(f"gets no event {event}", watching.finish(time.monotonic()).evidence())
    return passed()


def followed(hosts: Hosts) -> Outcome:
    """State and GID table are as the interface is: by the verbs and in sysfs."""
    first, second = hosts.members
    program = c_program.compile_program(HERE / "port.c")
    watching = hosts.start(first, "port", first.on_adapter(program, "watch"))
    own, another = f"1 ::ffff:{first.address}", f"3 ::ffff:{ANOTHER}"
    up, down = ("state 4", "4: ACTIVE"), ("state 1", "1: DOWN")
    in_sysfs = "0000:0000:0000:0000:0000:ffff:0a09:0032"
    told = [await_line(watching, "", "begin", *up, own)]

    def after(happen: Callable[[], None], *parts: str) -> None:
        said = watching.output()
        happen()
        told.append(await_line(watching, said, *parts))

    def address(what: str, which: str) -> None:
        first.setup("ip", "addr", what, which, "dev", first.interface)

    after(lambda: address("add", f"{ANOTHER}/32"), "GID", *up, own, another, in_sysfs)
    after(lambda: unplug(second), *down, own, another)
    after(lambda: second.setup("ip", "link", "set", second.interface, "up"), *up, own, another)
    # The remaining addresses keep their index, and a new one takes the first free index.
    after(lambda: address("del", f"{first.address}/24"), "GID", *up, f" 4: ACTIVE {in_sysfs}, 0 fe80", another)
    after(lambda: address("add", "10.9.0.51/32"), "GID", *up, "1 ::ffff:10.9.0.51", another)
    ended = watching.finish(time.monotonic())
    return passed() if all(told) else failed(f"the events are {told}", ended.evidence())
