"""The suite on models: the same bytes every time, the published figures, parameter studies and calibration."""

from __future__ import annotations

import json
import re
import shutil

from harness import tiers
from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from . import figures
from .pages import drawn_sections, in_browser
from .records import records

SECONDS = 900
# By day one and several; by night more.
THREADS = ("1", "2", "4") if tiers.by_night() else ("1", "3")
WRONG_INPUT = 2
# A time limit ended a computation.
OUT_OF_TIME = 124
# Nothing could be checked.
ENVIRONMENT = 3


def model_repeats(target: str, place: Place) -> Outcome:
    """Output and run directory of the same command are the same for any number of threads. The figures of a model are
    not compared with an adapter's, so the evaluation is not accepted."""
    seen = set()
    out = place.directory / "out"
    for threads in THREADS:
        command = [str(VERBENA), "evaluate", "--quick", "--on", target, "--threads", threads, "--expect", "connectx6-hdr", "--out", str(out)]
        ended = place.run("evaluate", command, SECONDS)
        checked = ": 0 pass, 0 fail, " in ended.output and "not comparable: computed by a model" in ended.output
        if ended.status != ENVIRONMENT or not checked:
            return failed(f"{ended.describe()}, expected exit {ENVIRONMENT}", ended.evidence())
        files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
        if "results.jsonl" not in files or "report.html" not in files:
            return failed(f"only {sorted(files)} were written")
        seen.add(tuple(files.items()))
        shutil.rmtree(out)
    return passed(f"{len(THREADS)} times the same") if len(seen) == 1 else failed("the bytes differ")


MANY = "model:connectx6-hdr:message"


def many_ranks(place: Place) -> Outcome:
    """4096 ranks on 512 nodes are computed, a time limit keeps the points that are complete, and
    models larger than the memory or the network are refused, and so are nodes of adapters."""
    out = place.directory / "out"
    command = [str(VERBENA), "bench"]
    ended = place.run("halo", [*command, "mpi.halo", "--processes", "4096", "--nodes", "512", "--sizes", "8,64",
                               "--on", MANY, "--out", str(out)], SECONDS)
    points = [record for record in records(out) if record["record"] == "point"]
    if not ended.succeeded or "4096 ranks on 512 nodes, 8 a node" not in ended.output or len(points) != 2:
        return failed(f"{ended.describe()}, {len(points)} points", ended.evidence())
    late = place.directory / "late"
    ended = place.run("late", [*command, "mpi.barrier-latency", "patterns.bisection", "--processes", "512", "--sizes", "1M",
                               "--minutes", "0.2", "--on", MANY, "--threads", "1", "--out", str(late)], SECONDS)
    found = records(late)
    complete = [record["benchmark"] for record in found if record["record"] == "point"]
    stopped = [record["benchmark"] for record in found if record["record"] == "failure" and "--minutes" in record["reason"]]
    if ended.status != OUT_OF_TIME or complete != ["mpi.barrier-latency"] or stopped != ["patterns.bisection"]:
        return failed(f"{ended.describe()}, complete {complete}, stopped {stopped}", ended.evidence())
    wrong = (
        (["mpi.alltoall-latency", "--processes", "1048576", "--on", MANY], 1, "of memory, and"),
        (["mpi.halo", "--processes", "64", "--nodes", "100000", "--on", MANY], WRONG_INPUT, "joins at most 16000 nodes"),
        (["mpi.halo", "--processes", "1025"], WRONG_INPUT, "is for models"),
        (["mpi.halo", "--nodes", "4"], WRONG_INPUT, "--nodes is for models"),
        (["mpi.halo", "--processes", "1048577", "--on", MANY], WRONG_INPUT, "from 1 to 1048576"),
    )
    for words, status, expected in wrong:
        ended = place.run("refused", [*command, *words], SECONDS)
        if ended.status != status or expected not in ended.output:
            return failed(f"{ended.describe()}, expected exit {status} and {expected!r}", ended.evidence())
    return passed(f"{len(wrong)} refusals")


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
    command = [str(VERBENA), "explain", "latency.send", "--on", "model:infinihost3-ddr", "--sizes", "4K", "--inline", "1K"]
    ended = place.run("explain", command, SECONDS)
    if not ended.succeeded or "size 4096" not in ended.output:
        return failed("a size in KiB is refused", ended.evidence())
    return passed("all stages")


EXCHANGE = """num_ranks 2
rank 0 {
l1: calc 1500
l2: send 4096b to 1 tag 7
l3: recv 8b from 1
l2 requires l1
l3 requires l2
}
rank 1 {
l1: recv 4096b from 0 tag 7
l2: send 8b to 0
l2 requires l1
}
"""


def model_replays(place: Place) -> Outcome:
    """A schedule's calculations, and the times of the library's messages as `bench` has them; errors name their
    place."""
    file = place.directory / "exchange.goal"
    file.write_text(EXCHANGE)
    command = [str(VERBENA), "replay", str(file), "--on", "model:connectx-qdr", "--json"]
    replayed = [place.run("replay", command, 60) for _ in range(2)]
    if not replayed[0].succeeded:
        return failed(f"{replayed[0].describe()}, expected exit 0", replayed[0].evidence())
    told = json.loads(replayed[0].output)
    setup = told["setup"]
    if sorted(setup) != ["fabric", "library", "mtu", "network"] or setup["mtu"] not in (1024, 2048, 4096) or not setup["network"]:
        return failed(f"the setup of the system: {setup}", replayed[0].evidence())
    bench = place.run("bench", [str(VERBENA), "bench", "mpi.latency", "--on", "model:connectx-qdr", "--sizes", "8,4096",
                                "--out", str(place.directory / "out")], 60)
    if not bench.succeeded:
        return failed(f"{bench.describe()}, expected exit 0", bench.evidence())
    points = records(place.directory / "out")
    latencies = [record["metrics"][0]["value"] for record in points if record["record"] == "point"]
    messages = told["nanoseconds"] - 1500
    # The first messages find nothing in the adapters' caches.
    if replayed[0].output != replayed[1].output or not sum(latencies) <= messages <= sum(latencies) + 3000:
        return failed(f"messages take {messages} ns, {latencies} with bench", replayed[0].evidence())
    file.write_text(EXCHANGE.replace("tag 7\n", "tag 8\n", 1))
    wrong = place.run("wrong", command, 60)
    if wrong.status != WRONG_INPUT or "exchange.goal, line 5" not in wrong.output:
        return failed("the error is not reported", wrong.evidence())
    return passed(f"{told['nanoseconds'] / 1000:.2f} us")


def model_beside(place: Place) -> Outcome:
    """The report of the software adapter shows modelled adapters, which have run directories of their own."""
    out, ended = figures.evaluation(place)
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
    """All claims are evaluated and enough are met; each missed claim has its reason, and no other has one; the models'
    curves go through the values of the claims; a browser draws every figure."""
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
    curves = len(written["validation"])
    if page.read_text().count("residuals of ") != curves:
        return failed(f"the page lacks the residuals of {curves} curves")
    if problem := drawn_sections(page, in_browser(place, page), len(written["figures"]) + curves):
        return failed(problem)
    return passed(f"{len(written['figures'])} figures, {on_curves} claims on their curves, {curves} curves held against the models")


def paper_repeats(place: Place) -> Outcome:
    """Claims and figures of a paper are the same bytes for any number of threads."""
    seen = set()
    out = place.directory / "out"
    for threads in THREADS:
        command = [str(VERBENA), "reproduce", "qdr_evaluation", "--threads", threads, "--out", str(out)]
        ended = place.run("reproduce", command, SECONDS)
        if not ended.succeeded:
            return failed(f"{ended.describe()}, expected exit 0", ended.evidence())
        files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
        if sorted(files) != ["claims.json", "report.html"]:
            return failed(f"{sorted(files)} were written")
        seen.add((ended.output, *files.items()))
        shutil.rmtree(out)
    return passed(f"{len(THREADS)} times the same") if len(seen) == 1 else failed("the bytes differ")


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
        return failed("other points than the lost ones were computed", again.evidence())
    if (whole / "sweep.csv").read_text() != table:
        return failed("the table differs after a restart")
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
        return failed("the merged table differs", merged.evidence())
    study.write_text(STUDY.replace("128", "64"))
    other = place.run("other", [*command, str(shared)], 30)
    if other.status != WRONG_INPUT or "another study" not in other.output:
        return failed("another study's results were accepted", other.evidence())
    study.write_text(STUDY)
    other = place.run("other", [*command, str(shared), "--set", "bensley.cpu.post=200"], 30)
    if other.status != WRONG_INPUT or "other profiles" not in other.output:
        return failed("results of other profiles were accepted", other.evidence())
    return passed("24 points")


PLANTED = {"bensley.cpu.post": 220.0, "connectx.receive.request": 260.0}


LOOP = {"software.request.post": 140, "software.cores.line": 90, "software.message.serve": 210}
SHORT = ["latency.write", "latency.read", "latency.send", "latency.write-completion", "latency.write-immediate",
         "internals.scatter"]
REPORTED = ("How well it is predicted", "Predicted, and not fitted to", "latency.write-immediate",
            "software-calibrated (model)")


def software_fit(place: Place) -> Outcome:
    """With a model in place of the adapter: calibration finds the planted values, the rest is predicted, the report and
    a run of the written profile have both; the exit code reports wrong values."""
    measured, out = place.directory / "measured", place.directory / "out"
    planted = [word for path, value in LOOP.items() for word in ("--set", f"{path}={value}")]
    sizes = ["--sizes", "8,512,4096", "--transports", "rc", "--quick"]
    run = place.run("bench", [str(VERBENA), "bench", *SHORT, "--on", "model:software", *sizes, *planted,
                              "--out", str(measured)], 60)
    if not run.succeeded:
        return failed(f"{run.describe()}, expected exit 0", run.evidence())
    command = [str(VERBENA), "calibrate", str(measured), "--on", "software"]
    wanted = [word for path in LOOP for word in ("--fit", path)]
    ended = place.run("calibrate", [*command, *wanted, "--out", str(out)], 120)
    verdict = re.search(r"predicted: mean error (\S+) % on 3 held-out benchmarks", ended.output)
    if not ended.succeeded or not verdict or float(verdict[1]) > 2:
        return failed(f"{ended.describe()}, expected exit 0 and an error below 2 %", ended.evidence())
    for path, value in LOOP.items():
        row = re.search(rf"^{re.escape(path)} +\S+ +(\S+) ", ended.output, re.M)
        if not row or abs(float(row[1]) / value - 1) > 0.05:
            return failed(f"{path} = {value} was not found again", ended.evidence())
    report = (out / "report.html").read_text()
    missing = [words for words in REPORTED if words not in report]
    if missing:
        return failed(f"the report lacks {missing}")
    used = place.run("use", [str(VERBENA), "bench", "latency.write", "--on", "model:software-calibrated", *sizes,
                             "--profiles", str(out), "--out", str(place.directory / "used")], 60)
    figures = [[record["metrics"][0]["value"] for record in records(place.directory / name)
                if record["record"] == "point" and record["benchmark"] == "latency.write"]
               for name in ("measured", "used")]
    if not used.succeeded or any(abs(b / a - 1) > 0.02 for a, b in zip(*figures, strict=True)):
        return failed(f"the written profile gives {figures[1]} for {figures[0]}", used.evidence())
    wrong = place.run("wrong", [*command, "--fit", "software.cache.memory_rate"], 60)
    if wrong.status != 1 or "predicted: mean error" not in wrong.output:
        return failed(f"{wrong.describe()}, expected exit 1 of a profile that is wrong", wrong.evidence())
    return passed(verdict[0])


def loop_of_the_adapter(place: Place) -> Outcome:
    """The software adapter measured, fitted to and predicted in one command. The accuracy depends on the machine; the
    completeness does not."""
    out = place.directory / "out"
    ended = place.run("calibrate", [str(VERBENA), "calibrate", "--on", "software", "--out", str(out)], 1200)
    verdict = re.search(r"predicted: .* off on average over (\d+) benchmarks.*", ended.output)
    if ended.status not in (0, 1) or not verdict or int(verdict[1]) < 15:
        return failed(f"{ended.describe()}, expected a verdict on 15 benchmarks", ended.evidence())
    if not (out / "software-calibrated.toml").exists() or "How well it is predicted" not in (out / "report.html").read_text():
        return failed("profile or report is missing", ended.evidence())
    return passed(verdict[0])


def calibrated(place: Place) -> Outcome:
    """Calibration finds the values planted in a model from a run of the suite on it; the written profiles have them;
    values known only as a sum are named."""
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
    if "not distinguishable: bensley.cpu.post and bensley.pcie.write_latency" not in told.output:
        return failed("values known only as a sum are not named", told.evidence())
    return passed("2 values")
