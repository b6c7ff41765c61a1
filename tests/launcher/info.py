"""`verbena info`: the device, and the live processes with their peers and queue pairs."""

from __future__ import annotations

import json
import time

from harness.build_tree import DEVICE, VERBENA, run
from harness.outcome import Outcome, failed, passed
from harness.pair import free_port, listening
from harness.place import Place

SECONDS = 30
# A pair that works as long as the case looks at it.
LONG = ["-F", "-d", DEVICE, "-D", "20"]


def idle(place: Place) -> Outcome:
    """Without any process: the device and its limits."""
    ended = place.run("info", [str(VERBENA), "info"], SECONDS)
    if ended.succeeded and f"device {DEVICE}" in ended.output and "no process" in ended.output:
        return passed()
    return failed("does not show the idle device", ended.evidence())


def live(place: Place) -> Outcome:
    """Two processes at work: each shows the other as its peer, by the path that was forced, and a
    connected queue pair."""
    port = free_port()
    command = run("ib_write_bw", *LONG, "-p", port)
    server = place.start("server", command, "cma")
    deadline = time.monotonic() + SECONDS
    while not listening(port) and server.running and time.monotonic() < deadline:
        time.sleep(0.01)
    client = place.start("client", [*command, "127.0.0.1"], "cma")
    processes: list[dict] = []
    shown = ""
    while client.running and time.monotonic() < deadline:
        asked = place.run("info", [str(VERBENA), "info", "--json"], SECONDS)
        shown = asked.output
        processes = json.loads(shown)["processes"] if asked.succeeded else []
        if at_work(processes):
            break
        time.sleep(0.05)
    pids = {server.pid, client.pid}
    evidence = [side.finish(time.monotonic()).evidence() for side in (client, server)]
    # Both were killed at work; the next `verbena info` on the host removes their remains.
    place.run("sweep", [str(VERBENA), "info"], SECONDS)
    if not at_work(processes):
        return failed("two processes at work were never shown", "\n".join([shown, *evidence]))
    if {process["pid"] for process in processes} != pids:
        return failed(f"shows other processes than {pids}", shown)
    wrong = [process for process in processes
             if {(peer["pid"], peer["path"]) for peer in process["peers"]}
             != {(pid, "cma") for pid in pids - {process["pid"]}}]
    return failed("the peers or their paths are wrong", shown) if wrong else passed()


def at_work(processes: list[dict]) -> bool:
    """Both have a queue pair that is connected to the other's, and have made contact."""
    ready = [{pair["number"]: pair["destination"] for pair in process.get("queue_pairs", ())
              if pair["state"] in ("RTR", "RTS")} for process in processes]
    if len(processes) != 2 or not all(process.get("peers") for process in processes):
        return False
    first, second = ready
    return any(second.get(destination) == number for number, destination in first.items())
