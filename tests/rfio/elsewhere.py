"""On which host the service of a test is: on this one, or, where `across` runs the tests, on the other one of two."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

from harness.build_tree import VERBENA, run

#: Tells the tests that they run on the second of two hosts.
TOLD = "RFIO_TEST_AT"


class Elsewhere(NamedTuple):
    """The service's host: its address and that of the host of the tests, the process that keeps its network namespace,
    its interface."""

    address: str
    own: str
    keeper: str
    interface: str


ELSEWHERE: Optional[Elsewhere] = Elsewhere(*os.environ[TOLD].split()) if TOLD in os.environ else None
#: Where the service is reached.
HOST = ELSEWHERE.address if ELSEWHERE else "127.0.0.1"
#: The address of clients.
OWN = ELSEWHERE.own if ELSEWHERE else "127.0.0.1"


def on_its_host(command: list[str], fabric: str) -> list[str]:
    """The command line that runs a program where the service is, on the software adapter if data travel by RDMA."""
    if ELSEWHERE is None:
        return run(*command) if fabric == "verbs" else command
    if fabric == "verbs":
        command = [str(VERBENA), "run", "--link", "roce", "--interface", ELSEWHERE.interface, "--", *command]
    return ["nsenter", "-t", ELSEWHERE.keeper, "-n", "--", *command]
