"""The environment of a case: its own runtime directory, logs and variables."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Optional

from . import build_tree
from .process import Ended, Process, run


# Variables of the adapter that the caller of the tests may set; cases do not.
PASSED = ("VERBENA_LIBRARY_DIR", "VERBENA_LANES")
# The path to peers of cases that name none; None leaves it to the adapter.
DEFAULT_PATH: Optional[str] = None


class Place:
    """The directory, environment and processes of one case."""

    def __init__(self, suite: str, case: str):
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", case).strip("_")
        self.directory = build_tree.LOGS / suite / name
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        # The registry belongs into memory, where the adapter puts it by default.
        self.runtime = Path(tempfile.mkdtemp(prefix="verbena-test-", dir="/dev/shm"))
        self.stats = self.directory / "stats"
        self.stats.mkdir()
        self._processes = 0
        self._started: list[Process] = []

    def environment(self, path: Optional[str] = None, **more: str) -> dict[str, str]:
        """Returns the environment of a program of this case: this process' environment, with the case's runtime
        directory, its counters collected, and the path to peers forced if one is given."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("VERBENA_") or name in PASSED}
        environment.update(VERBENA_RUNTIME_DIR=str(self.runtime), VERBENA_STATS_DIR=str(self.stats))
        if path := path or DEFAULT_PATH:
            environment["VERBENA_PATH"] = path
        environment.update(more)
        return environment

    def log(self, name: str) -> Path:
        """A new file for the output of one process."""
        self._processes += 1
        return self.directory / f"{self._processes:02}-{name}.log"

    def start(self, name: str, command: list[str], path: Optional[str] = None,
              **more: str) -> Process:
        """Starts a program of this case."""
        started = Process(command, self.environment(path, **more), self.log(name), self.directory, self.runtime)
        self._started.append(started)
        return started

    def run(self, name: str, command: list[str], seconds: float, path: Optional[str] = None,
            **more: str) -> Ended:
        """Runs a program of this case to its end."""
        return run(command, self.environment(path, **more), self.log(name), seconds, self.directory,
                   self.runtime)

    def leftovers(self) -> list[str]:
        """Returns the shared state that remains although every process has ended: files of the runtime directory that
        are not empty."""
        found = []
        for path in sorted(self.runtime.rglob("*")):
            status = path.lstat()
            if path.is_socket() or (path.is_file() and status.st_size > 0):
                found.append(f"{path.relative_to(self.runtime)} ({status.st_size} bytes)")
        return found

    def close(self) -> None:
        """Removes the runtime directory, and ends the processes that a case has started and not waited for. The logs
        stay."""
        for one in self._started:
            one.abandon()
        shutil.rmtree(self.runtime, ignore_errors=True)
