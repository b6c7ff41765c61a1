"""Programs that start and serve over several hosts as on a cluster: the benchmark suite by `mpirun` and `srun`, and the
file service."""

from __future__ import annotations

import json
import re
import time
from functools import partial
from pathlib import Path
from typing import Callable, Sequence

from harness import counters, tiers
from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.process import HANGS_AFTER, Ended
from harness.requirement import Tool
from roce.hosts import WIRE_PYTHON, Host, Hosts
from roce.ports import TwoCables, more
from roce.suite import on_hosts

from .copies import copies
from .slurm import Slurm

TITLE = "the suite and the file service over two hosts"
REQUIRES = [Tool("ip", "iproute2"), Tool("nsenter", "util-linux"), Tool("mpirun.openmpi", "openmpi-bin"),
            Tool("mpirun.mpich", "mpich"), Tool("srun", "slurm-client"), Tool("slurmd", "slurmd"),
            Tool("slurmctld", "slurmctld")]

SECONDS = 900
# By night all of the suite is started by each launcher.
WHOLE = tiers.by_night()
HERE = Path(__file__).resolve().parent
# DSCP 26.
CLASS = "104"
# Two processes, and several on each host with a benchmark that depends on which processes share a host.
BENCHMARKS = ["latency.write", "bandwidth.send", "multi-pair.write-latency", "patterns.all-pairs"]
OPTIONS = ["--quick", "--sizes", "8,4K", "--mode", "free", "--pairs", "1,2"]
ROOT = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
# Variables that are passed to processes on the other host.
TOLD = ["VERBENA_LINK", "VERBENA_STATS_DIR"]
# Stands for ssh: enters the other namespace, under another host name, with the environment of a login there and none of
# this one.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i PATH="$PATH" HOME="$HOME" VERBENA_RUNTIME_DIR=%(runtime)s %(root)s \\
	nsenter -t %(pid)d -n -- unshare -u sh -c "hostname other; $*"
"""
# How Open MPI deals out and binds processes.
PLACED = (["--map-by", "node"], ["--map-by", "slot"], ["--bind-to", "core:overload-allowed"])
Starts = Callable[[Hosts, list[str]], Ended]


def cases() -> list[Case]:
    """Each launcher with some benchmarks, and the whole evaluation once."""
    per_node = ["--ntasks-per-node=2"]
    return [
        Case("bench", "Open MPI", on_hosts(partial(bench, openmpi))),
        Case("bench", "MPICH", on_hosts(partial(bench, mpich))),
        Case("bench", "srun --ntasks-per-node", on_hosts(partial(bench, partial(srun, per_node)))),
        Case("bench", "srun", on_hosts(partial(bench, partial(srun, ["--ntasks=4"])))),
        Case("bench", "srun --distribution=cyclic",
             on_hosts(partial(bench, partial(srun, ["--ntasks=4", "--distribution=cyclic"])))),
        Case("packets of a class", "Open MPI", on_hosts(marked)),
        Case("pairs over two cables", "Open MPI", on_hosts(two_ports, kind=TwoCables)),
        Case("evaluate --quick", "Open MPI", on_hosts(partial(evaluate, openmpi))),
        Case("rfcp of 1 GiB", "there and back", on_hosts(copies, mtu=9000)),
        *([Case("evaluate --quick", "srun", on_hosts(partial(evaluate, partial(srun, ["--ntasks=4"])))),
           *[Case("bench", f"Open MPI, {' '.join(placed)}", on_hosts(partial(bench, partial(openmpi, placed=placed))))
             for placed in PLACED],
           Case("a task hangs", "srun --kill-on-bad-exit", on_hosts(hung)),
           Case("state of a hang", "Open MPI", on_hosts(state_is_written))] if WHOLE else []),
    ]


def agent(hosts: Hosts) -> Path:
    """Writes the stand-in for ssh."""
    second = hosts.members[1]
    script = hosts.place.directory / "agent"
    script.write_text(AGENT % {"runtime": second.runtime, "pid": second.keeper.pid, "root": " ".join(ROOT)})
    script.chmod(0o755)
    return script


def launch(hosts: Hosts, launcher: list[object], command: list[str], seconds: float = SECONDS) -> Ended:
    """Runs a launcher of MPI on the first host. Each host takes its own interface, for they have different names."""
    first: Host = hosts.members[0]
    words = ["env", "VERBENA_LINK=roce", *ROOT, *launcher, *command]
    return hosts.run(first, "mpirun", first.inside(list(map(str, words))), seconds)


def openmpi(hosts: Hosts, command: list[str], placed: Sequence[str] = (), seconds: float = SECONDS) -> Ended:
    """Two processes on each of the hosts of a host file, dealt out and bound as the options say."""
    file = hosts.place.directory / "hostfile"
    file.write_text("".join(f"{host.address} slots=2\n" for host in hosts.members))
    told = [word for name in TOLD for word in ("-x", name)]
    return launch(hosts, ["mpirun.openmpi", "--mca", "plm_rsh_agent", agent(hosts), "--hostfile", file, *told,
                          *placed, "-n", 4], command, seconds)


def mpich(hosts: Hosts, command: list[str]) -> Ended:
    """The same, dealt out in turn."""
    file = hosts.place.directory / "hostfile"
    file.write_text("".join(f"{host.address}\n" for host in hosts.members))
    return launch(hosts, ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", agent(hosts), "-f", file,
                          "-genvlist", ",".join(TOLD), "-n", 4], command)


def srun(options: list[str], hosts: Hosts, command: list[str]) -> Ended:
    """A step of a cluster with two processors on each node."""
    with Slurm(hosts, processors=2) as slurm:
        ended = slurm.submit(["--nodes=2", *options], command, SECONDS, ["env", "VERBENA_LINK=roce"])
        left = list(slurm.home.rglob("exchange-*"))
        assert not left, f"the job's secret is left behind: {left}"
        return ended


def records(directory: Path) -> list[dict]:
    """The records of a run."""
    return [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]


def measured(hosts: Hosts, ended: Ended, out: Path) -> Outcome:
    """Whether a run completed with checked data, without a failure, and over the cable."""
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    found = records(out)
    failures = [one for one in found if one["record"] == "failure" and not one["unsupported"]]
    if failures:
        return failed(failures[0]["reason"], ended.evidence())
    points = [one for one in found if one["record"] == "point"]
    if not any(point["conduct"]["validated"] for point in points):
        return failed("no point has checked data", ended.evidence())
    if "udp" not in counters.paths_used(hosts.place):
        return failed("nothing went over the cable", ended.evidence())
    # Pairs span the hosts, and the suite assumes that each host has its own clock.
    errors = sorted(point["conduct"].get("start_error") or 0 for point in points
                    if point["benchmark"] in ("latency.write", "bandwidth.send"))
    if not errors or errors[0] <= 0:
        return failed(f"starts on two hosts are known to within {errors} ns", ended.evidence())
    return passed(f"{len(points)} points, starts known to {errors[len(errors) // 2] / 1000:.0f} us")


def bench(start: Starts, hosts: Hosts) -> Outcome:
    """Some benchmarks: each has points."""
    out = hosts.place.directory / "out"
    ended = start(hosts, [str(VERBENA), "bench", *BENCHMARKS, *OPTIONS, "--out", str(out)])
    outcome = measured(hosts, ended, out)
    if outcome.evidence:
        return outcome
    names = {one["benchmark"] for one in records(out) if one["record"] == "point"}
    lacking = sorted(set(BENCHMARKS) - names)
    return failed(f"no point of {', '.join(lacking)}", ended.evidence()) if lacking else outcome


def marked(hosts: Hosts) -> Outcome:
    """Packets of the class that was asked for, in both directions, and no others; the record says which."""
    second = hosts.members[1]
    classes = hosts.start(second, "classes", second.inside([WIRE_PYTHON, str(HERE / "classes.py")]))
    deadline = time.monotonic() + SECONDS
    while classes.running and "listening" not in classes.output() and time.monotonic() < deadline:
        time.sleep(0.01)
    out = hosts.place.directory / "out"
    ended = openmpi(hosts, [str(VERBENA), "bench", "latency.write", "--quick", "--sizes", "8", "--traffic-class", CLASS,
                            "--out", str(out)])
    seen = re.findall(r"^class (\d+)$", classes.finish(time.monotonic()).output, re.M)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    if seen != [CLASS]:
        return failed(f"packets are of the classes {seen}", ended.evidence())
    known = records(out)[0]["environment"]
    if known["traffic class"] != CLASS or "RoCE v2" not in known["GID"] or "10.9.0.1" not in known["GID"]:
        return failed(f"the record says {known}")
    return passed(f"class {', '.join(seen)}; {known['GID']}")


def hung(hosts: Hosts) -> Outcome:
    """A task that hangs for good costs the benchmark at which it was; the step ends as its user asked for."""
    out = hosts.place.directory / "out"
    # It stops itself when process 0 has measured something.
    stops = (f'if [ "$SLURM_PROCID" = 3 ]; then (until grep -q record.:.point {out}/results.jsonl; do sleep 0.1; done; '
             'kill -STOP $$) & fi; exec "$@"')
    command = [str(VERBENA), "bench", "multi-pair.write-latency", "latency.write", "--launches", "1", "--sizes", "8,64,512,4096",
               "--pairs", "2", "--mode", "free", "--out", str(out)]
    ended = srun(["--ntasks=4", "--kill-on-bad-exit"], hosts, ["sh", "-c", stops, "sh", *command])
    if ended.status in (0, None):
        return failed(f"{ended.describe()}, expected a failure", ended.evidence())
    found = records(out)
    failures = {one["benchmark"]: one["reason"] for one in found if one["record"] == "failure"}
    if "process 3" not in failures.get("multi-pair.write-latency", ""):
        return failed(f"the failures are {failures}", ended.evidence())
    measured_then = [one for one in found if one["record"] == "point" and one["benchmark"] == "latency.write"]
    if not measured_then or found[-1].get("outcome") != "complete":
        return failed(f"after it {len(measured_then)} points were measured, and it ended as {found[-1]}", ended.evidence())
    return passed(f"{ended.seconds:.0f} s")


def state_is_written(hosts: Hosts) -> Outcome:
    """The state of a process that hangs on the other host is in a file beside the log."""
    # Process 3 stops when its adapter is open.
    opens = (f'case $OMPI_COMM_WORLD_RANK in 3) (until ls {hosts.members[1].runtime}/*.* >/dev/null 2>&1; do sleep 0.1; done; '
             'kill -STOP $$) & ;; esac; exec "$@"')
    ended = openmpi(hosts, ["sh", "-c", opens, "sh", str(VERBENA), "bench", "latency.write", "--sizes", "8", "--out",
                            str(hosts.place.directory / "out")], seconds=2 * HANGS_AFTER)
    if ended.state is None:
        return failed("no state was written", ended.evidence())
    state = ended.state.read_text(encoding="utf-8")
    stopped = [block for block in state.split("\nprocess ") if "bench latency.write" in block and ": T, wchan" in block]
    lacking = [str(host.runtime) for host in hosts.members if f"verbena info, {host.runtime}:" not in state]
    if not stopped or lacking:
        return failed(f"{len(stopped)} stopped processes; no adapter of {lacking}", state)
    return passed(f"{len(state.splitlines())} lines")


def two_ports(hosts: Hosts) -> Outcome:
    """Pairs take the ports of an adapter in turn: the second pair's data goes over the second cable only."""
    out = hosts.place.directory / "out"
    # Each host's own names of its two interfaces, the first cable's first.
    named = 'VERBENA_INTERFACE=$(ip -o link | grep -oE "(veth|wire)[0-9]+" | sort -u | paste -sd, ) exec "$@"'
    sent = {}
    for pairs in (1, 2):
        before = [received(hosts, name) for name in (hosts.members[1].interface, more(hosts.members[1]))]
        ended = openmpi(hosts, ["sh", "-c", named, "sh", str(VERBENA), "bench", "multi-pair.write-bandwidth", "--quick",
                                "--sizes", "64K", "--ports", "1,2", "--pairs", str(pairs), "--out", str(out / str(pairs))])
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
        after = [received(hosts, name) for name in (hosts.members[1].interface, more(hosts.members[1]))]
        sent[pairs] = [there - here for here, there in zip(before, after)]
        found = records(out / str(pairs))
        if not any(one["record"] == "point" for one in found) or any(one["record"] == "failure" for one in found):
            return failed(f"with {pairs} pairs it measured {found[1:]}", ended.evidence())
    known = records(out / "2")[0]["environment"]["device"]
    if known != "verbena0 port 1, verbena0 port 2":
        return failed(f"the record says {known}")
    if sent[1][1] * 100 > sent[1][0] or min(sent[2]) * 20 < max(sent[2]):
        return failed(f"by the two cables, of 1 and 2 pairs, {sent} bytes were sent")
    return passed(", ".join(f"{by / 1e6:.0f} MB" for by in sent[2]))


def received(hosts: Hosts, interface: str) -> int:
    """Bytes that came by an interface of the second host."""
    second = hosts.members[1]
    told = hosts.run(second, "counters", second.inside(["ip", "-j", "-s", "link", "show", interface]), SECONDS)
    return json.loads(told.output)[0]["stats64"]["rx"]["bytes"]


def evaluate(start: Starts, hosts: Hosts) -> Outcome:
    """The whole evaluation, with its report."""
    out = hosts.place.directory / "out"
    ended = start(hosts, [str(VERBENA), "evaluate", "--quick", "--beside", "none", "--out", str(out)])
    outcome = measured(hosts, ended, out)
    if outcome.evidence == "" and not (out / "report.html").is_file():
        return failed("no report", ended.evidence())
    return outcome
