"""Ends in connected mode, and between the modes."""

from __future__ import annotations

import os
import re
import signal
import time
from functools import partial

from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from . import segments
from .ends import HERE, SECONDS, WAIT, Ends, counters, lacks, unbalanced

CONNECTED, DATAGRAM = ("--mode", "connected"), ("--mode", "datagram")
MTU, DATAGRAM_MTU = 65520, 4092
WRONG_INPUT, ENVIRONMENT = 2, 3
BYTES = 64 << 20
LEFT = 5_000_000
TOOL = f"python3 '{HERE / 'transfer.py'}'"


def cases() -> list[Case]:
    """Both ends connected, one of them, ends that die, are stopped or flood, losses, options."""
    title = "connected mode"
    pairs = {"connected to datagram": (CONNECTED, DATAGRAM), "datagram to connected": (DATAGRAM, CONNECTED)}
    return [
        Case(title, "sizes up to the MTU", sizes),
        Case(title, "TCP", partial(transferred, CONNECTED, CONNECTED)),
        *(Case(title, f"TCP, {name}", partial(transferred, one, other)) for name, (one, other) in pairs.items()),
        Case(title, "iperf3", measured),
        Case(title, "sizes to an end in datagram mode", partial(shortened, DATAGRAM, DATAGRAM_MTU)),
        Case(title, "sizes to an end with a smaller MTU", partial(shortened, (*CONNECTED, "--mtu", "9000"), 9000)),
        Case(title, "the longest message of UDP that is cut", partial(segments.cut, "10.0.0.1", 65_507, 1200, CONNECTED)),
        Case(title, "groups", grouped),
        Case(title, "a sender that ends", left),
        Case(title, "an end that is killed and restarted", partial(restarted, CONNECTED)),
        Case(title, "an end that is restarted in datagram mode", partial(restarted, DATAGRAM)),
        Case(title, "an end that is stopped", stopped),
        Case(title, "three ends that are stopped", held),
        Case(title, "an end that floods", flooded),
        Case(title, "many ends", many),
        Case(title, "messages are lost", lost),
        Case(title, "the MTU", refused),
    ]


def sizes(place: Place) -> Outcome:
    """The interface has an MTU of 65520; packets of it arrive whole, longer ones in fragments; one connection of each end has them."""
    ends = Ends(place)
    other = ends.start(1, WAIT, *CONNECTED)
    v4, v6 = 20 + 8, 40 + 8
    longest = 65507
    script = "; ".join(
        [f"ping -c 1 -w 20 -M do -s {size - v4} 10.0.0.1" for size in (v4, DATAGRAM_MTU, DATAGRAM_MTU + 1, 60000, MTU - 1, MTU)]
        + [f"ping -c 1 -w 20 -M do -s {size - v6} fd00::1" for size in (v6, DATAGRAM_MTU, DATAGRAM_MTU + 1, 60000, MTU - 1, MTU)]
        + [f"ping -c 1 -w 20 -s {longest} 10.0.0.1", f"! ping -c 1 -w 2 -M do -s {MTU - v4 + 1} 10.0.0.1", "ip link show ib0"])
    ended = ends.run(2, script, *CONNECTED)
    [server] = ends.stop(other)
    if failure := lacks(ended, [rf"mtu {MTU} ", r"message too long"]) or unbalanced(server):
        return failure
    if (count := ended.output.count("1 packets transmitted, 1 received")) != 13:
        return failed(f"{count} of 13 sizes", ended.evidence())
    # Fewer datagrams than any fragmentation of these would need: pings and their parts, messages of addresses and connections.
    if (found := counters(server.output)["messages received from the link"]) > 30:
        return failed(f"{found} datagrams", server.evidence())
    return passed("13 sizes")


def transferred(one: tuple[str, ...], two: tuple[str, ...], place: Place) -> Outcome:
    """A program's bytes arrive by TCP over both versions, both ways at once; no packet is dropped."""
    ends = Ends(place)
    other = ends.start(1, f"{TOOL} receive 10.0.0.1 & {TOOL} send fd00::2 {BYTES}; wait; {WAIT}", *one)
    ended = ends.run(2, f"{TOOL} receive fd00::2 & {TOOL} send 10.0.0.1 {BYTES}; wait", *two)
    [server] = ends.stop(other)
    return lacks(ended, [r"^the same bytes$"]) or lacks(server, [r"^the same bytes$"]) or passed(f"2 x {BYTES >> 20} MiB")


def measured(place: Place) -> Outcome:
    """iperf3 sends by TCP in several streams, both ways, and by UDP in datagrams of 60000 bytes. A neighbour that gets no processor for
    a while may lose packets, which are counted; none is dropped for another reason."""
    ends = Ends(place)
    other = ends.start(1, f"iperf3 -s > server & {WAIT}; kill $!", *CONNECTED)
    script = "; ".join(f"until iperf3 -c {words}; do sleep 0.1; done"
                       for words in ("10.0.0.1 -n 100M -P 4", "fd00::1 -n 100M -R", "10.0.0.1 -n 20M --bidir", "10.0.0.1 -u -l 60000 -b 100M -n 6M"))
    ended = ends.run(2, script, *CONNECTED)
    [server] = ends.stop(other)
    if failure := lacks(ended, [r"\(\d.*%\)  receiver"]) or unbalanced(server):
        return failure
    for name, output in (("client", ended.output), ("server", server.output)):
        count = counters(output)
        dropped = {name: number for name, number in count.items() if name.startswith("dropped") and "takes no datagrams" not in name}
        if dropped:
            return failed(f"the {name} dropped {dropped}", ended.evidence() + server.evidence())
    return passed()


def shortened(other_mode: tuple[str, ...], mtu: int, place: Place) -> Outcome:
    """A packet that is too long for the neighbour is answered by ICMP with its MTU, and the next ones are shorter; one that may be cut
    is cut. TCP finds the MTU both ways."""
    ends = Ends(place)
    other = ends.start(1, f"{TOOL} receive fd00::1; {TOOL} send 10.0.0.2 {BYTES >> 3}; {WAIT}", *other_mode)
    script = ("ping -c 1 -w 20 -M dont -s 30000 10.0.0.1; "
              "ping -c 3 -i 0.2 -w 20 -M want -s 30000 10.0.0.1 || :; ping -c 3 -i 0.2 -w 20 -s 30000 fd00::1 || :; "
              "! ping -c 1 -w 2 -M do -s 30000 10.0.0.1; ip route get 10.0.0.1; "
              f"{TOOL} send fd00::1 {BYTES >> 3}; {TOOL} receive 10.0.0.2")
    ended = ends.run(2, script, *CONNECTED)
    [server] = ends.stop(other)
    wanted = [rf"Frag needed and DF set \(mtu = {mtu}\)", rf"Packet too big: mtu={mtu}", rf"cache .*mtu {mtu}",
              r"1 packets transmitted, 1 received", r"longer than the neighbour's MTU +2", r"^the same bytes$"]
    return lacks(ended, wanted) or lacks(server, [r"^the same bytes$"]) or passed()


def grouped(place: Place) -> Outcome:
    """Long datagrams to a group and pings to all nodes reach ends of both modes, in fragments of the datagram MTU."""
    ends = Ends(place)
    receive = ("import pathlib, socket, struct\nend = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nend.bind(('', 5003))\n"
               "own = socket.inet_aton('10.0.0.%d')\n"
               "end.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + own)\n"
               "pathlib.Path('ready-%d').touch()\nprint(len(end.recv(60000)), 'bytes of the group')")
    started = []
    for number, mode in ((1, CONNECTED), (2, DATAGRAM)):
        (place.directory / f"receive-{number}.py").write_text(receive % (number, number))
        started.append(ends.start(number, f"python3 receive-{number}.py; {WAIT}", *mode))
    send = ("import socket, time\nend = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "end.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton('10.0.0.3'))\n"
            "for _ in range(20):\n    end.sendto(bytes(20000), ('239.1.2.3', 5003))\n    time.sleep(0.05)\n")
    (place.directory / "send.py").write_text(send)
    ready = "until [ -e ready-1 ] && [ -e ready-2 ]; do sleep 0.02; done"
    ended = ends.run(3, f"{ready}; python3 send.py; ping -c 2 -i 0.2 -w 20 -s 9000 ff02::1%ib0; ping -b -c 1 -W 1 -s 9000 10.0.0.255 || :",
                     *CONNECTED)
    if failure := unbalanced(ended):
        return failure
    for one in ends.stop(*started):
        if failure := lacks(one, [r"^20000 bytes of the group$"]):
            return failure
    return passed()


def left(place: Place) -> Outcome:
    """All bytes that a program has sent arrive, although it ends before the peer has acknowledged them."""
    ends = Ends(place)
    for address in ("10.0.0.1", "fd00::1"):
        other = ends.start(1, f"{TOOL} count {address}", *CONNECTED)
        ended = ends.run(2, f"exec {TOOL} leave {address} {LEFT}", *CONNECTED)
        server = other.finish(time.monotonic() + SECONDS)
        if failure := unbalanced(ended) or lacks(server, [rf"^{LEFT} bytes arrived$"]):
            return failure
    return passed(f"2 x {LEFT} bytes")


def wait_for(place: Place, name: str) -> None:
    """Waits until an end has made a file."""
    deadline = time.monotonic() + SECONDS
    while not (place.directory / name).exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def restarted(mode: tuple[str, ...], place: Place) -> Outcome:
    """A killed end is replaced by another with its addresses, in the same or the other mode, which its neighbour finds."""
    ends = Ends(place)
    first = ends.start(1, WAIT, *CONNECTED)
    pings = "ping -c 2 -i 0.1 -w 20 -s 3000 10.0.0.1; ping -c 2 -i 0.1 -w 20 -s 3000 fd00::1"
    script = f"{pings}; touch known; until [ -e again ]; do sleep 0.02; done; {pings}; echo found again; touch found; {WAIT}"
    other = ends.start(2, script, *CONNECTED)
    wait_for(place, "known")
    os.kill(first.pid, signal.SIGKILL)
    first.abandon()
    second = ends.start(1, WAIT, *mode)
    (place.directory / "again").touch()
    wait_for(place, "found")
    ended, server = ends.stop(other, second)
    return lacks(ended, [r"^found again$"]) or unbalanced(server) or passed()


FLOOD = ("import socket\nend = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
         "for _ in range({}): end.sendto(bytes({}), ('10.0.0.1', 9))")


def stopped(place: Place) -> Outcome:
    """Packets to an end whose process is stopped are dropped and counted, and do not delay those to others; later it is reached again.
    The kernel may drop a ping whose queue the flood still fills."""
    ends = Ends(place)
    one, other = ends.start(1, WAIT, *CONNECTED), ends.start(2, WAIT, *CONNECTED)
    (place.directory / "flood.py").write_text(FLOOD.format(3000, 30000))
    script = ("ping -c 1 -w 20 10.0.0.1; ping -c 1 -w 20 10.0.0.2; touch known; until [ -e stopped ]; do sleep 0.02; done; "
              "python3 flood.py; ping -c 3 -i 0.1 -w 20 10.0.0.2; touch reached; until [ -e going ]; do sleep 0.02; done; "
              "ping -c 1 -w 20 10.0.0.1; echo reached again; touch again; " + WAIT)
    third = ends.start(3, script, *CONNECTED)
    wait_for(place, "known")
    os.kill(one.pid, signal.SIGSTOP)
    (place.directory / "stopped").touch()
    wait_for(place, "reached")
    os.kill(one.pid, signal.SIGCONT)
    (place.directory / "going").touch()
    wait_for(place, "again")
    ended, *rest = ends.stop(third, other, one)
    for each in rest:
        if failure := unbalanced(each):
            return failure
    if failure := lacks(ended, [r"^reached again$", r"3 received", r"neighbour takes no datagrams +[1-9]"]):
        return failure
    return passed(f"{counters(ended.output)['dropped sent: neighbour takes no datagrams']} dropped")


def held(place: Place) -> Outcome:
    """Three ends that are stopped and hold all requests of an interface do not keep a fourth one from being reached."""
    ends = Ends(place)
    others = [ends.start(number, WAIT, *CONNECTED) for number in (1, 2, 3, 4)]
    send = ("import socket\nend = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "for number in 1, 2, 3:\n    for _ in range(100): end.sendto(bytes(1000), (f'10.0.0.{number}', 9))")
    (place.directory / "send.py").write_text(send)
    script = ("for i in 1 2 3 4; do ping -c 1 -w 20 10.0.0.$i; done; touch known; until [ -e stopped ]; do sleep 0.02; done; "
              "python3 send.py; ping -c 5 -i 0.2 -w 20 10.0.0.4; touch reached; " + WAIT)
    own = ends.start(5, script, *CONNECTED)
    wait_for(place, "known")
    for other in others[:3]:
        os.kill(other.pid, signal.SIGSTOP)
    (place.directory / "stopped").touch()
    wait_for(place, "reached")
    for other in others[:3]:
        os.kill(other.pid, signal.SIGCONT)
    ended, *rest = ends.stop(own, *others)
    for each in rest:
        if failure := unbalanced(each):
            return failure
    return lacks(ended, [r"[45] received", r"neighbour takes no datagrams +[1-9]"]) or passed()


def flooded(place: Place) -> Outcome:
    """An end that two others flood with long and short datagrams still answers a third one, and accounts for each packet."""
    ends = Ends(place)
    victim = ends.start(1, WAIT, *CONNECTED)
    peers = []
    for number, length in ((2, 60000), (3, 10)):
        (place.directory / f"flood-{number}.py").write_text("while True:\n    " + FLOOD.format(100, length).replace("\n", "\n    "))
        script = f"python3 flood-{number}.py & until [ -e over ]; do sleep 0.02; done; kill $!"
        peers.append(ends.start(number, script, *CONNECTED))
    ended = ends.run(4, f"{TOOL} receive 10.0.0.4 & ping -c 5 -i 0.2 -w 20 10.0.0.1; {TOOL} send 10.0.0.4 1000; wait", *CONNECTED)
    for one in (ended, *ends.stop(victim, *peers)):
        if failure := unbalanced(one):
            return failure
    return lacks(ended, [r"5 received"]) or passed()


def many(place: Place) -> Outcome:
    """Each of five ends of both modes reaches each other one, by both versions, with packets longer than a datagram."""
    ends = Ends(place)
    numbers = range(1, 6)

    def script(own: int) -> str:
        pings = [f"ping -c 2 -i 0.05 -w 20 -M dont -s 9000 10.0.0.{number}; ping -c 1 -w 20 -s 2000 fd00::{number}"
                 for number in numbers if number != own]
        return f"until [ -e go ]; do sleep 0.02; done; {'; '.join(pings)}; touch reached-{own}; {WAIT}"

    started = [ends.start(number, script(number), *(DATAGRAM if number == 5 else CONNECTED)) for number in numbers]
    (place.directory / "go").touch()
    for number in numbers:
        wait_for(place, f"reached-{number}")
    for ended in ends.stop(*started):
        if failure := unbalanced(ended):
            return failure
        # Late answers follow another request.
        if (count := len(re.findall(r"packets transmitted, [1-9] received", ended.output))) != 8:
            return failed(f"{count} of 8", ended.evidence())
    return passed("20 pairs")


def lost(place: Place) -> Outcome:
    """Losses of the link between processes are repaired by the adapter: TCP and pings arrive."""
    ends = Ends(place)
    through = [str(VERBENA), "run", "--fault", "link: loss 1%", "--"]
    other = ends.start(1, f"{TOOL} receive 10.0.0.1; {WAIT}", *CONNECTED, through=through)
    ended = ends.run(2, f"{TOOL} send 10.0.0.1 {BYTES >> 3}", *CONNECTED, through=through)
    [server] = ends.stop(other)
    return lacks(ended, [r"^the same bytes$"]) or unbalanced(server) or passed()


def refused(place: Place) -> Outcome:
    """--mtu sets the MTU; one that is too long is refused with the longest, an unknown mode with the modes."""
    ended = Ends(place).run(1, "ip link show ib0", *CONNECTED, "--mtu", "1500")
    if failure := lacks(ended, [r"mtu 1500 "]):
        return failure
    wrong = {
        (*DATAGRAM, "--mtu", "4093"): (ENVIRONMENT, "--mtu 4093 is above the maximum of this port in datagram mode, 4092"),
        (*CONNECTED, "--mtu", "65521"): (WRONG_INPUT, "65520"),
        (*CONNECTED, "--mtu", "1000"): (ENVIRONMENT, "MTU is 1000, and IPv6 needs 1280"),
        ("--mode", "unreliable"): (WRONG_INPUT, "connected"),
    }
    for words, (status, text) in wrong.items():
        ended = place.run("refused", [str(VERBENA), "ipoib", "--address", "fd00::1/64", *words, "--", "true"], SECONDS)
        if ended.status != status or text not in ended.output:
            return failed(f"{words} is not refused", ended.evidence())
    return passed(f"{len(wrong)} refused")
