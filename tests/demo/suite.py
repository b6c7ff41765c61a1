"""`verbena demo` with nothing but the package: its output is true, it ends in time, and it says so where it cannot
run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Optional

from harness import c_program
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended

TITLE = "verbena demo"
REQUIRES: list = []

REFUSE = Path(__file__).resolve().parent.parent / "container/refuse.c"
SECONDS = 60
# The demo takes ten seconds at most; other suites may run beside this one.
LIMIT = 15
# How often it may find a machine too busy to measure on, before that is a failure.
TRIES = 3
BUSY = "no figure in time"
ENVIRONMENT_LACKS = 3
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6}
TIME = r"([\d.]+) (ns|us|ms)"


@dataclass(frozen=True)
class Setting:
    """The environment of the demo: variables beside PATH, a mount namespace, system calls that are refused."""

    name: str
    variables: tuple[str, ...] = ()
    # Command that runs in a mount namespace before the demo.
    before: Optional[str] = None
    refused: str = ""
    # The path of RDMA writes; empty where the demo cannot run.
    path: str = "mapped"


SETTINGS = [
    Setting("nothing but PATH"),
    Setting("NO_COLOR and no terminal type", variables=("NO_COLOR=1", "TERM=dumb")),
    Setting("the path ring alone", variables=("VERBENA_PATH=ring",), path="ring"),
    Setting("1 MiB of /dev/shm", before="mount -t tmpfs -o size=1m none /dev/shm"),
    Setting("no ptrace, no userfaultfd", refused="userfaultfd,process_vm"),
    Setting("a full /dev/shm", before="mount -t tmpfs -o size=64k none /dev/shm; head -c 65536 /dev/zero > /dev/shm/full || :",
            path=""),
    Setting("memfd_create refused", refused="memfd", path=""),
]


def cases() -> list[Case]:
    """Each setting, with the demo's last line."""
    return [*(Case("demo", setting.name, partial(shown if setting.path else refused, setting)) for setting in SETTINGS),
            Case("demo", "a terminal", on_a_terminal),
            Case("the commands to try next", "", next_commands)]


def bare(variables: tuple[str, ...], command: list[str]) -> list[str]:
    """A command line whose environment is PATH, with our programs in it, and these variables."""
    return ["env", "-i", f"PATH={VERBENA.parent}:/usr/bin:/bin", *variables, *command]


def demo(setting: Setting, place: Place) -> Ended | str:
    """Runs the demo in a setting; returns its end, or why the setting cannot be made here."""
    command = ["verbena", "demo"]
    if setting.refused:
        if not shutil.which(c_program.COMPILER):
            return "no C compiler for the program that refuses system calls"
        command = [str(c_program.compile_program(REFUSE, libraries=())), setting.refused, *command]
    command = bare(setting.variables, command)
    if setting.before:
        apart = ["unshare", "-Urm"]
        probe = subprocess.run([*apart, "true"], capture_output=True, text=True, check=False)
        if probe.returncode:
            return f"no user namespace: {probe.stderr.strip()}"
        command = [*apart, "sh", "-ec", f'{setting.before}; exec "$@"', "sh", *command]
    return place.run("demo", command, SECONDS)


def shown(setting: Setting, place: Place) -> Outcome:
    """Data went both ways by the path that this setting leaves, the refusal has its reason, and the figures are
    right."""
    for _ in range(TRIES):
        ended = demo(setting, place)
        if isinstance(ended, str):
            return skipped(ended)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
        if ended.seconds > LIMIT:
            return failed(f"it takes {ended.seconds:.0f} s", ended.evidence())
        if re.search(r"[^\n -~]", ended.output):
            return failed("it has characters that a plain terminal cannot show", ended.evidence())
        if wrong := wrong_exchange(setting, ended.output):
            return failed(wrong, ended.evidence())
        if BUSY not in ended.output:
            wrong = wrong_figures(ended.output, place)
            return failed(wrong, ended.evidence()) if wrong else passed(f"{ended.seconds:.1f} s")
    return failed(f"it has no figure, {TRIES} times", ended.evidence())


def wrong_exchange(setting: Setting, said: str) -> str:
    """Returns a description of errors in the report of the exchange and of the mistake, or ""."""
    for operation in ("send", "RDMA write", "RDMA read", "fetch-and-add"):
        if not re.search(rf"^  {operation} +arrived; path \w+: ", said, re.M):
            return f"no {operation} arrived"
    if not re.search(rf"^  RDMA write +arrived; path {setting.path}: ", said, re.M):
        return f"writes do not take the path {setting.path}"
    if ("verbena doctor` shows why" in said) != (setting.path != "mapped"):
        return "a slower path is not noted, or the fastest is"
    reason = re.search(r"^    verbena\[\d+\]: queue pair .*IBV_WC_REM_ACCESS_ERR.*IBV_ACCESS_REMOTE_WRITE is needed", said, re.M)
    if not reason or "status: remote access error (status 10)" not in said:
        return "the refusal, its status or its reason is missing"
    return ""


def wrong_figures(said: str, place: Place) -> str:
    """Returns a description of errors in the figures, or "": measured ones are numbers, and the model's equal its
    computation."""
    measured = re.search(rf"^  8-byte RDMA write, one way: {TIME}, median of (\d+)", said, re.M)
    compared = re.search(rf"^  {TIME} here \(.*\); {TIME} on a ConnectX-6 HDR \(.*modelled\)$", said, re.M)
    rate = re.search(r"^  RDMA writes of 64 KiB: ([\d.]+) [kMG]B/s$", said, re.M)
    if not measured or not compared or not rate or float(rate[1]) <= 0 or int(measured[3]) < 10:
        return "a figure is missing"
    if nanoseconds(*measured.group(1, 2)) <= 0 or measured.group(1, 2) != compared.group(1, 2):
        return "the figure compared is not the one measured"
    return differs_from_model(nanoseconds(*compared.group(3, 4)), place)


def nanoseconds(value: str, unit: str) -> float:
    """Parses a time as it is shown."""
    return float(value) * NANOSECONDS[unit]


def differs_from_model(said: float, place: Place) -> str:
    """Returns the demo's figures of the model, if `verbena bench` computes others."""
    command = [str(VERBENA), *"bench latency.write --quick --sizes 8 --transports rc --json --on model:connectx6-hdr".split()]
    ended = place.run("model", command, SECONDS)
    if not ended.succeeded:
        return f"the model cannot be asked: {ended.describe()}"
    computed = json.loads(ended.output)["runs"][0]["points"][0]["figures"][0]["value"]
    return "" if abs(said - computed) <= 0.01 * computed else f"it said {said} ns of the model, which computes {computed}"


def refused(setting: Setting, place: Place) -> Outcome:
    """Where the adapter cannot work, the demo prints one line with the remedy, and fails."""
    ended = demo(setting, place)
    if isinstance(ended, str):
        return skipped(ended)
    last = ended.output.strip().splitlines()[-1] if ended.output.strip() else ""
    if ended.status != ENVIRONMENT_LACKS:
        return failed(f"{ended.describe()}, expected exit {ENVIRONMENT_LACKS}", ended.evidence())
    if not last.startswith("verbena: the demo cannot run here: ") or "`verbena doctor`" not in last:
        return failed("it does not say why, and what to do", ended.evidence())
    return passed(last.removeprefix("verbena: the demo cannot run here: ")[:60])


def on_a_terminal(place: Place) -> Outcome:
    """A terminal gets the same lines, without cursor movements."""
    if not shutil.which("script"):
        return skipped("no script, which makes a terminal (bsdutils)")
    ended = place.run("terminal", bare(("TERM=xterm",), ["script", "-qec", "verbena demo", "/dev/null"]), SECONDS)
    if not ended.succeeded or "Compare: " not in ended.output:
        return failed(ended.describe(), ended.evidence())
    if found := re.search(r"[^\r\n -~]", ended.output):
        return failed(f"it writes {found[0]!r}", ended.evidence())
    return passed()


def next_commands(place: Place) -> Outcome:
    """Three commands are named, and each of them runs where the demo does, and prints something."""
    ended = demo(SETTINGS[0], place)
    if isinstance(ended, str) or not ended.succeeded:
        return failed("the demo failed", "" if isinstance(ended, str) else ended.evidence())
    _, _, rest = ended.output.partition("or try:")
    named = re.findall(r"^  (verbena .+)$", rest, re.M)
    if len(named) != 3:
        return failed(f"{len(named)} commands are named", ended.evidence())
    for command in named:
        tried = place.run("next", bare((), shlex.split(command)), SECONDS)
        if not tried.succeeded or not tried.output.strip():
            return failed(f"`{command}`: {tried.describe()}", tried.evidence())
    return passed(", ".join(command.split()[1] for command in named))
