"""MPI programs are recorded and replayed: traces are compared with the programs' own counts, a replay with that of the
schedule which is written of it."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

from harness import build_tree, c_program, tiers
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended
from harness.requirement import COMPILER, Tool

from . import chakra, imported, simgrid

TITLE = "MPI programs recorded and replayed"
REQUIRES = [
    COMPILER, Tool("gfortran", "gfortran"),
    Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpicc.openmpi", "libopenmpi-dev"),
    Tool("mpirun.mpich", "mpich"), Tool("mpicc.mpich", "libmpich-dev"),
]

HERE = Path(__file__).resolve().parent
SECONDS = 120
# By night all transports and numbers of processes.
WHOLE = tiers.by_night()
WRONG_INPUT = 2
ENVIRONMENT = 3
MODEL = "model:connectx-qdr"
OTHERS = ["model:infinihost3-ddr", "model:connectx-ddr", "model:connectx-qdr:message"]
# Random programs of a case.
RANDOM, RANDOM_BY_NIGHT = 4, 40
SUM = re.compile(r"^sum \d+ messages (\d+)$", re.MULTILINE)
SENT = re.compile(r"^sent (\d+) (\d+)$", re.MULTILINE)
# Each launcher with its library's compilers. Ranks of MPICH do not give way to each other, so there are no more than
# processors.
OPENMPI = (["mpirun.openmpi", "--oversubscribe"], "openmpi", 4)
MPICH = (["mpirun.mpich"], "mpich", 2)
LIBRARIES = {"Open MPI": OPENMPI, "MPICH": MPICH}


def cases() -> list[Case]:
    """Programs with both libraries, then the errors."""
    found = []
    for name, library in LIBRARIES.items():
        found.append(Case("every kind of call, counted", name, partial(counted, "everything.c", library, False)))
        found.append(Case("Fortran, by each interface", name, partial(counted, "ring.f90", library, True)))
        found.append(Case("random programs, recorded and not", name, partial(unchanged, library)))
        found.append(Case("computing that is told", name, partial(declared, library)))
    found.append(Case("a shipped trace, in one file", "", shipped))
    found.append(Case("an archive in OTF2, beside the same program's recording", "Open MPI",
                      partial(imported.beside_recorded, environment())))
    found.append(Case("archives of Score-P", "", imported.real))
    found.append(Case("a trace of SimGrid", "", simgrid.traced))
    found.append(Case("a Chakra trace written by protobuf's own library", "", chakra.written))
    found.append(Case("a killed rank", "Open MPI", killed))
    found.append(Case("what is missing", "", missing))
    found.append(Case("predicted over other ways, and measured there", "Open MPI", closed_loop))
    found.append(Case("no way of this machine", "", no_way))
    return found


def program_of(source: str, flavour: str) -> Path:
    """The compiled program."""
    if source.endswith(".c"):
        return c_program.compile_program(HERE / source, libraries=(), compiler=f"mpicc.{flavour}")
    folder = build_tree.LOGS / "programs" / f"fortran-{flavour}"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / Path(source).stem
    # Modules are written into the directory of the compiler's.
    done = subprocess.run([f"mpif90.{flavour}", str(HERE / source), "-o", str(program)], cwd=folder, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise c_program.DoesNotCompile(done.stderr)
    return program


def environment() -> dict[str, str]:
    """The recorder is made once for all cases."""
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "XDG_CACHE_HOME": str(build_tree.LOGS / "cache")}


def record(place: Place, *words: object) -> Ended:
    """Records a program into the case's trace."""
    command = [str(VERBENA), "record", "--out", str(place.directory / "trace"), *map(str, words)]
    return place.run("record", command, SECONDS, **environment())


def replay(place: Place, *words: object) -> Ended:
    """Replays something."""
    return place.run("replay", [str(VERBENA), "replay", *map(str, words), "--on", MODEL, "--json"], SECONDS)


def counted(source: str, library: tuple[list[str], str, int], two_sided: bool, place: Place) -> Outcome:
    """The trace has the messages and bytes that the program has counted; it is replayed, and so is its schedule."""
    launcher, flavour, ranks = library
    try:
        program = program_of(source, flavour)
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    ended = record(place, "--", *launcher, "-n", ranks, program)
    sent = SENT.search(ended.output)
    if not ended.succeeded or sent is None:
        return failed(ended.describe(), ended.evidence())
    schedule = place.directory / "trace.goal"
    drawn = place.directory / "timeline.json"
    replayed = replay(place, place.directory / "trace", "--write-goal", schedule, "--write-timeline", drawn)
    if not replayed.succeeded:
        return failed(replayed.describe(), replayed.evidence())
    told = json.loads(replayed.output)
    if [told["messages"], told["bytes"]] != [int(number) for number in sent.groups()]:
        return failed(f"the trace has {told['messages']} messages of {told['bytes']} bytes, and {sent.group()}")
    if wrong := unbalanced(told) or misdrawn(json.loads(drawn.read_text())["traceEvents"], told):
        return failed(wrong)
    if wrong := beside(place, told):
        return wrong
    scheduled = replay(place, schedule)
    if not scheduled.succeeded:
        return failed(scheduled.describe(), scheduled.evidence())
    took, by_schedule = told["nanoseconds"], json.loads(scheduled.output)["nanoseconds"]
    # Access to another's memory is none of GOAL's operations.
    if two_sided and abs(took / by_schedule - 1) > 0.01:
        return failed(f"the replay takes {took} ns, and that of its schedule {by_schedule}")
    return passed(f"{told['messages']} messages of {told['bytes']} bytes")


def unchanged(library: tuple[list[str], str, int], place: Place) -> Outcome:
    """Random programs compute the same with the recorder in front of them, and their traces have the messages that they
    counted."""
    launcher, flavour, ranks = library
    try:
        program = program_of("random.c", flavour)
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    first = random.randrange(1 << 31)
    messages = 0
    for seed in range(first, first + (RANDOM_BY_NIGHT if WHOLE else RANDOM)):
        # Operations between two groups are recorded, and no replay knows them.
        across = ["across"] if seed % 2 else []
        words = [*launcher, "-n", ranks, program, seed, 30, *across]
        plain = place.run("plain", list(map(str, words)), SECONDS, **environment())
        shutil.rmtree(place.directory / "trace", ignore_errors=True)
        recorded = record(place, "--", *words)
        came_to = [SUM.search(ended.output) for ended in (plain, recorded)]
        if not recorded.succeeded or None in came_to or came_to[0].group() != came_to[1].group():
            return failed(f"seed {seed}: the results are {[found and found.group() for found in came_to]} plain and recorded",
                          recorded.evidence())
        if across:
            continue
        replayed = replay(place, place.directory / "trace")
        if not replayed.succeeded:
            return failed(f"seed {seed}: {replayed.describe()}", replayed.evidence())
        told = json.loads(replayed.output)["messages"]
        if told != int(came_to[0].group(1)):
            return failed(f"seed {seed}: the trace has {told} messages, and the program has {came_to[0].group()}")
        messages += told
    return passed(f"seeds from {first}, {messages} messages replayed")


def declared(library: tuple[list[str], str, int], place: Place) -> Outcome:
    """Computing that a program declares is counted, computing in a pause is not; without the recorder the declarations
    have no effect."""
    launcher, flavour, _ = library
    try:
        program = program_of("told.c", flavour)
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    alone = place.run("alone", [*launcher, "-n", "2", str(program)], SECONDS, **environment())
    if not alone.succeeded or "no recorder" not in alone.output:
        return failed(alone.describe(), alone.evidence())
    ended = record(place, "--", *launcher, "-n", 2, program)
    if not ended.succeeded or "told" not in ended.output or ended.output.count("counts for nothing") != 2:
        return failed(ended.describe(), ended.evidence())
    replayed = replay(place, place.directory / "trace")
    if not replayed.succeeded:
        return failed(replayed.describe(), replayed.evidence())
    computing = [parts["computing"] / 1e9 for parts in json.loads(replayed.output)["by_rank"]]
    # The rest of the computing is starting threads and the like.
    if any(not 0 <= seconds - (4 + rank) < 0.1 for rank, seconds in enumerate(computing)):
        return failed(f"ranks computed {computing} s, and not 4 and 5", ended.evidence())
    return passed(f"{computing[0]:.3f} s and {computing[1]:.3f} s")


def unbalanced(told: dict) -> str | None:
    """The chain is as long as the run, and a rank's waits add up to all of its waiting."""
    chain = told["chain"]
    length = chain["computing"] + chain["overhead"] + chain["wire"]
    if abs(length - told["nanoseconds"]) > 1 or chain["crossings"] == 0:
        return f"the chain {chain} is not as long as {told['nanoseconds']} ns"
    for rank, parts in enumerate(told["by_rank"]):
        if abs(parts["wire"] + sum(parts["waiting_for"].values()) - parts["waiting"]) > 1 or str(rank) in parts["waiting_for"]:
            return f"rank {rank} waited {parts}"
    return None


def misdrawn(events: list[dict], told: dict) -> str | None:
    """Returns an error in the drawing: the timeline has a track for each rank with one activity after another until its
    end, and the chain on another."""
    tracks: dict[tuple, list] = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    ends = {(0, rank): parts["end"] for rank, parts in enumerate(told["by_rank"])} | {(1, 0): told["nanoseconds"]}
    if tracks.keys() != ends.keys():
        return f"the timeline has {sorted(tracks)}"
    for track, slices in tracks.items():
        now = 0.0
        for one in slices:
            if abs(one["ts"] - now) > 1e-5:
                return f"on {track} {one} follows an event that ends at {now} us"
            now = one["ts"] + one["dur"]
        if abs(now * 1000 - ends[track]) > 1:
            return f"{track} ends at {now} us, and not {ends[track]} ns"
        computing = sum(one["dur"] for one in slices if one["name"] == "computing")
        if track[0] == 0 and abs(computing * 1000 - told["by_rank"][track[1]]["computing"]) > 1:
            return f"{track} computes {computing} us"
    arrows = [sum(event["ph"] == phase for event in events) for phase in "sf"]
    if arrows != [told["chain"]["crossings"]] * 2:
        return f"{arrows} arrows, and the chain has {told['chain']['crossings']} crossings"
    return None


def beside(place: Place, told: dict) -> Outcome | None:
    """Several models are reported in the order of the command line, each as if it were alone."""
    trace = place.directory / "trace"
    more = [word for other in OTHERS for word in ("--on", other)]
    together = place.run("replay", [str(VERBENA), "replay", str(trace), "--on", MODEL, *more, "--json"], SECONDS)
    if not together.succeeded:
        return failed(together.describe(), together.evidence())
    all_told = json.loads(together.output)
    systems = [one["system"] for one in all_told]
    if all_told[0] != told or systems != [name.split(":")[1] for name in [MODEL, *OTHERS]]:
        return failed(f"the first of {systems} differs from its result alone", together.evidence())
    refused = place.run("replay", [str(VERBENA), "replay", str(trace), "--on", MODEL, *more, "--write-goal", "x"], SECONDS)
    if refused.status != WRONG_INPUT or "one --on" not in refused.output:
        return failed("a schedule of several libraries is not refused", refused.evidence())
    return by_ranks(place, all_told)


def by_ranks(place: Place, all_told: list[dict]) -> Outcome | None:
    """Several traces are a row each, in their order, each as if it were alone; schedules among them are refused."""
    trace = place.directory / "trace"
    models = [word for model in [MODEL, *OTHERS] for word in ("--on", model)]
    command = [str(VERBENA), "replay", str(trace), str(trace), *models]
    told = place.run("replay", [*command, "--json"], SECONDS)
    if not told.succeeded or json.loads(told.output) != all_told * 2:
        return failed("two traces differ from each alone", told.evidence())
    table = place.run("replay", command, SECONDS)
    # Intervals and verdicts follow after an empty line.
    rows = [line.split() for line in table.output.split("\n\n")[0].splitlines()]
    ranks = str(all_told[0]["ranks"])
    ratios = [f"{one['nanoseconds'] / all_told[0]['nanoseconds']:.3f}x" for one in all_told]
    if len(rows) != 3 or any(row[:3] != [str(trace), ranks, ranks] or row[5::3] != ratios for row in rows[1:]):
        return failed(f"not two rows of {ranks} ranks with {ratios}", table.evidence())
    refused = place.run("replay", [str(VERBENA), "replay", str(trace), str(VERBENA), "--on", MODEL], SECONDS)
    if refused.status != WRONG_INPUT or "is not a trace" not in refused.output:
        return failed("a file among traces is not refused", refused.evidence())
    return None


def shipped(place: Place) -> Outcome:
    """Traces of one file are replayed as directories are; one that is cut off is refused."""
    kept = build_tree.ROOT / "papers/traces/lammps-rhodo-2.trace"
    ended = replay(place, kept)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    told = json.loads(ended.output)
    if [told["ranks"], told["messages"]] != [2, 656]:
        return failed(f"it has {told['messages']} messages of {told['ranks']} ranks")
    torn = place.directory / "torn.trace"
    torn.write_bytes(kept.read_bytes()[:-1])
    refused = replay(place, torn)
    if refused.status != WRONG_INPUT or "should follow" not in refused.output:
        return failed("a trace that is cut off is not refused", refused.evidence())
    return passed(f"{told['messages']} messages in {told['nanoseconds'] / 1e9:.2f} s")


def killed(place: Place) -> Outcome:
    """The trace has a killed rank's calls before the kill; a replay says that the end is missing."""
    try:
        program = program_of("killed.c", "openmpi")
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    launcher, _, _ = OPENMPI
    ended = record(place, "--", *launcher, "-n", 2, program)
    calls = re.search(r"MPI_Sendrecv +(\d+)", ended.output)
    if ended.succeeded or calls is None or "rank 1" not in ended.output or "the trace is incomplete" not in ended.output:
        return failed(ended.describe(), ended.evidence())
    # The launcher may kill rank 0, too. At most one block for each rank is lost.
    if not 60000 < int(calls.group(1)) <= 120000:
        return failed(f"{calls.group(1)} of 120000 calls can be read", ended.evidence())
    replayed = replay(place, place.directory / "trace")
    if replayed.status != WRONG_INPUT or "MPI_Finalize" not in replayed.output:
        return failed(replayed.describe(), replayed.evidence())
    return passed(f"{calls.group(1)} of 120000 calls")


def missing(place: Place) -> Outcome:
    """No compiler, another library's compiler, no MPI program, a command that fails, a directory that has a trace: each
    error names the remedy or the cause."""
    program = program_of("killed.c", "mpich")
    launcher, _, _ = MPICH
    for words, status, told in [
            (["--mpicc", "/nowhere/mpicc", "--", "true"], ENVIRONMENT, "/nowhere/mpicc"),
            (["--", "true"], ENVIRONMENT, "no process recorded anything"),
            (["--", "sh", "-c", "exit 7"], 7, "sh ended with exit status: 7 and wrote no trace"),
            (["--mpicc", "mpicc.openmpi", "--", *launcher, "-n", "1", program], ENVIRONMENT, "--mpicc mpicc.mpich"),
    ]:
        ended = record(place, *words)
        if ended.status != status or told not in ended.output:
            return failed(f"{told!r} is not told with exit {status}", ended.evidence())
    (place.directory / "trace" / "rank-0.trace").write_text("something")
    ended = record(place, "--", "true")
    if ended.status != WRONG_INPUT or "already holds a trace" not in ended.output:
        return failed("the trace would be written over", ended.evidence())
    replayed = replay(place, place.directory / "trace")
    if replayed.status != WRONG_INPUT or "rank-0.trace, byte 0" not in replayed.output:
        return failed("a file that is no trace is not reported", replayed.evidence())
    return passed()


# Computes and exchanges, some 10 ms of each rank.
EXCHANGES = """
#include <mpi.h>
int main(int count, char **words)
{
	static double memory[1 << 16], other[1 << 10];
	int rank, ranks;
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int round = 0; round < 50; round++) {
		for (int i = 1; i < 1 << 16; i++)
			memory[i] = memory[i - 1] * 0.5 + i;
		MPI_Sendrecv(memory, 1 << 10, MPI_DOUBLE, (rank + 1) % ranks, 0, other, 1 << 10, MPI_DOUBLE,
			     (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Allreduce(MPI_IN_PLACE, memory, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return 0;
}
"""


def closed_loop(place: Place) -> Outcome:
    """Each transport and number of processes has a prediction beside the measurement, both of the recorded program: how
    far they are apart depends on the machine, and on a loaded one proves nothing."""
    source, program = place.directory / "exchanges.c", place.directory / "exchanges"
    source.write_text(EXCHANGES)
    done = subprocess.run(["mpicc.openmpi", "-O2", str(source), "-o", str(program)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return failed("does not compile", done.stderr)
    words = [str(VERBENA), "closed-loop", "--mpi", "openmpi", "--processes", "2,4" if WHOLE else "4", "--launches", "1",
             *(["--on", "shm"] if WHOLE else []), "--on", "tcp", str(program), "--out", str(place.directory / "loop.json")]
    ended = place.run("closed-loop", words, SECONDS, **environment())
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    told = json.loads((place.directory / "loop.json").read_text())
    rows = told["rows"]
    wanted = [(2, "shm"), (2, "tcp"), (4, "shm"), (4, "tcp")] if WHOLE else [(4, "tcp")]
    if [(row["processes"], row["on"]) for row in rows] != wanted:
        return failed(f"the rows are {rows}")
    for row in rows:
        # Each of 50 rounds sends one message a rank; nothing takes less than its computing.
        if row["messages"] != 50 * row["processes"] or not row["predicted"] >= row["computing"] > 0:
            return failed(f"an impossible prediction: {row}")
        if not row["measured"] > 0 or abs(row["error"] - (row["predicted"] / row["measured"] - 1) * 100) > 1e-6:
            return failed(f"a wrong error: {row}")
    errors = [abs(row["error"]) for row in rows]
    if abs(told["mean_error"] - sum(errors) / len(errors)) > 1e-6 or told["worst_error"] != max(errors):
        return failed(f"{told['mean_error']} is not the mean of {errors}")
    return passed(f"error {told['mean_error']:.0f} % on average, at most {told['worst_error']:.0f} %")


def no_way(place: Place) -> Outcome:
    """Models and other machines' adapters are no transports of this machine; a file that is no program is named."""
    for words, expected in [(["--on", MODEL, "/bin/true"], "closed-loop runs on this machine only"),
                            (["app.nothing"], "app.nothing is neither an application")]:
        ended = place.run("closed-loop", [str(VERBENA), "closed-loop", "--mpi", "openmpi", *words], SECONDS, **environment())
        if ended.status != WRONG_INPUT or expected not in ended.output:
            return failed(ended.describe(), ended.evidence())
    return passed()
