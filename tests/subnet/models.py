"""Models on the fabric that runs: its topology and its forwarding tables drive a benchmark and a replay."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from harness.build_tree import VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .fabric import SECONDS, lacks, up

# Each manager, and the engine of OpenSM.
MANAGERS = {"builtin": "", "minhop": "-R minhop", "updn": "-R updn", "ftree": "-R ftree"}
SHAPE, HOSTS = "fat-tree:4", 8
# Every other host sends to the last one.
RECEIVER = HOSTS - 1
BYTES = 1 << 20
# Ports that are named at most.
HOTTEST = 5
ENGINES = ("minhop", "updn")
WRONG_INPUT = 2
ENTRY = re.compile(r"^0x([0-9a-f]{4}) (\d{3}) ")


def cases() -> list[Case]:
    """Topology and tables of a fabric, by each manager."""
    return [
        Case("models take the fabric and name its hot ports", "", modelled),
        Case("a study has routings of a fabric as an axis", "", studied),
    ]


class Tables:
    """The ports of a fabric and its forwarding tables, read from the output of the tools."""

    def __init__(self, topology: str, tables: str) -> None:
        # By switch and port: the peer, its port, and the LID of a host.
        self.peers: dict[tuple[str, int], tuple[str, int]] = {}
        self.hosts: dict[str, int] = {}
        self.uplinks: dict[str, tuple[str, int]] = {}
        for block in topology.split("\n\n"):
            if not (head := re.search(r'^(Switch|Ca)\s+\d+ "[SH]-[0-9a-f]{16}"\s+# "([^"]*)"', block, re.MULTILINE)):
                continue
            for port, far, peer, lid in re.findall(r'^\[(\d+)\].*?"[SH]-[0-9a-f]+"\[(\d+)\].*?# (?:lid \d+ lmc \d+ )?"([^"]*)" lid (\d+)',
                                                   block, re.MULTILINE):
                if head[1] == "Switch":
                    self.peers[head[2], int(port)] = (peer, int(far))
                    if peer.startswith("host"):
                        self.hosts[peer] = int(lid)
                else:
                    self.uplinks[head[2]] = (peer, int(far))
        self.outs: dict[tuple[str, int], int] = {}
        switch = ""
        for line in tables.splitlines():
            if found := re.match(r"Unicast lids .*\((.*)\):$", line):
                switch = found[1]
            elif found := ENTRY.match(line):
                self.outs[switch, int(found[1], 16)] = int(found[2])

    def walk(self, source: str, target: str) -> list[str]:
        """The ports that a packet passes, and that send."""
        ports, at = [f"{source} port 1"], self.uplinks[source][0]
        while at != target:
            port = self.outs[at, self.hosts[target]]
            ports.append(f"{at} port {port}")
            at = self.peers[at, port][0]
            if len(ports) > 10:
                raise ValueError(f"a loop from {source} to {target}: {ports}")
        return ports


def schedule() -> str:
    """Every host sends to the last one, in GOAL's format."""
    lines = [f"num_ranks {HOSTS}"]
    for rank in range(RECEIVER):
        lines += [f"rank {rank} {{", f"l1: send {BYTES}b to {RECEIVER} tag 0", "}"]
    lines += [f"rank {RECEIVER} {{", *(f"l{rank}: recv {BYTES}b from {rank} tag 0" for rank in range(RECEIVER)), "}"]
    return "\n".join(lines) + "\n"


def modelled(place: Place) -> Outcome:
    """The last port on the tables' paths is the hottest, the named ports are on them, and those before it wait for credits."""
    goal = place.directory / "incast.goal"
    goal.write_text(schedule())
    for name, engine in MANAGERS.items():
        topology, routes = place.directory / f"{name}.topo", place.directory / f"{name}.lfts"
        dump = f"ibnetdiscover > {topology}; dump_fts > {routes}"
        script, manager = dump, "builtin"
        if engine:
            script = f"OSM_CACHE_DIR={place.directory} OSM_TMP_DIR={place.directory} opensm -o {engine} -f opensm.log > opensm.out; {dump}"
            manager = "none"
        if failure := lacks(up(place, script, "--topology", SHAPE, "--sm", manager), []):
            return failure
        if failure := hot(place, goal, topology, routes):
            return failure
    return passed(f"{len(MANAGERS)} routings")


def hot(place: Place, goal: Path, topology: Path, routes: Path) -> Outcome | None:
    """The failure if a replay or a benchmark on the files does not name the ports that the tables lead to."""
    tables = Tables(topology.read_text(), routes.read_text())
    hosts = sorted(tables.hosts)
    receiver = hosts[RECEIVER]
    paths = {source: tables.walk(source, receiver) for source in hosts if source != receiver}
    files = ["--topology", str(topology), "--routes", str(routes), "--on", "model:connectx6-hdr"]
    ended = place.run("replay", [str(VERBENA), "replay", str(goal), *files, "--json"], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    ports = json.loads(ended.output[ended.output.index("{\n"):])["hot_ports"]
    last = paths[hosts[0]][-1]
    passes = {port for path in paths.values() for port in path}
    if ports[0]["port"] != last or ports[0]["to"] != f"{receiver} port 1" or ports[0]["sending"] < 0.8 or ports[0]["waiting"] > 0.05:
        return failed(f"{last} is not the hottest port: {ports}")
    if not {port["port"] for port in ports} <= passes or not all(port["xmit_wait"] > 0 for port in ports[1:]):
        return failed(f"a hot port is not on the paths {passes}, or does not wait: {ports}")
    bench = place.run("bench", [str(VERBENA), "bench", "patterns.fan-in", *files, "--processes", str(HOSTS), "--sizes", "64K"], SECONDS)
    # The receiver of this benchmark is the first process.
    wanted = tables.walk(hosts[1], hosts[0])[-1]
    if not bench.succeeded or f"hot port: {wanted} to {hosts[0]} port 1: " not in bench.output:
        return failed(f"the benchmark does not name {wanted}", bench.evidence())
    return messages(place, tables, files)


def messages(place: Place, tables: Tables, files: list[str]) -> Outcome | None:
    """The failure if the hot ports of an exchange of all with all by MPI are not those that the tables lead to."""
    hosts = sorted(tables.hosts)
    passes = {port for one in hosts for other in hosts if one != other for port in tables.walk(one, other)}
    out = place.directory / "exchange"
    shutil.rmtree(out, ignore_errors=True)
    ended = place.run("mpi", [str(VERBENA), "bench", "mpi.alltoall-latency", *files, "--processes", str(HOSTS), "--sizes", "64K", "--out", str(out)], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    records = [json.loads(line) for line in next(out.rglob("results.jsonl")).read_text().splitlines()]
    ports = [port for one in records if one["record"] == "point" for port in one["hot_ports"]]
    if len(ports) != HOTTEST or not {port["port"] for port in ports} <= passes:
        return failed(f"the hot ports of MPI's exchange are {ports}, of {passes}", ended.evidence())
    if ended.output.count("hot port: ") != HOTTEST or f"hot port: {ports[0]['port']} to {ports[0]['to']}: " not in ended.output:
        return failed(f"{ports[0]} is not printed", ended.evidence())
    return None


def studied(place: Place) -> Outcome:
    """A study on a fabric of two routings has both as an axis, with the ports of each; one on `--topology` gives the same figures."""
    dumps = "; ".join(f"OSM_CACHE_DIR=. OSM_TMP_DIR=. opensm -o -R {engine} -f log > out; dump_fts > {engine}.fts" for engine in ENGINES)
    script = f"cd '{place.directory}'; {dumps}; ibnetdiscover > tree.topo"
    if failure := lacks(up(place, script, "--topology", SHAPE, "--sm", "none"), []):
        return failure
    text = 'benchmark = "mpi.alltoall-latency"\nsystem = "connectx6-hdr"\nranks = 8\nsize = 65536\n'
    sections = "".join(f'[fabric.{engine}]\ntopology = "tree.topo"\nroutes = "{engine}.fts"\n' for engine in ENGINES)
    (place.directory / "one.toml").write_text(text)
    (place.directory / "all.toml").write_text(text + sections)
    ended = place.run("all", [str(VERBENA), "sweep", "all.toml", "--out", "all"], SECONDS)
    if not ended.succeeded:
        return failed(ended.describe(), ended.evidence())
    points = [json.loads(line) for line in (place.directory / "all" / "sweep.jsonl").read_text().splitlines()]
    if [point["fabric"] for point in points] != sorted(ENGINES) or any(len(point["hot_ports"]) != HOTTEST for point in points):
        return failed(f"the points are {points}")
    for point in points:
        engine = point["fabric"]
        tables = Tables((place.directory / "tree.topo").read_text(), (place.directory / f"{engine}.fts").read_text())
        hosts = sorted(tables.hosts)
        passes = {port for one in hosts for other in hosts if one != other for port in tables.walk(one, other)}
        if not {port["port"] for port in point["hot_ports"]} <= passes:
            return failed(f"{engine}: {point['hot_ports']} are not of {passes}")
        files = ["--topology", "tree.topo", "--routes", f"{engine}.fts"]
        ended = place.run(engine, [str(VERBENA), "sweep", "one.toml", "--out", f"one-{engine}", *files], SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
        alone = json.loads((place.directory / f"one-{engine}" / "sweep.jsonl").read_text())
        if alone["figures"] != point["figures"] or alone["hot_ports"] != point["hot_ports"] or "fabric" in alone:
            return failed(f"{engine} alone: {alone}, not {point}")
    files = ["--topology", "tree.topo"]
    ended = place.run("twice", [str(VERBENA), "sweep", "all.toml", "--out", "twice", *files], SECONDS)
    if ended.status != WRONG_INPUT or "without --topology" not in ended.output:
        return failed("a study with fabrics of its own takes another", ended.evidence())
    ended = place.run("other", [str(VERBENA), "sweep", "one.toml", "--out", f"one-{ENGINES[0]}", *files], SECONDS)
    if ended.status != WRONG_INPUT or "the results belong to other profiles" not in ended.output:
        return failed("results of other routes are mixed in", ended.evidence())
    return passed(f"{len(points)} routings")
