"""XRootD's own programs on the file service: xrdcp, xrdfs and XRootD's Python, by the plug-in of `xrootd/`."""

from __future__ import annotations

from functools import partial
from typing import Iterator

from harness.case import Case
from harness.requirement import Tool
from rfio.service import FABRICS

from . import copies, handlers, names, python

TITLE = "XRootD's programs on the file service"
REQUIRES = [Tool("xrdcp", "xrootd-client"), Tool("/usr/include/xrootd/XrdCl/XrdClPlugInInterface.hh", "libxrootd-client-dev"),
            Tool("c++", "g++")]


def cases() -> Iterator[Case]:
    """Every test with every transport."""
    for fabric in FABRICS:
        for name, size in copies.SIZES.items():
            yield Case(f"xrdcp both ways, {name} bytes", fabric, partial(copies.both_ways, fabric=fabric, size=size))
        yield Case("xrdcp -r both ways", fabric, partial(copies.trees, fabric=fabric))
        yield Case("xrdfs", fabric, partial(names.everything, fabric=fabric))
        yield Case("XRootD's Python", fabric, partial(python.everything, fabric=fabric))
        yield Case("handlers", fabric, partial(handlers.everything, fabric=fabric))
    yield Case("what goes wrong is said", "errors", copies.failures)
    yield Case("URLs without a port", "configuration", copies.ports)
