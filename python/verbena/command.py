"""Runs the command line program, which implements this package."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, NoReturn, Optional, Union

from .errors import CommandError
from .programs import program

#: A path argument.
PathLike = Union[str, "os.PathLike[str]"]
#: One word or number, or several.
Words = Union[str, float, Iterable[Union[str, float]]]
# Seconds that a program has to exit after a signal. `verbena` needs two.
GRACE = 10.0


@dataclass(frozen=True)
class Ended:
    """A command that has exited."""

    command: list[str]
    returncode: int
    stdout: str
    stderr: str

    def refuse(self) -> NoReturn:
        """Raises the command's error."""
        raise CommandError(self.command, self.returncode, self.stderr)


def verbena(*words: object, **more: Any) -> Ended:
    """Runs a command of the program; `more` are keywords of `call`."""
    return call([str(program()), *map(text, words)], **more)


def text(word: object) -> str:
    """Returns a word of a command line."""
    return os.fspath(word) if isinstance(word, (str, os.PathLike)) else str(word)


def words_of(words: Words) -> list[str]:
    """Returns one or several words as a list."""
    return [text(words)] if isinstance(words, (str, os.PathLike)) or not isinstance(words, Iterable) else list(map(text, words))


def joined(words: Optional[Words]) -> Optional[str]:
    """Joins the values of an option by commas."""
    return None if words is None else ",".join(words_of(words))


def options(**given: Any) -> list[str]:
    """Returns options by name: True is a flag, several values repeat the option, None and False are omitted."""
    found: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        elif isinstance(value, Mapping):
            found += [word for key, each in value.items() for word in (option, f"{key}={each}")]
        elif value is not None and value is not False:
            found += [word for each in words_of(value) for word in (option, each)]
    return found


def call(command: list[str], *, env: Optional[Mapping[str, str]] = None, cwd: Optional[PathLike] = None,
         input: Optional[str] = None, timeout: Optional[float] = None) -> Ended:
    """Runs a command until it exits.

    Ctrl-C interrupts it once, as a terminal would, and waits until it has saved its results; a second Ctrl-C kills it. Its
    processes form their own group, so that the terminal does not interrupt them a second time.
    """
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd, encoding="utf-8",
                          errors="replace", start_new_session=True) as process:
        try:
            stdout, stderr = process.communicate(input, timeout)
        except KeyboardInterrupt:
            _end(process, signal.SIGINT)
            raise
        except BaseException:
            _end(process, signal.SIGTERM)
            raise
    return Ended(command, process.returncode, stdout, stderr)


def _end(process: subprocess.Popen[str], first: signal.Signals) -> None:
    """Ends a command and its processes: sends `first`, then SIGKILL."""
    try:
        _signal(process, first)
        process.communicate(timeout=GRACE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    # The process id stands for the group until it has been waited for.
    if process.returncode is None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
