"""`verbena run --as SYSTEM`: unmodified programs with the times of a modelled adapter.

How late operations are depends on the machine, so no case asserts it. That none is earlier than on the model by more than
the largest lead, and that no port carries more, holds on each machine.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from functools import partial
from pathlib import Path

from harness.build_tree import ROOT, TARGET, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import Exchange, exchange, free_port
from harness.place import Place
from harness.requirement import Tool

from . import identity, network, sensitivity

TITLE = "programs with the times of another adapter"
REQUIRES = [Tool("ibv_rc_pingpong", "ibverbs-utils"), Tool("ib_read_lat", "perftest"), Tool("rping", "rdmacm-utils"),
            Tool("mpirun", "openmpi-bin"), Tool("mpicc", "libopenmpi-dev"), Tool("ucx_info", "ucx-utils"), Tool("ip", "iproute2"), Tool("nsenter", "util-linux")]

SECONDS = 120
SYSTEM = "connectx-qdr"
SERIAL = "infinihost3-ddr"
WRONG_INPUT = 2
COUNT = 2000
# Largest lead, in us: a request begins early by the time that the software usually needs.
LEAD = 1.1
# A port never carries more than the model's.
FASTEST = 1.05
MEGA = 1 << 20


def cases() -> list[Case]:
    """Times, nodes, programs, errors."""
    return [
        Case("reads are not faster than on the model", "", reads),
        Case("a port carries no more than on the model", "", port),
        Case("posts take no less time than on the model", "", rate),
        Case("processes of a node share its port", "", partial(node, ("--node", "b"), ("--node", "a"), ())),
        Case("processes with the same variable are a node", "",
             partial(node, ("--node-by", "env:GROUP"), ("--node-by", "env:GROUP"), ("env", "GROUP=a"))),
        Case("MPI ranks are put on nodes", "", ranks),
        Case("an adapter that processes one request at a time", "", serial),
        Case("a paper's measurements are run live", "", live),
        Case("the port has the rate and the MTU of the adapter's", "", attributes),
        Case("programs of rdma-core check their data", "", programs),
        Case("the contract holds", "", partial(suite, "contract", "flush: ")),
        Case("random programs, compared with the specification", "", partial(suite, "oracle", "random programs [mapped]")),
        Case("faults of links are added", "", faults),
        Case("a program that is killed has a report", "", killed),
        Case("a child of fork", "", child),
        Case("wrong systems and options", "", wrong),
        Case("tables that cannot be read", "", tables),
        *identity.cases(),
        *network.cases(),
        *sensitivity.cases(),
    ]


def emulated(*command: object, options: tuple[str, ...] = ()) -> list[str]:
    """The command line that runs `command` as SYSTEM."""
    return [str(VERBENA), "run", "--as", SYSTEM, *options, "--", *map(str, command)]


def both(place: Place, *command: object, server: tuple[str, ...] = (), client: tuple[str, ...] = ()) -> Exchange:
    """A server and its client; the table is computed before, so that neither waits for it."""
    place.run("table", emulated("true"), SECONDS)
    number = free_port()
    words = [*command, "-p", number]
    return exchange(place, emulated(*words, options=server), emulated(*words, "localhost", options=client), number, SECONDS)


def worked(done: Exchange) -> bool:
    """Whether both sides returned 0 in time."""
    return done.server.succeeded and done.client is not None and done.client.succeeded


def figure(place: Place, benchmark: str, size: int, metric: str) -> float:
    """A figure of the model."""
    out = place.directory / benchmark
    command = [str(VERBENA), "bench", benchmark, "--sizes", str(size), "--transports", "rc", "--on", f"model:{SYSTEM}", "--out", str(out)]
    ended = place.run("model", command, SECONDS)
    for line in (out / "results.jsonl").read_text().splitlines() if ended.succeeded else ():
        record = json.loads(line)
        for one in record.get("metrics", ()):
            if record["record"] == "point" and one["name"] == metric:
                return float(one["value"])
    raise AssertionError(f"{benchmark} has no {metric}: {ended.output}")


def row(output: str, size: int) -> list[float]:
    """The figures in perftest's line of a size."""
    found = re.search(rf"^ *{size} +(\d.*)$", output, re.MULTILINE)
    return [float(word) for word in found[1].split()] if found else []


def operations(output: str) -> int:
    """The number of operations in the report; -1 without one."""
    found = re.search(rf"verbena: as {SYSTEM}: (\d+) operations; timing error of data ", output)
    return int(found[1]) if found else -1


def reads(place: Place) -> Outcome:
    """The fastest of many reads takes the time of the model, but for the lead; each is in the report."""
    done = both(place, "ib_read_lat", "-F", "-s", 8, "-n", COUNT)
    model = figure(place, "latency.read", 8, "completion-latency") / 1e3
    if not worked(done):
        return failed("a side failed", done.evidence())
    least = row(done.client.output, 8)[1]
    if operations(done.client.output) != COUNT:
        return failed(f"{operations(done.client.output)} operations in the report", done.evidence())
    if least < model - LEAD:
        return failed(f"a read took {least} us, on the model {model:.2f}", done.evidence())
    return passed(f"{least} us and more, {model:.2f} us on the model")


def port(place: Place) -> Outcome:
    """A stream of writes is not faster than the modelled link."""
    done = both(place, "ib_write_bw", "-F", "-s", 65536, "-n", COUNT)
    model = figure(place, "bandwidth.write", 65536, "cached-bandwidth") / MEGA
    if not worked(done):
        return failed("a side failed", done.evidence())
    rate = row(done.client.output, 65536)[2]
    if rate > FASTEST * model:
        return failed(f"{rate} MiB/s, on the model {model:.0f}", done.evidence())
    return passed(f"{rate} MiB/s, {model:.0f} on the model")


def rate(place: Place) -> Outcome:
    """A stream of short writes has no higher rate than the model, and posts may take no time."""
    done = both(place, "ib_write_bw", "-F", "-s", 8, "-n", 50 * COUNT)
    model = figure(place, "bandwidth.write", 8, "message-rate") / 1e6
    if not worked(done):
        return failed("a side failed", done.evidence())
    found = row(done.client.output, 8)[3]
    if found > FASTEST * model:
        return failed(f"{found} million writes a second, on the model {model:.2f}", done.evidence())
    options = ("--overhead", "0ns")
    if not worked(done := both(place, "ib_write_bw", "-F", "-s", 8, "-n", 5 * COUNT, server=options, client=options)):
        return failed("posts that take no time", done.evidence())
    return passed(f"{found} million a second, {model:.2f} on the model")


def node(there: tuple[str, ...], here: tuple[str, ...], before: tuple[str, ...], place: Place) -> Outcome:
    """Two senders of one node together get no more than its port. The servers' and the clients' options put them there; the
    clients are run by the command `before`."""
    place.run("table", emulated("true"), SECONDS)
    model = figure(place, "bandwidth.write", 65536, "cached-bandwidth") / MEGA
    ports = [free_port(), free_port()]
    size, writes = 65536, 40 * COUNT
    pairs = []
    begun = time.monotonic()
    for number in ports:
        words = ["ib_write_bw", "-F", "-s", size, "-n", writes, "-p", number]
        server = place.start("server", emulated("env", "GROUP=b", *words, options=there))
        pairs.append((server, words))
    clients = [place.start("client", emulated(*before, "sh", "-c", wait_for(words), options=here)) for _, words in pairs]
    deadline = time.monotonic() + SECONDS
    ended = [process.finish(deadline) for process in [*clients, *(server for server, _ in pairs)]]
    seconds = time.monotonic() - begun
    if not all(one.succeeded for one in ended):
        return failed("a side failed", "\n".join(one.evidence() for one in ended))
    # Both transfers were within this time, whichever was first: without a common port they need half of it.
    total = 2 * writes * size / MEGA / seconds
    rates = [row(one.output, size)[2] for one in ended[:2]]
    if total > FASTEST * model:
        return failed(f"{rates} MiB/s, {total:.0f} together, on the model {model:.0f}")
    return passed(f"{rates} MiB/s, {model:.0f} on the model")


def ranks(place: Place) -> Outcome:
    """Rules find the ranks of Open MPI; a process without one is named."""
    for rule in ("ranks:2", "nodes:2"):
        launcher = ["mpirun", "-n", "1", "--oversubscribe", "--allow-run-as-root"]
        words = [*launcher, *sensitivity.pair(50), ":", "-n", "1", *sensitivity.pair(50)]
        ended = place.run("ranks", emulated(*words, options=("--node-by", rule)), SECONDS)
        if not ended.succeeded or "by itself" in ended.output or operations(ended.output) != 100:
            return failed(rule, ended.evidence())
    alone = place.run("alone", emulated(*sensitivity.pair(50), options=("--node-by", "ranks:2")), SECONDS)
    if not alone.succeeded or "no MPI rank" not in alone.output or "by itself" not in alone.output:
        return failed("a process without a rank", alone.evidence())
    return passed("two ranks, processes without one")


def wait_for(words: list) -> str:
    """A script: the client of perftest, once its server listens."""
    number = words[-1]
    listens = f'until grep -Eqi ":{number:04x} 0+:0000 0A" /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done'
    return f"{listens}; exec {' '.join(map(str, words))} localhost"


def serial(place: Place) -> Outcome:
    """Two queue pairs of one process: writes arrive, each is in the report, and they are no faster than the model's two pairs."""
    number, count = free_port(), 1000
    words = ["ib_write_bw", "-F", "-s", 4096, "-n", count, "-q", 2, "-Q", 1, "-p", number]
    place.run("table", [str(VERBENA), "run", "--as", SERIAL, "--", "true"], SECONDS)
    command = [str(VERBENA), "run", "--as", SERIAL, "--", *map(str, words)]
    done = exchange(place, command, [*command, "localhost"], number, SECONDS)
    if not worked(done):
        return failed("a side failed", done.evidence())
    found = re.search(rf"verbena: as {SERIAL}: (\d+) operations; ", done.client.output)
    if not found or int(found[1]) != 2 * count:
        return failed("the report lacks operations", done.evidence())
    rate = row(done.client.output, 4096)[2]
    # One queue pair has 1276 MB/s on the model, two have 984 MB/s.
    limit = FASTEST * 1276e6 / MEGA
    if rate > limit:
        return failed(f"{rate} MiB/s, on the model at most {limit:.0f}", done.evidence())
    return passed(f"{rate} MiB/s")


def live(place: Place) -> Outcome:
    """Each claim is shown or named, and each measurement has a verdict or a reason."""
    # On a busy machine each measurement may take three tries.
    ended = place.run("live", [str(VERBENA), "reproduce", "connectx_multicore", "--live"], 20 * SECONDS)
    if not ended.succeeded:
        return failed("the command failed", ended.evidence())
    text = ended.output
    claims = set(re.findall(r'^id = "(connectx_multicore\.\w+)"', (ROOT / "papers/claims.toml").read_text(), re.MULTILINE))
    missing = [claim for claim in sorted(claims) if not re.search(rf"^{re.escape(claim)}\b", text, re.MULTILINE)]
    if missing:
        return failed(f"not in the output: {missing}", ended.evidence())
    rows = re.findall(r"^(?:infinihost3|connectx)-ddr[\w-]* .*pairs?  .*$", text, re.MULTILINE)
    verdicts = [one for one in rows if re.search(r"\(\d+\.\d % off\)(; .*)?$", one)]
    if len(os.sched_getaffinity(0)) >= 2 and not rows or len(verdicts) != len(rows):
        return failed(f"{len(rows)} measurements, {len(verdicts)} verdicts", ended.evidence())
    by_mpi = [one for one in rows if " MPI " in one]
    if len(os.sched_getaffinity(0)) >= 2 and len(by_mpi) < 6:
        return failed(f"{len(by_mpi)} measurements by MPI", ended.evidence())
    bare = place.directory / "bare"
    bare.mkdir()
    ended = place.run("bare", [str(VERBENA), "reproduce", "connectx_multicore", "--live"], SECONDS, PATH=str(bare))
    if ended.succeeded or "perftest" not in ended.output:
        return failed("without perftest", ended.evidence())
    return passed(f"{len(rows)} measurements, {len(by_mpi)} of them by MPI")


def attributes(place: Place) -> Outcome:
    """Verbs and sysfs agree; a system's link may be changed; without --as the port is the software adapter's."""
    for options, device, mtu, speed, rate in ((("--as", SYSTEM), "mlx4_0", 2048, "10.0 Gbps (4)", "40 Gb/sec (4X QDR)"),
                                      (("--as", SYSTEM, "--set", "4x-qdr.rate=2000", "--set", "4x-sdr.mtu=4096"), "mlx4_0", 4096,
                                       "5.0 Gbps (2)", "20 Gb/sec (4X DDR)"),
                                      (("--as", "connectx7-ndr"), "mlx5_0", 2048, "100.0 Gbps (128)", "400 Gb/sec (4X NDR)"),
                                      ((), "verbena0", 4096, "50.0 Gbps (64)", "200 Gb/sec (4X HDR)")):
        script = f"ibv_devinfo -v; cat /sys/class/infiniband/{device}/ports/1/rate"
        ended = place.run("devinfo", [str(VERBENA), "run", *options, "--", "sh", "-c", script], SECONDS)
        wanted = [f"active_mtu: {mtu}", f"active_speed: {speed}", "active_width: 4X (2)", rate]
        text = re.sub(r":\s+", ": ", ended.output)
        missing = [one for one in wanted if one not in text]
        if not ended.succeeded or missing:
            return failed(f"{options}: {missing}", ended.evidence())
    return passed()


def programs(place: Place) -> Outcome:
    """All transports, shared receive queues, the connection manager: every byte is compared."""
    for command in (("ibv_rc_pingpong", "-c", "-n", 200), ("ibv_rc_pingpong", "-c", "-n", 100, "-e"), ("ibv_uc_pingpong", "-c", "-n", 200),
                    ("ibv_ud_pingpong", "-c", "-n", 200, "-s", 2048), ("ibv_srq_pingpong", "-c", "-n", 200),
                    ("ibv_xsrq_pingpong", "-n", 200), ("ib_atomic_bw", "-n", 200), ("ib_send_bw", "-n", 500, "-q", 4)):
        done = both(place, *command)
        if not worked(done) or operations(done.client.output) <= 0:
            return failed(f"{command[0]} {command[1:]}", done.evidence())
    number = free_port()
    server = emulated("rping", "-s", "-C", 20, "-V", "-a", "127.0.0.1", "-p", number)
    client = emulated("rping", "-c", "-C", 20, "-V", "-a", "127.0.0.1", "-p", number)
    serving = place.start("server", server)
    ended = place.run("client", ["sh", "-c", f'for try in 1 2 3 4 5 6 7 8; do "$@" && exit; sleep 0.3; done; exit 1', "sh", *client], SECONDS)
    finished = serving.finish(time.monotonic() + SECONDS)
    if not ended.succeeded or not finished.succeeded:
        return failed("rping", ended.evidence() + finished.evidence())
    return passed("9 programs")


def suite(name: str, only: str, place: Place) -> Outcome:
    """Cases of a suite pass as they do without times."""
    if name == "oracle" and not (TARGET / "release" / "verbena-oracle").exists():
        return skipped("verbena-oracle is not built")
    command = [sys.executable, str(ROOT / "tests/run"), name, "--only", only]
    environment = {"VERBENA_TEST_LINK": f"--as {SYSTEM}", "HOME": os.environ.get("HOME", "/")}
    ended = place.run(name, command, 3 * SECONDS, **environment)
    summary = re.findall(r"^(\d+) passed, (\d+) failed", ended.output, re.MULTILINE)
    if not ended.succeeded or not summary or int(summary[-1][0]) == 0:
        return failed(f"cases of {name}", ended.evidence())
    return passed(f"{summary[-1][0]} cases")


def faults(place: Place) -> Outcome:
    """Rules about links act on emulated requests: losses are repeated, delays come on top."""
    done = both(place, "ib_read_lat", "-F", "-s", 8, "-n", 200, client=("--fault", "link: delay 50 us"))
    if not worked(done) or row(done.client.output, 8)[1] < 100:
        return failed("a delay of 50 us each way", done.evidence())
    done = both(place, "ibv_rc_pingpong", "-c", "-n", 300, client=("--fault", "link.out every 50: loss"))
    if not worked(done) or "fired" not in done.client.output:
        return failed("losses", done.evidence())
    return passed("delays, losses")


def killed(place: Place) -> Outcome:
    """The report counts the operations of a program that ends by SIGKILL."""
    place.run("table", emulated("true"), SECONDS)
    number = free_port()
    serving = place.start("server", emulated("timeout", "20", "ib_write_bw", "-D", 30, "-p", number))
    script = wait_for(["ib_write_bw", "-D", 30, "-p", number]).replace("exec ", "") + " & sleep 3; pkill -KILL -P $$ ib_write_bw; wait"
    ended = place.run("client", emulated("sh", "-c", script), SECONDS)
    serving.abandon()
    if operations(ended.output) <= 0:
        return failed("no operations in the report", ended.evidence())
    return passed(f"{operations(ended.output)} operations")


def child(place: Place) -> Outcome:
    """A shell that starts programs one after another: each has its report, and the sum is printed."""
    number = free_port()
    words = ["ib_read_lat", "-F", "-n", 300, "-p", number]
    serving = place.start("server", emulated("sh", "-c", f"for i in 1 2; do {' '.join(map(str, words))}; done"))
    ended = place.run("client", emulated("sh", "-c", f"({wait_for(words)}); ({wait_for(words)})"), SECONDS)
    finished = serving.finish(time.monotonic() + SECONDS)
    if not ended.succeeded or operations(ended.output) != 600:
        return failed(f"{operations(ended.output)} operations", ended.evidence() + finished.evidence())
    return passed("600 operations of two programs")


def wrong(place: Place) -> Outcome:
    """Each is refused by name before the command runs."""
    for options, words in (
            (["--as", "nosuch"], "nosuch"),
            (["--as", "tcp-10gbe"], "sockets only"),
            (["--as", "software"], "software"),
            (["--set", "connectx.send.blueflame=1"], "--as <SYSTEM>"),
            (["--node", "a"], "--as"),
            (["--as", SYSTEM, "--node-by", "hosts"], "ranks:N"),
            (["--as", SYSTEM, "--node-by", "net", "--node", "a"], "--node"),
            (["--as", SYSTEM, "--set", "nosuch=1"], "nosuch"),
            (["--as", SYSTEM, "--profiles", "/nonexistent"], "/nonexistent"),
    ):
        ended = place.run("wrong", [str(VERBENA), "run", *options, "--", "echo", "was run"], SECONDS)
        if ended.status != WRONG_INPUT or words not in ended.output or "was run" in ended.output:
            return failed(f"{options}: {ended.describe()}", ended.evidence())
    for words, expected in ((["nosuch", "--live"], "no paper"), (["memfree", "--live"], "connectx_multicore only"), (["--live"], "PAPER")):
        ended = place.run("wrong", [str(VERBENA), "reproduce", *words], SECONDS)
        if ended.status != WRONG_INPUT or expected not in ended.output:
            return failed(f"reproduce {words}: {ended.describe()}", ended.evidence())
    return passed("12 refusals")


def tables(place: Place) -> Outcome:
    """A program finds a directory without a table, or with a wrong one: a line that names it, and no device."""
    good = "verbena emulation 1\nsystem x\nwrite reference 8 1000 2000 10 0 100\nend 1\n"
    serial = good.replace("write", "serial 440\nturn write reference 8 700 1500 2300 2500 1900\nwrite").replace("end 1", "end 2")
    contents = {"none": None, "empty": "", "other": "hello\n", "negative": good.replace("1000", "-1"), "infinite": good.replace("1000", "inf"),
                "long": good + "x" * (2 << 20), "cut": good.replace("end 1\n", ""),
                "port": good.replace("system x\n", "system x\nport 3 2 4\n"), "change": serial.replace("440", "-440"),
                "no turns": serial.replace("turn write", "turn read"), "turn": serial.replace(" 1900", ""),
                "no change": serial.replace("serial 440\n", ""), "device": good.replace("system x\n", "system x\ndevice ../x 1 2 3 4\n"),
                "limit": good.replace("system x\n", "system x\nlimit max_nothing 4\n")}
    for name, content in contents.items():
        directory = place.directory / name
        directory.mkdir()
        if content is not None:
            (directory / "table").write_text(content)
        ended = opened(place, directory)
        if ended.succeeded or str(directory) not in ended.output:
            return failed(f"{name}: {ended.describe()}", ended.evidence())
    for name, content in (("good", good), ("serial", serial)):
        directory = place.directory / f"{name} table"
        directory.mkdir()
        (directory / "table").write_text(content)
        ended = opened(place, directory)
        if not ended.succeeded:
            return failed(f"a {name} table", ended.evidence())
    return passed(f"{len(contents)} refused")


def opened(place: Place, directory: Path):
    """A program that opens the device, with this directory."""
    command = [str(VERBENA), "run", "--", "env", f"VERBENA_AS={directory}", "ibv_devinfo"]
    return place.run("devinfo", command, SECONDS)
