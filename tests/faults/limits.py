"""Limits of the adapter that rules lower: they are reported, and objects beyond them are refused."""

from __future__ import annotations

from pathlib import Path

from harness import c_program
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

HERE = Path(__file__).resolve().parent
SECONDS = 60
LIBRARIES = ("-l:libibverbs.so.1",)
SIZES = {"max_srq_wr": 4, "max_cqe": 10, "max_mr_size": 4096, "max_qp_wr": 8, "max_sge": 2, "max_inline_data": 32,
         "max_qp_rd_atom": 3}
NUMBERS = {"max_pd": 3, "max_cq": 4, "max_qp": 5, "max_srq": 6, "max_mr": 7, "max_mw": 8, "max_ah": 9}


def cases() -> list[Case]:
    """All."""
    return [Case("limits", "are reported and kept", kept), Case("limits", "above the adapter's own", above)]


def run(*words: object) -> list[str]:
    """The command line."""
    return [str(VERBENA), "run", *map(str, words)]


def program() -> Path:
    """limits.c, compiled."""
    return c_program.compile_program(HERE / "limits.c", LIBRARIES)


def kept(place: Place) -> Outcome:
    """Each limit is reported; beyond a number there is ENOMEM, beyond a size EINVAL; a run is repeated from its file."""
    rules = [word for name, value in (SIZES | NUMBERS).items() for word in ("--fault", f"adapter: {name} {value}")]
    wanted = [*(f"{name} {value} EINVAL" for name, value in SIZES.items()),
              *(f"{name} {value} created {value} ENOMEM" for name, value in NUMBERS.items())]
    fired = place.directory / "fired.toml"
    for words in ((*rules, "--fired", fired), ("--faults", fired)):
        ended = place.run("limits", run(*words, "--", program()), SECONDS)
        lines = [line for line in ended.output.splitlines() if line.startswith("max_")]
        if not ended.succeeded or lines != wanted:
            return failed(f"{ended.describe()}, {lines} is not {wanted}", ended.evidence())
    return passed(f"{len(wanted)} limits")


def above(place: Place) -> Outcome:
    """A limit above the adapter's own changes nothing, and has not fired."""
    ended = place.run("limits", run("--fault", "adapter: max_sge 33", "--", "ibv_devinfo", "-v"), SECONDS)
    if ended.status != 1 or "max_sge:\t\t\t32" not in ended.output or "never fired" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    return passed()
