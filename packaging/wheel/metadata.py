"""The metadata of the wheel and the source distribution."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
if str(ROOT / "python") not in sys.path:
    sys.path.append(str(ROOT / "python"))

from verbena.programs import FILES, NAMES  # noqa: E402, F401

NAME = "verbena"
LICENSES = ("LICENSE-APACHE", "LICENSE-MIT")

_METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: InfiniBand in software: run, measure and predict RDMA without RDMA hardware
License: Apache-2.0 OR MIT
Keywords: rdma,infiniband,roce,verbs,testing
Classifier: Operating System :: POSIX :: Linux
Classifier: Framework :: Pytest
Classifier: Topic :: System :: Networking
Classifier: Typing :: Typed
Requires-Python: >=3.9
Provides-Extra: pandas
Requires-Dist: pandas>=1.5; extra == "pandas"
Provides-Extra: plot
Requires-Dist: matplotlib>=3.6; extra == "plot"
Provides-Extra: pytest
Requires-Dist: pytest>=7; extra == "pytest"
Provides-Extra: fsspec
Requires-Dist: fsspec>=2022.11; extra == "fsspec"
Description-Content-Type: text/markdown

"""
_ENTRY_POINTS = """\
[console_scripts]
{commands}

[pytest11]
verbena = verbena.pytest_plugin

[fsspec.specs]
rfio = rfio_fsspec:RfioFileSystem
"""


def version() -> str:
    """Returns the workspace's version."""
    return re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def metadata() -> str:
    """Returns the contents of METADATA, which is also PKG-INFO."""
    return _METADATA.format(name=NAME, version=version()) + (ROOT / "python/README.md").read_text()


def information() -> dict[str, str]:
    """Returns the files of the .dist-info directory that do not depend on the compilation."""
    commands = "\n".join(f"{name} = verbena.programs:{name}" for name in NAMES)
    return {
        **{f"licenses/{name}": (ROOT / name).read_text() for name in LICENSES},
        "entry_points.txt": _ENTRY_POINTS.format(commands=commands),
        "METADATA": metadata(),
    }
