"""UCX (package ucx-utils) over its verbs transports, with every other transport turned off."""

from __future__ import annotations

import re
from functools import partial

from harness.build_tree import DEVICE, PATHS, run
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import exchange, free_port
from harness.place import Place
from harness.requirement import Tool

TITLE = "UCX over verbs"
REQUIRES = [Tool("ucx_perftest", "ucx-utils")]

SECONDS = 120
TRANSPORTS = ("rc_verbs", "ud_verbs")
# UCX wires rc_verbs up by messages over a transport without connections, so it needs one beside it.
TLS = {"rc_verbs": "rc_verbs,ud_verbs:aux", "ud_verbs": "ud_verbs"}
# Test, message size, iterations: below and above UCX's thresholds for copying and rendezvous.
TESTS = (
    ("tag_lat", 8, 5000), ("tag_lat", 4096, 2000), ("tag_lat", 262144, 300),
    ("tag_bw", 8, 20000), ("tag_bw", 65536, 1000), ("tag_bw", 1048576, 200),
    ("ucp_put_bw", 8, 20000), ("ucp_put_bw", 65536, 1000),
    ("ucp_get", 8, 5000), ("ucp_get", 65536, 500),
    ("ucp_fadd", 8, 5000),
)
# -v prints the result as numbers separated by commas.
RESULT = re.compile(r"^Final: +\d+", re.MULTILINE)


def cases() -> list[Case]:
    """The transports that UCX lists, then each test with each transport, on each path."""
    found = [Case(f"ucx_info lists {transport}", "", partial(listed, transport))
             for transport in TRANSPORTS]
    for test, size, iterations in TESTS:
        for transport in TRANSPORTS:
            for path in PATHS:
                found.append(Case(f"{test} {size} B", f"{transport} {path}",
                                  partial(perftest, test, size, iterations, transport, path)))
    return found


def listed(transport: str, place: Place) -> Outcome:
    """The transport stands in the list with our device right below it."""
    ended = place.run("info", run("ucx_info", "-d"), SECONDS)
    wanted = re.compile(rf"Transport: {transport}\n# +Device: {DEVICE}:1$", re.MULTILINE)
    if ended.succeeded and wanted.search(ended.output):
        return passed()
    return failed(f"{transport} is not listed on {DEVICE}", ended.evidence())


def perftest(test: str, size: int, iterations: int, transport: str, path: str,
             place: Place) -> Outcome:
    """Both sides return 0, the client prints a result, and none reports an error."""
    port = free_port()
    command = run("ucx_perftest", "-p", port)
    options = ["-t", test, "-s", str(size), "-n", str(iterations), "-w", "100"]
    done = exchange(place, command, [*command, *options, "127.0.0.1"], port, SECONDS, path,
                    UCX_TLS=TLS[transport], UCX_WARN_UNUSED_ENV_VARS="n")
    outcome = done.outcome()
    if done.client is None or not (done.client.succeeded and done.server.succeeded):
        return outcome
    if not RESULT.search(done.client.output):
        return failed("the client printed no result", done.evidence())
    if " ERROR " in done.client.output + done.server.output:
        return failed("UCX reports an error", done.evidence())
    return outcome
