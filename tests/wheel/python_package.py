"""`import verbena`: environments, results, and the plug-in of pytest."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from guide.chapter import File, chapter, missing
from harness import c_program
from harness.build_tree import DEVICE, ROOT
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .installation import installation, packages

MEMORY = Path(__file__).resolve().parent.parent / "memory"
SECONDS = 120
NO_PACKAGES = "needs pytest and pandas in target/python; `setup/python test` puts them there"

ENVIRONMENTS = """
import os, subprocess, verbena

def devices(environment):
    asked = subprocess.run(["ibv_devices"], env=environment, capture_output=True, text=True)
    return [line.split()[0] for line in asked.stdout.splitlines()[2:]]

there = verbena.environment(path="ring")
assert devices(there) == ["verbena0"], devices(there)
assert "verbena0" not in devices(os.environ)
assert there["VERBENA_PATH"] == "ring" and there["HOME"] == os.environ["HOME"]
assert verbena.environment(there) == there
assert verbena.environment({"OF": "mine"})["OF"] == "mine" and "HOME" not in verbena.environment({"OF": "mine"})
try:
    verbena.environment(path="none")
except ValueError as error:
    assert "--path" in str(error), error
else:
    raise AssertionError("a path that there is not")
try:
    verbena.load(".")
except ImportError as error:
    assert "pip install pandas" in str(error), error
else:
    raise AssertionError("pandas came from somewhere")
print("all of it")
"""


def environments(place: Place) -> Outcome:
    """A child on the adapter, by what `environment` gives; errors in words; nothing asks for pandas before it is needed."""
    script = place.directory / "script.py"
    script.write_text(ENVIRONMENTS)
    ended = place.run("script", [str(installation().python), str(script)], SECONDS, **installation().variables())
    return passed() if ended.succeeded and "all of it" in ended.output else failed("the script failed", ended.evidence())


LOAD = """
import json, sys, verbena
results = verbena.load(sys.argv[1])
points = results.points
assert list(results.runs.label) == ["software"], results.runs
rows = points[["benchmark", "launch", "size", "metric", "unit", "value", "n", "p50", "max"]]
print(rows.astype(object).where(rows.notna(), None).to_json(orient="values", double_precision=15))
assert len(verbena.load(sys.argv[1] + "/results.jsonl").points) == len(points)
"""
REFUSED = """
import sys, verbena
try:
    verbena.load(sys.argv[1])
except (ValueError, OSError) as error:
    print("refused:", error)
"""


def results(place: Place) -> Outcome:
    """A benchmark's figures as a frame are those of its `points.csv`; what is no run is refused in words."""
    there = packages()
    if there is None:
        return skipped(NO_PACKAGES)
    out = place.directory / "out"
    ended = place.run("bench", installation().command("verbena", "bench", "baseline.memcpy", "--quick", "--out", out), SECONDS)
    if not ended.succeeded:
        return failed("the benchmark failed", ended.evidence())
    python = str(installation().python)
    ended = place.run("load", [python, "-c", LOAD, str(out)], SECONDS, PYTHONPATH=there)
    if not ended.succeeded:
        return failed("the results cannot be loaded", ended.evidence())
    frame = json.loads(ended.output.splitlines()[-1])
    with open(out / "points.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if len(rows) != len(frame) or not rows:
        return failed(f"{len(frame)} rows in the frame, {len(rows)} in points.csv")
    for row, (benchmark, launch, size, metric, unit, *figures) in zip(rows, frame):
        parameters = dict(each.split("=") for each in row["parameters"].split(";"))
        words = (row["benchmark"], int(row["launch"]), float(parameters["size"]), row["metric"], row["unit"])
        shown = [float(row[name]) if row[name] else None for name in ("value", "n", "p50", "max")]
        if words != (benchmark, launch, size, metric, unit) or not all(map(same, shown, figures)):
            return failed(f"the frame has {figures} of {words}, points.csv {shown}")
    broken = place.directory / "broken.jsonl"
    for text, word in (('{"record":"run","schema":99,"label":"x"}\n', "schema 99"), ("{\n", "broken.jsonl:1:")):
        broken.write_text(text)
        ended = place.run("refused", [python, "-c", REFUSED, str(broken)], SECONDS, PYTHONPATH=there)
        if "refused: " not in ended.output or word not in ended.output:
            return failed(f"{text!r} is not refused with {word!r}", ended.evidence())
    return passed(f"{len(rows)} rows")


def same(one: float | None, other: float | None) -> bool:
    """The same figure, but for the last digits of a text."""
    return one == other if one is None or other is None else abs(one - other) <= 1e-12 * abs(one)


PYTEST = """
import subprocess

def test_writes(rdma_device):
    print("the device is", rdma_device)
    subprocess.run(["{program}", "writes_while_asleep"], check=True)

def test_without_a_device():
    pass
"""
# How pytest is called, and what its last line says: on the adapter, and on this machine without it.
CALLS = {
    "pytest --rdma": (["-m", "pytest", "--rdma"], "2 passed"),
    "pytest": (["-m", "pytest"], "1 passed, 1 skipped"),
    "verbena run -- pytest": (["-m", "verbena", "run", "--", "python", "-m", "pytest"], "2 passed"),
}


def pytest(call: str, place: Place) -> Outcome:
    """The tests of a verbs program pass on the adapter, by the option and by the launcher, and are skipped without."""
    there = packages()
    if there is None:
        return skipped(NO_PACKAGES)
    words, summary = CALLS[call]
    if "skipped" in summary and Path("/sys/class/infiniband").is_dir() and list(Path("/sys/class/infiniband").iterdir()):
        return skipped("this machine has an adapter")
    tests = place.directory / "test_mine.py"
    program = c_program.compile_program(MEMORY / "one_sided.c")
    tests.write_text(PYTEST.format(program=program))
    ended = place.run("pytest", [str(installation().python), *words, "-rP", "-p", "no:cacheprovider", str(tests)], SECONDS,
                      PYTHONPATH=there, **installation().variables())
    if not ended.succeeded or summary not in ended.output.splitlines()[-1]:
        return failed(f"it does not say {summary!r}", ended.evidence())
    if "skipped" not in summary and f"the device is {DEVICE}" not in ended.output:
        return failed("the fixture has another device", ended.evidence())
    return passed()


def guide(name: str, place: Place) -> Outcome:
    """Every command of a chapter, in an empty directory with the wheel in it, in the environment that the wheel is in."""
    there = packages()
    if there is None:
        return skipped(NO_PACKAGES)
    directory = place.directory / "reader"
    directory.mkdir()
    for wheels in (directory, directory / "target/wheels"):
        wheels.mkdir(parents=True, exist_ok=True)
        (wheels / installation().wheel.name).symlink_to(installation().wheel)
    steps = 0
    for one in chapter(ROOT / name):
        if isinstance(one, File):
            (directory / one.name).write_text(one.text)
            continue
        steps += 1
        # With `-m`, for the command of a package that is beside the environment and not in it.
        command = f"python -m {one.command}" if one.command.startswith("pytest ") else one.command
        ended = place.run("step", ["bash", "-ec", f"cd '{directory}'; {command}"], SECONDS, PYTHONPATH=there,
                          **installation().variables())
        if ended.status != one.status:
            return failed(f"`{one.command}`: {ended.describe()}", ended.evidence())
        if line := missing(one, ended.output):
            return failed(f"`{one.command}` does not say {line!r}", ended.evidence())
    return passed(f"{steps} commands") if steps >= 5 else failed(f"only {steps} commands were found in the chapter")
