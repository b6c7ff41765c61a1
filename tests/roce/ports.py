"""A device of two ports, each an interface with its own cable."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable, Sequence

from harness import c_program, counters
from harness.build_tree import DEVICE, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import finish
from harness.process import Ended

from pyverbs import results, sources
from pyverbs.suite import PYTHON, SECONDS as RUN_SECONDS

from .changes import NUMBERS, await_line
from .connections import SECONDS, WHOLE, converse, listens, serve
from .hosts import Host, Hosts, PORT

HERE = Path(__file__).resolve().parent
IPV4 = 1
# The number of rdma-core's tests that can run over RoCE; the others need features of other makers' devices, huge pages,
# or raw packets.
WANTED_OVER_ROCE = 136
# Datagrams that ports.c sends to groups, which may have members elsewhere.
TO_GROUPS = 4
# Second addresses of the first host, by how the networks of the two cables are laid out.
APART, TOGETHER = "10.10.0.{}", "10.9.0.10{}"


@dataclass
class TwoCables(Hosts):
    """Two hosts with two cables between them."""

    second: str = APART

    def _make(self) -> None:
        super()._make()
        first, second = self.members
        first.setup("ip", "link", "add", more(first), "type", "veth", "peer", "name", more(second), "netns",
                    str(second.keeper.pid))
        for host in self.members:
            if self.second == TOGETHER:
                # On some systems the kernel otherwise drops packets that come by another interface than the one by
                # which it would answer.
                for name in ("all", more(host)):
                    host.setup("sh", "-c", f"echo 0 > /proc/sys/net/ipv4/conf/{name}/rp_filter")
            host.setup("ip", "addr", "add", f"{self.second.format(host.number)}/24", "dev", more(host))
            host.setup("ip", "addr", "add", f"fd10::{host.number}/64", "dev", more(host), "nodad")
            host.setup("ip", "link", "set", more(host), "mtu", str(self.mtu), "up")
            host.others = [more(host)]
        self._wait(lambda: all("state UP" in self._link(host, more(host)) for host in self.members))

    def second_address(self, version: int = 4) -> str:
        """The first host's on the second cable."""
        number = self.members[0].number
        return self.second.format(number) if version == 4 else f"fd10::{number}"


def more(host: Host) -> str:
    """Returns a host's end of the second cable. Its name sorts after the first: rdma-core's tests take the first name
    for port 1's."""
    return f"wire{host.number}"


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """Reports on two ports, then traffic through them."""
    def on_two(body: Callable[..., Outcome], second: str = APART) -> Callable:
        return on_hosts(body, kind=partial(TwoCables, second=second))

    found = [
        Case("two ports: ibv_devinfo -v", "", on_two(devinfo)),
        Case("two ports: verbena info", "", on_two(told)),
        Case("two ports: tables, and ports that there are not", "", on_two(tables)),
        Case("two ports: none shows on the other", "one host", on_two(apart_at_home)),
        Case("two ports: none shows on the other", "two networks", on_two(apart)),
        Case("two ports: none shows on the other", "one network", on_two(apart, TOGETHER)),
        Case("two ports: one loses its link", "", on_two(one_down)),
        Case("two ports: ib_write_bw -O (both at once)", "", on_two(both)),
    ]
    found += [Case("two ports: equal link-local addresses", link, on_two(partial(link_local, link == "second")))
              for link in ("first", "second")]
    for options in (["ib_write_bw", "-c", "RC"], ["ib_send_lat", "-c", "UD"], ["ib_read_bw"]):
        found.append(Case(f"two ports: {' '.join(options)} -i 2", "", on_two(partial(perftest, options))))
    for name, (server, client) in PROGRAMS.items():
        for column, version in (("IPv4", 4), ("IPv6", 6)):
            found.append(Case(f"two ports: {name} by the second", column, on_two(partial(program, server, client, version))))
    if WHOLE:
        found.append(Case("two ports: rdma-core's own tests", "", on_two(pyverbs)))
    return found


def devinfo(hosts: Hosts) -> Outcome:
    """Each port has its own interface's addresses, and none of the other's."""
    host = hosts.members[0]
    host.setup("ip", "link", "set", more(host), "mtu", "9000")
    ended = hosts.run(host, "devinfo", host.on_adapter("ibv_devinfo", "-v"), SECONDS)
    whole, *ports = [" ".join(part.split()) for part in re.split(r"\bport:", ended.output)]
    wanted = [["active_mtu: 1024 (3)", "GID[ 1]: ::ffff:10.9.0.1, RoCE v2", "GID[ 2]: fd09::1, RoCE v2"],
              ["active_mtu: 4096 (5)", "GID[ 1]: ::ffff:10.10.0.1, RoCE v2", "GID[ 2]: fd10::1, RoCE v2"]]
    common = ["state: PORT_ACTIVE (4)", "link_layer: Ethernet"]
    if not ended.succeeded or "phys_port_cnt: 2" not in whole or len(ports) != 2:
        return failed("does not have two ports", ended.evidence())
    for number, (text, own, others) in enumerate(zip(ports, wanted, reversed(wanted)), start=1):
        wrong = [word for word in common + own if word not in text] + [word for word in others if word in text]
        if wrong or not text.startswith(str(number)):
            return failed(f"port {number} is wrong in {', '.join(wrong) or 'its number'}", ended.evidence())
    return passed()


def told(hosts: Hosts) -> Outcome:
    """`verbena info` names each port; the option takes a list or may be repeated; a wrong list is an error."""
    host = hosts.members[0]

    def info(*interfaces: str) -> tuple[bool, str]:
        named = ["env", "VERBENA_LINK=roce", f"VERBENA_INTERFACE={','.join(interfaces)}"]
        ended = hosts.run(host, "info", host.inside([*named, str(VERBENA), "info"]), SECONDS)
        return ended.succeeded, ended.output

    ports = [f"port 1: active, Ethernet, RoCE v2 by {host.interface}", f"port 2: active, Ethernet, RoCE v2 by {more(host)}",
             "::ffff:10.9.0.1", "::ffff:10.10.0.1"]
    good, said = info(host.interface, more(host))
    if not good or any(word not in said for word in ports):
        return failed("does not name the ports", said)
    _, said = info("10.10.0.1", host.interface)
    if f"port 1: active, Ethernet, RoCE v2 by {more(host)}" not in said:
        return failed("the first named port is not port 1", said)
    for wrong, words in ((["eth9"], "no interface is `eth9`"), ([host.interface, ""], "a name is missing"),
                         ([host.interface, "10.9.0.1"], f"names {host.interface} twice")):
        _, said = info(*wrong)
        if words not in said:
            return failed(f"does not say `{words}` of {wrong}", said)
    again = hosts.run(host, "again", host.inside(
        [str(VERBENA), "run", "--link", "roce", "--interface", host.interface, "--interface", more(host), "--",
         "ibv_devinfo", "-i", "2"]), SECONDS)
    return passed() if again.succeeded else failed("the repeated option is wrong", again.evidence())


def tables(hosts: Hosts) -> Outcome:
    """A program that queries everything that exists, and things that do not."""
    host = hosts.members[0]
    source = c_program.compile_program(HERE / "ports.c", more=[HERE / "between.c"])
    ended = hosts.run(host, "tables", host.on_adapter(source, "tables"), SECONDS)
    return passed() if ended.succeeded else failed(ended.describe(), ended.evidence())


def apart(hosts: Hosts) -> Outcome:
    """From every port to every one, between the hosts."""
    source = c_program.compile_program(HERE / "ports.c", more=[HERE / "between.c"])
    settings = ["env", f"PEER={hosts.members[0].address}", source]
    return hosts.exchange([*settings, "answers"], [*settings, "asks"], SECONDS).outcome()


def apart_at_home(hosts: Hosts) -> Outcome:
    """The same between processes of one host, which share memory whichever ports they use."""
    host = hosts.members[0]
    source = c_program.compile_program(HERE / "ports.c", more=[HERE / "between.c"])
    settings = ["env", "CROSS=1", f"PEER={host.address}", source]
    outcome = hosts.exchange([*settings, "answers"], [*settings, "asks"], SECONDS, asker=host).outcome()
    packets = counters.total(hosts.place)["udp_path_operations"]
    if not outcome.evidence and packets != TO_GROUPS:
        return failed(f"{packets} operations went by packets, and not {TO_GROUPS}")
    return outcome


def one_down(hosts: Hosts) -> Outcome:
    """Port 1 loses its link, and an event says so; traffic through port 2 goes on, without an event."""
    first, second = hosts.members
    watching = hosts.start(first, "watch", first.on_adapter("stdbuf", "-oL", "ibv_asyncwatch"))
    if not await_line(watching, "", "async event FD"):
        return failed("does not begin", watching.finish(time.monotonic()).evidence())
    command = ["ibv_rc_pingpong", "-d", DEVICE, "-p", PORT, "-i", "2", "-g", IPV4, "-n", "3000", "-c"]

    def happens(event: str, port: int, host: Host, *what: str) -> bool:
        said = watching.output()
        host.setup("ip", *what)
        return await_line(watching, said, NUMBERS[event], f"port {port}")

    # The cable of port 1 is unplugged when the traffic begins, and is plugged and unplugged while it runs.
    link = ("link", "set", second.interface)
    events = [happens("error", 1, second, *link, "down")]
    serving = hosts.start(first, "server", first.on_adapter(*command))
    deadline = time.monotonic() + SECONDS
    while serving.running and not first.listens() and time.monotonic() < deadline:
        time.sleep(0.005)
    asking = hosts.start(second, "client", second.on_adapter(*command, hosts.second_address()))
    events += [happens("active", 1, second, *link, "up"), happens("error", 1, second, *link, "down")]
    outcome = finish(serving, asking, deadline).outcome()
    before = watching.output()
    events.append(happens("GID", 2, first, "addr", "add", "10.10.0.50/32", "dev", more(first)))
    ended = watching.finish(time.monotonic())
    if outcome.evidence:
        return outcome
    if not all(events) or "port 2" in before:
        return failed(f"the events are {events}", ended.evidence())
    return passed()


def both(hosts: Hosts) -> Outcome:
    """One program with queue pairs at both ports at once, to another such."""
    command = ["ib_write_bw", "-O", "-F", "-d", DEVICE, "-p", PORT, "-x", IPV4, "-q", 2, "-n", 200]
    return hosts.exchange(command, [*command, hosts.members[0].address], SECONDS).outcome()


def perftest(options: Sequence[str], hosts: Hosts) -> Outcome:
    """By the second port, while the first has no cable."""
    first, second = hosts.members
    second.setup("ip", "link", "set", second.interface, "down")
    command = [*options, "-F", "-d", DEVICE, "-p", PORT, "-i", "2", "-x", IPV4, "-n", 200]
    return hosts.exchange(command, [*command, hosts.second_address()], SECONDS).outcome()


def pyverbs(hosts: Hosts) -> Outcome:
    """On either port the tests end alike, and none fails."""
    host = hosts.members[0]
    found = []
    try:
        tests = sources.provide() / "run_tests.py"
    except sources.Unavailable as error:
        return skipped(str(error))
    for number in (1, 2):
        command = ["env", "PYTHONDONTWRITEBYTECODE=1", PYTHON, tests, "--dev", DEVICE, "--port", number, "--gid", IPV4, "-v"]
        ended = hosts.run(host, f"port{number}", host.on_adapter(*command), RUN_SECONDS)
        if not ended.succeeded:
            return failed(f"port {number}: {ended.describe()}", ended.evidence())
        found.append({name: result.verdict for name, result in results.parse(ended.output).items()})
    first, second = found
    different = [name for name in first if first[name] != second.get(name)]
    good = sum(verdict == "ok" for verdict in first.values())
    if different or good < WANTED_OVER_ROCE:
        return failed(f"{good} pass, other at port 2: {', '.join(different) or 'none'}")
    return passed(f"{good} on each port")


PROGRAMS: dict[str, tuple[list[str], list[str]]] = {
    "rping -V": (["rping", "-s", "-a", "{}", "-C", "20", "-V"], ["rping", "-c", "-a", "{}", "-C", "20", "-V"]),
    "ucmatose -c 20": (["ucmatose", "-c", "20", "-b", "{}"], ["ucmatose", "-c", "20", "-s", "{}"]),
    "udaddy": (["udaddy", "-b", "{}"], ["udaddy", "-s", "{}"]),
}


def program(server: list[str], client: list[str], version: int, hosts: Hosts) -> Outcome:
    """The address says which port it is."""
    second = hosts.members[1]
    second.setup("ip", "link", "set", second.interface, "down")
    filled = [[word.format(hosts.second_address(version)) for word in command] for command in (server, client)]
    return converse(hosts, *filled).outcome()


def link_local(by_second: bool, hosts: Hosts) -> Outcome:
    """Both ports of a host have the same link-local address: a listener on one link is found there and not on the
    other."""
    first, second = hosts.members
    for host in hosts.members:
        for interface in (host.interface, more(host)):
            host.setup("ip", "-6", "addr", "flush", "dev", interface, "scope", "link")
            host.setup("ip", "addr", "add", f"fe80::{host.number}/64", "dev", interface, "nodad")
    links = [(host.interface, more(host)) if by_second else (more(host), host.interface) for host in (first, second)]
    (_, ours), (elsewhere, there) = links
    command = ["rping", "-s", "-a", f"fe80::{first.number}%{ours}", "-C", "5"]
    serving, is_ready = serve(hosts, command, lambda _process: listens(first))
    if not is_ready:
        return failed("never listened", serving.finish(time.monotonic()).evidence())

    def ask(interface: str) -> Ended:
        address = f"fe80::{first.number}%{interface}"
        return hosts.run(second, "client", second.on_adapter("rping", "-c", "-a", address, "-C", "5", "-V"), SECONDS)

    wrong, right = ask(elsewhere), ask(there)
    served = serving.finish(time.monotonic() + SECONDS)
    if wrong.succeeded or "RDMA_CM_EVENT_REJECTED" not in wrong.output:
        return failed("was found on the other link", wrong.evidence())
    if not (right.succeeded and served.succeeded):
        return failed("was not found on its link", f"{right.evidence()}\n{served.evidence()}")
    return passed()
