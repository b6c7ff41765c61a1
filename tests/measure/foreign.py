"""Figures of real programs (perftest, ucx_perftest, NetPIPE, qperf), as they print them and as `verbena compare`
imports them."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from harness.build_tree import DEVICE, VERBENA, run
from harness.outcome import Outcome, failed, passed
from harness.pair import Exchange, exchange, free_port, listening
from harness.place import Place
from harness.process import wait_for_any

SECONDS = 180
MEBIBYTE = 1 << 20
# For perftest: the column in the last row of the first table, and its factor to the units of our records.
VARIANTS = [
    ("ib_write_lat", [], 4, 1000),
    ("ib_write_bw", ["--report_gbits"], 3, 1e9 / 8),
    ("ib_write_bw", ["-b", "--report-both"], 3, MEBIBYTE),
    ("ib_send_bw", ["-q", "4"], 3, MEBIBYTE),
]
NIGHTLY = [
    (tool, ["-c", transport, "-s", size, *options], column, unit)
    for tool, column, unit in (("ib_send_lat", 4, 1000), ("ib_send_bw", 3, MEBIBYTE), ("ib_write_bw", 3, MEBIBYTE))
    for transport in ("RC", "UC")
    for size in ("8", "4096", "65536")
    for options in ([], ["-I", "0"])
]
# ucx_perftest's test, size, further options, and the column of its last row (with commas: without "Final:").
UCX = [("tag_lat", 8, [], 1, 1000), ("tag_bw", 65536, ["-v"], 5, MEBIBYTE)]
UCX_NIGHTLY = [("tag_lat", 4096, ["-v"], 1, 1000), ("ucp_put_bw", 4096, [], 5, MEBIBYTE), ("ucp_get", 8, [], 1, 1000)]
# qperf's units in nanoseconds or bytes per second.
QPERF_UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "MB/sec": 1e6, "GB/sec": 1e9, "KB/sec": 1e3}
QPERF = [("rc_lat", []), ("rc_bw", ["-vv"]), ("uc_bw", ["-v"]), ("ud_lat", []), ("rc_rdma_write_bw", ["-vvc"])]


@dataclass(frozen=True)
class Printed:
    """A program's output: its text, its first figure in the unit of our records, and the arguments of `--as`."""

    name: str
    text: str
    figure: float
    given: str = ""


def perftest(variant: tuple[str, list[str], int, float], place: Place) -> Printed | Outcome:
    """Runs perftest; returns the client's output."""
    tool, options, column, unit = variant
    port = free_port()
    command = run(tool, "-F", "-d", DEVICE, "-p", port, "-n", "1000", *options)
    done = exchange(place, command, [*command, "127.0.0.1"], port, SECONDS)
    name = " ".join([tool, *options])
    if not (text := output(done)):
        return failed(f"{name} failed", done.evidence())
    rows = [line.split() for line in text[text.index("#bytes"):].splitlines()[1:] if line[1:2].isdigit()]
    return Printed(name, text, float(rows[0][column]) * unit)


def ucx(variant: tuple[str, int, list[str], int, float], place: Place) -> Printed | Outcome:
    """Runs ucx_perftest; returns the client's output. Its server has the test's name."""
    test, size, options, column, unit = variant
    port = free_port()
    command = run("ucx_perftest", "-p", port)
    asking = [*command, "-t", test, "-s", str(size), "-n", "1000", *options, "127.0.0.1"]
    done = exchange(place, command, asking, port, SECONDS, UCX_TLS="rc_verbs,ud_verbs:aux", UCX_WARN_UNUSED_ENV_VARS="n")
    name = " ".join(["ucx_perftest", test, str(size), *options])
    if not (text := output(done)):
        return failed(f"{name} failed", done.evidence())
    row = re.sub(r"^Final: *", "", text.rstrip().splitlines()[-1]).replace(",", " ").split()
    return Printed(name, text, float(row[column]) * unit, f"ucx:{test}:{size}")


def qperf(variant: tuple[str, list[str]], place: Place) -> Printed | Outcome:
    """Runs qperf; returns the client's output, then ends its server."""
    test, options = variant
    port = free_port()
    begun = ["qperf", "-lp", str(port)]
    serving = place.start("server", run(*begun))
    deadline = time.monotonic() + SECONDS
    while serving.running and not listening(port) and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    ended = place.run("client", run(*begun, "127.0.0.1", "-t", "1", *options, test), SECONDS)
    place.run("quit", run(*begun, "127.0.0.1", "quit"), SECONDS)
    serving.finish(deadline)
    name = " ".join(["qperf", *options, test])
    figure = re.search(r"(?:latency|recv_bw|\bbw) += +([\d.,]+) ([\w/]+)", ended.output)
    if not ended.succeeded or figure is None or figure[2] not in QPERF_UNITS:
        return failed(f"{name} failed, or printed something else", ended.evidence())
    return Printed(name, ended.output, float(figure[1].replace(",", "")) * QPERF_UNITS[figure[2]])


def netpipe(place: Place) -> list[Printed | Outcome]:
    """Runs NetPIPE; returns its output, and the file that it writes."""
    file = place.directory / "np.out"
    # Its rows go to standard error; its messages about its file must not get into the middle of a row.
    command = ["sh", "-c", 'exec "$@" >said', "sh", "mpirun.openmpi", "--oversubscribe", "-n", "2",
               "NPopenmpi", "-u", "1024", "-o", str(file)]
    ended = place.run("netpipe", command, SECONDS, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if not ended.succeeded:
        return [failed(f"NPopenmpi: {ended.describe()}", ended.evidence())]
    # Host names stand alone on a line: no reader of the text can recognise them.
    text = "".join(line for line in ended.output.splitlines(keepends=True) if not re.match(r"\d+: \S+$", line))
    shown = re.search(r" in +([\d.]+) usec", text)
    if shown is None:
        return [failed("NPopenmpi printed something else", text)]
    rows = file.read_text()
    return [Printed("NPopenmpi", text, float(shown[1]) * 1000),
            Printed("NPopenmpi -o", rows, float(rows.split()[2]) * 1e9, "netpipe:ping-pong")]


def output(done: Exchange) -> str | None:
    """Returns the client's output, if it succeeded."""
    return done.client.output if done.client is not None and done.client.succeeded else None


def imported(variants: list[tuple[str, list[str], int, float]], place: Place) -> Outcome:
    """The figure of each variant of perftest is the one that the program printed."""
    return all_alike([perftest(variant, place) for variant in variants], place)


def others(variants: list[tuple[str, int, list[str], int, float]], place: Place) -> Outcome:
    """The figures of ucx_perftest and NetPIPE are those that they printed."""
    return all_alike([*(ucx(variant, place) for variant in variants), *netpipe(place)], place)


def of_qperf(place: Place) -> Outcome:
    """The figures of qperf are those that it printed."""
    return all_alike([qperf(variant, place) for variant in QPERF], place)


def all_alike(all_printed: list[Printed | Outcome], place: Place) -> Outcome:
    """Each figure is imported as it was printed, and no line is left out."""
    for number, printed in enumerate(all_printed):
        if isinstance(printed, Outcome):
            return printed
        file = place.directory / f"output-{number}.txt"
        file.write_text(printed.text)
        if wrong := differs(printed, file, place):
            return wrong
    return passed(f"{len(all_printed)} outputs")


def differs(printed: Printed, file: Path, place: Place) -> Outcome | None:
    """Returns the failure if the import differs."""
    given = ["--as", printed.given] if printed.given else []
    told = place.run("import", [str(VERBENA), "compare", "--all", "--json", *given, str(file), str(file)], 20)
    if told.status != 4 or "warning" in told.output:
        return failed(f"{printed.name}: {told.describe()}", told.evidence())
    figures = [change["a"] for change in json.loads(told.output) if change["points"] == 1]
    if not figures or abs(figures[0] - printed.figure) > 1e-6 * printed.figure:
        return failed(f"{printed.name}: {figures[:1]} was imported, {printed.figure} printed", printed.text)
    return None
