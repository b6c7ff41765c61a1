"""The file format of a wheel (the PyPA specification "Binary distribution format"), written reproducibly: equal contents give
equal bytes."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

# The earliest date of a zip file: the wheel does not depend on the time of its build.
DATE = (1980, 1, 1, 0, 0, 0)


class Wheel:
    """A wheel being written."""

    def __init__(self, directory: Path, name: str, version: str, platform: str):
        # The compiled module uses Python's stable ABI of 3.9, which every later version has.
        tag = f"cp39-abi3-{platform}"
        self.path = directory / f"{name}-{version}-{tag}.whl"
        self.information = f"{name}-{version}.dist-info"
        self._record: list[str] = []
        self._zip = zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED)
        self._tag = tag

    def add(self, name: str, contents: bytes, mode: int = 0o644) -> None:
        """Adds a file with its permissions, which installers keep."""
        entry = zipfile.ZipInfo(name, DATE)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100000 | mode) << 16
        self._zip.writestr(entry, contents)
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(contents)}")

    def describe(self, name: str, text: str) -> None:
        """Adds a file of the .dist-info directory."""
        self.add(f"{self.information}/{name}", text.encode())

    def close(self) -> None:
        """Writes the metadata and the record of contents."""
        self.describe("WHEEL", f"Wheel-Version: 1.0\nGenerator: verbena\nRoot-Is-Purelib: false\nTag: {self._tag}\n")
        record = f"{self.information}/RECORD"
        lines = "".join(f"{line}\n" for line in [*self._record, f"{record},,"])
        entry = zipfile.ZipInfo(record, DATE)
        entry.external_attr = 0o100644 << 16
        self._zip.writestr(entry, lines)
        self._zip.close()
