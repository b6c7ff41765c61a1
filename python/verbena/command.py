"""Runs the command line program, which does the work of this package."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, NoReturn, Optional, Union

from .errors import CommandError
from .programs import program

#: A path as the functions of this package take it.
PathLike = Union[str, "os.PathLike[str]"]
#: One word or number, or several.
Words = Union[str, float, Iterable[Union[str, float]]]
# What a program gets to end by itself, in seconds. `verbena` takes two.
GRACE = 10.0


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    command: list[str]
    returncode: int
    stdout: str
    stderr: str

    def refuse(self) -> NoReturn:
        """Raises the error that it ended with."""
        raise CommandError(self.command, self.returncode, self.stderr)


def verbena(*words: object, **more: Any) -> Ended:
    """Runs a command of the program; `more` is for `call`."""
    return call([str(program()), *map(text, words)], **more)


def text(word: object) -> str:
    """A word of a command line."""
    return os.fspath(word) if isinstance(word, (str, os.PathLike)) else str(word)


def words_of(words: Words) -> list[str]:
    """One word or several, as a list."""
    return [text(words)] if isinstance(words, (str, os.PathLike)) or not isinstance(words, Iterable) else list(map(text, words))


def joined(words: Optional[Words]) -> Optional[str]:
    """Several values of an option that takes them in one word, separated by commas."""
    return None if words is None else ",".join(words_of(words))


def options(**given: Any) -> list[str]:
    """Options by their names: True is a flag, several values are the option repeated, None and False are left out."""
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
    """Runs a command to its end.

    Ctrl-C interrupts it once, as the terminal would, and waits until it has kept what it has; another one ends it at once. Its
    processes are a group of their own, so that the terminal does not interrupt them a second time.
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
    """Ends a command with its processes, by a signal that it can act on and then by one that it cannot."""
    try:
        _signal(process, first)
        process.communicate(timeout=GRACE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    # Its number stands for the group until it has been waited for.
    if process.returncode is None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
