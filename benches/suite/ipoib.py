"""TCP over `verbena ipoib`, compared with loopback and with a bare pair of TUN devices in the same run.

The rounds alternate between all of them; figures are medians over the rounds. iperf3's stream has one connection. The
programs of a round trip sleep until a byte comes; with pauses between them the processes that carry packets sleep, too.
"""

from __future__ import annotations

import json
import shlex
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Callable, Optional

from harness import c_program
from harness.build_tree import VERBENA
from harness.place import Place
from harness.process import Ended

HERE = Path(__file__).resolve().parent.parent / "ipoib"
SECONDS = 60
ROUNDS = 6
SECONDS_OF_STREAM = 3
# Round trips, and the pause before each in microseconds, which is longer than interfaces poll.
TRIPS = {"round_trip": (3000, 0), "asleep": (300, 3000)}
DATAGRAM_MTU, CONNECTED_MTU = 4092, 65520
PORT = 5201

Figures = dict[str, float]
# Runs a server's and a client's script, and returns the client's output.
Pair = Callable[[Place, str, str], Optional[str]]


def loopback(place: Place, server: str, client: str) -> Optional[str]:
    """Runs both on this host's loopback interface."""
    return serve_and_ask(place, ["sh", "-c", f"exec {server}"], ["sh", "-ec", client])


def bare(mtu: int) -> Pair:
    """Returns a bare pair of TUN devices."""
    def run(place: Place, server: str, client: str) -> Optional[str]:
        program = c_program.compile_program(HERE / "tun_pair.c", libraries=[])
        ended = place.run("tun_pair", [str(program), str(mtu), f"exec {server}", client], SECONDS)
        return said(ended)
    return run


def ipoib(mode: str) -> Pair:
    """Returns two interfaces of a mode."""
    def run(place: Place, server: str, client: str) -> Optional[str]:
        def end(number: int, script: str) -> list[str]:
            return [str(VERBENA), "ipoib", "--mode", mode, "--address", f"10.0.0.{number}/24", "--", "sh", "-ec", script]
        return serve_and_ask(place, end(1, f"exec {server}"), end(2, client))
    return run


def serve_and_ask(place: Place, server: list[str], client: list[str]) -> Optional[str]:
    """Starts the server, runs the client to its end, and ends the server."""
    serving = place.start("server", server)
    ended = place.run("client", client, SECONDS)
    serving.abandon()
    return said(ended)


def said(ended: Ended) -> Optional[str]:
    """Returns the output of a process that succeeded; reports a failure."""
    if ended.succeeded:
        return ended.output
    print(f"ipoib: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
    return None


def stream(pair: Pair, place: Place, address: str) -> Optional[float]:
    """Returns iperf3's rate at the receiver in bytes per second."""
    client = (f"for _ in $(seq 50); do iperf3 -J -c {address} -p {PORT} -t {SECONDS_OF_STREAM} > stream.json && break; sleep 0.1; done; "
              "cat stream.json")
    output = pair(place, f"iperf3 -s -p {PORT} > /dev/null", client)
    if output is None or "{" not in output:
        return None
    try:
        return float(json.loads(output[output.index("{"):output.rindex("}") + 1])["end"]["sum_received"]["bits_per_second"]) / 8
    except (ValueError, KeyError):
        return None


def round_trip(pair: Pair, place: Place, address: str, trips: int, pause: int) -> Optional[float]:
    """Returns the median round trip of a byte in nanoseconds."""
    program = shlex.quote(str(c_program.compile_program(HERE / "round_trip.c", libraries=[])))
    output = pair(place, f"{program} serve {address}", f"{program} ask {address} {trips} {pause}")
    found = [line.split()[1] for line in (output or "").splitlines() if line.startswith("round_trip_ns ")]
    return float(found[0]) if found else None


# Name, how packets are carried, and the server's address.
CARRIERS: tuple[tuple[str, Pair, str], ...] = (
    ("loopback", loopback, "127.0.0.1"),
    ("connected", ipoib("connected"), "10.0.0.1"),
    ("tun_65520", bare(CONNECTED_MTU), "10.0.0.1"),
    ("datagram", ipoib("datagram"), "10.0.0.1"),
    ("tun_4092", bare(DATAGRAM_MTU), "10.0.0.1"),
)


def figures() -> Figures:
    """Returns all figures that can be measured on this machine."""
    if shutil.which("iperf3") is None:
        print("ipoib: lacks iperf3", file=sys.stderr)
        return {}
    found: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        for name, pair, address in CARRIERS:
            measures = {f"{name}_stream_bytes_per_s": lambda place: stream(pair, place, address)}
            measures.update({f"{name}_{kind}_ns": lambda place, trips=trips: round_trip(pair, place, address, *trips)
                             for kind, trips in TRIPS.items()})
            for figure, measure in measures.items():
                place = Place("bench", f"ipoib {number} {figure}")
                try:
                    value = measure(place)
                finally:
                    place.close()
                if value is not None:
                    found.setdefault(f"ipoib_{figure}", []).append(value)
                time.sleep(0.05)
    return {name: statistics.median(values) for name, values in found.items()}
