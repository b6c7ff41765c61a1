"""The parts of a release: RPM packages, and the script that makes all parts."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import partial
from pathlib import Path

from harness.build_tree import ROOT
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended
from harness.requirement import Tool
from wheel.installation import ours

from . import rpm

TITLE = "the parts of a release"
REQUIRES: list = []

SECONDS = 300
RPMBUILD = Tool("rpmbuild", "rpm")


def cases() -> list[Case]:
    """The script, then the packages."""
    return [Case("packaging/release", "source, sbom", parts),
            Case("packaging/release", "what is refused and skipped", refusals),
            *(Case("RPM packages", name, partial(with_rpm, case)) for name, case in rpm.CASES.items())]


def with_rpm(case, place: Place) -> Outcome:
    """The case, if RPM packages can be made of this build."""
    if not RPMBUILD.present():
        return skipped(f"needs {RPMBUILD.name} (package {RPMBUILD.package})")
    if not ours():
        return skipped("another build than this tree's is tested")
    return case(place)


def release(place: Place, *words: object, **variables: str) -> Ended:
    """Runs the script."""
    return place.run("release", [sys.executable, str(ROOT / "packaging/release"), *map(str, words)], SECONDS, **variables)


def parts(place: Place) -> Outcome:
    """Parts that need no compiling are made, with right checksums, and a second time with the same bytes."""
    found = []
    for out in (place.directory / "first", place.directory / "second"):
        ended = release(place, "source", "sbom", "--strict", "--out", out)
        if not ended.succeeded or any(f"made     {part}: verbena-" not in ended.output for part in ("source", "sbom")):
            return failed("it does not make both", ended.evidence())
        sums = dict(line.split("  ")[::-1] for line in (out / "SHA256SUMS").read_text().splitlines())
        if not ended.succeeded or not all(f"made     {part}: verbena-" in ended.output for part in ("source", "sbom")):
            return failed("SHA256SUMS is not of these files", (out / "SHA256SUMS").read_text())
        found.append(sums)
    if len(found[0]) != 2 or found[0] != found[1]:
        return failed(f"two of the same state differ: {found}")
    return passed(", ".join(found[0]))


def refusals(place: Place) -> Outcome:
    """A tag of another version, foreign files, and an engine that does not work are reported; with --strict a skipped
    part fails."""
    engines = place.directory / "engines"
    engines.mkdir()
    for name in ("podman", "docker"):
        (engines / name).write_text("#!/bin/sh\necho there is no daemon >&2\nexit 1\n")
        (engines / name).chmod(0o755)
    path = f"{engines}:{os.environ['PATH']}"
    others = place.directory / "others"
    others.mkdir()
    (others / "precious").touch()
    out = place.directory / "out"
    tries = (
        (("--tag", "v99.0.0", "source", "--out", out), 1, "the tag is v99.0.0"),
        (("colour", "--out", out), 2, "no such part: colour"),
        (("source", "--out", others), 2, "has files of others"),
        (("image", "--out", out), 0, "skipped  image: podman cannot be used: there is no daemon"),
        (("image", "--strict", "--out", out), 1, "skipped  image: podman cannot be used: there is no daemon"),
    )
    for words, status, said in tries:
        ended = release(place, *words, PATH=path)
        if ended.status != status or said not in ended.output:
            return failed(f"it does not end with {status} and {said!r}", ended.evidence())
    return passed() if Path(others / "precious").exists() else failed("a foreign file was removed")
