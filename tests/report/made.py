"""The pages that the tests look at, each made by the programs from real runs, and once for all tests."""

from __future__ import annotations

import json
from pathlib import Path

from harness import c_program
from harness.browser import BrowserError
from harness.build_tree import LOGS, ROOT, VERBENA
from harness.place import Place
from harness.requirement import Tool

SECONDS = 900
MODELS = ["infinihost3-ddr", "connectx-qdr"]
FOUR = ["connectx-qdr", "connectx-ddr", "infinihost3-ddr", "infinihost-pcix"]
LABELS = ["software", *(f"{model} (model)" for model in MODELS)]
# One benchmark of each kind of section, and those from which the five tiles are computed.
BENCHMARKS = ["latency.write", "latency.send", "latency.read", "latency.write-completion",
              "bandwidth.write", "bandwidth.write-both", "bandwidth.read", "rate.window",
              "multi-pair.write-latency", "internals.contexts", "internals.reuse",
              "internals.footprint", "internals.loopback", "patterns.all-pairs"]
# The programs that are recorded for the page of applications, with their arguments.
RECORDED = ROOT / "tests" / "record" / "everything.c"
RECORDING = [Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpicc.openmpi", "libopenmpi-dev")]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "XDG_CACHE_HOME": str(LOGS / "cache")}

# The directory in which the first case that needs a report leaves it for the others.
SHARED = LOGS / "report" / "shared"
_made: dict[str, Path] = {}


def beside_models(place: Place) -> Path:
    """The report of the software adapter and both models."""
    if "models" not in _made:
        out = SHARED / "models"
        targets = ["software", *(f"model:{model}" for model in MODELS)]
        measure(place, out, [word for target in targets for word in ("--on", target)])
        _made["models"] = out / "report.html"
    return _made["models"]


def measure(place: Place, out: Path, more: list[str]) -> None:
    """Runs the benchmarks into a directory, in quick form."""
    clear(out)
    ended = place.run("bench", [str(VERBENA), "bench", *BENCHMARKS, "--quick", "--out", str(out), *more], SECONDS)
    if not (out / "report.html").exists():
        raise BrowserError(f"there is no report: {ended.evidence()}")


def clear(directory: Path) -> None:
    """Results of an earlier run of the tests."""
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def records(path: Path) -> list[dict]:
    """The lines of a results file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def evaluation(place: Place) -> Path:
    """The report of a whole evaluation, in quick form."""
    if "evaluation" not in _made:
        out = SHARED / "evaluation"
        clear(out)
        _made["evaluation"] = report_of(place, "evaluate", ["--quick", "--out", str(out)], out / "report.html")
    return _made["evaluation"]


def comparison(place: Place) -> Path:
    """Two runs beside each other, one of them slower by a half."""
    slower = relabelled(place, "slower", 1.5)
    out = place.directory / "report.html"
    return report_of(place, "report", [str(software(place)), str(slower), "--out", str(out)], out)


def hostile(place: Place) -> Path:
    """More runs than there are colours, with names that do not fit, do not break, or would be markup."""
    names = ["an adapter with a very long name that somebody gave it on a Friday afternoon, firmware 12.34.5678", "x" * 70,
             "<script>alert(1)</script>&\"'", "software-run-of-monday-morning-1", "software-run-of-monday-morning-2",
             "\u65e5\u672c\u8a9e\u306e\u540d\u524d", *(f"run {number}" for number in range(6))]
    runs = [str(relabelled(place, name, 1 + at / 7)) for at, name in enumerate(names)]
    out = place.directory / "report.html"
    return report_of(place, "report", [*runs, "--out", str(out)], out)


def replay(place: Place) -> Path:
    """The page of a recorded program on four systems; the output of `--json` is beside the page."""
    traces = [place.directory / f"T{ranks}" for ranks in (2, 4)]
    program = c_program.compile_program(RECORDED, libraries=(), compiler="mpicc.openmpi")
    for trace in traces:
        ended = place.run(trace.name, [str(VERBENA), "record", "--out", str(trace), "--", "mpirun.openmpi", "--oversubscribe",
                                       "-n", trace.name[1:], str(program)], SECONDS, **AS_ROOT)
        if not ended.succeeded:
            raise BrowserError(f"nothing was recorded: {ended.evidence()}")
    out = place.directory / "application.html"
    on = [word for model in FOUR for word in ("--on", f"model:{model}")]
    return report_of(place, "replay", [*map(str, traces), *on, "--json", "--out", str(out)], out)


def reproduction(place: Place) -> Path:
    """Published claims beside the models."""
    if "reproduction" not in _made:
        out = SHARED / "reproduction"
        _made["reproduction"] = report_of(place, "reproduce", ["--out", str(out)], out / "report.html")
    return _made["reproduction"]


def explanation(place: Place) -> Path:
    """A page on where the time of some operations goes."""
    out = place.directory / "explanation.html"
    return report_of(place, "explain", ["latency.write", "--on", "model:connectx6-hdr", "--out", str(out)], out)


def imported(place: Place) -> Path:
    """A pasted table, without distributions and without a machine."""
    table, out = place.directory / "osu.txt", place.directory / "report.html"
    table.write_text("# OSU MPI Latency Test v7.4\n# Size          Latency (us)\n0                       1.80\n"
                     "64                      1.90\n4096                    3.70\n1048576               130.00\n")
    return report_of(place, "report", [str(table), "--out", str(out)], out)


def report_of(place: Place, command: str, more: list[str], report: Path) -> Path:
    """The page that a subcommand writes."""
    ended = place.run(command, [str(VERBENA), command, *more], SECONDS)
    if not report.exists():
        raise BrowserError(f"there is no page: {ended.evidence()}")
    report.with_suffix(".out").write_text(ended.output)
    return report


def software(place: Place) -> Path:
    """The run of the software adapter."""
    beside_models(place)
    return next((SHARED / "models").glob("software*"))


def relabelled(place: Place, name: str, factor: float) -> Path:
    """The software adapter's run under another name, with its figures times a factor."""
    lines = []
    for record in records(software(place) / "results.jsonl"):
        if record["record"] == "run":
            record["label"] = name
        if record["record"] == "point":
            record["metrics"][0]["value"] *= factor
        lines.append(json.dumps(record))
    directory = place.directory / f"run-{factor:.3f}"
    directory.mkdir()
    (directory / "results.jsonl").write_text("\n".join(lines) + "\n")
    return directory
