"""The source distribution: the sources for `pip install` and `make install`, without tests. Equal trees of one date give equal
bytes."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
from pathlib import Path

from metadata import NAME, ROOT, metadata, version

# The parts of the repository in it.
PARTS = (".cargo", "ARCHITECTURE.md", "CHANGELOG.md", "Cargo.lock", "Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "Makefile",
         "README.md", "crates", "docs", "packaging", "papers", "profiles", "pyproject.toml", "python", "rust-toolchain.toml",
         "setup", "xrootd")


def files() -> list[Path]:
    """Returns the files of the parts, relative to the root; in a repository, without those that git ignores."""
    if (ROOT / ".git").exists():
        words = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PARTS]
        listed = subprocess.run(words, check=True, capture_output=True).stdout
        found = [Path(os.fsdecode(name)) for name in listed.split(b"\0") if name]
    else:
        found = []
        for part in PARTS:
            inside = (ROOT / part).rglob("*") if (ROOT / part).is_dir() else [ROOT / part]
            found += [file.relative_to(ROOT) for file in inside if "__pycache__" not in file.parts]
    # Omit files that were deleted but are still in git's index.
    found = sorted(file for file in found if (ROOT / file).is_file())
    if absent := [part for part in PARTS if not any(file.parts[0] == part for file in found)]:
        raise FileNotFoundError(f"{', '.join(absent)}: required for the build, but missing in {ROOT}")
    return found


def date() -> int:
    """Returns the time of all files: SOURCE_DATE_EPOCH, or that of the last commit, or that of Cargo.toml in a tree
    without a repository."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if (ROOT / ".git").exists():
        return int(subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], check=True, capture_output=True).stdout)
    return int((ROOT / "Cargo.toml").stat().st_mtime)


def write(out: Path) -> Path:
    """Writes the archive into a directory, and returns its path."""
    top, when = f"{NAME}-{version()}", date()
    path = out / f"{top}.tar.gz"
    contents = io.BytesIO()
    with tarfile.open(fileobj=contents, mode="w", format=tarfile.PAX_FORMAT) as archive:
        def add(name: str, data: bytes, executable: bool) -> None:
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), when, 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(data))

        add("PKG-INFO", metadata().encode(), False)
        for file in files():
            add(str(file), (ROOT / file).read_bytes(), os.access(ROOT / file, os.X_OK))
    out.mkdir(parents=True, exist_ok=True)
    # Its header contains neither a name nor a time.
    path.write_bytes(gzip.compress(contents.getvalue(), mtime=0))
    return path
