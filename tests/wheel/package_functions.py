"""The functions of `import verbena`, from the installed wheel: scripts that assert, types, Ctrl-C, and the notebook."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness import c_program
from harness.build_tree import ROOT
from harness.outcome import Outcome, Verdict, failed, passed, skipped
from harness.place import Place
from harness.process import Ended

from .installation import PYTHON, installation, packages

SCRIPTS = Path(__file__).resolve().parent / "scripts"
MEMORY = ROOT / "tests/memory"
NOTEBOOK = ROOT / "docs/results.ipynb"
TRACE = ROOT / "papers/traces/lammps-rhodo-2.trace"
SECONDS = 900
NUMBERS = re.compile(r"-?\d+(\.\d+)?(e[+-]\d+)?")


def script(name: str, place: Place, *words: object, **variables: str) -> Ended:
    """A script, by the interpreter that has the wheel."""
    command = [str(installation().python), str(SCRIPTS / name), *map(str, words)]
    return place.run("script", command, SECONDS, **{**installation().variables(), **variables})


def judged(ended: Ended) -> Outcome:
    return passed() if ended.succeeded and "all of it" in ended.output else failed("the script failed", ended.evidence())


def running(place: Place) -> Outcome:
    """`verbena.run`: output, refusals, counters, and each way to fail."""
    return judged(script("running.py", place, c_program.compile_program(MEMORY / "one_sided.c")))


def figures(place: Place) -> Outcome:
    """Frames, comparisons, replays and charts."""
    there = packages()
    if there is None or lacks("matplotlib"):
        return skipped("needs pandas and matplotlib in target/python; `setup/python test` puts them there")
    return judged(script("figures.py", place, TRACE, PYTHONPATH=there))


def without(place: Place) -> Outcome:
    """In a bare environment functions that need no package work; without the program the import succeeds, and a call
    names the missing program."""
    outcome = judged(script("without.py", place))
    if outcome.verdict != Verdict.PASSED:
        return outcome
    shutil.copytree(ROOT / "python/verbena", place.directory / "bare/verbena")
    for words in (["-m", "verbena"], ["-c", "import verbena; verbena.run('true')"], ["-c", "import verbena; verbena.bench('latency.write')"]):
        ended = place.run("bare", [sys.executable, *words], SECONDS, PYTHONPATH=str(place.directory / "bare"), PATH="/nowhere")
        if ended.succeeded or "no program 'verbena'" not in ended.output:
            return failed(f"{words} does not say that the program is missing", ended.evidence())
    return passed()


def interrupted(place: Place) -> Outcome:
    """Ctrl-C at the interpreter alone stops the benchmark, which keeps its results, and no process goes on."""
    out = place.directory / "out"
    process = place.start("script", [str(installation().python), str(SCRIPTS / "interrupted.py"), str(out)], None,
                          **installation().variables())
    results, deadline = out / "results.jsonl", time.monotonic() + SECONDS
    while process.running and time.monotonic() < deadline and not (results.is_file() and '"record":"point"' in results.read_text()):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    ended = process.finish(time.monotonic() + SECONDS)
    if not ended.succeeded or "kept interrupted 1 report.html" not in ended.output:
        return failed("it does not keep its results", ended.evidence())
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    left = [line for line in listed.splitlines() if str(out) in line]
    return failed(f"still running: {left}") if left else passed()


def lacks(*names: str) -> bool:
    """Whether target/python lacks one of these packages."""
    asked = subprocess.run([PYTHON, "-c", f"import {', '.join(names)}"], capture_output=True, check=False) if PYTHON.exists() else None
    return asked is None or asked.returncode != 0


def types(place: Place) -> Outcome:
    """mypy accepts the installed package and a program over it, and finds the errors of a wrong program; ruff finds
    nothing."""
    if lacks("mypy", "ruff", "pandas", "matplotlib", "pytest"):
        return skipped("needs mypy, ruff and the packages that they check in target/python; `setup/python test` puts them there")
    (package, ) = installation().commands.parent.glob("lib/python*/site-packages/verbena")
    if not (package / "py.typed").is_file():
        return failed("the wheel has no py.typed")
    # Alone: the rest of the environment is not to be checked.
    alone = place.directory / "alone"
    shutil.copytree(package, alone / "verbena", ignore=shutil.ignore_patterns("bin", "lib", "include", "__pycache__"))
    strict = ["-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", str(place.directory / "cache"), "--python-executable"]
    for name, words in {
            "mypy": [*strict, str(PYTHON), "--allow-subclassing-any", "-p", "verbena"],
            # As a user's: the package is found by its own marker.
            "a program": [*strict, str(installation().python), "--follow-imports=silent", str(SCRIPTS / "typed_program.py")],
            "ruff": ["-m", "ruff", "check", "--no-cache", "--isolated", "--select", "E4,E7,E9,F,W,B", "--ignore", "B905", str(alone)],
    }.items():
        more = {"MYPYPATH": str(alone)} if name == "mypy" else {}
        ended = place.run(name, [str(PYTHON), *words], SECONDS, **more)
        if not ended.succeeded:
            return failed(f"{name} finds something", ended.evidence())
    return passed()


def notebook(place: Place) -> Outcome:
    """Each cell of the notebook runs, and its outputs are those that are stored, but for numbers and pictures."""
    there = packages()
    if there is None or lacks("nbclient", "ipykernel", "matplotlib"):
        return skipped("needs pandas, matplotlib, nbclient and ipykernel in target/python; `setup/python test` puts them there")
    executed = place.directory / "executed.ipynb"
    ended = script("notebook.py", place, NOTEBOOK, executed, PYTHONPATH=there, IPYTHONDIR=str(place.directory / "ipython"))
    if not ended.succeeded:
        return failed("a cell fails", ended.evidence())
    stored, now = (outputs(file) for file in (NOTEBOOK, executed))
    for at, (one, other) in enumerate(zip(stored, now), 1):
        if one != other:
            return failed(f"cell {at} says {other}, and {one} is stored; {SCRIPTS.name}/notebook.py renews it")
    pictures = sum("image/png" in kind for cell in stored for kind, _ in cell)
    if len(stored) < 8 or pictures < 2:
        return failed(f"{len(stored)} cells with {pictures} pictures")
    return passed(f"{len(stored)} cells")


def outputs(file: Path) -> list[list[tuple[str, str]]]:
    """Returns the outputs of each cell of code: their kinds and their text without numbers."""
    cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    return [[(" ".join(sorted(output.get("data", {"text": ""}))), words(output)) for output in cell["outputs"]] for cell in cells]


def words(output: dict) -> str:
    text = output.get("text", output.get("data", {}).get("text/plain", ""))
    return " ".join(NUMBERS.sub("#", "".join(text)).replace("-", "").split())
