"""Linux' own Soft-RoCE as the peer: two programs of the distribution with each other when one of them runs on the
kernel's adapter in a virtual machine, and the other on ours; and ours alone there, with dma-bufs, which the machine's
own kernel may lack. Emulated, so only `make nightly` runs it."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Callable

from harness import tiers
from harness.build_tree import DEVICE
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended
from harness.requirement import Tool
from roce.hosts import NoNamespaces, PORT, SetupFailed

from . import buffers, corpus, initramfs
from .guest import COUNTERS, QEMU, Guest

TITLE = "Linux' own Soft-RoCE as the peer"
REQUIRES = [Tool(QEMU, "qemu-system-x86"), Tool(initramfs.BUSYBOX, "busybox-static"), Tool("/usr/sbin/modprobe", "kmod"),
            Tool("ip", "iproute2"), Tool("nsenter", "util-linux"), Tool("rdma", "iproute2"),
            Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("ib_write_lat", "perftest"), Tool("rping", "rdmacm-utils"),
            Tool("tshark", "tshark"), Tool("/dev/net/tun", "a TUN device")]

# An emulated processor takes its time.
SECONDS = 120
SIZES = (1, 2, 3, 33, 1023, 1024, 1025, 4095, 4096, 4097, 65537, 1 << 20)
# Unacknowledged messages must fit in the cable, which takes a thousand packets.
UNRELIABLE = SIZES[:-1]
# One packet of the path's 1024 bytes, less the header in front of a datagram.
DATAGRAMS = (1, 2, 3, 33, 983, 1023, 1024)
GID = "1"
DIRECTIONS = ("to the guest", "from the guest")
# The command line for a size; a listener gets no further arguments, a connecting program the peer's address.
Command = Callable[[str, int], list[str]]


def pingpong(kind: str, *options: str) -> Command:
    """Messages in both directions, of which every byte is compared."""
    def words(device: str, size: int) -> list[str]:
        return [f"ibv_{kind}_pingpong", "-d", device, "-g", GID, "-p", str(PORT), "-c", "-n", "20", "-s", str(size),
                *options]
    return words


def perftest(tool: str, transport: str) -> Command:
    """A tool of perftest."""
    def words(device: str, size: int) -> list[str]:
        count = 20 if size < 65536 else 5
        return [tool, "-F", "-d", device, "-x", GID, "-p", str(PORT), "-c", transport, "-n", str(count),
                *([] if "atomic" in tool else ["-s", str(size)])]
    return words


TESTS: dict[str, tuple[Command, tuple[int, ...]]] = {
    "ibv_rc_pingpong": (pingpong("rc"), SIZES),
    "ibv_uc_pingpong": (pingpong("uc"), UNRELIABLE),
    "ibv_ud_pingpong": (pingpong("ud"), DATAGRAMS),
    "ibv_srq_pingpong": (pingpong("srq", "-q", "4"), SIZES),
    "ib_send_bw": (perftest("ib_send_bw", "RC"), SIZES),
    "ib_write_bw": (perftest("ib_write_bw", "RC"), SIZES),
    "ib_read_bw": (perftest("ib_read_bw", "RC"), SIZES),
    "ib_atomic_bw": (perftest("ib_atomic_bw", "RC"), (8,)),
    "ib_write_lat -c UC": (perftest("ib_write_lat", "UC"), UNRELIABLE),
}
# The connection manager's; `{}` is the server's address, the same for both.
PROGRAMS = {
    "rping": (["rping", "-s", "-a", "{}", "-C", "10", "-V"], ["rping", "-c", "-a", "{}", "-C", "10", "-V"]),
    "ucmatose": (["ucmatose", "-b", "{}"], ["ucmatose", "-s", "{}"]),
    "udaddy": (["udaddy", "-b", "{}"], ["udaddy", "-s", "{}"]),
}


def cases() -> list[Case]:
    """By night each test in both directions, in its own guest for all sizes; by day nothing."""
    if not tiers.by_night():
        return []
    found = [Case(name, direction, partial(with_guest, partial(sized, *test, direction)))
             for name, test in TESTS.items() for direction in DIRECTIONS]
    found += [Case(name, direction, partial(with_guest, partial(connected, *commands, direction)))
              for name, commands in PROGRAMS.items() for direction in DIRECTIONS]
    found += [Case("the corpus of the decoders", "", partial(with_guest, captured))]
    return found + [Case("dma-bufs", kind, partial(buffers.registered, kind)) for kind in buffers.KINDS]


def with_guest(body: Callable[[Guest], Outcome], place: Place) -> Outcome:
    """A case that has a guest. In addition, the guest must have seen no bad checksum."""
    if initramfs.kernel() is None:
        return skipped("no kernel for the guest; setup/guest unpacks one")
    try:
        with Guest(place) as guest:
            outcome = body(guest)
            if outcome.evidence:
                return outcome
            counted = guest.run("counters", COUNTERS, SECONDS)
            values = dict(re.findall(r"^(\w+):(\d+)$", counted.output, re.MULTILINE))
            complaints = re.search(r"^(\d+)\nstatus", counted.output, re.MULTILINE)
            if not complaints or complaints[1] != "0" or int(values.get("rcvd_pkts", 0)) == 0:
                return failed("the guest reports checksum errors, or received nothing", counted.evidence())
            words = [outcome.reason, f"{values['rcvd_pkts']} packets to the guest, {values['sent_pkts']} from it"]
            words += [f"{values[name]} {name}" for name in ("out_of_seq_request", "duplicate_request", "rcvd_seq_err")
                      if values.get(name, "0") != "0"]
            return passed(", ".join(word for word in words if word))
    except NoNamespaces as words:
        return skipped(str(words))
    except SetupFailed as words:
        return failed("the guest could not be started", str(words))


def good(ended: Ended) -> bool:
    """Whether a program here has succeeded, or one of the guest."""
    lines = ended.output.splitlines()
    in_guest = any(line.startswith("status ") for line in lines)
    return ended.succeeded and (not in_guest or "status 0" in lines)


def exchange(guest: Guest, direction: str, commands: Callable[[str, str], tuple[list[str], list[str]]],
             port: str) -> Outcome:
    """A server and a client, one of them in the guest. `commands` gives both for the server's and the client's devices;
    `port` is the shell command that succeeds once a server in the guest listens."""
    host, deadline = guest.host, time.monotonic() + SECONDS
    if direction == DIRECTIONS[0]:
        server, client = commands("rxe0", guest.address)
        serving = guest.start("server", " ".join(server))
        guest.run("ready", f"timeout 30 sh -c 'until {port}; do sleep 0.1; done'", SECONDS)
        asking = guest.hosts.start(host, "client", host.on_adapter(*client))
    else:
        server, client = commands(DEVICE, host.address)
        serving = guest.hosts.start(host, "server", host.on_adapter(*server))
        while serving.running and not (host.listens() or any(host.runtime.glob("cm-*.socket"))) \
                and time.monotonic() < deadline:
            time.sleep(0.01)
        asking = guest.start("client", " ".join(client))
    asked = asking.finish(deadline)
    served = serving.finish(min(deadline, time.monotonic() + 20))
    wrong = [one for one in (asked, served) if not good(one)]
    return failed(wrong[0].describe(), f"{served.evidence()}\n{asked.evidence()}") if wrong else passed()


def sized(command: Command, sizes: tuple[int, ...], direction: str, guest: Guest) -> Outcome:
    """All sizes, one after the other."""
    listens = f'grep -q ":{PORT:04X} .* 0A " /proc/net/tcp /proc/net/tcp6'
    for size in sizes:
        def commands(device: str, address: str) -> tuple[list[str], list[str]]:
            other = DEVICE if device == "rxe0" else "rxe0"
            return command(device, size), [*command(other, size), address]
        outcome = exchange(guest, direction, commands, listens)
        if outcome.evidence:
            return failed(f"{size} B: {outcome.reason}", outcome.evidence)
    return passed(f"{len(sizes)} sizes")


def connected(server: list[str], client: list[str], direction: str, guest: Guest) -> Outcome:
    """A program that connects by the connection manager; the kernel's, at the guest's side."""
    def commands(_device: str, address: str) -> tuple[list[str], list[str]]:
        return ([word.format(address) for word in server], [word.format(address) for word in client])
    return exchange(guest, direction, commands, "rdma resource show cm_id | grep -q LISTEN")


def captured(guest: Guest) -> Outcome:
    """The packets of both sides, every operation once: every decoder of ours takes them (see `corpus.py`)."""
    host = guest.host
    file = guest.place.directory / "guest.pcapng"
    capture = guest.place.start("capture", host.inside(
        ["tshark", "-q", "-i", host.interface, "-f", "udp port 4791", "-w", str(file)]))
    deadline = time.monotonic() + SECONDS
    while "Capturing on" not in capture.output() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    for name in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ib_send_bw", "ib_write_bw", "ib_read_bw",
                 "ib_atomic_bw"):
        command, sizes = TESTS[name]
        for direction in DIRECTIONS:
            outcome = sized(command, tuple(size for size in sizes if size in (8, 33, 4097)), direction, guest)
            if outcome.evidence:
                return outcome
    outcome = connected(*PROGRAMS["rping"], DIRECTIONS[1], guest)
    time.sleep(1)
    capture.finish(time.monotonic())
    return outcome if outcome.evidence else corpus.keep(file, guest.place.directory / "corpus", guest.address)
