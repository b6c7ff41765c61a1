"""Fabrics against ibsim: OpenSM's first sweep, ibnetdiscover, ibqueryerrors, in turns; the memory and the idle time of a fabric of
20,000 hosts."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from harness.build_tree import VERBENA
from harness.place import Place

SECONDS = 600
ROUNDS = 3
# Hosts, leaves and spines of trees of two levels.
TREES = ((4, 2, 0), (972, 54, 18), (4800, 200, 60))
# Measured programs, and their names in the figures.
PROGRAMS = (("first sweep", "sweep"), ("ibnetdiscover", "discovery"), ("ibqueryerrors", "errors"))
# The largest: a fat tree with 20,000 hosts.
LARGEST = (250, 40, 80)
IDLE = 5.0
TICKS = os.sysconf("SC_CLK_TCK")
# OpenSM's times of its phases are in its log to the microsecond.
ENTRY = re.compile(r"^\w+ \d+ (\d+):(\d+):(\d+) (\d{6}) ")


def tree(hosts: int, leaves: int, spines: int) -> str:
    """A tree of two levels in ibsim's format; without spines, two leaves that are connected with each other."""
    below = hosts // leaves
    links: dict[str, list[str]] = {f"leaf-{leaf}": [f"host-{leaf}-{host}" for host in range(below)] for leaf in range(leaves)}
    if not spines:
        links["leaf-0"].append("leaf-1")
    for spine in range(spines):
        for leaf in range(leaves):
            links[f"leaf-{leaf}"].append(f"spine-{spine}")
    text = []
    for leaf in range(leaves):
        name = f"leaf-{leaf}"
        text.append(f'Switch {below + max(spines, 1)} "{name}"')
        for port, peer in enumerate(links[name], 1):
            at = leaf + 1 if peer.startswith("spine") else below + 1 if peer.startswith("leaf") else 1
            text.append(f'[{port}] "{peer}"[{at}]')
        if not spines and leaf == 1:
            text.append(f'[{below + 1}] "leaf-0"[{below + 1}]')
        text.append("")
    for spine in range(spines):
        text.append(f'Switch {leaves} "spine-{spine}"')
        text += [f'[{leaf + 1}] "leaf-{leaf}"[{below + spine + 1}]' for leaf in range(leaves)] + [""]
    for leaf in range(leaves):
        for host in range(below):
            text += [f'Hca 1 "host-{leaf}-{host}"', f'[1] "leaf-{leaf}"[{host + 1}]', ""]
    return "\n".join(text) + "\n"


# Run at a node of either fabric: OpenSM until its first sweep has ended, then the tools beside it, each in nanoseconds.
SCRIPT = r"""
export OSM_CACHE_DIR=$PWD OSM_TMP_DIR=$PWD
rm -f guid2lid osm.log
timeout 120 opensm -d 2 -f osm.log > opensm.out 2>&1 & manager=$!
until grep -q 'SUBNET UP' osm.log 2> /dev/null || ! kill -0 $manager; do sleep 0.05; done
for tool in ibnetdiscover ibqueryerrors; do
    begin=$(date +%s%N); timeout 60 $tool > $tool.out 2>&1; echo $tool $(($(date +%s%N) - begin))
done
kill $manager; wait $manager; true
"""


def sweep(log: Path) -> float:
    """The time from the first to the last line that OpenSM wrote until the subnet was up, in nanoseconds."""
    first = None
    for line in log.read_text(errors="replace").splitlines():
        if not (match := ENTRY.match(line)):
            continue
        hour, minute, second, micro = map(int, match.groups())
        now = ((hour * 60 + minute) * 60 + second) * 1e9 + micro * 1e3
        first = now if first is None else first
        if "SUBNET UP" in line:
            return now - first
    return 0.0


def times(place: Place, name: str, command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Runs the script, and returns its times by program; none if it fails."""
    folder = place.directory / name
    folder.mkdir(exist_ok=True)
    ended = place.run(name, ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *command], SECONDS, **environment)
    found = {tool: float(value) for tool, value in re.findall(r"^(ibnetdiscover|ibqueryerrors) (\d+)$", ended.output, re.MULTILINE)}
    log = folder / "osm.log"
    if log.exists() and (passed := sweep(log)):
        found["first sweep"] = passed
    if len(found) != len(PROGRAMS):
        print(f"{name}: {ended.describe()}\n{ended.evidence()}", file=sys.stderr)
    return found


def simulated(place: Place, net: Path, node: str) -> dict[str, float]:
    """The times on ibsim."""
    folder = place.directory / "ibsim"
    folder.mkdir(exist_ok=True)
    words = ["ibsim", "-s", "-n", "-S", "512", "-N", "8192", "-P", "65536", str(net)]
    with (place.directory / "ibsim.log").open("w") as log:
        simulator = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        # It reads the file first.
        time.sleep(1.0)
        preload = next((str(path) for path in Path("/usr/lib").glob("**/libumad2sim.so")), "")
        return times(place, "ibsim", ["env", f"LD_PRELOAD={preload}", f"SIM_HOST={node}", "sh", "-c", SCRIPT],
                     {"PATH": os.environ["PATH"] + ":/usr/sbin"})
    finally:
        simulator.kill()
        simulator.wait()


def ours(place: Place, net: Path, node: str) -> dict[str, float]:
    """The times on a fabric of ours."""
    command = [str(VERBENA), "fabric", "up", "--topology", str(net), "--node", node, "--sm", "none", "--", "sh", "-c", SCRIPT]
    return times(place, "fabric", command, {"PATH": os.environ["PATH"] + ":/usr/sbin", "TMPDIR": "/tmp"})


def status(process: int, name: str) -> float:
    """A value of /proc/PID/status in bytes."""
    text = Path(f"/proc/{process}/status").read_text()
    return float(re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)[1]) * 1024


def processor(process: int) -> int:
    """The ticks of processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def largest(place: Place) -> dict[str, float]:
    """Time, memory and idle processor time of the process of the largest fabric."""
    leaves, spines, below = LARGEST
    begin = time.monotonic()
    words = [str(VERBENA), "fabric", "up", "--topology", f"fat-tree:{leaves},{spines},{below}", "--", "sh", "-c", "echo up $VERBENA_FABRIC; read end"]
    user = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR="/tmp"))
    try:
        line = user.stdout.readline().split()
        if len(line) != 2:
            print("the largest fabric does not come up", file=sys.stderr)
            return {}
        passed = time.monotonic() - begin
        folder = str(Path(line[1]).parent)
        commands = {int(path.parent.name): path for path in Path("/proc").glob("[0-9]*/cmdline")}
        keeper = next(process for process, path in commands.items() if "__keep" in (text := read(path)) and folder in text)
        # Port 0 of switches too.
        ports = 2 * leaves * (below + spines) + leaves + spines
        before = processor(keeper)
        time.sleep(IDLE)
        idle = (processor(keeper) - before) / TICKS / IDLE
        return {"fabric_20000_up_ns": passed * 1e9, "fabric_20000_most_bytes": status(keeper, "VmHWM"),
                "fabric_port_bytes": status(keeper, "VmRSS") / ports, "fabric_idle_ns_per_s": idle * 1e9}
    finally:
        user.communicate("\n")


def read(path: Path) -> str:
    """The text of a file of /proc, which may be gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def figures() -> dict[str, float]:
    """Returns all figures; medians of times in nanoseconds."""
    place = Place("bench", "fabric")
    found: dict[str, float] = {}
    try:
        found.update(largest(place))
        if shutil.which("ibsim") is None:
            print("ibsim is not installed", file=sys.stderr)
            return found
        for hosts, leaves, spines in TREES:
            net = place.directory / f"{hosts}.net"
            net.write_text(tree(hosts, leaves, spines))
            rounds = [(ours(place, net, "host-0-0"), simulated(place, net, "host-0-0")) for _ in range(ROUNDS)]
            for program, name in PROGRAMS:
                for at, side in enumerate(("fabric", "ibsim")):
                    values = [both[at][program] for both in rounds if program in both[at]]
                    if values:
                        found[f"{side}_{hosts}_{name}_ns"] = statistics.median(values)
    finally:
        place.close()
    return found
