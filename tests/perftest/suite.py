"""perftest (package perftest): every operation, transport and option of the matrix.

The tool itself refuses some combinations while it reads its options, before it opens a device. These are recognised by
its message and shown as refused; any other result than 0 on both sides is a failure.
"""

from __future__ import annotations

from functools import partial
from typing import Optional

from harness import tiers
from harness.build_tree import DEVICE, run
from harness.case import Case
from harness.outcome import Outcome, refused
from harness.pair import exchange, free_port
from harness.place import Place
from harness.requirement import Tool

TITLE = "perftest, every operation, transport and option"
REQUIRES = [Tool("ib_write_lat", "perftest")]

# Some take thousands of turns of both ends, each of which waits for a processor where others have them all.
SECONDS = 600
# By night everything; by day latencies over all sizes, ten seconds each, on one transport.
WHOLE = tiers.by_night()
OPERATIONS = ("write", "read", "send", "atomic")
TRANSPORTS = ("RC", "UC", "UD", "XRC")
COMMON = (["-a"], ["-e"], ["-I", "0"], ["-I", "64"], ["-D", "1"])
BANDWIDTH_ONLY = (["-b"], ["-q", "16"], ["-l", "16"])

# perftest 4.5's messages when it refuses its options before it opens a device.
REFUSALS = (
    "Events feature not available on WRITE verb",
    "Inline feature not available on READ/Atomic verbs",
    "Message size cannot be changed for Atomic tests",
    "UC connection not possible in READ/ATOMIC verbs",
    "UD connection only possible in SEND verb",
)


def cases() -> list[Case]:
    """The matrix: a row for each tool and transport, a column for each option."""
    found = []
    for operation in OPERATIONS:
        for kind in ("lat", "bw"):
            variants = COMMON + (BANDWIDTH_ONLY if kind == "bw" else ())
            for transport in TRANSPORTS:
                for options in variants:
                    if "-a" in options and kind == "lat" and transport != "RC" and not WHOLE:
                        continue
                    tool = f"ib_{operation}_{kind}"
                    found.append(Case(f"{tool} -c {transport}", " ".join(options),
                                      partial(perftest, tool, transport, options)))
    return found


def perftest(tool: str, transport: str, options: list[str], place: Place) -> Outcome:
    """Both sides return 0, or the tool refuses the combination with a known message."""
    port = free_port()
    # -F: no warning about the CPU's frequency.
    command = run(tool, "-F", "-d", DEVICE, "-p", port, "-c", transport, *options,
                  *iterations(tool, options))
    done = exchange(place, command, [*command, "127.0.0.1"], port, SECONDS)
    if done.client is None and not done.server.succeeded:
        if words := refusal(done.server.output):
            return refused(words)
    return done.outcome()


def iterations(tool: str, options: list[str]) -> list[str]:
    """How often: enough to fill every queue several times over, few enough that a run over all
    sizes up to 8 MiB stays short. A multiple of the list length, as the tool demands."""
    if "-D" in options:
        return []
    if "-a" in options:
        return ["-n", "320"]
    return ["-n", "1600" if tool.endswith("lat") else "3200"]


def refusal(output: str) -> Optional[str]:
    """Returns the tool's message, if it refused its options."""
    return next((words for words in REFUSALS if words in output), None)
