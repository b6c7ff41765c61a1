"""The wheel: its content, its use in a bare virtual environment without anything else, and its making from source."""

from __future__ import annotations

from functools import partial
from typing import Callable

from harness import tiers
from harness.build_tree import DEVICE
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import exchange, free_port
from harness.place import Place
from harness.requirement import COMPILER, VERBS_HEADERS, Tool

from . import contents, from_source, lifetime, package_functions, python_package
from .installation import NotInstalled, installation, ours

TITLE = "the wheel in a bare virtual environment"
REQUIRES = [COMPILER, VERBS_HEADERS, Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("strip", "binutils"), Tool("make", "make")]

SECONDS = 60
# The chapters whose commands are run; README with its evaluation by night.
CHAPTERS = ("docs/python.md", "docs/testing-rdma-code.md", *(("README.md", ) if tiers.by_night() else ()))
PROGRAMS = ("verbena", "rfiod", "rfcp", "rfdir", "rfcat", "rfrm", "rfmkdir", "rfrename", "rfchmod", "rfstat", "rfsrr")


def cases() -> list[Case]:
    """Its content, its commands, its Python package."""
    found = {
        "runs where its name says": contents.portable,
        "its files are recorded": contents.recorded,
        "every command starts": commands,
        "verbena run -- ibv_rc_pingpong -c": pingpong,
        "import verbena": python_package.environments,
        "verbena.load": python_package.results,
        "verbena.run": package_functions.running,
        "verbena.bench, evaluate, compare and replay": package_functions.figures,
        "import verbena without pandas, matplotlib or the program": package_functions.without,
        "verbena.bench and Ctrl-C": package_functions.interrupted,
        "types of verbena": package_functions.types,
        "the notebook docs/results.ipynb": package_functions.notebook,
        **{call: partial(python_package.pytest, call) for call in python_package.CALLS},
        "pytest --rdma-devices": python_package.several_devices,
        "pytest --rdma shows refusals": partial(python_package.refusals, 0),
        "pytest --rdma -n 2 shows refusals": partial(python_package.refusals, 2),
        "pytest --rdma --rdma-coverage": partial(python_package.coverage, 0),
        "pytest --rdma --rdma-coverage -n 2": partial(python_package.coverage, 2),
        "pytest --rdma with VERBENA_LOG": python_package.refusals_off,
        **{name: partial(python_package.guide, name) for name in CHAPTERS},
        "pip install . after make build": from_source.clone,
        "from an archive, by pip and by make": from_source.archive,
        "from source, what is refused": from_source.refusals,
        "upgraded and uninstalled": lifetime.upgrade,
        **({"from archives, compiled from nothing": from_source.cold} if tiers.by_night() else {}),
    }
    return [Case(name, "wheel", partial(installed, case)) for name, case in found.items()]


def installed(case: Callable[[Place], Outcome], place: Place) -> Outcome:
    """The case, if there is a wheel to try."""
    if not ours():
        return skipped("another build than this tree's is tested")
    try:
        installation()
    except NotInstalled as error:
        return failed("the wheel cannot be made and installed", str(error))
    return case(place)


def commands(place: Place) -> Outcome:
    """Each command exists and prints its name and version."""
    for name in PROGRAMS:
        ended = place.run(name, installation().command(name, "--version"), SECONDS)
        if not ended.succeeded or not ended.output.startswith(f"{name} "):
            return failed(f"{name} does not start", ended.evidence())
    return passed(f"{len(PROGRAMS)} commands")


def pingpong(place: Place) -> Outcome:
    """Both ends on the adapter, by the installed command."""
    port = free_port()
    command = installation().command("verbena", "run", "--", "ibv_rc_pingpong", "-c", "-d", DEVICE, "-p", port)
    return exchange(place, command, [*command, "127.0.0.1"], port, SECONDS).outcome()
