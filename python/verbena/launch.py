"""The environment that puts a program on the software adapter, as `verbena run` makes it."""

from __future__ import annotations

import os
import subprocess
from typing import Mapping, Optional

from .programs import program


def environment(base: Optional[Mapping[str, str]] = None, *, path: Optional[str] = None,
                link: Optional[str] = None, interface: Optional[str] = None, devices: Optional[int] = None,
                pages: Optional[str] = None) -> dict[str, str]:
    """The whole environment of a child that is to run on the adapter: `base`, by default this process's own, with what
    `verbena run` adds to it.

    `path`, `link`, `interface`, `devices` and `pages` are the options of `verbena run`. What it refuses is a ValueError with its words.
    """
    wanted = {"--path": path, "--link": link, "--interface": interface, "--devices": devices, "--pages": pages}
    options = [word for name, value in wanted.items() if value is not None for word in (name, str(value))]
    # Asked of the program itself, so that there is one place that knows.
    asked = subprocess.run([program(), "run", *options, "--", "/usr/bin/env", "-0"], capture_output=True, check=False,
                           env=dict(os.environ if base is None else base))
    if asked.returncode:
        raise ValueError(os.fsdecode(asked.stderr).strip())
    entries = (os.fsdecode(entry).partition("=") for entry in asked.stdout.split(b"\0") if entry)
    return {name: value for name, _, value in entries}
