"""RoCEv2 between two network namespaces joined by a cable, compared with the kernel's UDP and TCP in the same run.

Latencies are perftest's typical values and throughputs its averages, in rounds that alternate with the bounds; figures are medians
over the rounds. CPU time is that of the processes of both sides, without the kernel's work on behalf of
others.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Callable, Optional, Sequence

from harness import c_program
from harness.build_tree import DEVICE
from harness.place import Place
from harness.process import Ended, wait_for_any
from roce.hosts import PORT, Hosts, NoNamespaces, SetupFailed

from . import loss

HERE = Path(__file__).resolve().parent
SECONDS = 60
ROUNDS = 3
SECONDS_OF_STREAM = 3
STREAMS = 16
STREAMS_PORT = 18601
# perftest's tables: bytes, iterations, smallest, largest, typical (microseconds); bytes, iterations, peak, average (MiB/s).
TYPICAL = re.compile(r"^ *64 +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", re.MULTILINE)
AVERAGE = re.compile(r"^ *1048576 +\d+ +[\d.]+ +([\d.]+)", re.MULTILINE)
FIGURE = re.compile(r"^(\w+) ([\d.]+)$", re.MULTILINE)
PROCESSOR = re.compile(r"^processor ([\d.]+) ([\d.]+)$", re.MULTILINE)
MEBIBYTE = 1 << 20
# The kernel's IPv4 address is the second entry of the GID table.
GID = "1"

Figures = dict[str, float]


def figures() -> Figures:
    """Returns all figures that can be measured between hosts on this machine."""
    found: Figures = {}
    for name, mtu, prepare, measure in (("MTU 1500", 1500, nothing, at_usual_mtu),
                                        ("MTU 9000", 9000, nothing, at_large_mtu),
                                        ("lossy cable", 1500, loss.prepare, at_losses)):
        place = Place("bench", f"hosts, {name}")
        try:
            with Hosts(place, mtu) as hosts:
                prepare(hosts)
                rounds = [measure(hosts) for _ in range(ROUNDS)]
                names = {name for one in rounds for name in one}
                for name in names:
                    found[name] = statistics.median(one[name] for one in rounds if name in one)
        except NoNamespaces as words:
            print(f"between hosts: not measured: {words}", file=sys.stderr)
        except SetupFailed as words:
            print(f"between hosts: setting up the network namespaces failed: {words}", file=sys.stderr)
        finally:
            place.close()
    return found


def nothing(_: Hosts) -> None:
    """Leaves the cable unchanged."""


def at_losses(hosts: Hosts) -> Figures:
    """Runs one round over a cable with increasing loss."""
    found: Figures = {}
    for permille in loss.LOSSES:
        loss.lose(hosts, permille)
        found.update(bandwidth(hosts, f"hosts_write_lost_{permille}"))
    return found


def at_usual_mtu(hosts: Hosts) -> Figures:
    """Runs one round of the measurements at an MTU of 1500 bytes."""
    found: Figures = {}
    for way in ("udp", "tcp", "sleeping"):
        found.update(sockets(hosts, way))
    for figure, command in (("send_64_ns", ["ib_send_lat"]), ("write_64_ns", ["ib_write_lat"]),
                            ("send_64_sleeping_ns", ["ib_send_lat", "-e"])):
        options = ["-s", "64", "-n", "20000"]
        match = perftest(hosts, [*command, *options], TYPICAL)
        if match:
            found[f"hosts_{figure}"] = float(match[0].group(1)) * 1000
    found.update(iperf(hosts))
    found.update(bandwidth(hosts, "hosts_write_1500"))
    found.update(streams(hosts))
    found.update(read(streams_program(hosts, "idle")))
    return found


def at_large_mtu(hosts: Hosts) -> Figures:
    """Runs one round at an MTU of 9000, with packets of 4096 bytes."""
    return bandwidth(hosts, "hosts_write_9000")


def timed(command: Sequence[object]) -> list[str]:
    """Returns the command with its CPU time, including child processes, in its output."""
    return ["bash", "-c", 'TIMEFORMAT="processor %U %S"; time "$@"', "bash", *map(str, command)]


def processor(*ended: Ended) -> Optional[float]:
    """Returns the CPU time of both sides, in seconds."""
    found = [PROCESSOR.search(one.output) for one in ended]
    return sum(float(match[1]) + float(match[2]) for match in found) if all(found) else None


def talk(hosts: Hosts, server: list[str], client: list[str], ready: Callable[[], bool]) -> tuple[Ended, Ended]:
    """Runs a server on the first host and, when it is ready, a client on the second; waits for both."""
    first, second = hosts.members
    deadline = time.monotonic() + SECONDS
    serving = hosts.start(first, "server", server)
    while serving.running and not ready() and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.01)
    asked = hosts.run(second, "client", client, SECONDS)
    served = serving.finish(time.monotonic() + (5 if asked.succeeded else 0))
    if not asked.succeeded:
        print(f"{asked.evidence()}\n{served.evidence()}", file=sys.stderr)
    return served, asked


def perftest(hosts: Hosts, command: list[str], table: re.Pattern) -> Optional[tuple[re.Match, Ended, Ended]]:
    """Runs a tool of perftest: returns its result and both sides."""
    first, second = hosts.members
    words = [*command, "-F", "-d", DEVICE, "-p", PORT, "-x", GID]
    served, asked = talk(hosts, timed(first.on_adapter(*words)), timed(second.on_adapter(*words, first.address)),
                         first.listens)
    match = table.search(asked.output)
    return (match, served, asked) if match else None


def bandwidth(hosts: Hosts, figure: str) -> Figures:
    """Measures writes of 1 MiB for some seconds."""
    result = perftest(hosts, ["ib_write_bw", "-s", str(MEBIBYTE), "-D", str(SECONDS_OF_STREAM)], AVERAGE)
    if result is None:
        return {}
    match, served, asked = result
    rate = float(match[1]) * MEBIBYTE
    found = {f"{figure}_bytes_per_s": rate}
    if (used := processor(served, asked)) is not None:
        found[f"{figure}_bytes_per_processor_s"] = rate * SECONDS_OF_STREAM / used
    return found


def iperf(hosts: Hosts) -> Figures:
    """Measures one TCP stream."""
    first, second = hosts.members
    command = ["iperf3", "-p", PORT]
    served, asked = talk(
        hosts, timed(first.inside([*map(str, command), "-s", "-1"])),
        timed(second.inside([*map(str, command), "-c", first.address, "-t", str(SECONDS_OF_STREAM), "--json"])),
        first.listens)
    start, end = asked.output.find("{"), asked.output.rfind("}")
    if not asked.succeeded or start < 0:
        return {}
    received = json.loads(asked.output[start:end + 1])["end"]["sum_received"]
    found = {"iperf_tcp_bytes_per_s": received["bits_per_second"] / 8}
    if (used := processor(served, asked)) is not None:
        found["iperf_tcp_bytes_per_processor_s"] = received["bytes"] / used
    return found


def sockets(hosts: Hosts, way: str) -> Figures:
    """Measures a lower bound; the server runs until it is ended."""
    executable = c_program.compile_program(HERE / "sockets.c")
    first, second = hosts.members
    answering = hosts.start(first, "answer", first.inside([str(executable), f"answer {way}"]))
    table = "tcp" if way == "tcp" else "udp"
    listening = Path(f"/proc/{first.keeper.pid}/net/{table}")
    deadline = time.monotonic() + SECONDS
    while ":48A8 " not in listening.read_text() and answering.running and time.monotonic() < deadline:
        wait_for_any([answering], time.monotonic() + 0.01)
    asked = hosts.run(second, "ask", second.inside(
        ["env", f"PEER={first.address}", str(executable), f"ask {way}"]), SECONDS)
    answering.finish(time.monotonic())
    return read(asked)


def streams_program(hosts: Hosts, client: str, **more: str) -> Ended:
    """Runs a client of the streams program against one receiver."""
    executable = c_program.compile_program(HERE / "streams.c")
    first, second = hosts.members
    environment = ["env", f"PEER={first.address}", *(f"{key}={value}" for key, value in more.items())]
    _, asked = talk(hosts, first.on_adapter(executable, "receive"),
                    second.on_adapter(*environment, executable, client), lambda: first.listens(STREAMS_PORT))
    return asked


def streams(hosts: Hosts) -> Figures:
    """Measures one stream, and many, to one receiver, and the largest deviation of the many from their mean, as a factor."""
    rates = {}
    for count in (1, STREAMS):
        ended = streams_program(hosts, "send", STREAMS=str(count))
        rates[count] = [float(value) for name, value in FIGURE.findall(ended.output) if name == "stream"]
    one, many = rates[1], rates[STREAMS]
    if not one or not many or min(many) == 0:
        return {}
    mean = statistics.mean(many)
    return {"hosts_one_stream_bytes_per_s": one[0], "hosts_16_streams_bytes_per_s": sum(many),
            "hosts_16_streams_spread": max(max(many) / mean, mean / min(many))}


def read(ended: Ended) -> Figures:
    """Returns the figures that a program has printed."""
    if not ended.succeeded:
        print(ended.evidence(), file=sys.stderr)
    return {name: float(value) for name, value in FIGURE.findall(ended.output)}
