"""The cost that the recorder of MPI programs adds to a call: the same program with and without it, alternately."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from harness import c_program
from harness.build_tree import VERBENA
from harness.place import Place

HERE = Path(__file__).resolve().parent
SECONDS = 60
LAUNCHES = 5
TAKES = re.compile(r"a call takes ([\d.]+) ns")


def figures() -> dict[str, float]:
    """Returns nanoseconds per call and the added cost, each the minimum of some launches; nothing if it could not be measured."""
    try:
        program = c_program.compile_program(HERE / "recorder.c", libraries=(), compiler="mpicc")
    except (OSError, c_program.DoesNotCompile) as error:
        print(f"the recorder's cost: {error}", file=sys.stderr)
        return {}
    place = Place("bench", "recorder")
    plain, recorded = [], []
    try:
        for _ in range(LAUNCHES):
            trace = place.directory / "trace"
            shutil.rmtree(trace, ignore_errors=True)
            for command, taken in (([program], plain), ([VERBENA, "record", "--out", trace, "--", program], recorded)):
                ended = place.run("recorder", list(map(str, command)), SECONDS,
                                  OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
                match = TAKES.search(ended.output)
                if not match:
                    print(f"the recorder's cost: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
                    return {}
                taken.append(float(match.group(1)))
    finally:
        place.close()
    return {"mpi_call_ns": min(plain), "recorded_call_ns": max(min(recorded) - min(plain), 0.0)}
