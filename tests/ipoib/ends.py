"""Ends of a link: commands with an interface of `verbena ipoib`."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Sequence

from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed
from harness.place import Place
from harness.process import Ended, Process

SECONDS = 60
HERE = Path(__file__).resolve().parent
# Lines of the counters, and their sides of the two sums: packets sent by programs, messages received from the link.
SENT = ("packets sent to a neighbour", "packets sent to a group", "dropped sent")
RECEIVED = ("packets delivered to programs", "address and connection messages received", "dropped received")


def addresses(number: int, versions: int) -> list[str]:
    """The options with the addresses of an end, of IPv4 alone or of both versions."""
    return ["--address", f"10.0.0.{number}/24", "--address", f"fd00::{number}/64"][: 2 * versions]


class Ends:
    """The ends of a case. They tell each other by files in the case's directory."""

    def __init__(self, place: Place, versions: int = 2):
        self.place = place
        self.versions = versions

    def command(self, number: int, script: str, *options: str) -> list[str]:
        """The command line of an end that runs a script."""
        return [str(VERBENA), "ipoib", *addresses(number, self.versions), "--stats", *options, "--", "sh", "-ec", script]

    def start(self, number: int, script: str, *options: str, through: Sequence[str] = ()) -> Process:
        """Starts an end, and returns when its interface is up."""
        up = self.place.directory / f"up-{number}"
        up.unlink(missing_ok=True)
        command = [*through, *self.command(number, f"touch '{up}'; {script}", *options)]
        process = self.place.start(f"end-{number}", command, VERBENA=str(VERBENA))
        deadline = time.monotonic() + SECONDS
        while not up.exists() and process.running and time.monotonic() < deadline:
            time.sleep(0.01)
        return process

    def run(self, number: int, script: str, *options: str, through: Sequence[str] = ()) -> Ended:
        """Runs an end until its script has ended."""
        command = [*through, *self.command(number, script, *options)]
        return self.place.run(f"end-{number}", command, SECONDS, VERBENA=str(VERBENA))

    def stop(self, *processes: Process) -> list[Ended]:
        """Lets ends that wait (`WAIT`) go on, and returns how they ended."""
        (self.place.directory / "over").touch()
        return [process.finish(time.monotonic() + SECONDS) for process in processes]


# The end of a script that waits until the case is over.
WAIT = "until [ -e over ]; do sleep 0.02; done"


def counters(output: str) -> dict[str, int]:
    """The counters in the output of an end."""
    found = re.findall(r"^  (\S.*?) +(\d+)$", output, re.MULTILINE)
    return {name: int(count) for name, count in found}


def unbalanced(ended: Ended) -> Outcome | None:
    """The failure if a packet is missing in an end's counters: neither sent, delivered nor dropped with a reason."""
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    count = counters(ended.output)
    for total, parts in (("packets sent by programs", SENT), ("messages received from the link", RECEIVED)):
        found = sum(number for name, number in count.items() if name.startswith(parts))
        if total not in count or count[total] != found:
            return failed(f"{total}: {count.get(total)}, accounted for: {found}", ended.evidence())
    return None


def lacks(ended: Ended, patterns: Sequence[str]) -> Outcome | None:
    """The failure if an end failed or its output lacks a pattern."""
    if failure := unbalanced(ended):
        return failure
    for pattern in patterns:
        if not re.search(pattern, ended.output, re.MULTILINE):
            return failed(f"{pattern!r} is not in the output", ended.evidence())
    return None
