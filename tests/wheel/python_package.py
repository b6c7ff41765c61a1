"""`import verbena`: environments, results, and the plug-in of pytest."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path

from guide.chapter import File, chapter, missing
from harness import c_program
from harness.build_tree import DEVICE, ROOT
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended

from .installation import installation, packages

MEMORY = Path(__file__).resolve().parent.parent / "memory"
SECONDS = 120
NO_PACKAGES = "needs pytest and pandas in target/python; `setup/python test` puts them there"

ENVIRONMENTS = """
import os, subprocess, verbena
from verbena.programs import NAMES

def devices(environment):
    asked = subprocess.run(["ibv_devices"], env=environment, capture_output=True, text=True)
    return [line.split()[0] for line in asked.stdout.splitlines()[2:]]

for name in NAMES:
    asked = subprocess.run([verbena.program(name), "--version"], capture_output=True, text=True)
    assert asked.stdout.startswith(f"{name} "), (name, asked)

there = verbena.environment(path="ring")
assert devices(there) == ["verbena0"], devices(there)
assert "verbena0" not in devices(os.environ)
assert there["VERBENA_PATH"] == "ring" and there["HOME"] == os.environ["HOME"]
assert verbena.environment(there) == there
assert verbena.environment({"OF": "mine"})["OF"] == "mine" and "HOME" not in verbena.environment({"OF": "mine"})
with verbena.Faults("ibv_alloc_pd: ENOMEM", "ibv_alloc_mw 3: EIO", allow_unfired=True) as faults:
    assert subprocess.run(["ibv_rc_pingpong"], env=faults.env, capture_output=True).returncode == 1
assert faults.counts == {"ibv_alloc_pd: ENOMEM": 1, "ibv_alloc_mw 3: EIO": 0} and faults.fired == 1, faults.counts
for rule, error in (("ibv_alloc_mw: EIO", verbena.NeverFired), ("ibv_nothing: EIO", ValueError)):
    try:
        with verbena.Faults(rule):
            pass
    except error as caught:
        assert rule.split(":")[0] in str(caught), caught
    else:
        raise AssertionError(rule)
try:
    verbena.environment(path="none")
except ValueError as error:
    assert "--path" in str(error), error
else:
    raise AssertionError("a path that there is not")
print("all of it")
"""


def environments(place: Place) -> Outcome:
    """A child on the adapter, by the variables of `environment`; errors with messages."""
    script = place.directory / "script.py"
    script.write_text(ENVIRONMENTS)
    ended = place.run("script", [str(installation().python), str(script)], SECONDS, **installation().variables())
    return passed() if ended.succeeded and "all of it" in ended.output else failed("the script failed", ended.evidence())


LOAD = """
import json, sys, verbena
results = verbena.load(sys.argv[1])
points = results.points
assert list(results.runs.label) == ["software"], results.runs
key = ["benchmark", "launch", "size", "metric"]
wide = results.statistics.pivot(index=key, columns="statistic", values="value").reset_index()
rows = points.merge(wide, how="left", on=key)[[*key, "unit", "value", "samples", "p50", "max"]]
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
    """A benchmark's figures as a frame are those of its `points.csv`; a directory that is no run is refused with a
    clear message."""
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
SEVERAL = """
def test_there_are_two(rdma_devices):
    assert rdma_devices == ["verbena0", "verbena1"]
"""
# Options that are refused, with parts of the message.
REFUSED_OPTIONS = {
    "--rdma --rdma-devices 99": '"99" is not a whole number from 1 to 32',
    "--rdma --rdma-link token-ring": "invalid value 'token-ring'",
    "--rdma-devices 2": "--rdma-devices and --rdma-link need --rdma",
}
# pytest's command line and its last line: on the adapter, and on this machine without it.
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


def several_devices(place: Place) -> Outcome:
    """`--rdma-devices` gives as many, and impossible numbers are refused."""
    there = packages()
    if there is None:
        return skipped(NO_PACKAGES)
    tests = place.directory / "test_mine.py"
    tests.write_text(SEVERAL)

    def ended(*options: str) -> Ended:
        command = [str(installation().python), "-m", "pytest", *options, "-p", "no:cacheprovider", str(tests)]
        return place.run("pytest", command, SECONDS, PYTHONPATH=there, **installation().variables())

    two = ended("--rdma", "--rdma-devices", "2")
    if not two.succeeded or "1 passed" not in two.output:
        return failed("the fixture does not name two", two.evidence())
    for words, message in REFUSED_OPTIONS.items():
        refused = ended(*words.split())
        if refused.status != 4 or message not in refused.output:
            return failed(f"{words}: status {refused.status}, expected 4 and {message!r}", refused.evidence())
    return passed()


ASKED = """
import ctypes, subprocess, sys

# Asks for a GID of a port that there is not, by this process itself.
ASK = '''
import ctypes, sys
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_query_gid.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int, ctypes.c_void_p]
device = verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
refused = lambda port: verbs.ibv_query_gid(device, port, 0, ctypes.create_string_buffer(16))
'''
exec(ASK)

def in_a_child(port):
    done = subprocess.run([sys.executable, "-c", ASK + f"assert refused({port})"], capture_output=True, text=True)
    return done.returncode == 0, done.stderr

def test_refused_and_passes():
    assert refused(71) and in_a_child(72)[0]

def test_refused_here_and_fails():
    assert not refused(81)

def test_refused_in_a_child_and_fails():
    assert in_a_child(82) == (True, "expected by nobody")

def test_many_refusals_and_fails():
    assert [refused(90) for _ in range(1000)] == []

def test_fails_for_another_reason():
    assert refused is None
"""
# Refusals are identified by a port's number; those of tests that pass are not shown, nor one test's with another.
SHOWN, HIDDEN = ("port is 81,", "port is 82,", "port is 90,"), ("port is 71,", "port is 72,")
SECTION = "refusals of the adapter"


def refusals(workers: int, place: Place) -> Outcome:
    """The report of a failing test has the refusals of that test, from every process; that of a passing test has
    none."""
    ended = refused_tests(place, ["-n", str(workers)] if workers else [])
    if ended is None:
        return skipped(NO_PACKAGES)
    sections = [part.partition("\n____")[0] for part in ended.output.split(f"- {SECTION} -")[1:]]
    if ended.status != 1 or "4 failed, 1 passed" not in ended.output.splitlines()[-1] or len(sections) != 3:
        return failed(f"{len(sections)} sections, expected 3 of 4 failures", ended.evidence())
    for words in SHOWN:
        if sum(words in section for section in sections) != 1:
            return failed(f"{words!r} is not in one section", ended.evidence())
    if wrong := [words for words in HIDDEN if words in ended.output]:
        return failed(f"a passing test shows {wrong}", ended.evidence())
    (many,) = [section for section in sections if SHOWN[2] in section]
    if many.count(SHOWN[2]) > 100 or " more" not in many:
        return failed("a thousand refusals are not cut short", ended.evidence())
    return passed(f"{len(sections)} sections")


def refusals_off(place: Place) -> Outcome:
    """A user's own VERBENA_LOG takes precedence: `off` shows nothing, `info` writes to standard error as everywhere."""
    for level, in_stderr in (("off", False), ("info", True)):
        ended = refused_tests(place, [], VERBENA_LOG=level)
        if ended is None:
            return skipped(NO_PACKAGES)
        if SECTION in ended.output or ("port is 81," in ended.output) != in_stderr:
            return failed(f"VERBENA_LOG={level} does not hold", ended.evidence())
    return passed()


def refused_tests(place: Place, options: list[str], **more: str) -> Ended | None:
    """The tests above, run on the adapter; None without pytest."""
    there = packages()
    if there is None:
        return None
    tests = place.directory / "test_refused.py"
    tests.write_text(ASKED)
    command = [str(installation().python), "-m", "pytest", "--rdma", "-p", "no:cacheprovider", *options, str(tests)]
    return place.run("pytest", command, SECONDS, PYTHONPATH=there, **installation().variables(), **more)


COVERED = """
import pytest, subprocess

@pytest.mark.parametrize("way", ["exit", "fork", "extended", "threads"])
def test_ends(way):
    subprocess.run(["{program}", way], check=True)
"""
# One exchange, eight children, one exchange, eight threads; each of a hundred messages.
MESSAGES = 18 * 100
REFUSED_COVERAGE = {
    "--rdma-coverage": "--rdma-coverage needs --rdma",
    "--rdma --rdma-coverage-require SUCCESS": "need --rdma-coverage",
    "--rdma --rdma-coverage --rdma-coverage-append": "needs --rdma-coverage-data",
    "--rdma --rdma-coverage --rdma-coverage-require RNR": '"RNR" is no completion status',
}


def coverage(workers: int, place: Place) -> Outcome:
    """`--rdma-coverage` counts the programs that the tests start, in every worker, and adds sessions; unseen requirements
    fail the session."""
    there = packages()
    if there is None:
        return skipped(NO_PACKAGES)
    tests = place.directory / "test_covered.py"
    program = c_program.compile_program(MEMORY.parent / "trace" / "ends.c", ("-l:libibverbs.so.1",))
    tests.write_text(COVERED.format(program=program))

    def ended(*options: str) -> Ended:
        command = [str(installation().python), "-m", "pytest", "-p", "no:cacheprovider", *options, str(tests)]
        return place.run("pytest", command, SECONDS, PYTHONPATH=there, **installation().variables())

    parallel = ["-n", str(workers)] if workers else []
    kept = ["--rdma", "--rdma-coverage", *parallel, "--rdma-coverage-data", "kept", "--rdma-coverage-json", "report.json"]
    for sessions, options in enumerate((kept, [*kept, "--rdma-coverage-append", "--rdma-coverage-require", "RETRY_EXC"]), 1):
        done = ended(*options)
        if not done.succeeded or "never seen: " not in done.output or "4 passed" not in done.output.splitlines()[-1]:
            return failed("it has no report", done.evidence())
        groups = {group["name"]: group["items"] for group in json.loads((place.directory / "report.json").read_text())["groups"]}
        success = next(item for item in groups["statuses"] if item["name"] == "SUCCESS")
        if success["count"] != 2 * MESSAGES * sessions:
            return failed(f"{success}, expected {2 * MESSAGES * sessions}", done.evidence())
    missing = ended("--rdma", "--rdma-coverage", *parallel, "--rdma-coverage-require", "RNR_RETRY_EXC")
    if missing.status != 1 or "required and never seen: RNR_RETRY_EXC_ERR" not in missing.output:
        return failed("an unseen status does not fail it", missing.evidence())
    for words, message in REFUSED_COVERAGE.items():
        refused = ended(*words.split())
        if refused.status != 4 or message not in refused.output:
            return failed(f"{words}: status {refused.status}, expected 4 and {message!r}", refused.evidence())
    # Killed children's entries stay if another worker's program runs when their parent ends; the next program removes them.
    last = place.run("last", installation().command("verbena", "run", "--", program, "exit"), SECONDS)
    return passed() if last.succeeded else failed("a program afterwards", last.evidence())


def guide(name: str, place: Place) -> Outcome:
    """Every command of a chapter, in an empty directory with the wheel in it, in the environment that the wheel is
    in."""
    there = packages()
    if there is None:
        return skipped(NO_PACKAGES)
    # Not below ours, whose workspace would claim a crate of the reader's.
    with tempfile.TemporaryDirectory(prefix="verbena-reader-") as directory:
        return followed(name, Path(directory), there, place)


def followed(name: str, directory: Path, there: str, place: Place) -> Outcome:
    """A chapter from its beginning to its end."""
    for wheels in (directory, directory / "target/wheels"):
        wheels.mkdir(parents=True, exist_ok=True)
        (wheels / installation().wheel.name).symlink_to(installation().wheel)
    steps, left_out = 0, set()
    for one in chapter(ROOT / name):
        if isinstance(one, File):
            file = directory / one.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(one.text)
            continue
        if not one.is_possible():
            left_out.add(one.needs)
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
    if steps < 5:
        return failed(f"only {steps} commands were found in the chapter")
    lacking = f", without those for {', '.join(sorted(left_out))}" if left_out else ""
    return passed(f"{steps} commands{lacking}")
