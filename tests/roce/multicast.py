"""Multicast between two hosts: groups that the connection manager joins and groups that a program attaches to, on
several processes of each host."""

from __future__ import annotations

import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Callable, Sequence

from harness import c_program
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.process import Ended, Process, wait_for_any

from .hosts import Host, Hosts

SECONDS = 60
HERE = Path(__file__).resolve().parent
GROUPS = {"IPv4": "239.1.2.3", "IPv6": "ff15::77"}
# As RoCEv2 writes a group of IPv4, and as its predecessor did.
GIDS = {"::ffff:239.7.7.7": 1, "ff0e::ffff:239.7.7.7": 1, "ff15::77": 2, "ff02::77": 0}
# mckey's payload, and the queue key of the connection manager's groups.
MESSAGES, LENGTH, KEY = 10, 100, 0x01234567


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """The programs' runs, then changes of memberships."""
    found = [Case(f"mckey -m {group}", name, on_hosts(partial(everybody, name)))
             for name, group in GROUPS.items()]
    found += [Case("mckey -c 3", "", on_hosts(several)),
              Case("mckey -l (without loopback)", "", on_hosts(abroad)),
              Case("a group with a stranger in it", "", on_hosts(stranger)),
              Case("memberships end with their processes", "", on_hosts(forgotten))]
    return found + [Case(f"ibv_attach_mcast {gid}", "", on_hosts(partial(attached, gid, index)))
                    for gid, index in GIDS.items()]


def mckey(hosts: Hosts, host: Host, *options: object) -> Process:
    """Starts it with unbuffered output."""
    return hosts.start(host, "mckey", host.on_adapter("stdbuf", "-o0", "mckey", *options))


def await_words(processes: Sequence[Process], words: str) -> None:
    """Returns when all have said them, or one has ended, or the time is over."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if not all(process.running for process in processes):
            return
        if all(words in process.output() for process in processes):
            return
        wait_for_any(processes, time.monotonic() + 0.02)


def receive(hosts: Hosts, host: Host, *options: object) -> Process:
    """A receiver that has joined and has posted its receives."""
    receiver = mckey(hosts, host, *options)
    await_words([receiver], "receiving data transfers")
    return receiver


def all_of(processes: Sequence[Process]) -> Outcome:
    """Each returns 0."""
    deadline = time.monotonic() + SECONDS
    ended: list[Ended] = [process.finish(deadline) for process in processes]
    wrong = [one for one in ended if not one.succeeded]
    return failed(f"{len(wrong)} of {len(ended)} failed", "\n".join(one.evidence() for one in ended)) \
        if wrong else passed()


def everybody(version: str, hosts: Hosts) -> Outcome:
    """Two members on each host; one host sends. A sender without an address sends from the port's."""
    first, second = hosts.members
    group = GROUPS[version]
    address = {"IPv4": lambda host: host.address, "IPv6": lambda host: host.address6}[version]
    receivers = [mckey(hosts, host, "-m", group, *options)
                 for host in hosts.members for options in (("-b", address(host)), ())]
    await_words(receivers, "receiving data transfers")
    return all_of([*receivers, mckey(hosts, second, "-m", group, "-b", address(second), "-s")])


def several(hosts: Hosts) -> Outcome:
    """Each of a process's queue pairs that are attached to a group gets a copy."""
    first, second = hosts.members
    receiver = receive(hosts, first, "-m", GROUPS["IPv4"], "-b", first.address, "-c", 3)
    return all_of([receiver, mckey(hosts, second, "-m", GROUPS["IPv4"], "-b", second.address, "-s")])


def abroad(hosts: Hosts) -> Outcome:
    """A message sent without loopback arrives on the other host alone."""
    first, second = hosts.members
    group = GROUPS["IPv4"]
    neighbour = receive(hosts, second, "-m", group, "-b", second.address)
    for options, others in ((["-l"], []), ([], [neighbour])):
        receiver = receive(hosts, first, "-m", group, "-b", first.address)
        sender = mckey(hosts, second, "-m", group, "-b", second.address, "-s", *options)
        outcome = all_of([receiver, sender, *others])
        if outcome.evidence:
            return outcome
        if not others and "complete" in neighbour.output():
            return failed("a process of the same host received it", neighbour.output())
    return passed()


def stranger(hosts: Hosts) -> Outcome:
    """Packets to a group have the annex's format, as an independent program reads and makes them."""
    first, second = hosts.members
    group = GROUPS["IPv4"]
    member = hosts.start(second, "member", second.inside(
        ["/usr/bin/python3", "-B", str(HERE / "member.py"), second.address, group, str(MESSAGES), str(KEY), str(LENGTH)]))
    await_words([member], "joined")
    # Two that receive, so that the sender's messages do not suffice for the second: the rest are the independent
    # program's.
    early = receive(hosts, first, "-m", group, "-b", first.address)
    late = receive(hosts, first, "-m", group, "-b", first.address, "-C", 2 * MESSAGES)
    return all_of([early, mckey(hosts, first, "-m", group, "-b", first.address, "-s"), member, late])


def groups(host: Host) -> set[str]:
    """Groups of IPv4 that its kernel has joined."""
    found = set()
    for line in Path(f"/proc/{host.keeper.pid}/net/igmp").read_text().splitlines()[1:]:
        if line.startswith("\t"):
            found.add(".".join(str(byte) for byte in reversed(bytes.fromhex(line.split()[0]))))
    return found


def forgotten(hosts: Hosts) -> Outcome:
    """A group is joined as long as a process that has joined it lives; a process' end does not affect another's
    groups."""
    host = hosts.members[0]
    group = GROUPS["IPv4"]
    killed, stays = (receive(hosts, host, "-m", group, "-b", host.address) for _ in range(2))
    other = receive(hosts, host, "-m", "239.1.2.4", "-b", host.address)
    seen = [groups(host)]
    other.finish(time.monotonic())
    killed.finish(time.monotonic())
    seen.append(groups(host))
    outcome = all_of([stays, mckey(hosts, hosts.members[1], "-m", group, "-b", hosts.members[1].address, "-s")])
    seen.append(groups(host))
    if outcome.evidence:
        return outcome
    everyone = "224.0.0.1"
    wanted = [{everyone, group, "239.1.2.4"}, {everyone, group}, {everyone}]
    return passed() if seen == wanted else failed(f"joined were {seen}")


def tentative(host: Host) -> bool:
    """Whether duplicate address detection for an address there is still running."""
    done = subprocess.run(host.inside(["ip", "-o", "-6", "addr", "show", "dev", host.interface, "tentative"]),
                          check=True, capture_output=True, text=True, timeout=SECONDS)
    return bool(done.stdout.strip())


def attached(gid: str, index: int, hosts: Hosts) -> Outcome:
    """By the verbs alone, and both ways: a member answers the sender."""
    first, second = hosts.members
    program = c_program.compile_program(HERE / "members.c")
    deadline = time.monotonic() + SECONDS
    while any(tentative(host) for host in hosts.members) and time.monotonic() < deadline:
        time.sleep(0.05)
    names = ["env", f"GROUP={gid}", f"INDEX={index}"]
    waiting = hosts.start(first, "wait", first.on_adapter(*names, program, "wait"))
    await_words([waiting], "attached")
    return all_of([waiting, hosts.start(second, "ask", second.on_adapter(*names, program, "ask"))])
