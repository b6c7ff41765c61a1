"""Several devices on one host: objects and events of one never show on another, and each port goes down alone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from harness import c_program
from harness.build_tree import PATHS, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.requirement import COMPILER, VERBS_HEADERS, Tool

TITLE = "several devices, and ports that go down"
REQUIRES = [COMPILER, VERBS_HEADERS, Tool("/usr/include/rdma/rdma_cma.h", "librdmacm-dev")]

HERE = Path(__file__).resolve().parent
LIBRARIES = ("-libverbs", "-lrdmacm")
SECONDS = 60

# Commands that are refused, with parts of their messages.
REFUSED = {
    "run --devices 0 -- true": '"0" is not a whole number from 1 to 32',
    "run --devices 33 -- true": '"33" is not a whole number from 1 to 32',
    "port verbena1 down": "no process uses the adapter",
    "port verbena32 down": "no device verbena32; the devices are verbena0 to verbena31",
    "port mlx5_0 down": "no process uses the adapter",
    "port eth0 down": "no device eth0",
    "port verbena1 sideways": "invalid value 'sideways'",
}


def cases() -> list[Case]:
    """Each test on each path over InfiniBand, and once over Ethernet."""
    program = HERE / "devices.c"
    over = {f"infiniband, {path}": (path, "infiniband") for path in PATHS} | {"roce": ("", "roce")}
    return [
        *(Case(case.row, column, partial(_test, case.row.partition(": ")[2], *options))
          for case in c_program.table(program, [""], SECONDS, libraries=LIBRARIES)
          for column, options in over.items()),
        *(Case("refused", words, partial(_refused, words, message)) for words, message in REFUSED.items()),
        Case("info", "of two devices", _info),
        Case("environment", "no number", _environment),
    ]


def _test(name: str, path: str, link: str, place: Place) -> Outcome:
    program = c_program.compile_program(HERE / "devices.c", LIBRARIES)
    command = [str(VERBENA), "run", "--devices", "2", "--link", link, "--", str(program), name]
    return c_program.run(place, command, SECONDS, path)


def _refused(words: str, message: str, place: Place) -> Outcome:
    ended = place.run("refused", [str(VERBENA), *words.split()], 20)
    if ended.status != 2 or message not in ended.output:
        return failed(f"status {ended.status}, expected 2 and {message!r}", ended.evidence())
    return passed()


def _info(place: Place) -> Outcome:
    ended = place.run("info", [str(VERBENA), "info", "--json"], 20, VERBENA_DEVICES="2")
    devices = json.loads(ended.output)["devices"]
    found = [(one["name"], [port["number"] for port in one["ports"]]) for one in devices]
    if found != [("verbena0", [1]), ("verbena1", [1])]:
        return failed(f"it shows {found}", ended.evidence())
    if devices[0]["ports"][0]["gids"] == devices[1]["ports"][0]["gids"]:
        return failed("both have the same GID", ended.evidence())
    return passed()


def _environment(place: Place) -> Outcome:
    """A value that is no number of devices is an error that names it; the number is not taken to be 1."""
    ended = place.run("devices", [str(VERBENA), "run", "--", "ibv_devinfo"], 20, VERBENA_DEVICES="many")
    if "VERBENA_DEVICES is `many`; use a number from 1 to 32" not in ended.output or ended.succeeded:
        return failed(f"status {ended.status}", ended.evidence())
    return passed()
