"""The paths of the tested programs in the build tree."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# An installed program is tested by naming it.
VERBENA = Path(os.environ.get("VERBENA", TARGET / "release" / "verbena")).absolute()
LIBRARIES = TARGET / "release" / "lib"
LOGS = TARGET / "end-to-end"

# The name of the adapter's device.
DEVICE = "verbena0"
# The paths to a peer on the same host, as VERBENA_PATH names them.
PATHS = ("mapped", "cma", "ring")


def run(*command: object, stats: bool = False) -> list[str]:
    """The command line that runs `command` on the software adapter."""
    options = [*(["--stats"] if stats else []), *os.environ.get("VERBENA_TEST_LINK", "").split()]
    return [str(VERBENA), "run", *options, "--", *map(str, command)]
