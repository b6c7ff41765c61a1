"""The examples of the Rust client of libibverbs (crates/verbs/examples), on each path to the peer."""

from __future__ import annotations

import os
import re
import shlex
from functools import partial

from harness.build_tree import DEVICE, PATHS, ROOT, TARGET, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

TITLE = "examples of the Rust client"
REQUIRES: list = []

SECONDS = 60
BUILD_SECONDS = 600
# The last line of each example; that of `devices` is the port's.
SAYS = {
    "devices": r"port 1: active, LID \d+, MTU \d+, .*",
    "ping_pong": r"1000 messages of 9 bytes, \d+ ns each",
    "write_read": r"9 bytes written and read",
}


def cases() -> list[Case]:
    """Each example: the list of devices once, the others on each path."""
    return [Case("devices", "", partial(example, "devices", "mapped")),
            *(Case(name, path, partial(example, name, path)) for name in ("ping_pong", "write_read") for path in PATHS)]


def example(name: str, path: str, place: Place) -> Outcome:
    """It succeeds, and its last line is the expected one."""
    cargo = shlex.split(os.environ.get("CARGO", "cargo"))
    # Compiled with the whole workspace, as its tests are: then it exists already.
    built = place.run("build", [*cargo, "build", "--quiet", "--manifest-path", str(ROOT / "Cargo.toml"), "--workspace",
                                *(word for each in SAYS for word in ("--example", each))], BUILD_SECONDS)
    if not built.succeeded:
        return failed("the examples do not compile", built.evidence())
    ended = place.run(name, run(TARGET / "debug" / "examples" / name), SECONDS, path)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    lines = ended.output.splitlines()
    if not lines or not re.fullmatch(SAYS[name], lines[-1].strip()):
        return failed(f"the last line is not {SAYS[name]!r}", ended.evidence())
    if name == "devices" and not lines[0].startswith(f"{DEVICE}, firmware "):
        return failed(f"the first device is not {DEVICE}", ended.evidence())
    return passed(lines[-1].strip())
