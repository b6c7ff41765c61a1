"""The environment that runs a program on the software adapter, as `verbena run` sets it."""

from __future__ import annotations

import os
import subprocess
from typing import Mapping, Optional, Sequence

from .programs import program

# The file to which processes append a line for each failure of a rule.
RECORD = "VERBENA_FAULTS_LOG"


def environment(base: Optional[Mapping[str, str]] = None, *, path: Optional[str] = None,
                link: Optional[str] = None, interface: Optional[str] = None, devices: Optional[int] = None,
                pages: Optional[str] = None, coverage: Optional[str] = None, faults: Sequence[str] = (),
                seed: Optional[int] = None) -> dict[str, str]:
    """Returns the complete environment for a child on the adapter: `base`, by default the environment of this process, with the
    variables of `verbena run`.

    `path`, `link`, `interface`, `devices` and `pages` are the options of `verbena run`. With `coverage`, a data file of
    `verbena coverage`, the outcomes of verbs calls are added there; it is created if it does not exist. `faults` are rules of
    `verbena run --fault`, whose chance `seed` decides; `verbena.Faults` also counts how often they fire. Raises a ValueError with the
    program's message if it refuses them.
    """
    wanted = {"--path": path, "--link": link, "--interface": interface, "--devices": devices, "--pages": pages}
    options = [word for name, value in wanted.items() if value is not None for word in (name, str(value))]
    if faults:
        if coverage is not None:
            raise ValueError("coverage and faults exclude each other")
        options += ["--allow-unfired", *(f"--fault={rule}" for rule in faults)]
        options += [] if seed is None else ["--seed", str(seed)]
    command = ["run"] if coverage is None else ["coverage", "--quiet", "--append", "--data-file", coverage]
    # The program computes it, so that the variables are defined in one place.
    asked = subprocess.run([program(), *command, *options, "--", "/usr/bin/env", "-0"], capture_output=True, check=False,
                           env=dict(os.environ if base is None else base))
    if asked.returncode:
        raise ValueError(os.fsdecode(asked.stderr).strip())
    entries = (os.fsdecode(entry).partition("=") for entry in asked.stdout.split(b"\0") if entry)
    found = {name: value for name, _, value in entries}
    # The program has removed this file.
    found.pop(RECORD, None)
    return found
