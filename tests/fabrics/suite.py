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


def cases() -> list[Case]:
    """One fabric in every format, real dumps, errors."""
    return [
        Case("one fabric in every format", "", simulated),
        Case("dumps of real fabrics", "", real),
        Case("files that are no topology", "", refused),
    ]


def simulated(place: Place) -> Outcome:
    """ibsim's net file, and the output of ibnetdiscover and OpenSM for the fabric that it simulates, give the same survey."""
    if lacking := [tool.package for tool in SIMULATOR if not tool.present()]:
        return skipped(f"this machine lacks {', '.join(lacking)}")
    net = place.directory / "fabric.net"
    net.write_text(net_file())
    # Abstract sockets, by a name of this case's own.
    variables = {"IBSIM_SOCKNAME": f"verbena-{os.getpid()}-{place.runtime.name}", "OSM_TMP_DIR": str(place.directory),
                 "OSM_CACHE_DIR": str(place.directory)}
    simulator = place.start("ibsim", ["ibsim", "-s", "-n", str(net)], **variables)
    variables["LD_PRELOAD"] = LIBRARY
    deadline = time.monotonic() + SECONDS
    while READY not in simulator.output():
        if not simulator.running or time.monotonic() > deadline:
            return failed("ibsim does not become ready", simulator.output())
        time.sleep(0.02)
    managed = place.run("opensm", ["opensm", "-o", "-e", "-f", str(place.directory / "opensm.log")], SECONDS, SIM_HOST="host-0-0", **variables)
    if not managed.succeeded:
        return failed(managed.describe(), managed.evidence())
    files = {"net": net, "list": place.directory / "opensm-subnet.lst"}
    for name, words in (("blocks", []), ("ports", ["-p"]), ("grouped", ["-g"])):
        ended = place.run(name, ["ibnetdiscover", *words], SECONDS, SIM_HOST="host-0-0", **variables)
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
        ratios = [level["oversubscription"] and level["oversubscription"]["median"] for level in survey["levels"]]
        if ratios != [HOSTS / SPINES, None]:
            return failed(f"{name}: oversubscription {ratios}")
        # ibsim's file states no rates.
        if name != "net" and survey != told["blocks"]:
            return failed(f"{name} differs from blocks: {survey}, {told['blocks']}")
    return passed(f"{len(told)} formats")


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


def show(place: Place, file: Path, *words: str) -> Ended:
    """Runs `verbena fabric show`."""
    return place.run("show", [str(VERBENA), "fabric", "show", str(file), *words], SECONDS)


def surveyed(place: Place, file: Path) -> dict | Ended:
    """Returns the survey, or the end of the program that failed."""
    ended = show(place, file, "--json")
    return json.loads(ended.output) if ended.succeeded else ended
