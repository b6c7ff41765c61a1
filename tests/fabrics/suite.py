"""`verbena fabric show`: the outputs of other people's tools for one fabric give one topology, and dumps of real fabrics are read whole."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from harness.build_tree import ROOT, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.process import Ended
from harness.requirement import Tool

TITLE = "topologies of fabrics"
LIBRARY = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
SIMULATOR = [Tool("ibsim", "ibsim-utils"), Tool(LIBRARY, "libumad2sim0"), Tool("opensm", "opensm"),
             Tool("ibnetdiscover", "infiniband-diags")]
REQUIRES: list = []
# Real fabrics of others, where the checkout has them beside it.
REAL = ROOT.parent / "shared" / "data" / "fabrics"
SECONDS = 60
READY = "Network simulator ready"
WRONG_INPUT = 2
LEAVES, HOSTS, SPINES = 6, 4, 2
ENGINES = ("minhop", "updn", "ftree")
TABLE = re.compile(r"Unicast lids .* guid (0x[0-9a-f]+)|^0x([0-9a-f]{4}) (\d{3}) ", re.MULTILINE)


def cases() -> list[Case]:
    """One fabric in every format, real dumps, errors."""
    return [
        Case("one fabric in every format", "", simulated),
        Case("routes of OpenSM", "", routed),
        Case("dumps of real fabrics", "", real),
        Case("models on a real fabric", "", modelled),
        Case("files that are no topology", "", refused),
    ]


class Simulated:
    """A fabric that ibsim simulates, and its tools."""

    def __init__(self, place: Place, net: str) -> None:
        self.place = place
        self.net = place.directory / "fabric.net"
        self.net.write_text(net)
        # Abstract sockets, by a name of this case's own.
        self.variables = {"IBSIM_SOCKNAME": f"verbena-{os.getpid()}-{place.runtime.name}", "OSM_TMP_DIR": str(place.directory),
                          "OSM_CACHE_DIR": str(place.directory)}
        self.simulator = place.start("ibsim", ["ibsim", "-s", "-n", str(self.net)], **self.variables)

    def ready(self) -> Outcome | None:
        """Waits until the simulator answers; the failure if it does not."""
        deadline = time.monotonic() + SECONDS
        while READY not in self.simulator.output():
            if not self.simulator.running or time.monotonic() > deadline:
                return failed("ibsim does not become ready", self.simulator.output())
            time.sleep(0.02)
        return None

    def run(self, name: str, words: list[str]) -> Ended:
        """Runs a tool at the first host."""
        return self.place.run(name, words, SECONDS, SIM_HOST="host-0-0", LD_PRELOAD=LIBRARY, **self.variables)

    def manage(self, engine: str = "minhop") -> Ended:
        """Lets OpenSM assign addresses and routes, and write its dumps."""
        log = str(self.place.directory / "opensm.log")
        return self.run(f"opensm-{engine}", ["opensm", "-o", "-e", "-f", log, "-R", engine, "-D", "0x43"])


def simulated(place: Place) -> Outcome:
    """ibsim's net file, and the output of ibnetdiscover and OpenSM for the fabric that it simulates, give the same survey."""
    if lacking := [tool.package for tool in SIMULATOR if not tool.present()]:
        return skipped(f"this machine lacks {', '.join(lacking)}")
    fabric = Simulated(place, net_file())
    if failure := fabric.ready():
        return failure
    managed = fabric.manage()
    if not managed.succeeded:
        return failed(managed.describe(), managed.evidence())
    files = {"net": fabric.net, "list": place.directory / "opensm-subnet.lst"}
    for name, words in (("blocks", []), ("ports", ["-p"]), ("grouped", ["-g"])):
        ended = fabric.run(name, ["ibnetdiscover", *words])
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
        files[name] = place.directory / f"{name}.txt"
        files[name].write_text(ended.output)
    told = {name: surveyed(place, file) for name, file in files.items()}
    for name, survey in told.items():
        if isinstance(survey, Ended):
            return failed(f"{name}: {survey.describe()}", survey.evidence())
        if survey["remarks"]:
            return failed(f"{name}: {survey['remarks']}")
        counts = [survey[key] for key in ("switches", "adapters", "hosts", "links", "parts")]
        if counts != [LEAVES + SPINES, LEAVES * HOSTS, LEAVES * HOSTS, LEAVES * (HOSTS + SPINES), 1]:
            return failed(f"{name}: {counts}")
        ratios = [level["oversubscription"] and level["oversubscription"]["overall"] for level in survey["levels"]]
        if ratios != [HOSTS / SPINES, None]:
            return failed(f"{name}: oversubscription {ratios}")
        # ibsim's file states no rates.
        if name != "net" and survey != told["blocks"]:
            return failed(f"{name} differs from blocks: {survey}, {told['blocks']}")
    return passed(f"{len(told)} formats")


def routed(place: Place) -> Outcome:
    """The paths of OpenSM's routing engines: their lengths and the load of the busiest cable are those that this test follows itself
    in OpenSM's tables; dump_fts and opensm.fdbs give the same; a replay on the fabric runs with them; a broken table is refused."""
    if lacking := [tool.package for tool in SIMULATOR if not tool.present()]:
        return skipped(f"this machine lacks {', '.join(lacking)}")
    fabric = Simulated(place, net_file())
    if failure := fabric.ready():
        return failure
    schedule = place.directory / "shift.goal"
    schedule.write_text(shift(LEAVES * HOSTS))
    for engine in ENGINES:
        managed = fabric.manage(engine)
        if not managed.succeeded:
            return failed(managed.describe(), managed.evidence())
        topology = place.directory / f"{engine}.topology"
        topology.write_text(fabric.run("ibnetdiscover", ["ibnetdiscover"]).output)
        tables = place.directory / f"{engine}.fts"
        tables.write_text(fabric.run("dump_fts", ["dump_fts"]).output)
        lfts = place.directory / "opensm-lfts.dump"
        wanted = followed(lfts.read_text(), topology.read_text())
        for routes in (lfts, tables, place.directory / "opensm.fdbs"):
            ended = show(place, topology, "--routes", str(routes), "--json")
            if not ended.succeeded:
                return failed(ended.describe(), ended.evidence())
            paths = json.loads(ended.output)["paths"]
            found = (paths["lengths"], paths["busiest"]["pairs"], paths["broken"], paths["remarks"])
            if found != (*wanted, 0, []):
                return failed(f"{engine}, {routes.name}: {found} instead of {wanted}")
        ended = place.run("replay", [str(VERBENA), "replay", str(schedule), "--on", "model:connectx-qdr", "--topology", str(topology),
                                     "--routes", str(lfts), "--json"], SECONDS)
        if not ended.succeeded:
            return failed(ended.describe(), ended.evidence())
    # No table has a way to host-5-3.
    text = lfts.read_text()
    broken = place.directory / "broken.dump"
    broken.write_text(re.sub(r"^(0x[0-9a-f]{4}) \d{3} (.*'host-5-3')$", r"\1 255 \2", text, flags=re.MULTILINE))
    ended = place.run("refused", [str(VERBENA), "replay", str(schedule), "--on", "model:connectx-qdr", "--topology", str(topology),
                                  "--routes", str(broken)], SECONDS)
    if ended.status != WRONG_INPUT or "pairs have no path" not in ended.output or "host-5-3" not in ended.output:
        return failed("a table without a way is not refused", ended.evidence())
    return passed(f"{len(ENGINES)} routing engines")


def followed(tables: str, topology: str) -> tuple[list[int], int]:
    """By number of cables between switches the number of ordered pairs of hosts, and the load of the busiest cable."""
    onwards: dict[str, dict[int, int]] = {}
    for match in TABLE.finditer(tables):
        if match[1]:
            switch = match[1][2:]
            onwards[switch] = {}
        else:
            onwards[switch][int(match[2], 16)] = int(match[3])
    peers: dict[tuple[str, int], str] = {}
    homes: dict[int, str] = {}
    for block in re.split(r"\n\n", topology):
        if not (head := re.search(r'^Switch\s+\d+ "S-([0-9a-f]{16})"', block, re.MULTILINE)):
            continue
        for port, kind, guid, lid in re.findall(r'^\[(\d+)\]\s+"([SH])-([0-9a-f]{16})".*" lid (\d+) ', block, re.MULTILINE):
            if kind == "S":
                peers[head[1], int(port)] = guid
            else:
                homes[int(lid)] = head[1]
    lengths: dict[int, int] = {}
    load: dict[tuple[str, int], int] = {}
    for start in homes.values():
        for lid, home in homes.items():
            at, length = start, 0
            while at != home:
                out = (at, onwards[at][lid])
                load[out] = load.get(out, 0) + 1
                at, length = peers[out], length + 1
            lengths[length] = lengths.get(length, 0) + 1
    # Each host has been paired with itself.
    lengths[0] -= len(homes)
    return [lengths.get(length, 0) for length in range(max(lengths) + 1)], max(load.values())


def shift(ranks: int, size: int = 1 << 16) -> str:
    """A schedule in which each rank sends `size` bytes to the rank four further."""
    lines = [f"num_ranks {ranks}"]
    for rank in range(ranks):
        lines += [f"rank {rank} {{", f"l1: send {size}b to {(rank + HOSTS) % ranks} tag 0",
                  f"l2: recv {size}b from {(rank - HOSTS) % ranks} tag 0", "}"]
    return "\n".join(lines) + "\n"


def modelled(place: Place) -> Outcome:
    """A program on the largest of the dumps of others: on all its adapters, on chosen ones in their order, and slower over slower links."""
    file = REAL / "topograph-582.topo"
    if not file.exists():
        return skipped("no dumps of others lie beside the checkout")
    names = re.findall(r'^Ca\s+\d+ "[^"]+"\s+# "([^"]+)"', file.read_text(), re.MULTILINE)
    names = sorted({name for name in names if "Aggregation" not in name and "mlx5" in name})
    schedule = place.directory / "shift.goal"
    schedule.write_text(shift(len(names), 1 << 20))
    command = [str(VERBENA), "replay", str(schedule), "--on", "model:connectx7-ndr:message", "--json", "--topology"]
    whole = place.run("whole", [*command, str(file)], SECONDS)
    if not whole.succeeded or printed(whole)["nodes"] != len(names):
        return failed("no replay on all adapters", whole.evidence())
    hosts = place.directory / "hosts"
    hosts.write_text("\n".join(reversed(names)) + "\n")
    chosen = place.run("chosen", [*command, str(file), "--hosts", f"@{hosts}"], SECONDS)
    if not chosen.succeeded or f"node 0 is {names[-1]}" not in chosen.output:
        return failed("the order of the hosts is not that of --hosts", chosen.evidence())
    slow = place.directory / "slow.topo"
    slow.write_text(file.read_text().replace("4xNDR", "1xNDR"))
    slower = place.run("slower", [*command, str(slow)], SECONDS)
    if not slower.succeeded:
        return failed(slower.describe(), slower.evidence())
    fast, late = (printed(ended)["nanoseconds"] for ended in (whole, slower))
    if late < 1.5 * fast:
        return failed(f"links of a quarter of the rate take {late} instead of {fast} ns")
    absent = place.run("absent", [*command, str(file), "--hosts", "nobody"], SECONDS)
    if absent.status != WRONG_INPUT or '"nobody"' not in absent.output:
        return failed("an unknown host is not refused", absent.evidence())
    return passed(f"{len(names)} adapters")


def net_file() -> str:
    """A tree of two levels in ibsim's format."""
    lines = []
    for leaf in range(LEAVES):
        lines.append(f'Switch {HOSTS + SPINES} "leaf-{leaf}"')
        lines += [f'[{host + 1}] "host-{leaf}-{host}"[1]' for host in range(HOSTS)]
        lines += [f'[{HOSTS + spine + 1}] "spine-{spine}"[{leaf + 1}]' for spine in range(SPINES)] + [""]
    for spine in range(SPINES):
        lines.append(f'Switch {LEAVES} "spine-{spine}"')
        lines += [f'[{leaf + 1}] "leaf-{leaf}"[{HOSTS + spine + 1}]' for leaf in range(LEAVES)] + [""]
    for leaf in range(LEAVES):
        for host in range(HOSTS):
            lines += [f'Hca 1 "host-{leaf}-{host}"', f'[1] "leaf-{leaf}"[{host + 1}]', ""]
    return "\n".join(lines) + "\n"


def real(place: Place) -> Outcome:
    """Each dump is read without a skipped node or link: their numbers are those of its lines."""
    files = sorted(REAL.glob("*.topo"))
    if not files:
        return skipped("no dumps of others lie beside the checkout")
    for file in files:
        survey = surveyed(place, file)
        if isinstance(survey, Ended):
            return failed(f"{file.name}: {survey.describe()}", survey.evidence())
        text = file.read_text()
        switches = len(re.findall(r"^Switch\s", text, re.MULTILINE))
        # Each end that is stated, and those that their peers state alone.
        ends = len(re.findall(r"^\[\d+\]", text, re.MULTILINE))
        alone = sum(remark["count"] for remark in survey["remarks"] if "one end only" in remark["text"])
        if survey["switches"] != switches or 2 * survey["links"] != ends + alone:
            return failed(f"{file.name}: {survey['switches']} switches and {survey['links']} links of {switches} and {ends} ends")
    return passed(f"{len(files)} dumps")


def refused(place: Place) -> Outcome:
    """A file of another kind, an empty one, a torn line, none: exit status 2, and a message that names the file."""
    inputs = {"other": b"hello\n", "empty": b"", "torn": b'Switch 4 "S-1"\n[1] "H-2\n', "bytes": bytes(range(256)) * 10}
    for name, content in inputs.items():
        file = place.directory / name
        file.write_bytes(content)
        ended = show(place, file)
        if ended.status != WRONG_INPUT or name not in ended.output:
            return failed(f"{name} is not refused", ended.evidence())
    ended = show(place, place.directory / "absent")
    if ended.status != WRONG_INPUT or "absent" not in ended.output:
        return failed("an absent file is not refused", ended.evidence())
    return passed(f"{len(inputs) + 1} refused")


def printed(ended: Ended) -> dict:
    """The JSON object behind the notes on standard error."""
    return json.loads(ended.output[ended.output.index("{\n"):])


def show(place: Place, file: Path, *words: str) -> Ended:
    """Runs `verbena fabric show`."""
    return place.run("show", [str(VERBENA), "fabric", "show", str(file), *words], SECONDS)


def surveyed(place: Place, file: Path) -> dict | Ended:
    """Returns the survey, or the end of the program that failed."""
    ended = show(place, file, "--json")
    return json.loads(ended.output) if ended.succeeded else ended
