"""Faults by command: links that are cut, and errors that ports count."""

from __future__ import annotations

import re

from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .fabric import SECONDS, lacks, up
from .verbs import LOST, pair

WRONG_INPUT = 2
# A cut and three flaps.
DOWNS = 4
SYSFS = "/sys/class/infiniband/verbena0/ports/1"


def cases() -> list[Case]:
    """Errors, links, wrong commands."""
    return [
        Case("faults: errors", "", errors),
        Case("faults: links", "", links),
        Case("faults: wrong commands", "", refused),
    ]


def errors(place: Place) -> Outcome:
    """perfquery, ibqueryerrors and sysfs show the errors of a port."""
    script = ('"$VERBENA" fabric fault switch1:2 symbol_error 100; "$VERBENA" fabric fault host1:1 port_rcv_errors 70000; '
              f"perfquery -x 1 2; ibqueryerrors; cat {SYSFS}/counters/port_rcv_errors; perfquery 2 1; perfquery -R 2 1; perfquery 2 1")
    ended = up(place, script)
    # ibqueryerrors ends with a status if there are errors; PortCounters has 16 bits.
    wanted = [r"SymbolErrorCounter:\.+100$", r"\[SymbolErrorCounter == 100 ", r"^70000$", r"PortRcvErrors:\.+65535$", r"PortRcvErrors:\.+0$",
              r"3 nodes checked, 2 bad nodes found"]
    return lacks(ended, wanted) or passed("two ports")


def links(place: Place) -> Outcome:
    """A cut link carries nothing and stays down until it is mended; flaps are counted at both ends; both managers bring it up again."""
    state = f"cat {SYSFS}/state"
    for manager in ("builtin", "opensm"):
        active = f"until {state} | grep ACTIVE; do sleep 0.02; done"
        lost = pair("timeout 10 ibv_rc_pingpong -n 50", "ibv_rc_pingpong -n 50")
        again = pair("ibv_rc_pingpong -n 50", "ibv_rc_pingpong -n 50")
        script = (f'"$VERBENA" fabric fault host1:1 down; {state}; {lost}; "$VERBENA" fabric fault host1:1 up; {active}; echo ====; {again}; '
                  f'"$VERBENA" fabric fault switch1:1 flap 3; {active}; cat {SYSFS}/counters/link_downed; perfquery 1 1')
        ended = up(place, script, "--sm", manager)
        if failure := lacks(ended, [r"^1: DOWN", re.escape(LOST), r"LinkDownedCounter:\.+\d+$"]):
            return failure
        shown, counted = re.findall(r"^(?:LinkDownedCounter:\.+)?(\d+)$", ended.output, re.MULTILINE)[-2:]
        # OpenSM may train a link anew.
        if shown != counted or not (int(counted) == DOWNS or manager == "opensm" and int(counted) > DOWNS):
            return failed(f"{manager}: sysfs has {shown} downs, perfquery {counted}", ended.evidence())
        before, after = ended.output.split("====")
        if "client 0" in before or not re.search(r"^client 0[\s\S]*^server 0", after, re.MULTILINE):
            return failed(f"{manager}: traffic does not follow the link", ended.evidence())
    return passed("cut, mended, flaps")


def refused(place: Place) -> Outcome:
    """A port or fault that does not exist is refused by name."""
    for words, text in (("switch1:99 down", "no port 99"), ("switch1:5 down", "no link at port 5"), ("host9:1 down", "no node"),
                        ("switch1 down", "NODE:PORT"), ("switch1:256 down", "NODE:PORT"), ("switch1:1 broken", "is not a fault"),
                        ("switch1:1 flap", "needs a number"), ("switch1:1 down 3", "takes no number")):
        ended = up(place, f'"$VERBENA" fabric fault {words}')
        if ended.status != WRONG_INPUT or text not in ended.output:
            return failed(f"{words} is not refused", ended.evidence())
    ended = place.run("outside", [str(VERBENA), "fabric", "fault", "switch1:1", "down"], SECONDS)
    if ended.status != WRONG_INPUT or "on no fabric" not in ended.output:
        return failed("a fault outside of a fabric is not refused", ended.evidence())
    return passed("9 refused")
