"""Programs of others, unmodified, with the times of another adapter, and on links that delay and lose packets: each of
them ends as it does without. A request that fails ends MPI programs, as UCX' documentation says of endpoints without error handling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from harness import c_program
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import Exchange, exchange, free_port, listening
from harness.place import Place
from harness.process import Ended
from harness.requirement import COMPILER, Tool
from mpi import suite as mpi
from rdmacm.suite import converse, listens, sweep
from ucx.suite import RESULT, TLS

TITLE = "programs of others with the times of another adapter, and with faults of links"
REQUIRES = [Tool("ib_write_lat", "perftest"), Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("rping", "rdmacm-utils"),
            Tool("ucx_perftest", "ucx-utils"), Tool("fi_pingpong", "libfabric-bin"), COMPILER,
            Tool("mpirun.openmpi", "openmpi-bin"), Tool("mpicc.openmpi", "libopenmpi-dev"),
            Tool("mpirun.mpich", "mpich"), Tool("mpicc.mpich", "libmpich-dev")]

SECONDS = 120
# A table takes 5 s of processor time (InfiniHost III), and minutes on a busy machine.
TABLE_SECONDS = 600
HERE = "127.0.0.1"

FAULTS = ("--fault", "link: delay 20 us", "--fault", "link: loss 1%", "--seed", "7", "--allow-unfired")
CONDITIONS: dict[str, tuple[str, ...]] = {
    "as connectx-qdr": ("--as", "connectx-qdr"),
    "as infinihost3-ddr": ("--as", "infinihost3-ddr"),
    "delays and losses": FAULTS,
    "as connectx-qdr, delays and losses": ("--as", "connectx-qdr", *FAULTS),
    "RoCE, as connectx-qdr": ("--link", "roce", "--as", "connectx-qdr"),
    "RoCE, delays and losses": ("--link", "roce", *FAULTS),
}

# Programs of two sides, with a port and the server's name.
BY_PORT = {
    "ib_write_lat": ("ib_write_lat", "-F", "-n", "500", "-s", "64"),
    "ib_write_bw of many sizes": ("ib_write_bw", "-F", "-n", "100", "-a"),
    "ib_send_bw with an event for each completion": ("ib_send_bw", "-F", "-e", "-n", "200", "-s", "4096"),
    "ib_send_bw by a shared receive queue": ("ib_send_bw", "-F", "-n", "200", "-r", "128", "--use-srq", "-q", "4"),
    "ib_read_bw": ("ib_read_bw", "-F", "-n", "200", "-s", "65536", "-q", "2"),
    "ib_atomic_bw": ("ib_atomic_bw", "-F", "-n", "500"),
    "ib_write_bw both ways": ("ib_write_bw", "-F", "-b", "-n", "200", "-s", "65536"),
    "ibv_rc_pingpong": ("ibv_rc_pingpong", "-c", "-n", "200"),
    "ibv_srq_pingpong": ("ibv_srq_pingpong", "-c", "-n", "200"),
}
# Programs that use the connection manager.
BY_CM = {
    "rping": (["rping", "-s", "-a", HERE, "-C", "20", "-v", "-V"], ["rping", "-c", "-a", HERE, "-C", "20", "-v", "-V"]),
    "rstream (rsockets)": (["rstream", "-S", "4096"], ["rstream", "-S", "4096", "-s", HERE]),
    "fi_pingpong (verbs)": (["fi_pingpong", "-p", "verbs", "-e", "msg", "-c"], ["fi_pingpong", "-p", "verbs", "-e", "msg", "-c", HERE]),
    "fi_pingpong (verbs;ofi_rxm)": (["fi_pingpong", "-p", "verbs;ofi_rxm", "-e", "rdm", "-c"],
                                    ["fi_pingpong", "-p", "verbs;ofi_rxm", "-e", "rdm", "-c", HERE]),
}
UCX = (("tag_lat", 8, 500), ("tag_bw", 65536, 200), ("ucp_get", 65536, 100), ("ucp_fadd", 8, 300))
# Statuses of a request.
STATUSES = ("local-length", "local-qp-operation", "remote-invalid-request", "remote-operation", "retry-exceeded", "flush", "fatal")
# UCX' words, at the requester or at its peer, whose receive fails.
FAILURE = re.compile(r"completion(\[0\])? with error|IB Async event")
MPI = (("Open MPI", mpi.OPENMPI, "mpicc.openmpi"), ("MPICH", mpi.MPICH, "mpicc.mpich"))


@dataclass(frozen=True)
class Condition:
    """Options of `verbena run`."""

    options: tuple[str, ...]

    @property
    def system(self) -> str:
        """The system whose times the program has; empty without one."""
        return self.options[self.options.index("--as") + 1] if "--as" in self.options else ""

    def run(self, *command: object) -> list[str]:
        """The command line of a program in this condition."""
        return [str(VERBENA), "run", *self.options, "--", *map(str, command)]

    def prepare(self, place: Place) -> None:
        """Computes the table of the system, so that a server does not wait for it."""
        if self.system:
            ended = place.run("table", [str(VERBENA), "run", "--as", self.system, "--", "true"], TABLE_SECONDS)
            assert ended.succeeded, ended.evidence()


def cases() -> list[Case]:
    """Each program in each condition."""
    found = []
    for name, options in CONDITIONS.items():
        condition = Condition(options)
        found += [Case(program, name, partial(by_port, command, condition)) for program, command in BY_PORT.items()]
        found += [Case(program, name, partial(by_cm, *commands, condition)) for program, commands in BY_CM.items()]
        found += [Case(f"ucx_perftest {test} {size} B", name, partial(by_ucx, test, size, count, condition))
                  for test, size, count in UCX]
        found += [Case(f"{library}, 2 ranks", name, partial(by_mpi, launcher, compiler, condition))
                  for library, launcher, compiler in MPI]
    found += [Case(f"{library}, a request fails", status, partial(failing, launcher, compiler, status))
              for library, launcher, compiler in MPI for status in STATUSES]
    return found


def judged(done: Exchange, condition: Condition) -> Outcome:
    """Both sides end well, and the report of an emulation is printed."""
    outcome = done.outcome()
    if not done.client or not (done.client.succeeded and done.server.succeeded):
        return outcome
    if condition.system and f"verbena: as {condition.system}: " not in done.client.output:
        return failed("no report", done.evidence())
    return passed()


def by_port(command: tuple[str, ...], condition: Condition, place: Place) -> Outcome:
    """A program of perftest or of rdma-core's examples."""
    condition.prepare(place)
    port = free_port()
    words = [*command, "-p", port]
    if "roce" in condition.options and command[0].startswith("ibv_"):
        words += ["-g", "1"]
    return judged(exchange(place, condition.run(*words), condition.run(*words, "localhost"), port, SECONDS), condition)


def by_cm(server: list[str], client: list[str], condition: Condition, place: Place) -> Outcome:
    """A program that listens by the connection manager."""
    condition.prepare(place)
    ready = lambda _: listens(place)  # noqa: E731
    if server[0] == "fi_pingpong":
        # Its default port may belong to another test's server, which would be taken for this one's.
        port = free_port()
        server, client = [*server, "-B", str(port)], [*client[:-1], "-P", str(port), client[-1]]
        ready = lambda _: listening(port)  # noqa: E731
    return judged(converse(place, condition.run(*server), condition.run(*client), ready, "mapped"), condition)


def by_ucx(test: str, size: int, count: int, condition: Condition, place: Place) -> Outcome:
    """UCX, by reliable connections."""
    condition.prepare(place)
    port = free_port()
    command = condition.run("ucx_perftest", "-p", port)
    options = ["-t", test, "-s", str(size), "-n", str(count), "-w", "20"]
    done = exchange(place, command, [*command, *options, HERE], port, SECONDS, UCX_TLS=TLS["rc_verbs"], UCX_WARN_UNUSED_ENV_VARS="n")
    outcome = judged(done, condition)
    if done.client and done.client.succeeded and not RESULT.search(done.client.output):
        return failed("the client printed no result", done.evidence())
    if " ERROR " in done.evidence():
        return failed("UCX reports an error", done.evidence())
    return outcome


def ranks(launcher: list[str], compiler: str, condition: Condition, place: Place) -> Ended:
    """Runs two ranks that verify all that they are sent."""
    condition.prepare(place)
    program = c_program.compile_program(mpi.HERE / "verified.c", libraries=(), compiler=compiler)
    return place.run("verified", condition.run(*launcher, "-n", 2, program), SECONDS, **mpi.ENVIRONMENT)


def failing(launcher: list[str], compiler: str, status: str, place: Place) -> Outcome:
    """All ranks end, the library says why, and the command fails."""
    ended = ranks(launcher, compiler, Condition(("--fault", f"qp*.send 20: {status}")), place)
    # Processes that abort leave shared state for the next one to remove.
    sweep(place)
    if ended.timed_out or ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    if f'fault "qp*.send 20: {status}" fired' not in ended.output or not FAILURE.search(ended.output):
        return failed("the fault or its consequence is not in the output", ended.evidence())
    return passed(f"exit code {ended.status}")


def by_mpi(launcher: list[str], compiler: str, condition: Condition, place: Place) -> Outcome:
    """Two ranks verify all that they are sent."""
    ended = ranks(launcher, compiler, condition, place)
    match = mpi.VERIFIED.search(ended.output)
    if not ended.succeeded or match is None or match[1] != "2":
        return failed(ended.describe(), ended.evidence())
    return passed(f"{match[2]} bytes verified")
