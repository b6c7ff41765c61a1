"""Child processes with a deadline.

Each process leads its own session. Ending it ends every process of that session, by number, so that no process of
a test outlives it, even one that changed its process group (as the ranks of an MPI program do).
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional, Sequence

from . import hang

TAIL_LINES = 40
# A process that was waited for so long and has not ended hangs: its state is written before it is ended.
HANGS_AFTER = 20.0


@dataclass(frozen=True)
class Ended:
    """A process that has ended: its exit status and its output."""

    command: str
    status: Optional[int]
    output: str
    seconds: float
    # The file with the state of its processes at its deadline.
    state: Optional[Path] = None

    @property
    def timed_out(self) -> bool:
        """Whether it had to be ended at its deadline."""
        return self.status is None

    @property
    def succeeded(self) -> bool:
        """Whether it returned 0 in time."""
        return self.status == 0

    def describe(self) -> str:
        """Describes how it ended."""
        if self.status is None:
            return f"still running after {self.seconds:.0f} s"
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}"
        return f"exit {self.status}"

    def evidence(self) -> str:
        """The command line and the end of the output."""
        lines = self.output.splitlines()
        shown = lines[-TAIL_LINES:]
        omitted = [f"... ({len(lines) - len(shown)} lines before)"] if len(lines) > len(shown) else []
        text = "\n".join(f"    {line}" for line in omitted + shown)
        state = f"; the state of its processes is in {self.state}" if self.state else ""
        return f"  $ {self.command}\n  {self.describe()}{state}\n{text}"


def _heed_interrupts() -> None:
    """Restores the default handling of SIGINT. A shell starts background commands with interrupts ignored, and children
    inherit that; the programs under test must not depend on how the tests were started."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Process:
    """A running child whose output goes to a file."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path,
                 directory: Optional[Path] = None, runtime: Optional[Path] = None):
        self.command = shlex.join(command)
        self.log = log
        # The case's runtime directory, by which processes of other sessions are found.
        self._runtime = runtime
        self.started = time.monotonic()
        with open(log, "wb") as output:
            self._child = subprocess.Popen(
                command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, cwd=directory, start_new_session=True,
                preexec_fn=_heed_interrupts)
        self._pidfd = os.pidfd_open(self._child.pid)
        self._finished = False

    @property
    def pid(self) -> int:
        """The process number, which is also that of its session."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the leader of the session has not ended yet."""
        return self._child.poll() is None

    def fileno(self) -> int:
        """A descriptor that is readable when the process has ended."""
        return self._pidfd

    def output(self) -> str:
        """The output so far."""
        return self.log.read_text(errors="replace")

    def finish(self, deadline: float) -> Ended:
        """Waits until the process ends or the monotonic clock reaches `deadline`, then ends the remaining processes of
        its session."""
        timeout = max(0.0, deadline - time.monotonic())
        select.select([self._pidfd], [], [], timeout)
        status = self._child.poll()
        seconds = time.monotonic() - self.started
        state = None
        try:
            if status is None and timeout >= HANGS_AFTER:
                state = self._write_state()
        finally:
            end_session(self.pid)
            self._child.wait()
            os.close(self._pidfd)
            self._finished = True
        return Ended(self.command, status, self.output(), seconds, state)

    def _write_state(self) -> Path:
        """Writes the state of its session's processes, and of the case's on other hosts, beside its log."""
        others = hang.of_runtime(self._runtime) if self._runtime else []
        file = self.log.with_suffix(".state")
        hang.write_state(sorted({*members(self.pid), *others}), file)
        return file

    def abandon(self) -> None:
        """Ends a process that the case has not waited for."""
        if not self._finished:
            self.finish(time.monotonic())


def wait_for_any(processes: Sequence[Process], deadline: float) -> None:
    """Returns when one of the processes has ended, or at the deadline."""
    select.select(processes, [], [], max(0.0, deadline - time.monotonic()))


def run(command: Sequence[str], environment: Mapping[str, str], log: Path, seconds: float,
        directory: Optional[Path] = None, runtime: Optional[Path] = None) -> Ended:
    """Runs one process to its end, for at most `seconds`."""
    return Process(command, environment, log, directory, runtime).finish(time.monotonic() + seconds)


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        # The name in parentheses may hold anything; state, parent, group, session follow it.
        state, _parent, _group, its_session = stat.rpartition(")")[2].split()[:4]
        if int(its_session) == session and state not in "ZX":
            found.append(int(entry))
    return found


def children(pid: int) -> list[int]:
    """The processes that any thread of a process started; none if it, or a thread, ends meanwhile."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    except OSError:
        pass
    return found


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that they did."""
    started = children(pid)
    return started + [below for child in started for below in descendants(child)]


def end_session(session: int) -> None:
    """Ends every process of a session. A process may start another during the search, so the search is repeated until
    none is left."""
    while pids := members(session):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
