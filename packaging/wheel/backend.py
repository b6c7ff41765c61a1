"""The build backend for `pip install .` (PEP 517): compiles like `make build`, into the same directory, and makes a wheel.

It needs no Python package, so the build downloads crates only.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NoReturn, Optional

sys.dont_write_bytecode = True

import assemble  # noqa: E402
import elf  # noqa: E402
import sdist  # noqa: E402
from metadata import NAME, ROOT, information, version  # noqa: E402

NO_EDITABLE = "editable installs are not supported because the programs are compiled; run `pip install .` again after a change"


def build_wheel(wheel_directory: str, config_settings: Optional[dict] = None, metadata_directory: Optional[str] = None) -> str:
    """Compiles, makes the wheel, and returns its name."""
    _refuse(config_settings)
    # It reports the missing requirement itself.
    if status := subprocess.run([ROOT / "packaging/products/build", "--locked"], check=False).returncode:
        sys.exit(status)
    try:
        return assemble.write(assemble.RELEASE, Path(wheel_directory)).name
    except (elf.NotPortable, OSError, subprocess.CalledProcessError) as error:
        _fail(str(error))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Optional[dict] = None) -> str:
    """Writes the wheel's metadata, for which nothing needs to be compiled, and returns the directory's name."""
    _refuse(config_settings)
    directory = Path(metadata_directory) / f"{NAME}-{version()}.dist-info"
    for name, text in information().items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory.name


def build_sdist(sdist_directory: str, config_settings: Optional[dict] = None) -> str:
    """Writes the source distribution, and returns its name."""
    _refuse(config_settings)
    try:
        return sdist.write(Path(sdist_directory)).name
    except (OSError, subprocess.CalledProcessError) as error:
        _fail(str(error))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Optional[dict] = None) -> NoReturn:
    """Refuses."""
    _fail(NO_EDITABLE)


def build_editable(wheel_directory: str, config_settings: Optional[dict] = None,
                   metadata_directory: Optional[str] = None) -> NoReturn:
    """Refuses."""
    _fail(NO_EDITABLE)


def _refuse(config_settings: Optional[dict]) -> None:
    """Rejects settings, as there are none and a given one would be ignored silently."""
    if config_settings:
        _fail(f"no such setting: {', '.join(config_settings)}; there are none")


def _fail(reason: str) -> NoReturn:
    sys.exit(f"{NAME}: {reason}")
