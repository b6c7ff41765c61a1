"""`verbena coverage`: its counts equal the outcomes of programs that end in every way, of several runs, and of programs of
others; and the programs do the same as without it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

from harness import c_program
from harness.build_tree import DEVICE, PATHS, VERBENA, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import exchange, free_port
from harness.place import Place
from harness.process import Ended
from pyverbs import sources
from rdmacm.suite import converse, listens

HERE = Path(__file__).resolve().parent
STATUS = HERE.parent / "status"
SECONDS = 60
LIBRARY = ("-l:libibverbs.so.1",)
# Of ends.c.
ROUNDS, MANY = 100, 8
# How it ends: exit status, processes, and how many of its exchanges are counted.
WAYS = {"exit": (0, 1, 1), "_exit": (0, 1, 1), "abort": (128 + signal.SIGABRT, 1, 1), "kill": (128 + signal.SIGKILL, 1, 1),
        "exec": (0, 2, 2), "fork": (0, MANY, MANY), "threads": (0, 1, MANY), "extended": (0, 1, 1), "event": (0, 1, 1)}
# The statuses that the programs of tests/status provoke.
PROVOKED = ("LOC_LEN", "LOC_PROT", "WR_FLUSH", "REM_INV_REQ", "REM_ACCESS", "REM_OP", "RETRY_EXC", "RNR_RETRY_EXC")
# rdma-core's own tests: at least so many completions, and the errors of which there are some.
OF_RDMA_CORE = 20_000
ERRORS_OF_RDMA_CORE = ("REM_ACCESS", "REM_INV_REQ", "REM_OP", "LOC_PROT")
NEVER_IN_RDMA_CORE = ("RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR")


def cases() -> list[Case]:
    """All."""
    return [
        *(Case("coverage of a program that ends", way, partial(ends, way)) for way in WAYS),
        Case("coverage of concurrent runs in one file", "", concurrent),
        Case("coverage of programs with known statuses", "", statuses),
        Case("coverage of others' programs", "ib_send_bw", perftest),
        Case("coverage of others' programs", "rping", rping),
        Case("coverage of others' programs", "rdma-core's tests", rdma_core),
        Case("coverage files, thresholds and what cannot be", "", refusals),
    ]


def coverage(*words: object) -> list[str]:
    """The command line."""
    return [str(VERBENA), "coverage", *map(str, words)]


class Counts:
    """A report as JSON."""

    def __init__(self, path: Path):
        self.report = json.loads(path.read_text())
        self.groups = {group["name"]: {item["name"]: item for item in group["items"]} for group in self.report["groups"]}

    def count(self, group: str, name: str) -> int:
        """How often an item was seen."""
        return self.groups[group].get(name, {"count": 0})["count"]

    def parts(self, group: str, name: str) -> dict[str, int]:
        """The parts of its count."""
        return self.groups[group][name]["parts"]


def counted(place: Place, name: str, *command: object, options: tuple[object, ...] = (), **more: str) -> tuple[Ended, Counts]:
    """Runs a command with its coverage."""
    report = place.directory / f"{name}.json"
    ended = place.run(name, coverage("--json", report, *options, "--", *command), SECONDS, **more)
    return ended, Counts(report)


def ends(way: str, place: Place) -> Outcome:
    """The outcomes of ends.c are counted to the last, however its processes end."""
    program = c_program.compile_program(HERE / "ends.c", LIBRARY)
    ended, counts = counted(place, "ends", program, way)
    status, processes, times = WAYS[way]
    received = "RECV+IMM" if way == "extended" else "RECV"
    expected = {
        "exit status": (ended.status, status),
        "processes": (counts.report["processes"], processes),
        "SUCCESS": (counts.parts("statuses", "SUCCESS"), {"SEND": times * ROUNDS, received: times * ROUNDS}),
        "RETRY_EXC_ERR": (counts.parts("statuses", "RETRY_EXC_ERR"), {"SEND": times}),
        "WR_FLUSH_ERR": (counts.parts("statuses", "WR_FLUSH_ERR"), {"SEND": times}),
        "ibv_reg_mr": (counts.parts("calls", "ibv_reg_mr"), {"EINVAL": times}),
        "ibv_query_port": (counts.groups["calls"]["ibv_query_port"]["calls"], times),
        "QP_LAST_WQE_REACHED": (counts.count("events", "QP_LAST_WQE_REACHED"), int(way == "event")),
        "not counted": (counts.report["not_counted"], 0),
    }
    wrong = [f"{name} is {found}, not {wanted}" for name, (found, wanted) in expected.items() if found != wanted]
    if "never seen: " not in ended.output or "RNR_RETRY_EXC_ERR" not in ended.output:
        wrong.append("the report does not name what was never seen")
    # The next process removes the remains of killed ones.
    next_one = place.run("next", run(program, "exit"), SECONDS)
    if not next_one.succeeded:
        wrong.append("without coverage it fails")
    return failed("; ".join(wrong), ended.evidence() + next_one.evidence()) if wrong else passed()


def concurrent(place: Place) -> Outcome:
    """Runs that start at the same time lose no count of each other; files of several are combined."""
    program = c_program.compile_program(HERE / "ends.c", LIBRARY)
    data = place.directory / "data"
    runs = [place.start("run", coverage("--quiet", "--append", "--data-file", data, "--", program)) for _ in range(MANY)]
    deadline = time.monotonic() + SECONDS
    for one in runs:
        ended = one.finish(deadline)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
    report, total = place.directory / "report.json", place.directory / "total"
    ended = place.run("combine", coverage("--combine", data, "--combine", data, "--data-file", total, "--json", report), SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    counts = Counts(report)
    sends = counts.parts("statuses", "SUCCESS")["SEND"]
    if (sends, counts.report["processes"]) != (2 * MANY * ROUNDS, 2 * MANY):
        return failed(f"{sends} sends of {counts.report['processes']} processes", ended.evidence())
    shown = place.run("show", coverage("--data-file", total, "--require", "RETRY_EXC:SEND", "--fail-under", "statuses=10"), SECONDS)
    return passed(f"{sends} sends") if shown.succeeded else failed(shown.describe(), shown.evidence())


def statuses(place: Place) -> Outcome:
    """The statuses that the programs of tests/status provoke and check are seen."""
    data = place.directory / "data"
    for source in ("remote.c", "messages.c"):
        program = c_program.compile_program(STATUS / source)
        names = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout
        for name in names.splitlines():
            ended = place.run("status", coverage("--quiet", "--append", "--data-file", data, "--", program, name), SECONDS)
            if not ended.succeeded:
                return failed(f"{name}: {ended.describe()}", ended.evidence())
    required = [word for status in PROVOKED for word in ("--require", status)]
    ended = place.run("report", coverage("--data-file", data, *required), SECONDS)
    return passed() if ended.succeeded else failed(ended.describe(), ended.evidence())


def perftest(place: Place) -> Outcome:
    """Both ends of ib_send_bw: each message is a completion of either."""
    port, rounds = free_port(), 1000
    reports = [place.directory / f"{name}.json" for name in ("server", "client")]
    server, client = (coverage("--json", report, "--", "ib_send_bw", "-n", rounds, "-Q", 1, "-p", port) for report in reports)
    both = exchange(place, server, [*client, "localhost"], port, SECONDS)
    outcome = both.outcome()
    if outcome.reason:
        return outcome
    received, sent = (Counts(report).parts("statuses", "SUCCESS") for report in reports)
    if (received, sent) != ({"RECV": rounds}, {"SEND": rounds}):
        return failed(f"{received} and {sent}", both.evidence())
    return passed(f"{rounds} messages")


def rping(place: Place) -> Outcome:
    """Events of the connection manager, by the client and by the server; and a rejected connection."""
    data = place.directory / "data"
    port = free_port()
    counted_rping = coverage("--append", "--data-file", data, "--", "rping", "-a", "127.0.0.1", "-C", 5, "-p", port)
    both = converse(place, [*counted_rping, "-s"], [*counted_rping, "-c"], lambda _process: listens(place), PATHS[0])
    if both.outcome().reason:
        return both.outcome()
    # No process listens any more.
    refused = place.run("refused", [*counted_rping, "-c"], SECONDS)
    wanted = ("ADDR_RESOLVED", "ROUTE_RESOLVED", "CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED", "REJECTED")
    required = [word for name in wanted for word in ("--require", name)]
    ended = place.run("report", coverage("--data-file", data, *required), SECONDS)
    if "REJECTED" not in refused.output or not ended.succeeded or "never failed: " not in ended.output:
        return failed(ended.describe(), refused.evidence() + ended.evidence())
    return passed()


def rdma_core(place: Place) -> Outcome:
    """rdma-core's own tests: Python, whose modules are linked with the library."""
    try:
        folder = sources.provide()
    except sources.Unavailable as error:
        return skipped(str(error))
    report = place.directory / "report.json"
    command = coverage("--json", report, "--", "/usr/bin/python3", folder / "run_tests.py", "--dev", DEVICE, "-v")
    ended = place.run("run_tests", command, 400, PYTHONDONTWRITEBYTECODE="1")
    counts = Counts(report)
    successes = counts.count("statuses", "SUCCESS")
    errors = {name: counts.count("statuses", f"{name}_ERR") for name in ERRORS_OF_RDMA_CORE}
    if successes < OF_RDMA_CORE or 0 in errors.values():
        return failed(f"{successes} successes, {errors}", ended.evidence())
    if seen := [name for name in NEVER_IN_RDMA_CORE if counts.count("statuses", name)]:
        return failed(f"unexpected {seen}", ended.evidence())
    return passed(f"{successes} successes, {errors}")


def refusals(place: Place) -> Outcome:
    """Exit codes and words: thresholds, damaged and foreign files, misspelt names."""
    data, damaged, foreign = (place.directory / name for name in ("data", "damaged", "foreign"))
    made = place.run("made", coverage("--data-file", data, "--", "ibv_devices"), SECONDS)
    if not made.succeeded:
        return failed(made.describe(), made.evidence())
    damaged.write_bytes(data.read_bytes()[:-1])
    foreign.write_text("a text of the user")
    for words, status, expected in (
            (["--data-file", data], 0, "ibv_get_device_list"),
            (["--data-file", data, "--html", place.directory / "page.html"], 0, ""),
            (["--data-file", data, "--require", "RNR_RETRY_EXC"], 1, "required and never seen: RNR_RETRY_EXC_ERR"),
            (["--data-file", data, "--fail-under", "1"], 1, "below 1 %"),
            (["--data-file", data, "--require", "RNR"], 2, '"RNR" is no completion status'),
            (["--fail-under", "all", "--", "true"], 2, "from 0 to 100"),
            (["--data-file", damaged], 2, "is damaged: it has"),
            (["--data-file", foreign], 2, "no coverage data file"),
            (["--append", "--data-file", foreign, "--", "true"], 2, "no coverage data file"),
            (["--data-file", place.directory / "absent"], 2, "cannot read"),
            (["--data-file", place.directory / "absent/file", "--", "true"], 2, "cannot write"),
            (["--append", "--", "true"], 2, "--data-file"),
            ([], 2, "give a command"),
            (["--combine", data, "--", "true"], 2, "--combine"),
            (["--", "no-such-program"], 127, "no-such-program"),
            (["--", "true"], 0, "no verbs call was counted"),
            (["--require", "SUCCESS", "--", "sh", "-c", "exit 42"], 42, "required and never seen: SUCCESS"),
            (["--system", "--", "ibv_devices"], 1, "ENOSYS 1")):
        ended = place.run("coverage", coverage(*words), SECONDS)
        if ended.status != status or expected not in ended.output:
            return failed(f"status {ended.status}, not {status} with {expected!r}", ended.evidence())
    if foreign.read_text() != "a text of the user":
        return failed("a file that is no data file was changed")
    return passed()
