"""Upgrade and removal of a wheel: an installation is replaced by another version, and removed without remains."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from harness.build_tree import ROOT
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .installation import installation

SECONDS = 120
# A file that the later version lacks, and one that only it has.
GONE, COME = "verbena/include/rfio_api.h", "verbena/later.py"
LATER = "99.0.0"


def later(wheel: Path, directory: Path) -> Path:
    """Writes the wheel as another version has it: one file fewer, one more."""
    sys.path.insert(0, str(ROOT / "packaging/wheel"))
    from archive import Wheel  # pylint: disable=import-outside-toplevel

    name, version, *_, platform = wheel.stem.split("-")
    directory.mkdir()
    result = Wheel(directory, name, LATER, platform)
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            place = entry.filename.replace(f"{name}-{version}.dist-info", result.information)
            if place.rpartition("/")[2] in ("WHEEL", "RECORD") or place == GONE:
                continue
            contents = archive.read(entry)
            if place.endswith("/METADATA"):
                contents = contents.replace(f"\nVersion: {version}\n".encode(), f"\nVersion: {LATER}\n".encode())
            result.add(place, contents, entry.external_attr >> 16 & 0o777)
    result.add(COME, b"")
    result.close()
    return result.path


def upgrade(place: Place) -> Outcome:
    """`pip install --upgrade` installs exactly the files of the later version, programs work, and `pip uninstall`
    leaves the files from before the first installation."""
    environment = place.directory / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [str(environment / "bin/python"), "-m", "pip", "--disable-pip-version-check"]

    def files() -> set[Path]:
        """All, directories too, but what pip compiles of itself when it is first called."""
        return {file for file in environment.rglob("*") if "pip" not in file.parts}

    before = files()
    wheels = later(installation().wheel, place.directory / "later").parent
    steps = {
        "install": [*pip, "install", "--no-index", str(installation().wheel)],
        "start": [str(environment / "bin/verbena"), "doctor"],
        "upgrade": [*pip, "install", "--no-index", "--upgrade", "--find-links", str(wheels), "verbena"],
        "start again": [str(environment / "bin/verbena"), "run", "--", "ibv_devices"],
    }
    for name, command in steps.items():
        ended = place.run(name, command, SECONDS)
        if not ended.succeeded:
            return failed(f"{name}: {ended.describe()}", ended.evidence())
    if "verbena0" not in ended.output:
        return failed("the later version has no adapter", ended.evidence())
    (package,) = environment.glob("lib/python*/site-packages")
    informations = sorted(file.name for file in package.glob("verbena-*.dist-info"))
    if informations != [f"verbena-{LATER}.dist-info"] or (package / GONE).exists() or not (package / COME).exists():
        return failed(f"after the upgrade there is {', '.join(informations)} with {GONE}: {(package / GONE).exists()}")
    ended = place.run("uninstall", [*pip, "uninstall", "--yes", "verbena"], SECONDS)
    left = files() - before
    if not ended.succeeded or left:
        return failed(f"these files remain: {', '.join(sorted(map(str, left)))}", ended.evidence())
    shutil.rmtree(environment)
    return passed()
