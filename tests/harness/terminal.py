"""A program on a terminal: a pseudo-terminal of some width, and the program's output to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from typing import Mapping, Sequence

ROWS = 24
# Orders of ECMA-48 that begin with CSI, and among them those that choose colours.
ORDER = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Sequences after which a line is drawn anew.
AGAIN = re.compile(r"[\r\n]")


@dataclass(frozen=True)
class Shown:
    """The output on the terminal, and how the program ended; None if it did not."""

    status: int | None
    raw: str

    @property
    def text(self) -> str:
        """The text without escape sequences, with one line end."""
        return ORDER.sub("", self.raw).replace("\r\n", "\n")

    @property
    def colours(self) -> list[str]:
        """Orders that choose colours."""
        return COLOUR.findall(self.raw)

    def lines(self) -> list[str]:
        """Every line, also those that were drawn over."""
        return AGAIN.split(self.text)

    def widest(self) -> str:
        """The longest line."""
        return max(self.lines(), key=len)


def on_terminal(command: Sequence[str], environment: Mapping[str, str], columns: int, seconds: float,
                output: bool = True, errors: bool = True) -> Shown:
    """Runs a program with standard output, standard error or both on a terminal; the other is discarded."""
    main, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    unset = {"NO_COLOR", "COLUMNS", "CLICOLOR", "CLICOLOR_FORCE"}
    clean = {"TERM": "xterm-256color", **{name: value for name, value in environment.items() if name not in unset}}
    deadline = time.monotonic() + seconds
    with subprocess.Popen(command, env=clean, stdin=subprocess.DEVNULL, stdout=end if output else subprocess.DEVNULL,
                          stderr=end if errors else subprocess.DEVNULL) as process:
        os.close(end)
        raw = b""
        while select.select([main], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                chunk = os.read(main, 65536)
            except OSError:
                break  # The program has closed the terminal.
            if not chunk:
                break
            raw += chunk
        try:
            status: int | None = process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            status = None
    os.close(main)
    return Shown(status, raw.decode(errors="replace"))
