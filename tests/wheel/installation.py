"""The wheel of this build, installed into a virtual environment as a user would: made once for all cases."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.build_tree import LOGS, ROOT, TARGET, VERBENA

BUILD = ROOT / "packaging/wheel/build"
# A build of `make wheel` for older machines is tested by naming it.
BUILT = Path(os.environ.get("VERBENA_WHEEL_FROM", TARGET / "release")).absolute()
# The environment into which the wheel is installed, with the optional packages.
PYTHON = TARGET / "python/bin/python"


class NotInstalled(Exception):
    """The output of the step that failed."""


class Installation:
    """A bare virtual environment with the wheel and nothing else."""

    def __init__(self, wheel: Path, environment: Path):
        self.wheel = wheel
        self.commands = environment / "bin"
        self.python = self.commands / "python"

    def command(self, name: str, *arguments: object) -> list[str]:
        """A command that the wheel installed."""
        return [str(self.commands / name), *map(str, arguments)]

    def variables(self) -> dict[str, str]:
        """Returns the environment that `activate` would set."""
        return {"PATH": f"{self.commands}:{os.environ['PATH']}"}


def ours() -> bool:
    """Whether the tested build is this tree's, from which wheels are made."""
    return VERBENA == TARGET / "release" / "verbena"


def make(directory: Path) -> Path:
    """A wheel in an empty directory."""
    shutil.rmtree(directory, ignore_errors=True)
    said = _checked([sys.executable, str(BUILD), "--from", str(BUILT), "--out", str(directory)])
    return Path(said.splitlines()[-1])


@functools.cache
def installation() -> Installation:
    """The wheel, installed without a package index and without a compiler's prerequisites."""
    wheel = make(LOGS / "wheel/made")
    environment = LOGS / "wheel/environment"
    shutil.rmtree(environment, ignore_errors=True)
    _checked([sys.executable, "-m", "venv", str(environment)])
    # pip needs no commands of the system: with an empty path nothing can be compiled.
    _checked([str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
              str(wheel)], PATH="/nowhere")
    return Installation(wheel, environment)


def _checked(command: list[str], **more: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **more})
    if done.returncode:
        raise NotInstalled(f"  $ {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def packages() -> str | None:
    """The packages of setup/python.test, if they are installed for this interpreter."""
    asked = "import sysconfig, pytest, pandas; print(sysconfig.get_path('purelib'), sysconfig.get_python_version())"
    done = subprocess.run([PYTHON, "-c", asked], capture_output=True, text=True, check=False) if PYTHON.exists() else None
    if done is None or done.returncode:
        return None
    place, version = done.stdout.split()
    return place if version == "{}.{}".format(*sys.version_info) else None
