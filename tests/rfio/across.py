"""The attacks once more, from another host: the service on one of two network namespaces, the attackers on the other,
RDMA by RoCEv2 packets over the cable between them."""

from __future__ import annotations

import re
import sys

from harness.build_tree import ROOT
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from roce.hosts import Hosts, NoNamespaces, SetupFailed

from .elsewhere import TOLD

SECONDS = 900


def attacks(place: Place, kind: str) -> Outcome:
    """All cases of a kind that can be run so, in a process of the second host."""
    try:
        with Hosts(place) as hosts:
            first, second = hosts.members
            there = f"{first.address} {second.address} {first.keeper.pid} {first.interface}"
            ended = hosts.run(second, "attacks", second.inside(
                ["env", f"{TOLD}={there}", f"VERBENA_TEST_LINK=--link roce --interface {second.interface}",
                 sys.executable, str(ROOT / "tests/run"), "rfio", "--only", f"[{kind}]"]), SECONDS)
    except NoNamespaces as words:
        return skipped(str(words))
    except SetupFailed as words:
        return failed("the hosts are not made", str(words))
    said = re.findall(r"^(\d+) passed, 0 failed, (\d+) skipped", ended.output, re.MULTILINE)
    if not ended.succeeded or not said or int(said[-1][0]) == 0:
        return failed(f"{kind} from another host: {ended.describe()}", ended.evidence())
    return passed(f"{said[-1][0]} cases, {said[-1][1]} skipped")
