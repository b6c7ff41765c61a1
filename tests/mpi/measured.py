"""`verbena bench mpi.*`: every benchmark, checked data, the transport proved by counters, and messages for missing
programs."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

from harness import tiers
from harness.build_tree import DEVICE, VERBENA, run
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import descendants

SECONDS = 900
# As `verbena list` prints them.
NAME = re.compile(r"^  (mpi\.[a-z-]+) ", re.M)
# All of them, more processes than cores included, take half a minute a library.
WHOLE = tiers.by_night()
SOME = ["mpi.latency", "mpi.bandwidth", "mpi.put-latency", "mpi.allreduce-latency"]
# Every metric has one of these for its headline.
HEADLINES = {"one-way-latency", "completion-latency", "exchange-time", "average-time", "bandwidth", "cached-bandwidth"}
# Figures of several processes together, which may be refused on fewer processors.
REFUSED = {"median-process-bandwidth"}


def names() -> list[str]:
    """All that are listed."""
    return NAME.findall(os.popen(f"'{VERBENA}' list").read())


def bench(place: Place, words: list[str], **more: str):
    """The program, with its cache in the build tree: the library's program is compiled once for all cases."""
    cache = place.directory.parent / "cache"
    return place.run("bench", [str(VERBENA), "bench", *words], SECONDS, XDG_CACHE_HOME=str(cache), **more)


def records(directory: Path) -> list[dict]:
    """Returns the records of a run directory."""
    return [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]


def on_the_adapter(library: str, place: Place) -> Outcome:
    """Some benchmarks, by night every one: two sizes each, their data checked, and the adapter carried the bytes that
    they moved."""
    out = place.directory / "out"
    wanted = names() if WHOLE else SOME
    ended = bench(place, [*wanted, "--mpi", library, "--quick", "--sizes", "8,16K", "--pairs", "1", "--out", str(out),
                          *([] if WHOLE else ["--processes", "2"])])
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    found = records(out)
    if bad := [one["reason"] for one in found if one["record"] == "failure"]:
        return failed(bad[0], ended.evidence())
    points = [one for one in found if one["record"] == "point"]
    expected = {(name, size) for name in wanted for size in (8, 16384)}
    expected = {(name, None if name == "mpi.barrier-latency" else size) for name, size in expected}
    measured = {(one["benchmark"], one["parameters"].get("size")) for one in points}
    if measured != expected:
        return failed(f"missing {sorted(map(str, expected - measured))}, beyond {sorted(map(str, measured - expected))}")
    for one in points:
        metric = one["metrics"][0]
        if metric["name"] not in HEADLINES | REFUSED or not metric["value"] > 0:
            return failed(f"{one['benchmark']} has {metric['name']} {metric['value']}")
        if not one["conduct"]["validated"] and one["benchmark"] != "mpi.barrier-latency":
            return failed(f"the data of {one['benchmark']} was not checked")
    carried = {one["benchmark"]: one["value"] for one in found if one["record"] == "finding"}
    if silent := set(wanted) - {name for name, value in carried.items() if value > 0}:
        return failed(f"the adapter carried nothing of {sorted(silent)}")
    said = found[0]["environment"]
    if "rc_verbs" not in said.get("MPI settings", "") or not said.get("MPI"):
        return failed(f"the record has no settings of the library: {said}")
    return on_a_model(place, wanted, points) or passed(f"{len(points)} points of {said['MPI']}")


def on_a_model(place: Place, wanted: list[str], measured: list[dict]) -> Outcome | None:
    """Returns the failure if the same benchmarks on a model differ: they must have the same points and a figure for
    each."""
    out = place.directory / "model"
    ended = bench(place, [*wanted, "--on", "model:connectx-ddr", "--sizes", "8,16K", "--pairs", "1", "--out", str(out),
                          *([] if WHOLE else ["--processes", "2"])])
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    modelled = {identity(one): names_of(one) for one in records(out) if one["record"] == "point"}
    for one in measured:
        if not names_of(one) & HEADLINES <= modelled.get(identity(one), set()) | REFUSED:
            return failed(f"{identity(one)} has {names_of(one)}, on the model {modelled.get(identity(one))}", ended.evidence())
    return None


def identity(point: dict) -> tuple:
    """Returns the fields that points of the same operation share."""
    return point["benchmark"], *sorted(point["parameters"].items())


def names_of(point: dict) -> set[str]:
    """The names of a point's figures."""
    return {metric["name"] for metric in point["metrics"]}


def as_hardware(library: str, place: Place) -> Outcome:
    """With the system libibverbs' adapter, here Verbena's by `verbena run`: UCX gets its port and the marking of
    packets."""
    out = place.directory / "out"
    cache = place.directory.parent / "cache"
    words = ["mpi.latency", "mpi.get-latency", "--mpi", library, "--on", f"hardware:{DEVICE}:1", "--gid-index", "0", "--pkey", "0xffff",
             "--quick", "--sizes", "8,16K", "--out", str(out)]
    ended = place.run("bench", run(VERBENA, "bench", *words), SECONDS, XDG_CACHE_HOME=str(cache))
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    found = records(out)
    points = [one["benchmark"] for one in found if one["record"] == "point"]
    if sorted(points) != ["mpi.get-latency"] * 2 + ["mpi.latency"] * 2:
        return failed(f"measured {points}", ended.evidence())
    settings = found[0]["environment"].get("MPI settings", "")
    for told in (f"UCX_NET_DEVICES={DEVICE}:1", "UCX_IB_GID_INDEX=0", "UCX_IB_PKEY=0x7fff"):
        if told not in settings:
            return failed(f"UCX did not get {told}: {settings}")
    if (found[0]["fabric"], found[0]["device"]) != ("hardware", DEVICE):
        return failed(f"the record says {found[0]['fabric']} {found[0]['device']}")
    for said in (one["text"] for one in found if one["record"] == "finding"):
        if "went through Verbena's software adapter" not in said:
            return failed(f"the messages did not use the adapter: {said}")
    return passed(f"{len(points)} points")


def without_the_adapter(library: str, way: str, place: Place) -> Outcome:
    """Over TCP and shared memory the adapter carries nothing, and benchmarks that send no messages are refused."""
    out = place.directory / "out"
    ended = bench(place, ["mpi.latency", "latency.write", "--mpi", library, "--on", way, "--quick",
                          "--sizes", "64", "--out", str(out)])
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    found = records(out)
    carried = [one["value"] for one in found if one["record"] == "finding"]
    if carried != [0]:
        return failed(f"the adapter carried {carried}, expected nothing", ended.evidence())
    points = [one["benchmark"] for one in found if one["record"] == "point"]
    refused = [one["benchmark"] for one in found if one["record"] == "failure" and one["unsupported"]]
    if (points, refused) != (["mpi.latency"], ["latency.write"]):
        return failed(f"measured {points}, refused {refused}", ended.evidence())
    if found[0]["fabric"] != way:
        return failed(f"the record says {found[0]['fabric']}, expected {way}")
    return passed(f"a point on {way}")


def no_compiler(place: Place) -> Outcome:
    """Without mpicc it says which packages have it."""
    empty = place.directory / "empty"
    empty.mkdir()
    ended = bench(place, ["mpi.latency"], PATH=str(empty))
    if ended.status != 2 or "no mpicc in PATH" not in ended.output or "libopenmpi-dev" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed("exit 2, with the packages")


def other_library(place: Place) -> Outcome:
    """An mpicc of MPICH is not accepted as Open MPI's."""
    tools = place.directory / "tools"
    tools.mkdir()
    (tools / "mpicc").write_text("#!/bin/sh\necho 'mpicc for MPICH version 4.0.2'\n")
    (tools / "mpicc").chmod(0o755)
    ended = bench(place, ["mpi.latency", "--mpi", "openmpi"], PATH=str(tools))
    if ended.status != 2 or "belongs to another library" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed("exit 2")


def does_not_compile(place: Place) -> Outcome:
    """The message quotes a compiler that fails, and no partial program is left."""
    tools = place.directory / "tools"
    tools.mkdir()
    for name, text in (("mpicc", "case $1 in -v) echo 'mpicc for MPICH version 0.1';; -show) echo cc;; "
                                 "*) echo 'no such header' >&2; exit 1;; esac"),
                       ("mpirun", "echo 'HYDRA build details:'")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    for _ in range(2):
        ended = bench(place, ["mpi.latency", "--mpi", "mpich"], PATH=str(tools))
        if ended.succeeded or "no such header" not in ended.output:
            return failed(ended.describe(), ended.evidence())
    return passed("its message is printed, twice")


def dies(place: Place) -> Outcome:
    """A killed process ends its launch with a message, and the run with exit 1; no process or file of it remains."""
    cache = place.directory.parent / "cache"
    process = place.start("bench", [str(VERBENA), "bench", "mpi.latency", "--mpi", "openmpi", "--launches", "1"],
                          XDG_CACHE_HOME=str(cache))
    deadline = time.monotonic() + 60
    while len(ranks := measuring(process.pid)) < 2:
        if not process.running or time.monotonic() > deadline:
            ended = process.finish(time.monotonic())
            return failed("there was no process to kill", ended.evidence())
        time.sleep(0.001)
    os.kill(ranks[-1], signal.SIGKILL)
    ended = process.finish(time.monotonic() + SECONDS)
    if ended.status != 1 or "mpirun ended with" not in ended.output:
        return failed(f"{ended.describe()}, expected exit 1", ended.evidence())
    return passed("exit 1")


def measuring(ancestor: int) -> list[int]:
    """The processes of the measuring program that descend from this one."""
    return [pid for pid in descendants(ancestor) if command_of(pid) == "verbena-mpi"]


def command_of(pid: int) -> str:
    """Returns a process' command; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
