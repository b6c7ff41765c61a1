"""Containers whose seccomp profile refuses system calls that the adapter would like to use: it takes
the next best path and gives the same results."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness import c_program, counters
from harness.build_tree import DEVICE, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import exchange, free_port
from harness.place import Place
from harness.requirement import COMPILER, VERBS_HEADERS, Tool

TITLE = "system calls that containers refuse"
REQUIRES = [COMPILER, VERBS_HEADERS, Tool("ibv_rc_pingpong", "ibverbs-utils"),
            Tool("ib_write_bw", "perftest")]

HERE = Path(__file__).resolve().parent
MEMORY = HERE.parent / "memory"
SECONDS = 60
REFUSED = ("userfaultfd", "process_vm", "userfaultfd,process_vm")
# Program and test: guarantees of registration and one-sided operations, without help from the owner's process.
TESTS = (("one_sided", "writes_while_asleep"), ("one_sided", "reads_while_asleep"),
         ("one_sided", "atomics_while_asleep"), ("lifetime", "racing_writers"),
         ("lifetime", "fork_without_fork_init"), ("kinds", "shared_file"))


def cases() -> list[Case]:
    """Programs in rows, refused system calls in columns."""
    found = []
    for calls in REFUSED:
        found.append(Case("ibv_rc_pingpong -c", calls,
                          partial(pair, calls, ["ibv_rc_pingpong", "-c"])))
        found.append(Case("ib_write_bw -s 1048576", calls,
                          partial(pair, calls, ["ib_write_bw", "-F", "-s", "1048576", "-n", "200"])))
        for program, name in TESTS:
            found.append(Case(f"{program}: {name}", calls, partial(test, calls, program, name)))
    # Without shared memory files there is no adapter; the program gets an error, and nothing crashes.
    found.append(Case("ibv_devinfo", "memfd", no_memfd))
    return found


def refuse(calls: str, command: list[str]) -> list[str]:
    """The command line with these calls refused."""
    tool = c_program.compile_program(HERE / "refuse.c", libraries=())
    return run(tool, calls, *command)


def pair(calls: str, command: list[str], place: Place) -> Outcome:
    """Both sides return 0."""
    port = free_port()
    command = refuse(calls, [*command, "-d", DEVICE, "-p", str(port)])
    return exchange(place, command, [*command, "127.0.0.1"], port, SECONDS).outcome()


def test(calls: str, program: str, name: str, place: Place) -> Outcome:
    """The test passes, and copies by the kernel were used only if they are allowed."""
    executable = c_program.compile_program(MEMORY / f"{program}.c")
    ended = place.run("test", refuse(calls, [str(executable), name]), SECONDS)
    if ended.status == c_program.EXIT_SKIPPED:
        return skipped(ended.output.strip())
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    used = counters.paths_used(place)
    if "process_vm" in calls and "cma" in used:
        return failed(f"counted operations by cma, which is refused: {used}")
    return passed(", ".join(sorted(used)))


def no_memfd(place: Place) -> Outcome:
    """An error message and a failure, no crash."""
    ended = place.run("devinfo", refuse("memfd", ["ibv_devinfo"]), SECONDS)
    if ended.status is None or ended.status < 0 or ended.status >= 128:
        return failed(f"{ended.describe()}, expected an error message", ended.evidence())
    return passed(ended.describe())
