"""ROOT on the file service: TTree::Draw, RDataFrame and TFileMerger, by the plug-in of `xrootd/`.

ROOT comes with its own XRootD, so the plug-in is built for that one.
"""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Iterator

from harness.build_tree import ROOT as PROJECT
from harness.build_tree import TARGET
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.requirement import Tool
from rfio.service import FABRICS, TOOLS, Service
from xrootd.programs import program, url

PYTHON = TARGET / "python-nightly/bin/python"
TITLE = "ROOT on the file service"
REQUIRES = [Tool(str(PYTHON), "the environment of `setup/python nightly`"), Tool("c++", "g++")]


def plugin() -> Path:
    """The plug-in for ROOT's XRootD, beside librfio as it looks for it."""
    found = subprocess.run([PYTHON, "-c", "import importlib.util as u; print(u.find_spec('ROOT').submodule_search_locations[0])"],
                           capture_output=True, text=True, check=True).stdout.strip()
    place, theirs = TARGET / "root", Path(found)
    (place / "lib").mkdir(parents=True, exist_ok=True)
    for name in ("librfio.so", "librfio.so.2"):
        link = place / "lib" / name
        link.unlink(missing_ok=True)
        link.symlink_to(TOOLS / "lib" / name)
    # The libraries that their XRootD itself needs lie beside ROOT and are of no concern here.
    flags = f"-L{theirs}/lib -Wl,--unresolved-symbols=ignore-in-shared-libs"
    subprocess.run([PROJECT / "xrootd/build", place], check=True,
                   env=dict(os.environ, XROOTD_INCLUDE=str(theirs / "include/xrootd"), LDFLAGS=flags))
    return place / "lib/libXrdClRfio.so"


def trees(place: Place, fabric: str) -> Outcome:
    """Trees written by ROOT to the server and to its disk, read by all interfaces that read trees, chained and
    merged."""
    with Service(place, fabric) as service:
        ended = program(service, PYTHON, Path(__file__).with_name("with_root.py"), url(service, "").removesuffix("/"), service.export,
                        library=plugin())
        if not ended.succeeded or "read it all" not in ended.output:
            return failed("the script failed", ended.evidence())
        if fabric == "verbs":
            there = (service.export / "there.root").stat().st_size
            sent, received = (service.metric(f"rfio_fabric_{way}_bytes_total") for way in ("sent", "received"))
            if min(sent, received) < there:
                return failed(f"{sent} and {received} bytes were moved by RDMA, of files of {there}")
            return passed(f"{sent >> 20} MiB from the server by RDMA, {received >> 20} MiB to it")
        return passed()


def cases() -> Iterator[Case]:
    """By how the data travel."""
    for fabric in FABRICS:
        yield Case("trees", fabric, partial(trees, fabric=fabric))
