"""Completion queues by rules: polls that return fewer, events that are late or one too many, queues that fail."""

from __future__ import annotations

from pathlib import Path

from harness import c_program
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

HERE = Path(__file__).resolve().parent
SECONDS = 60
# Use of the queue, rule (none first), line.
USES = [
    ("polls", None, "polled 4 0 0 0 0 0"),
    ("polls", "cq1.poll 1..2: empty", "polled 0 0 4 0 0 0"),
    ("polls", "cq1.poll: single", "polled 1 1 1 1 0 0"),
    ("polls", "cq*.poll 2: empty", "polled 4 0 0 0 0 0"),
    ("batches", None, "polled 4 0 0 0 0 0"),
    ("batches", "cq2.poll 1: empty", "polled 0 4 0 0 0 0"),
    ("batches", "cq2.poll 1: single", "polled 1 3 0 0 0 0"),
    ("events", None, "came event none 1 event none 1"),
    ("events", "cq1.event 1: spurious", "came event event 1 event none 1"),
    ("events", "cq1.event 2: delay 150 ms", "came event none 1 none event 1"),
    ("events", "cq*.event: delay 150 ms", "came none event 1 none event 1"),
    ("sleeps", None, " event 1 none 0"),
    ("sleeps", "cq1.poll 1: empty", " event 0 event 1"),
    ("destroys", None, "came none"),
    ("destroys", "cq2.event: delay 100 ms", "came none"),
    ("overrun", None, "completions 4 state 3 events"),
    ("overrun", "cq1.completion 3: overrun", "completions 2 state 6 events CQ error" + 2 * " local work queue catastrophic error"),
]
# Met by none of the polls: only those that find a completion are counted.
UNFIRED = "cq*.poll 2: empty"


def cases() -> list[Case]:
    """All."""
    return [Case("completion queues", "", used), Case("completion queues", "programs of others", ping)]


def run(*words: object) -> list[str]:
    """The command line."""
    return [str(VERBENA), "run", *map(str, words)]


def program() -> Path:
    """queues.c, compiled."""
    return c_program.compile_program(HERE / "queues.c")


def used(place: Place) -> Outcome:
    """Each use sees the fault of its rule, and of no other; a run is repeated from its file."""
    fired = place.directory / "fired.toml"
    for use, rule, line in USES:
        rules = [] if rule is None else ["--allow-unfired", "--fault", rule, "--fired", fired]
        for words in (rules, [] if rule in (None, UNFIRED) else ["--faults", fired]):
            ended = place.run("queues", run(*words, "--", program(), use), SECONDS)
            has_fired = rule is None or (f'"{rule}" fired' in ended.output) == (rule != UNFIRED)
            if not ended.succeeded or line not in ended.output.splitlines() or not has_fired:
                return failed(f"{use}, {rule}: {ended.describe()}, not {line!r}", ended.evidence())
    return passed(f"{len(USES)} uses")


def ping(place: Place) -> Outcome:
    """Programs of others go on with late events, single completions and polls that see nothing."""
    rules = [word for rule in ("cq*.poll every 3: empty", "cq*.poll: single", "cq*.event every 5: delay 1 ms", "cq*.event every 7: spurious")
             for word in ("--fault", rule)]
    for words in ("ibv_rc_pingpong -e", "ibv_rc_pingpong", "ibv_srq_pingpong -e", "ib_send_bw -F -e -n 500", "ib_write_bw -F -n 500"):
        here = rules if "-e" in words else rules[:4]
        script = f"{words} > server 2>&1 & server=$!; sleep 0.5; {words} localhost; result=$?; wait $server && exit $result; exit 1"
        ended = place.run("pair", run(*here, "--", "sh", "-c", script), SECONDS / 3)
        if not ended.succeeded:
            return failed(f"{words}: {ended.describe()}", ended.evidence())
    return passed()
