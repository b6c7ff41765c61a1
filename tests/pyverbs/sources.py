"""rdma-core's own tests, as Debian's python3-pyverbs ships them: in its documentation, compressed.

Where documentation is excluded from installations (container images), the package is fetched again
and unpacked beside the logs.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

from harness import build_tree

INSTALLED = Path("/usr/share/doc/rdma-core/tests")
FOLDER = build_tree.LOGS / "pyverbs-tests"


class Unavailable(Exception):
    """The tests are neither installed nor downloadable."""


def provide() -> Path:
    """The folder of the tests, ready to run."""
    ready = FOLDER / "tests"
    if (ready / "run_tests.py").exists():
        return ready
    source = INSTALLED if (INSTALLED / "run_tests.py").exists() else unpacked()
    shutil.copytree(source, ready)
    for packed in ready.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return ready


def unpacked() -> Path:
    """The same folder out of a package fetched for it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    fetched = subprocess.run(["apt-get", "download", "python3-pyverbs"], cwd=FOLDER,
                             capture_output=True, text=True, check=False)
    packages = list(FOLDER.glob("python3-pyverbs_*.deb"))
    if fetched.returncode != 0 or not packages:
        raise Unavailable("python3-pyverbs is installed without its documentation, and "
                          f"apt-get download python3-pyverbs fails: {fetched.stderr.strip()}")
    subprocess.run(["dpkg-deb", "-x", packages[0], "package"], cwd=FOLDER, check=True)
    return FOLDER / "package" / INSTALLED.relative_to("/")
