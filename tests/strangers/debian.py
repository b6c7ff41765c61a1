"""Debian's programs: fio, qperf, and an allocator or valgrind under a ping-pong whose every byte is compared."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Callable, Optional

from harness.build_tree import DEVICE
from harness.outcome import Outcome, failed, passed
from harness.pair import Exchange, finish
from harness.requirement import Tool

from .ground import INFINIBAND, Ground
from .program import Program, judged, listens, manages, pair, started

SECONDS = 60
MEBIBYTES, BLOCK = 16, 64 << 10
BLOCKS = (MEBIBYTES << 20) // BLOCK
FIO = Tool("fio", "fio")
QPERF = Tool("qperf", "qperf")
GLOO = Path(__file__).resolve().parent / "programs/gloo_allreduce.cc"
PINGPONG = Tool("ibv_rc_pingpong", "ibverbs-utils")
# One test of every transport and operation of qperf; the `ver_` tests compare the received data. Over Ethernet qperf
# connects by the connection manager alone, and that only RC.
QPERF_TESTS = ["rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_read_bw", "rc_rdma_write_lat", "rc_rdma_write_bw",
               "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add",
               "uc_lat", "uc_bw", "uc_bi_bw", "uc_rdma_write_lat", "uc_rdma_write_bw", "uc_rdma_write_poll_lat",
               "ud_lat", "ud_bw", "ud_bi_bw"]
OVER_ETHERNET = [test for test in QPERF_TESTS if test.startswith(("rc_", "ver_rc_"))]
LIBRARIES = [Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib/aarch64-linux-gnu")]


def fio(verb: str) -> Callable[[Ground], Outcome]:
    """A client that moves blocks by a verb. Its server has a receive for each of them: fio requests no retry of a send
    that finds none."""
    def run(ground: Ground) -> Outcome:
        # As threads: fio's own processes leave the session, by which the harness ends hung programs.
        common = ["fio", "--thread", "--ioengine=rdma", f"--port={ground.port}", f"--bs={BLOCK}", f"--size={MEBIBYTES}m",
                  "--output-format=json"]
        serving, is_ready = started(ground, "server", [*common, "--name=server", "--rw=read", f"--iodepth={BLOCKS}"], manages, SECONDS)
        if not is_ready:
            return Exchange(serving.finish(time.monotonic()), None).outcome()
        asking = ground.client.start("client", *common, "--name=client", f"--hostname={ground.address}", f"--verb={verb}",
                                     "--rw=write", "--iodepth=2")
        done = finish(serving, asking, time.monotonic() + SECONDS)
        # fio leaves its connection manager's socket behind, as a killed process does.
        ground.sweep()
        outcome = done.outcome()
        if outcome.evidence:
            return outcome
        job = job_of(done.client.output)
        if job is None or job["error"] or job["write"]["io_bytes"] != MEBIBYTES << 20 or job["write"]["total_ios"] != BLOCKS:
            return failed(f"fio does not report {BLOCKS} blocks without error", done.evidence())
        return passed()
    return run


def job_of(output: str) -> Optional[dict]:
    """The only job of fio's report, among other lines."""
    start = output.find("{")
    try:
        return json.JSONDecoder().raw_decode(output[start:])[0]["jobs"][0]
    except (ValueError, KeyError, IndexError):
        return None


def qperf(ground: Ground) -> Outcome:
    """Each test prints a result; then the client ends the server."""
    options = ["-lp", ground.port]
    tests, connected = (QPERF_TESTS, []) if ground.link == INFINIBAND else (OVER_ETHERNET, ["-cm", 1])
    serving, is_ready = started(ground, "server", ["qperf", *options], listens, SECONDS)
    if not is_ready:
        return failed("the server is not ready", serving.finish(time.monotonic()).evidence())
    for test in tests:
        asked = ground.client.run(test, SECONDS, "qperf", *options, *connected, "-t", 1, ground.address, test)
        if wrong := judged(asked, r"(latency|bw|msg_rate) += +[1-9]"):
            return failed(f"{test}: {wrong}", "\n".join([asked.evidence(), serving.finish(time.monotonic()).evidence()]))
    quit_ = ground.client.run("quit", SECONDS, "qperf", *options, ground.address, "quit")
    ended = serving.finish(time.monotonic() + SECONDS)
    wrong = judged(quit_, "quit") or judged(ended, "")
    return failed(wrong, "\n".join([quit_.evidence(), ended.evidence()])) if wrong else passed()


def pingpong(before: list[object], **environment: str) -> Callable[[Ground], Outcome]:
    """ibv_rc_pingpong with every byte compared, run by another program or with other libraries."""
    def words(at: Ground, *more: object) -> list[object]:
        return [*before, "ibv_rc_pingpong", "-d", DEVICE, "-g", at.gid, "-p", at.port, "-c", "-n", 300, "-s", 65537, *more]
    return pair(words, lambda at: words(at, at.address), listens, ("300 iters in", "300 iters in"), **environment)


def gloo(ground: Ground) -> Outcome:
    """Two processes sum vectors over gloo's transport of verbs, which meet by files."""
    made = ground.place.directory / "gloo_allreduce"
    compiled = ground.place.run("compile", ["c++", "-O1", str(GLOO), "-o", str(made), "-lgloo", "-libverbs", "-pthread"], SECONDS)
    if not compiled.succeeded:
        return failed("does not compile", compiled.evidence())
    store = ground.place.directory / "store"
    store.mkdir()
    words = [made, store, DEVICE, ground.gid]
    return pair(lambda _at: [*words, 0], lambda _at: [*words, 1], lambda _at, process: process.running,
                ("^rank 0: every sum is right$", "^rank 1: every sum is right$"), SECONDS)(ground)


def library(name: str) -> str:
    """Returns the path of a library, or its name if it is missing."""
    return next((str(folder / name) for folder in LIBRARIES if (folder / name).exists()), name)


def preloaded(name: str, package: str) -> Program:
    """An allocator that replaces malloc."""
    path = library(name)
    return Program(f"ibv_rc_pingpong with {name}", package, [PINGPONG, Tool(path if "/" in path else f"/usr/lib/{path}", package)],
                   pingpong([], LD_PRELOAD=path))


PROGRAMS = [
    *[Program(f"fio ioengine=rdma, verb={verb}", "fio", [FIO], fio(verb)) for verb in ("write", "read", "send")],
    Program("qperf", "qperf", [QPERF], qperf),
    Program("gloo: allreduce over ibverbs", "libgloo0", [Tool("/usr/include/gloo/transport/ibverbs/device.h", "libgloo-dev"),
                                                         Tool("c++", "g++")], gloo),
    preloaded("libjemalloc.so.2", "libjemalloc2"),
    preloaded("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    Program("ibv_rc_pingpong under valgrind", "valgrind", [PINGPONG, Tool("valgrind", "valgrind")],
            pingpong(["valgrind", "-q", "--error-exitcode=9"])),
]
