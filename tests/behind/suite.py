"""rfiod behind Debian's xrootd: the plug-ins of `xrootd/`, one in its server and one in its clients."""

from __future__ import annotations

from functools import partial
from typing import Iterator

from harness.case import Case
from harness.requirement import Tool
from rfio.service import FABRICS

from . import copies

TITLE = "the file service behind xrootd"
REQUIRES = [Tool("xrootd", "xrootd-server"), Tool("xrdcp", "xrootd-client"), Tool("c++", "g++"), Tool("openssl", "openssl"),
            Tool("/usr/include/xrootd/XrdCl/XrdClPlugInInterface.hh", "libxrootd-client-dev"),
            Tool("/usr/include/xrootd/XrdOfs/XrdOfsFSctl_PI.hh", "libxrootd-server-dev")]


def cases() -> Iterator[Case]:
    """Every test with every transport."""
    for fabric in FABRICS:
        yield Case("both ways", fabric, partial(copies.both_ways, fabric=fabric))
        yield Case("changed in place", fabric, partial(copies.changed_in_place, fabric=fabric))
    for name, function in {"redirected": copies.redirected, "third-party copy": copies.third_party, "SciTokens": copies.by_token,
                           "without tickets": copies.without_tickets}.items():
        yield Case(name, "tcp", function)
