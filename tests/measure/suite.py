"""The benchmark suite on the software adapter: every benchmark, jobs of MPI launchers, wrong input, lost processes, and
the report as a browser shows it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended
from harness.requirement import Tool

TITLE = "verbena bench, evaluate, report, compare, sweep and calibrate"
REQUIRES = [Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpirun.mpich", "mpich"),
            Tool("chromium", "chromium")]

SECONDS = 240
WRONG_INPUT = 2
MISSING = 3
INTERRUPTED = 130
# As `verbena list` prints them.
NAME = re.compile(r"^  ((?:baseline|latency|bandwidth|rate|multi-pair|internals|patterns)\.[a-z-]+) ",
                  re.M)
# What the adapter may truly not have; a benchmark of it alone is no failure.
OPTIONAL: set[str] = set()


def benchmarks() -> list[str]:
    """All names."""
    return NAME.findall(os.popen(f"'{VERBENA}' list").read())


def cases() -> list[Case]:
    """One a benchmark, then the others."""
    found = [Case(name, "bench --quick", partial(one_benchmark, name)) for name in benchmarks()]
    found += [
        Case("job of Open MPI", "", partial(mpi, ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"])),
        Case("job of MPICH", "", partial(mpi, ["mpirun.mpich"])),
        Case("a job among strangers", "Open MPI", strangers),
        Case("a job too small for patterns", "Open MPI", too_small),
        Case("a job begins no launch that would end too late", "Open MPI", timely),
        Case("figures that once were wrong", "", once_wrong),
        Case("a killed process ends the run", "", killed),
        Case("a process killed at any moment", "", killed_at_any_moment),
        Case("a hung process costs its own result", "", hung),
        Case("an interrupt keeps what is measured", "", interrupted),
        Case("a bar on a terminal, nothing in a pipe", "", bar),
        Case("answers as JSON", "list, bench", as_json),
        Case("completions and manual", "", documented),
        Case("a full standard output costs no file", "", full_output),
        Case("equal runs compare as equal", "", compared),
        Case("a history tells when", "", history),
        Case("the report in a browser", "", browser),
        Case("a model gives the same bytes", "1 and 2 threads", model_repeats),
        Case("figure 2 of connectx_multicore", "on models", model_figure),
        Case("an operation explained", "on models", model_explained),
        Case("models beside a measurement", "evaluate --quick", model_beside),
        Case("the published figures", "reproduce, in a browser", reproduced),
        Case("a paper's figures give the same bytes", "1 and 2 threads", paper_repeats),
        Case("a parameter study", "restart, Slurm array", studied),
        Case("a calibration finds what was planted", "on models", calibrated),
    ]
    for row, arguments, words in WRONG:
        found.append(Case(row, "wrong input", partial(wrong, arguments, words)))
    return found


WRONG = [
    ("unknown benchmark", ["bench", "latency.wrote"], "verbena list"),
    ("a slip in a benchmark", ["bench", "latency.wrote"], 'did you mean "latency.write"'),
    ("a slip in a model", ["bench", "latency.write", "--on", "model:conectx-ddr"], 'did you mean "connectx-ddr"'),
    ("a slip in an option", ["bench", "latency.write", "--lanches", "2"], "--launches"),
    ("absent device", ["bench", "latency.write", "--on", "hardware:no_such_0"], "no_such_0"),
    ("unknown target", ["bench", "latency.write", "--on", "hardwear"], "hardwear"),
    ("unknown model", ["bench", "latency.write", "--on", "model:connectx-xdr"], "connectx-ddr"),
    ("model without a name", ["bench", "latency.write", "--on", "model"], "verbena list"),
    ("a value that no profile has", ["list", "--set", "connectx.send.colour=1"], "connectx.send.colour"),
    ("a size of zero", ["bench", "latency.write", "--sizes", "0"], "between"),
    ("absent identifier", ["bench", "latency.write", "--gid-index", "200"], "--gid-index 200"),
    ("the same target twice", ["bench", "latency.write", "--on", "software", "--on", "software"],
     "twice"),
    ("a second target that is not there", ["bench", "latency.write", "--on", "software", "--on",
                                           "model:connectx-xdr"], "connectx-ddr"),
    ("options without an effect", ["bench", "latency.write", "--set", "connectx.send.blueflame=1"],
     "for models"),
    ("nothing left to measure", ["bench", "latency.write", "--transports", "xrc", "--on",
                                 "model:connectx-ddr", "--sizes", "8"], "no point is left"),
    ("a threshold of nan", ["compare", "--thresholds", "{nan}", "{empty}", "{empty}"], "nan"),
    ("too few runs", ["history", "/no/a", "/no/b"], "at least 6 runs"),
    ("unwritable directory", ["bench", "baseline.memcpy", "--quick", "--out", "/proc/none"], "/proc/none"),
    ("no run there", ["report", "/no/such/run.jsonl"], "/no/such/run.jsonl"),
    ("another schema version", ["report", "{other}"], "schema version 7"),
    ("truncated JSON", ["report", "{cut}"], "cut.jsonl:2"),
    ("something else", ["compare", "{else}", "{else}"], "perftest"),
    ("no study there", ["sweep", "/no/such/study.toml"], "/no/such/study.toml"),
    ("a study with an unknown key", ["sweep", "{study}"], "study.toml:3: colour:"),
    ("a share beyond the last", ["sweep", "{study}", "--part", "4/4"], "NUMBER/TASKS"),
    ("calibration of no model", ["calibrate", "{cut}", "--on", "software"], "model:PROFILE"),
    ("calibration to nothing", ["calibrate", "{empty}", "--on", "model:connectx-ddr"], "none of 0 points"),
]


def model_repeats(place: Place) -> Outcome:
    """Output and run directory of the same command are the same, whatever the number of threads."""
    seen = set()
    out = place.directory / "out"
    for threads in ("1", "2", "2"):
        command = [str(VERBENA), "evaluate", "--quick", "--on", "model:infinihost3-ddr",
                   "--threads", threads, "--out", str(out)]
        ended = place.run("evaluate", command, SECONDS)
        if not ended.succeeded:
            return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
        files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
        if "results.jsonl" not in files or "report.html" not in files:
            return failed(f"only {sorted(files)} were written")
        seen.add(tuple(files.items()))
        shutil.rmtree(out)
    return passed("3 times the same") if len(seen) == 1 else failed("the bytes differ")


def model_figure(place: Place) -> Outcome:
    """Flat for ConnectX below 256 B and a jump there; a rise with the pairs for InfiniHost III."""
    command = [str(VERBENA), "bench", "multi-pair.write-latency", "--on", "model:infinihost3-ddr",
               "--on", "model:connectx-ddr", "--pairs", "1,2,4,8", "--mode", "lockstep",
               "--out", str(place.directory / "out")]
    ended = place.run("bench", command, SECONDS)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    curves = {}
    for profile in ("infinihost3-ddr", "connectx-ddr"):
        for record in records(place.directory / "out" / f"model-{profile}"):
            if record["record"] == "point":
                key = (profile, record["parameters"]["pairs"], record["parameters"]["size"])
                curves[key] = record["metrics"][0]["value"]
    flat = curves["connectx-ddr", 8, 8] / curves["connectx-ddr", 1, 8]
    jump = curves["connectx-ddr", 8, 256] / curves["connectx-ddr", 8, 128]
    rise = curves["infinihost3-ddr", 8, 8] / curves["infinihost3-ddr", 1, 8]
    text = f"8 pairs over 1: ConnectX {flat:.2f}, InfiniHost III {rise:.2f}; 256 B over 128 B {jump:.2f}"
    return passed(text) if flat < 1.25 and rise > 3 and jump > 2 else failed(text)


def model_explained(place: Place) -> Outcome:
    """Stages of a send and a page that is the same every time."""
    pages = set()
    page = place.directory / "page.html"
    for _ in range(2):
        command = [str(VERBENA), "explain", "latency.send", "--on", "model:infinihost3-ddr",
                   "--inline", "0", "--out", str(page)]
        ended = place.run("explain", command, SECONDS)
        if not ended.succeeded:
            return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
        pages.add(page.read_text())
    words = ("work request", "payload", "switch", "placement", "completion", "<svg")
    missing = [word for word in words if word not in page.read_text()]
    if missing or len(pages) > 1:
        return failed(f"missing {missing}, {len(pages)} different pages")
    return passed("all stages")


def model_beside(place: Place) -> Outcome:
    """The report of the software adapter shows modelled adapters, which have run directories of their own."""
    out = place.directory / "out"
    ended = place.run("evaluate", [str(VERBENA), "evaluate", "--quick", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    report = (out / "report.html").read_text()
    for profile in ("infinihost3-ddr", "connectx-qdr"):
        if f"{profile} (model)" not in report:
            return failed(f"the report does not show {profile}")
        if records(out / f"model-{profile}")[0]["fabric"] != "model":
            return failed(f"the records of {profile} are not marked as a model's")
    if "of 80 claims met" not in report:
        return failed("the report does not show the published figures of real adapters")
    return passed("2 models and the published figures")


def reproduced(place: Place) -> Outcome:
    """All claims are evaluated and enough are met; what is missed has its reason, and nothing else; the models' curves go
    through what the claims were computed as; a browser draws every figure."""
    out = place.directory / "out"
    ended = place.run("reproduce", [str(VERBENA), "reproduce", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    written = json.loads((out / "claims.json").read_text())
    claims = {claim["claim"]["id"]: claim for claim in written["claims"]}
    for name, claim in claims.items():
        reason = claim["claim"]["miss"]
        if claim["verdict"] == "not-evaluated" or (claim["verdict"] == "missed") != bool(reason):
            return failed(f"{name} is {claim['verdict']}, and its reason for a miss is {reason!r}")
        if reason and reason not in ended.output:
            return failed(f"the reason for missing {name} is not printed", ended.evidence())
    if len(claims) != 80:
        return failed(f"{len(claims)} claims instead of 80")
    on_curves = 0
    for figure in written["figures"]:
        for mark in figure["published"]:
            claim = claims[mark["claim"]]
            if claim["claim"]["kind"] != "absolute" or "figure" not in claim["outcome"] or "at" not in mark["place"]:
                continue
            curve = dict(figure["curves"][mark["curve"]]["points"])
            drawn, computed = curve[mark["place"]["at"]], claim["outcome"]["figure"]
            if abs(drawn / computed - 1) > 1e-6:
                return failed(f"{figure['id']} has {drawn} where {mark['claim']} is {computed}")
            on_curves += 1
    page = out / "report.html"
    picture, dom = in_browser(place, page)
    if not picture:
        return failed("the browser drew nothing", dom.evidence())
    if problem := drawn_sections(page, dom.output, len(written["figures"])):
        return failed(problem)
    return passed(f"{len(written['figures'])} figures, {on_curves} claims on their curves")


def paper_repeats(place: Place) -> Outcome:
    """Claims and figures of a paper are the same bytes whatever the number of threads."""
    seen = set()
    out = place.directory / "out"
    for threads in ("1", "2"):
        command = [str(VERBENA), "reproduce", "rfio_infiniband", "--threads", threads, "--out", str(out)]
        ended = place.run("reproduce", command, SECONDS)
        if not ended.succeeded:
            return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
        files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
        if sorted(files) != ["claims.json", "report.html"]:
            return failed(f"{sorted(files)} were written")
        seen.add((ended.output, *files.items()))
        shutil.rmtree(out)
    return passed("twice the same") if len(seen) == 1 else failed("the bytes differ")


STUDY = """
benchmark = "latency.write-inline"
system = ["connectx-ddr", "infinihost3-ddr"]
size = [1, 128, 256]
pairs = [1, 4]
[profile]
"bensley.pcie.read_buffer" = [512, 4096]
"""


def studied(place: Place) -> Outcome:
    """24 points; after a loss of some, these alone are computed; the tasks of a Slurm array give the same bytes."""
    study = place.directory / "a study.toml"
    study.write_text(STUDY)
    whole, shared = place.directory / "whole", place.directory / "shared"
    command = [str(VERBENA), "sweep", str(study), "--out"]
    first = place.run("sweep", [*command, str(whole)], 60)
    if not first.succeeded:
        return failed(f"{first.describe()}, expected exit 0", first.evidence())
    table = (whole / "sweep.csv").read_text()
    if len(table.splitlines()) != 25:
        return failed(f"{len(table.splitlines())} lines instead of a heading and 24 points", table)
    part = whole / "part-0-of-1.jsonl"
    lines = part.read_text().splitlines(keepends=True)
    # As a task leaves it that is killed while it writes.
    part.write_text("".join(lines[:10]) + lines[10][:20])
    again = place.run("again", [*command, str(whole), "--threads", "1"], 60)
    if "10 of 24 points" not in again.output or len(part.read_text().splitlines()) != 24:
        return failed("not just the lost points were computed", again.evidence())
    if (whole / "sweep.csv").read_text() != table:
        return failed("the table is another one after a restart")
    printed = place.run("script", [*command, str(shared), "--slurm=3"], 30)
    script = place.directory / "sweep.sbatch"
    script.write_text(printed.output)
    if "#SBATCH --array=0-2" not in printed.output or shared.exists():
        return failed("the script is not one of three tasks", printed.evidence())
    for task in (2, 0, 1):
        ended = place.run(f"task-{task}", ["env", f"SLURM_ARRAY_TASK_ID={task}", "bash", str(script)], 60)
        if not ended.succeeded or not (shared / f"part-{task}-of-3.jsonl").exists():
            return failed(f"task {task}: {ended.describe()}", ended.evidence())
    merged = place.run("merge", ["bash", str(script), "merge"], 60)
    if "24 of 24 points" not in merged.output or (shared / "sweep.csv").read_text() != table:
        return failed("the merged table is another one", merged.evidence())
    study.write_text(STUDY.replace("128", "64"))
    other = place.run("other", [*command, str(shared)], 30)
    if other.status != WRONG_INPUT or "another study" not in other.output:
        return failed("another study's results were taken", other.evidence())
    study.write_text(STUDY)
    other = place.run("other", [*command, str(shared), "--set", "bensley.cpu.post=200"], 30)
    if other.status != WRONG_INPUT or "other profiles" not in other.output:
        return failed("results of other profiles were taken", other.evidence())
    return passed("24 points")


PLANTED = {"bensley.cpu.post": 220.0, "connectx.receive.request": 260.0}


def calibrated(place: Place) -> Outcome:
    """Values planted in a model are found again from a run of the suite on it; the written profiles have them; what only
    adds up is named."""
    out, fitted = place.directory / "out", place.directory / "fitted"
    planted = [word for path, value in PLANTED.items() for word in ("--set", f"{path}={value}")]
    sizes = ["--sizes", "1,64,512,4096,65536"]
    run = place.run("bench", [str(VERBENA), "bench", "latency.write", "latency.send", "latency.read",
                              "bandwidth.write", "--on", "model:connectx-ddr", *sizes, *planted,
                              "--quick", "--out", str(out)], 60)
    if not run.succeeded:
        return failed(f"{run.describe()}, expected exit 0", run.evidence())
    command = [str(VERBENA), "calibrate", str(out), "--on", "model:connectx-ddr"]
    wanted = [word for path in PLANTED for word in ("--fit", path)]
    ended = place.run("calibrate", [*command, *wanted, "--out", str(fitted)], 60)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    for path, value in PLANTED.items():
        row = re.search(rf"^{re.escape(path)} +\S+ +(\S+) ", ended.output, re.M)
        if not row or abs(float(row[1]) / value - 1) > 0.05:
            return failed(f"{path} = {value} was not found again", ended.evidence())
    used = place.run("use", [str(VERBENA), "bench", "latency.send", "--on", "model:connectx-ddr-calibrated",
                             "--profiles", str(fitted), *sizes, "--quick", "--transports", "rc", "--out",
                             str(place.directory / "used")], 60)
    if not used.succeeded:
        return failed(f"the written profiles: {used.describe()}", used.evidence())
    both = ["--fit", "bensley.cpu.post", "--fit", "bensley.pcie.write_latency"]
    told = place.run("inseparable", [*command, *both], 60)
    if "cannot be told apart: bensley.cpu.post and bensley.pcie.write_latency" not in told.output:
        return failed("what only adds up is not named", told.evidence())
    return passed("2 values")


def records(directory: Path) -> list[dict]:
    """All records of a run directory."""
    return [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]


def one_benchmark(name: str, place: Place) -> Outcome:
    """Exit 0, points with checked data, no failure but of what is not offered."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", name, "--quick", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    found = records(out)
    points = [record for record in found if record["record"] == "point"]
    failures = [r for r in found if r["record"] == "failure" and not r["unsupported"]]
    if failures:
        return failed(failures[0]["reason"], ended.evidence())
    if not points:
        return failed("no point was measured", ended.evidence())
    if unchecked := [p["parameters"] for p in points if not p["conduct"]["validated"] and not moves_nothing(p)]:
        return failed(f"the data of {unchecked[:3]} was not checked", ended.evidence())
    return passed(f"{len(points)} points")


def moves_nothing(point: dict) -> bool:
    """Registration and the memory of connections move no data that could be checked, the smallest halo has no room for more than
    its tag, and a stream over TCP is the kernel's to deliver."""
    name, parameters = point["benchmark"], point["parameters"]
    return (name in ("internals.registration", "internals.footprint")
            or name == "patterns.halo" and parameters["size"] == 1
            or name == "baseline.tcp" and parameters["flow"] == "stream")


def shape(value: object) -> object:
    """The fields of a record, without their values; of parameters, the names."""
    if isinstance(value, dict):
        return {name: shape(part) for name, part in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value and isinstance(value[0], dict) else []
    return None


def points_of(directory: Path) -> list[dict]:
    """Points without what may or may not be there: warnings."""
    found = [record for record in records(directory) if record["record"] == "point"]
    for point in found:
        point.pop("warnings")
    return found


def mpi(launcher: list[str], place: Place) -> Outcome:
    """A job that an MPI launcher started gives the same records as the local launcher."""
    if shutil.which(launcher[0]) is None:
        return skipped(f"{launcher[0]} is not installed")
    command = [str(VERBENA), "bench", "multi-pair.write-latency", "--quick", "--sizes", "8",
               "--mode", "free", "--pairs", "1,2", "--out"]
    local, job = place.directory / "local", place.directory / "job"
    alone = place.run("local", [*command, str(local)], SECONDS)
    ended = place.run("job", [*launcher, "-n", "4", *command, str(job)], SECONDS)
    for one in (alone, ended):
        if not one.succeeded:
            return failed(f"{one.describe()}, expected exit 0", one.evidence())
    if list(map(shape, points_of(local))) != list(map(shape, points_of(job))):
        return failed("the records have other fields than the local launcher's", ended.evidence())
    parameters = [point["parameters"] for point in points_of(local)]
    if parameters != [point["parameters"] for point in points_of(job)]:
        return failed("the points have other parameters than the local launcher's", ended.evidence())
    return passed()


def children(pid: int) -> list[int]:
    """Processes that a process started."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in listed.split()]


def started(place: Place, name: str, out: Path):
    """A run that takes a while, once it has measured something."""
    command = [str(VERBENA), "bench", name, "--launches", "1", "--out", str(out)]
    process = place.start("bench", command)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.running:
        results = out / "results.jsonl"
        if results.exists() and '"record":"point"' in results.read_text():
            break
        time.sleep(0.02)
    return process


OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"]


def too_small(place: Place) -> Outcome:
    """What needs more processes than there are is told as that, and is no failure."""
    out = place.directory / "out"
    ended = place.run("mpirun", [*OPEN_MPI, str(VERBENA), "bench", "latency.write", "patterns.ring", "patterns.halo",
                                 "--quick", "--sizes", "8", "--launches", "2", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    told = [(one["benchmark"], one["unsupported"], one["reason"].split(":")[0]) for one in records(out)
            if one["record"] == "failure"]
    expected = [(name, True, "not applicable") for name in ("patterns.ring", "patterns.halo")]
    return passed() if sorted(told) == sorted(expected) else failed(f"it says {told}")


def timely(place: Place) -> Outcome:
    """`--minutes` holds for a job as it does without one, and the end says how many launches fitted."""
    out = place.directory / "out"
    ended = place.run("mpirun", [*OPEN_MPI, str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8,64",
                                 "--launches", "1000", "--minutes", "1", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    end = records(out)[-1]
    if ended.seconds > 70 or "fitted into the time" not in (end["reason"] or ""):
        return failed(f"it ended after {ended.seconds:.0f} s and says {end}")
    return passed(end["reason"])


def once_wrong(place: Place) -> Outcome:
    """The floor is the baseline's own, TCP has none, deregistration is without its warm-up, connections cost memory."""
    out, memory_out = place.directory / "out", place.directory / "memory"
    names = ["baseline.cache-line", "baseline.tcp", "latency.write", "internals.registration"]
    for options in ([*names, "--quick", "--sizes", "4096", "--out", str(out)],
                    ["internals.footprint", "--launches", "1", "--out", str(memory_out)]):
        ended = place.run("bench", [str(VERBENA), "bench", *options], SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
    of = {name: [p["metrics"] for p in points_of(out) if p["benchmark"] == name] for name in names}
    baseline = of["baseline.cache-line"][0][0]["value"]
    floors = [metrics[0]["bound"]["value"] for metrics in of["latency.write"]]
    # Each is measured at another time, and a processor may be faster or slower by then.
    if not baseline / 2 < min(floors) <= max(floors) < baseline * 2:
        return failed(f"the floor is {floors} ns, and the baseline {baseline} ns")
    if any(metrics[0]["bound"] for metrics in of["baseline.tcp"]):
        return failed("TCP has a cache line as its bound")
    both, release = of["internals.registration"][0]
    if both["summary"]["n"] != release["summary"]["n"] or both["value"] < release["value"]:
        return failed(f"deregistration is {release}, of {both}")
    memory: dict[str, dict[int, float]] = {}
    for point in points_of(memory_out):
        at = point["parameters"]
        memory.setdefault(at["transport"], {})[int(at["connections"])] = point["metrics"][0]["value"]
    for transport, bytes_of in memory.items():
        rising = [bytes_of[number] for number in (125, 250, 500, 1000)]
        if sorted(set(rising)) != rising or rising[0] == 0:
            return failed(f"{transport}: 125, 250, 500 and 1000 connections cost {rising} bytes")
    return passed(f"1000 connections cost {', '.join(f'{k} {v[1000] / 1e6:.1f} MB' for k, v in memory.items())}")


def strangers(place: Place) -> Outcome:
    """While a process is still to come, others connect to the exchange: they learn nothing and hold nobody up."""
    late = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then sleep 3; fi; exec "$@"'
    job = place.start("mpirun", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2", "sh", "-c", late,
                                 "sh", str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8"])
    note = awaited(place.runtime, "exchange-*", SECONDS)
    if not note:
        return failed("process 0 does not tell where it listens", job.output())
    mode = note.stat().st_mode & 0o777
    address = note.read_text().rpartition(";")[2]
    host, _, port = address.rpartition(":")
    callers = []
    for turn in range(300):
        caller = socket.create_connection((host, int(port)), timeout=10)
        # Silent, a little, a rank without a proof, far too much.
        callers.append(caller)
        with suppress(ConnectionError):
            caller.sendall([b"", b"\x01", (1).to_bytes(4, "little") + bytes(64), bytes(1 << 14)][turn % 4])
    ended = job.finish(time.monotonic() + SECONDS)
    for caller in callers:
        caller.close()
    if mode != 0o600:
        return failed(f"the job's secret lies in a file of mode {mode:o}")
    if not ended.succeeded:
        return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
    return passed(f"{len(callers)} strangers")


def awaited(directory: Path, name: str, seconds: float) -> Path | None:
    """The first file of such a name, once there is one."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := sorted(directory.glob(name)):
            return found[0]
        time.sleep(0.01)
    return None


def killed(place: Place) -> Outcome:
    """Killing one process ends the launch with a clear reason; what was measured is in the report."""
    out = place.directory / "out"
    process = started(place, "latency.write", out)
    victims = children(process.pid)
    if not victims:
        return failed("there was no process to kill")
    os.kill(victims[-1], signal.SIGKILL)
    ended = process.finish(time.monotonic() + 60)
    if ended.timed_out:
        return failed("the run hung after a process was killed", ended.evidence())
    if ended.status != 1:
        return failed(f"{ended.describe()}, expected exit 1", ended.evidence())
    reasons = [r["reason"] for r in records(out) if r["record"] == "failure"]
    if not any("signal: 9" in reason for reason in reasons):
        return failed(f"no failure names the signal: {reasons}", ended.evidence())
    if not (out / "report.html").exists() or not points_of(out):
        return failed("what was measured before is lost", ended.evidence())
    return passed(f"{ended.seconds:.0f} s")


def killed_at_any_moment(place: Place) -> Outcome:
    """Wherever in its life a process is killed: while it joins, connects, warms up, measures. The run ends by itself, says
    which process was lost, and leaves a report. All sizes, so that there is still something to measure (several
    seconds of it) at the last of the moments."""
    for number in range(8):
        out = place.directory / f"out-{number}"
        process = place.start("bench", [str(VERBENA), "bench", "latency.send", "--launches", "1",
                                        "--out", str(out)])
        deadline = time.monotonic() + 30
        while len(children(process.pid)) < 2 and process.running and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.04 * number)
        victims = children(process.pid)
        if len(victims) < 2:
            return failed("there was no process to kill")
        os.kill(victims[number % 2], signal.SIGKILL)
        ended = process.finish(time.monotonic() + 40)
        if ended.status != 1:
            return failed(f"kill {number}: {ended.describe()}, expected exit 1", ended.evidence())
        reasons = [r["reason"] for r in records(out) if r["record"] == "failure"]
        if not any("signal: 9" in reason for reason in reasons):
            return failed(f"kill {number}: no failure names the signal: {reasons}", ended.evidence())
        if not (out / "report.html").exists():
            return failed(f"kill {number}: there is no report", ended.evidence())
    return passed()


def hung(place: Place) -> Outcome:
    """A process that is stopped while it measures is given up; the run goes on with the other benchmarks."""
    out = place.directory / "out"
    process = place.start("bench", [str(VERBENA), "bench", "multi-pair.write-latency",
                                    "baseline.memcpy", "--launches", "1", "--pairs", "2", "--mode",
                                    "free", "--out", str(out)])
    results = out / "results.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.running:
        if results.exists() and '"record":"point"' in results.read_text():
            break
        time.sleep(0.02)
    ranks = children(process.pid)
    if len(ranks) != 4:
        return failed(f"{len(ranks)} processes instead of four")
    os.kill(ranks[3], signal.SIGSTOP)
    ended = process.finish(time.monotonic() + 90)
    if ended.status != 1:
        return failed(f"{ended.describe()}, expected exit 1", ended.evidence())
    found = records(out)
    reasons = [r["reason"] for r in found if r["record"] == "failure"]
    if not any("process 3" in reason and "hangs" in reason for reason in reasons):
        return failed(f"no failure names the hung process: {reasons}", ended.evidence())
    if not any(p["benchmark"] == "baseline.memcpy" for p in points_of(out)):
        return failed("the next benchmark was not measured", ended.evidence())
    if found[-1]["outcome"] != "complete" or not (out / "report.html").exists():
        return failed(f"the run ended as {found[-1]}", ended.evidence())
    return passed(f"{ended.seconds:.0f} s")


def interrupted(place: Place) -> Outcome:
    """SIGINT to the launcher alone is passed on and ends the run; its points are kept, the end says so, and nobody is left."""
    out = place.directory / "out"
    process = started(place, "latency.write", out)
    at_work = children(process.pid)
    # Stopped, they cannot end before it was seen that the signal reached them.
    for child in at_work:
        os.kill(child, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGINT)
    told = [child for child in at_work if told_of(child, signal.SIGINT)]
    for child in at_work:
        resume(child)
    ended = process.finish(time.monotonic() + 60)
    if not at_work or told != at_work:
        return failed(f"of the processes {at_work} only {told} were interrupted", ended.evidence())
    if left := [child for child in at_work if Path(f"/proc/{child}").exists()]:
        return failed(f"{left} are still there", ended.evidence())
    if ended.timed_out:
        return failed("the run went on", ended.evidence())
    last = records(out)[-1]
    if last.get("outcome") != "interrupted":
        return failed(f"the last record is {last}", ended.evidence())
    if ended.status != INTERRUPTED:
        return failed(f"{ended.describe()}, expected exit {INTERRUPTED}", ended.evidence())
    return passed() if points_of(out) else failed("no point was kept", ended.evidence())


def told_of(pid: int, number: int) -> bool:
    """Whether a signal waits for a stopped process, now or before that process is gone."""
    status = Path(f"/proc/{pid}/status")
    while status.exists():
        pending = re.search(r"^ShdPnd:\s*([0-9a-f]+)", status.read_text(), re.M)
        if pending and int(pending[1], 16) >> (number - 1) & 1:
            return True
        time.sleep(0.02)
    return False


def resume(pid: int) -> None:
    """Lets a stopped process go on, if there is one."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def full_output(place: Place) -> Outcome:
    """Standard output on a full disk is told, and costs no file."""
    out = place.directory / "out"
    command = (f"exec {VERBENA} bench latency.write --quick --sizes 8 --on model:connectx-ddr"
               f" --out {out} > /dev/full")
    ended = place.run("bench", ["sh", "-c", command], SECONDS)
    if ended.status != MISSING or "cannot write to standard output" not in ended.output:
        return failed(f"{ended.describe()}, expected exit {MISSING}", ended.evidence())
    return passed() if (out / "report.html").is_file() else failed("no report was written")


def bar(place: Place) -> Outcome:
    """One bar with an estimate on a terminal; in a pipe no line but results, and no control character."""
    command = [str(VERBENA), "bench", "latency.write", "latency.read", "--quick", "--sizes", "8", "--launches", "2"]
    piped = subprocess.run(command, env=place.environment(), capture_output=True, text=True, timeout=SECONDS, check=False)
    if piped.returncode != 0 or piped.stderr or "\x1b" in piped.stdout or "\r" in piped.stdout:
        return failed(f"exit {piped.returncode}, on standard error {piped.stderr!r}")
    main, end = pty.openpty()
    # A terminal has a width.
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen(command, env=place.environment(TERM="xterm"), stdout=subprocess.DEVNULL, stderr=end) as process:
        os.close(end)
        shown = b""
        try:
            while chunk := os.read(main, 4096):
                shown += chunk
        except OSError:
            pass  # The other end is closed.
    os.close(main)
    text = shown.decode(errors="replace")
    if "/4 " not in text or "latency.read" not in text or "left" not in text:
        return failed("there is no bar with an estimate", repr(text[:2000]))
    return passed("4 steps")


def as_json(place: Place) -> Outcome:
    """`list` and `bench` answer programs, and say the same as to people."""
    listed = place.run("list", [str(VERBENA), "list", "--json"], 20)
    names = [one["name"] for one in json.loads(listed.output)["benchmarks"]]
    if names[:len(benchmarks())] != benchmarks():
        return failed(f"other benchmarks than in the table: {names}")
    ended = place.run("bench", [str(VERBENA), "bench", "latency.write", "--on", "model:connectx-ddr", "--sizes", "8,64",
                                "--json"], SECONDS)
    (run,) = json.loads(ended.output)["runs"]
    sizes = {point["parameters"]["size"] for point in run["points"]}
    if run["run"]["device"] != "connectx-ddr" or sizes != {8, 64}:
        return failed(f"{run['run']['device']}, sizes {sizes}", ended.evidence())
    figure = run["points"][0]["figures"][0]
    return passed(f"{figure['name']} {figure['value']:.0f} {figure['unit']}")


def documented(place: Place) -> Outcome:
    """Shells and `man` take what is installed for them."""
    share = place.directory / "share"
    ended = place.run("manual", [str(VERBENA), "__manual", str(share)], 20)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    commands = re.findall(r"^  ([a-z]+) ", os.popen(f"'{VERBENA}' --help").read(), re.M)
    for command in [name for name in commands if name != "help"]:
        page = share / "man/man1" / f"verbena-{command}.1"
        if not page.exists() or "EXIT STATUS" not in page.read_text():
            return failed(f"{page.name} is no manual page")
    pages = sorted(path.name for path in (share / "man/man1").iterdir())
    if hidden := [name for name in pages if "__" in name]:
        return failed(f"pages of what is nobody's to call: {hidden}")
    for name in ("bash-completion/completions/verbena.bash", "zsh/site-functions/_verbena",
                 "fish/vendor_completions.d/verbena.fish"):
        if "evaluate" not in (share / name).read_text():
            return failed(f"{name} does not complete verbena")
    script = place.run("completions", [str(VERBENA), "completions", "bash"], 20)
    completed = subprocess.run(
        ["bash", "-c", 'eval "$1"; COMP_WORDS=(verbena eval); COMP_CWORD=1; _verbena verbena eval verbena; echo "${COMPREPLY[@]}"',
         "bash", script.output], capture_output=True, text=True, timeout=20, check=False)
    if completed.stdout.split() != ["evaluate"]:
        return failed(f"bash completes `verbena eval` to {completed.stdout!r}", completed.stderr)
    return passed(f"{len(pages)} pages, 3 shells")


def compared(place: Place) -> Outcome:
    """A run compared with itself has no change, and a planted slow-down is found."""
    out = place.directory / "out"
    command = [str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8,64", "--transports",
               "rc", "--launches", "5", "--out", str(out)]
    ended = place.run("bench", command, SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    same = place.run("compare", [str(VERBENA), "compare", str(out), str(out)], 20)
    if same.status != 0 or "0 worse" not in same.output:
        return failed("a run differs from itself", same.evidence())
    slow = place.directory / "slow.jsonl"
    lines = []
    for record in records(out):
        if record["record"] == "point" and record["parameters"]["size"] == 8:
            record["metrics"][0]["value"] *= 3
        lines.append(json.dumps(record))
    slow.write_text("\n".join(lines) + "\n")
    worse = place.run("compare", [str(VERBENA), "compare", str(out), str(slow)], 20)
    if worse.status != 1 or "1 worse" not in worse.output:
        return failed("a planted slow-down was not found, or more than it", worse.evidence())
    return passed()


def history(place: Place) -> Outcome:
    """Over eight runs, of which the last four are slower, `verbena history` names the fifth."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8,64",
                                "--transports", "rc", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    runs = []
    for number in range(8):
        lines = []
        for record in records(out):
            if record["record"] == "run":
                record["started"] = number
            if record["record"] == "point":
                factor = 1.3 if number > 3 and record["parameters"]["size"] == 8 else 1
                record["metrics"][0]["value"] *= factor * (1 + 0.002 * (number % 2))
            lines.append(json.dumps(record))
        runs.append(place.directory / f"run-{number}.jsonl")
        runs[-1].write_text("\n".join(lines) + "\n")
    # The order of the arguments does not matter, that of the starts does.
    told = place.run("history", [str(VERBENA), "history", *map(str, reversed(runs))], 20)
    if told.status != 1 or "run-4.jsonl" not in told.output or "1 steps" not in told.output:
        return failed("the step was not found, or more than it", told.evidence())
    return passed()


def browser(place: Place) -> Outcome:
    """A browser without a network opens the report, and every section has its chart and table."""
    out = place.directory / "out"
    ended = place.run("bench", [str(VERBENA), "bench", "latency.", "patterns.all-pairs", "--quick",
                                "--out", str(out)], SECONDS)
    page = out / "report.html"
    if not page.exists():
        return failed("there is no report", ended.evidence())
    picture, dom = in_browser(place, page)
    if not picture:
        return failed("the browser drew nothing", dom.evidence())
    if problem := drawn_sections(page, dom.output, 9):
        return failed(problem)
    return passed("every section has chart and table")


def in_browser(place: Place, page: Path) -> tuple[bool, Ended]:
    """Whether a browser without a network draws the page, and the document that it makes of it."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9",
               f"--user-data-dir={place.directory / 'profile'}"]
    picture = place.directory / "report.png"
    place.run("screenshot", ["chromium", *options, "--window-size=1100,2400",
                             f"--screenshot={picture}", page.as_uri()], 90)
    dom = place.run("dom", ["chromium", *options, "--dump-dom", page.as_uri()], 90)
    return picture.exists() and picture.stat().st_size > 30_000, dom


def drawn_sections(page: Path, document: str, least: int) -> str | None:
    """What is wrong with a report: an address outside, too much of it, a section without chart or table."""
    if outside := re.findall(r"https?://[^\"' <]+|url\(|@import|\ssrc=", page.read_text()):
        return f"the report refers outside: {outside[:3]}"
    if page.stat().st_size > 5_000_000:
        return f"the report has {page.stat().st_size} bytes"
    sections = re.split(r"<h3 id=", document)[1:]
    for section in sections:
        name = section.split('"')[1]
        # Curves of many points are lines alone.
        drawn = r'<circle|<rect|<path class="line[^>]* d="M[^"]*L'
        if "<svg" not in section or not re.search(drawn, section):
            return f"{name} has no chart"
        if "<table" not in section:
            return f"{name} has no table"
    return None if len(sections) >= least else f"only {len(sections)} sections are shown"


def wrong(arguments: list[str], words: str, place: Place) -> Outcome:
    """One clear line and exit code 2."""
    first = json.dumps({"record": "run", "schema": 1, "label": "", "fabric": "", "device": "",
                        "command": "", "started": 0, "seed": 0, "effort": "", "launcher": "",
                        "launches": 0, "clock": {}, "environment": {}})
    files = {"other": place.directory / "other.jsonl", "cut": place.directory / "cut.jsonl",
             "else": place.directory / "else.txt", "study": place.directory / "study.toml",
             "empty": place.directory / "empty.jsonl", "nan": place.directory / "nan.toml"}
    files["other"].write_text('{"record":"run","schema":7}\n')
    files["cut"].write_text(first + '\n{"record":"point","bench')
    files["else"].write_text("nothing that anybody knows\n")
    files["study"].write_text('benchmark = "halo"\nsystem = "connectx-ddr"\ncolour = 3\n')
    files["empty"].write_text(first + "\n")
    files["nan"].write_text("default = nan\n")
    command = [str(VERBENA), *(a.format(**files) for a in arguments)]
    ended = place.run("wrong", command, 30)
    if ended.status != WRONG_INPUT or words not in ended.output:
        return failed(f"{ended.describe()}, expected exit 2 and {words!r}", ended.evidence())
    lines = [line for line in ended.output.splitlines() if line.startswith(("verbena:", "error:"))]
    return passed() if len(lines) == 1 else failed("not one clear line", ended.evidence())
