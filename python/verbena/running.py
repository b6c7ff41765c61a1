"""Runs a program on the software adapter and returns its refusals and counters."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from .command import PathLike, Words, options, text, verbena, words_of
from .errors import CommandError
from .frames import frame
from .refusals import FILE, LEVEL

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Completed:
    """A program that has exited."""

    #: The program and its arguments.
    args: list[str]
    #: Its exit code; 128 + n if signal n terminated it.
    returncode: int
    #: Its standard output and standard error.
    stdout: str = field(repr=False)
    stderr: str = field(repr=False)
    #: The calls that the adapter refused in any of its processes, a line each with the reason. None if VERBENA_LOG or
    #: VERBENA_LOG_FILE was set, which then determine the destination of the log.
    refusals: Optional[list[str]]
    #: The processes that used the adapter: `pid`, `command`, `counters`.
    processes: list[dict[str, Any]] = field(repr=False)

    @property
    def output(self) -> str:
        """Its standard output."""
        return self.stdout

    @cached_property
    def counters(self) -> dict[str, int]:
        """The adapter's counters, summed over all processes, by name, without zeros."""
        sums: dict[str, int] = {}
        for process in self.processes:
            for name, value in process["counters"].items():
                sums[name] = sums.get(name, 0) + value
        return {name: value for name, value in sorted(sums.items()) if value}

    @property
    def stats(self) -> pandas.DataFrame:
        """The counters as a frame with one row for each process and counter."""
        rows = [{"pid": process["pid"], "command": process["command"], "counter": name, "value": value}
                for process in self.processes for name, value in process["counters"].items() if value]
        return frame(rows, ("pid", "command", "counter", "value"))

    def check_returncode(self) -> None:
        """Raises a CommandError if the exit code is not 0."""
        if self.returncode:
            raise CommandError(self.args, self.returncode, "\n".join([self.stderr, *(self.refusals or [])]))


def run(program: Union[PathLike, Sequence[PathLike]], *arguments: object, path: Optional[str] = None, link: Optional[str] = None,
        interface: Optional[Words] = None, devices: Optional[int] = None, pages: Optional[str] = None,
        allow: Optional[Words] = None, tunnels: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
        cwd: Optional[PathLike] = None, input: Optional[str] = None, timeout: Optional[float] = None,
        check: bool = False) -> Completed:
    """Runs a program on the software adapter until it exits, like `verbena run`.

        verbena.run("ibv_devinfo", "-v")
        verbena.run(["mpirun", "-n", "4", "./my_program"], check=True)

    `path` to `tunnels` are the options of `verbena run`; `env`, `cwd`, `input`, `timeout` and `check` are those of
    `subprocess.run`. To run a program concurrently, start it with `env=verbena.environment()` instead.

    Raises a CommandError if the program cannot be started, or with `check` if its exit code is not 0, and
    subprocess.TimeoutExpired after `timeout` seconds.
    """
    words = [*words_of(program), *map(text, arguments)]  # type: ignore[arg-type]
    adapter = options(path=path, link=link, interface=interface, devices=devices, pages=pages, allow=allow, tunnels=tunnels)
    environment = dict(os.environ if env is None else env)
    with tempfile.TemporaryDirectory(prefix="verbena-run-") as scratch:
        counted, refused = Path(scratch, "counters.json"), Path(scratch, "refusals")
        ours = LEVEL not in environment and FILE not in environment
        if ours:
            environment.update({LEVEL: "info", FILE: str(refused)})
        ended = verbena("run", *adapter, "--stats-out", counted, "--", *words, env=environment, cwd=cwd, input=input, timeout=timeout)
        if not counted.exists():
            # The program was not started: the message is the launcher's.
            raise CommandError(words, ended.returncode, ended.stderr + _advice(words, ended.returncode))
        completed = Completed(words, ended.returncode, ended.stdout, ended.stderr, _lines(refused) if ours else None,
                              json.loads(counted.read_text())["processes"])
    if check:
        completed.check_returncode()
    return completed


def _advice(words: list[str], code: int) -> str:
    """Returns a hint if the caller passed a command line as one word."""
    if code == 127 and len(words) == 1 and len(words[0].split()) > 1:
        return f"pass each argument as a separate word: verbena.run({', '.join(map(repr, words[0].split()))})"
    return ""


def _lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines() if file.exists() else []
