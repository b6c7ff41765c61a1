"""Short messages under fault rules and trace: each one is seen, whether it goes by a lane or not. `capture` has another case."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness import c_program, counters
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from trace.suite import told

HERE = Path(__file__).resolve().parent
SECONDS = 60
# Those of short.c, and the one that rules let fail.
MESSAGES, FAILS = 300, 200
# A connection sends a few messages before it has its lane.
MOST_BY_CHANNEL = 20
ALWAYS = {"VERBENA_LANES": "always"}


def cases() -> list[Case]:
    """Without any of them first: the program does use lanes."""
    return [
        Case("short messages", "go by lanes", by_lanes),
        Case("short messages", "of a queue pair with rules", partial(ruled, f"qp1.send {FAILS}: remote-operation", True)),
        Case("short messages", "to a queue pair with rules", partial(ruled, f"qp2.recv {FAILS}: local-length", False)),
        Case("short messages", "of a queue pair beside others with rules", beside),
        Case("short messages", "traced", traced),
    ]


def program() -> list[str]:
    """short.c, compiled, and its test."""
    return [str(c_program.compile_program(HERE / "short.c")), "messages"]


def lane_messages(place: Place) -> int:
    """The number of messages that went by lanes."""
    return counters.total(place)["lane_path_operations"]


def by_lanes(place: Place) -> Outcome:
    """Without rules, capture and trace."""
    ended = place.run("short", [str(VERBENA), "run", "--", *program()], SECONDS, **ALWAYS)
    count = lane_messages(place)
    if not ended.succeeded or f"arrived {MESSAGES}" not in ended.output or count < MESSAGES - MOST_BY_CHANNEL:
        return failed(f"{ended.describe()}, {count} by lanes", ended.evidence())
    return passed(f"{count} by lanes")


def ruled(rule: str, is_of_sender: bool, place: Place) -> Outcome:
    """A rule counts every message, and the messages of a queue pair with rules about them take no lane."""
    ended = place.run("short", [str(VERBENA), "run", "--fault", rule, "--", *program()], SECONDS, **ALWAYS)
    count = lane_messages(place)
    has_fired = f'fault "{rule}" fired' in ended.output
    if not has_fired or f"arrived {FAILS - 1}" not in ended.output or (is_of_sender and count):
        return failed(f"{ended.describe()}, {count} by lanes", ended.evidence())
    return passed(f"{count} by lanes")


def beside(place: Place) -> Outcome:
    """A rule about another queue pair changes nothing."""
    words = ["--fault", "qp3.send 1: remote-operation", "--allow-unfired"]
    ended = place.run("short", [str(VERBENA), "run", *words, "--", *program()], SECONDS, **ALWAYS)
    count = lane_messages(place)
    if not ended.succeeded or f"arrived {MESSAGES}" not in ended.output or count < MESSAGES - MOST_BY_CHANNEL:
        return failed(f"{ended.describe()}, {count} by lanes", ended.evidence())
    return passed(f"{count} by lanes")


def traced(place: Place) -> Outcome:
    """A trace has each request, also of messages that go by lanes."""
    out = place.directory / "calls"
    ended = place.run("short", [str(VERBENA), "trace", "--out", str(out), "--", *program()], SECONDS, **ALWAYS)
    count = lane_messages(place)
    posts = sum(int(line[5] or 1) for line in told(out) if line[2] == "ibv_post_send") if ended.succeeded else 0
    if posts != MESSAGES or count < MESSAGES - MOST_BY_CHANNEL:
        return failed(f"{ended.describe()}, {posts} calls, {count} by lanes", ended.evidence())
    return passed(f"{count} by lanes")
