"""Habits of scripts: they change an interface under way, end commands early, and leave processes behind."""

from __future__ import annotations

import os
import shlex
import signal
import time
from functools import partial

from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .ends import HERE, SECONDS, WAIT, Ends, lacks, unbalanced
from .programs import MODES

TOOL = f"python3 '{HERE / 'transfer.py'}'"
BYTES = 64 << 20
# Longest time of a command that ends at once, in seconds.
LONGEST = 20
TIMED_OUT = 124
# Waits until both transfers have a connection.
BEGUN = "until [ $(ss -Htn state established | wc -l) -ge 2 ]; do sleep 0.02; done; "


def cases() -> list[Case]:
    """Changes during transfers, all to all, signals, processes that stay."""
    changes = {
        "the MTU": "for mtu in 1500 2044 1280 4092; do ip link set ib0 mtu $mtu; sleep 0.1; done",
        # Deprecated ones, which no new connection has as its source: it would hang without its address.
        "addresses": "for i in $(seq 50 69); do ip address add 10.0.0.$i/24 dev ib0; "
                     "ip address add fd00::$i/64 dev ib0 nodad preferred_lft 0; done; "
                     "for i in $(seq 50 69); do ip address del 10.0.0.$i/24 dev ib0; ip address del fd00::$i/64 dev ib0; done",
        "down and up": "for i in 1 2 3; do ip link set ib0 down; sleep 0.1; ip link set ib0 up; sleep 0.1; done",
    }
    return [
        *(Case(f"an interface that changes under way: {name}", mode, partial(changed, script, MODES[mode]))
          for name, script in changes.items() for mode in MODES),
        Case("an MTU that is too long for the interface", "", raised),
        *(Case("four ends", f"TCP from all to all, {mode} mode", partial(all_to_all, MODES[mode])) for mode in MODES),
        Case("a command that ends early", "timeout", timed_out),
        Case("a command that ends early", "Ctrl-C", interrupted),
        Case("processes that a command leaves", "", left_behind),
    ]


def changed(script: str, mode: tuple[str, ...], place: Place) -> Outcome:
    """Transfers both ways survive changes of the sender's interface, and its addresses of both versions answer afterwards."""
    ends = Ends(place)
    other = ends.start(1, f"{TOOL} receive 10.0.0.1 & {TOOL} receive fd00::1 & {WAIT}; wait", *mode)
    client = (f"{TOOL} send 10.0.0.1 {BYTES} changed & {TOOL} send fd00::1 {BYTES} changed & {BEGUN}{script}; "
              "touch changed; wait; ping -c 1 -w 20 10.0.0.1; ping -c 1 -w 20 fd00::1")
    ended = ends.run(2, client, *mode)
    [server] = ends.stop(other)
    if failure := lacks(ended, [r"(?s)^the same bytes\n.*^the same bytes$"]) or unbalanced(server):
        return failure
    return passed() if ended.output.count("1 received") == 2 else failed("a version does not answer", ended.evidence())


def raised(place: Place) -> Outcome:
    """Both ends raise the MTU over that of datagrams: long packets are answered by ICMP, or cut where that is permitted, and TCP goes on."""
    ends = Ends(place)
    script = "ip link set ib0 mtu 9000; "
    other = ends.start(1, f"{script}{TOOL} receive 10.0.0.1; {TOOL} receive fd00::1; {WAIT}")
    ended = ends.run(2, f"{script}ping -c 1 -w 20 -M dont -s 8000 10.0.0.1; {TOOL} send 10.0.0.1 {BYTES}; {TOOL} send fd00::1 {BYTES}; "
                        "ip route get 10.0.0.1; ip route get fd00::1")
    [server] = ends.stop(other)
    if failure := unbalanced(server):
        return failure
    return lacks(ended, [r"1 received", r"(?s)^the same bytes\n.*^the same bytes$", r"longer than the MTU +[1-9]", r"cache .*mtu 4092",
                         r"fd00::1 .* mtu 4092"]) or passed()


def all_to_all(mode: tuple[str, ...], place: Place) -> Outcome:
    """Each of four ends sends to each other one at the same time; all bytes arrive."""
    program = """
import hashlib, pathlib, random, socket, sys, threading, time
own, ends, length = int(sys.argv[1]), range(1, 5), 8 << 20
data = {(one, other): random.Random(10 * one + other).randbytes(length) for one in ends for other in ends}
listener = socket.create_server(("", 6000), family=socket.AF_INET6, dualstack_ipv6=True, backlog=16)
def receive(peer):
    with peer:
        number = peer.recv(1)[0]
        got = b"".join(iter(lambda: peer.recv(1 << 20), b""))
        print("right\\n" if got == data[number, own] else "wrong\\n", end="", flush=True)
def accept():
    for _ in range(3):
        peer, _address = listener.accept()
        threads.append(threading.Thread(target=receive, args=(peer,)))
        threads[-1].start()
def send(other):
    address = f"10.0.0.{other}" if other > own else f"fd00::{other}"
    with socket.create_connection((address, 6000)) as end:
        end.sendall(bytes([own]) + data[own, other])
threads = []
accepting = threading.Thread(target=accept)
accepting.start()
pathlib.Path(f"ready-{own}").touch()
while not all(pathlib.Path(f"ready-{number}").exists() for number in ends):
    time.sleep(0.02)
sending = [threading.Thread(target=send, args=(other,)) for other in ends if other != own]
for one in sending: one.start()
for one in [*sending, accepting]: one.join()
for one in threads: one.join()
pathlib.Path(f"done-{own}").touch()
"""
    (place.directory / "all.py").write_text(program)
    ends = Ends(place)
    numbers = range(1, 5)
    started = [ends.start(number, f"python3 all.py {number}; {WAIT}", *mode) for number in numbers]
    deadline = time.monotonic() + SECONDS
    while not all((place.directory / f"done-{number}").exists() for number in numbers) and time.monotonic() < deadline:
        time.sleep(0.05)
    for ended in ends.stop(*started):
        if failure := unbalanced(ended):
            return failure
        if ended.output.count("right\n") != 3:
            return failed("bytes are missing", ended.evidence())
    return passed("12 transfers")


def timed_out(place: Place) -> Outcome:
    """`timeout` ends a command and its interface, with its own exit code, and so does the command's end by a signal."""
    ended = Ends(place).run(1, "exec sleep 1000", through=["timeout", "1"])
    if ended.status != TIMED_OUT or ended.seconds > LONGEST or "packets sent by programs" not in ended.output:
        return failed(f"{ended.describe()} after {ended.seconds:.0f} s", ended.evidence())
    return passed()


def interrupted(place: Place) -> Outcome:
    """Ctrl-C, a signal to the whole process group, ends the command; the interface ends after it, with its counters."""
    ends = Ends(place)
    started = ends.start(1, "exec sleep 1000")
    os.killpg(started.pid, signal.SIGINT)
    ended = started.finish(time.monotonic() + SECONDS)
    if ended.status != 128 + signal.SIGINT or "packets sent by programs" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed()


def left_behind(place: Place) -> Outcome:
    """A command ends although a process that it has started goes on, which has no interface then."""
    stays = "(until ! ip link show ib0; do sleep 0.05; done; ip -o link > leaving; mv leaving left) > /dev/null 2>&1 &"
    command = shlex.join(Ends(place).command(1, f"ping -c 1 -w 20 10.0.0.1; {stays}"))
    ended = place.run("left", ["sh", "-ec", f"{command}; echo ended; until [ -e left ]; do sleep 0.05; done; cat left"], SECONDS)
    if failure := lacks(ended, [r"^ended$", r"^1: lo: "]):
        return failure
    return passed() if ": ib0:" not in ended.output else failed("the interface is still there", ended.evidence())
