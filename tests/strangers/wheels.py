"""Wheels of PyPI: transfer engines of machine learning, and verbs for Python with their own test suite."""

from __future__ import annotations

from pathlib import Path

from harness.build_tree import DEVICE, TARGET
from harness.requirement import Tool

from .ground import INFINIBAND
from .program import Program, alone, announces, pair, served

HERE = Path(__file__).resolve().parent / "programs"
KEPT = TARGET / "strangers"
PYTHON = KEPT / "python/bin/python"
RDMA4PY = KEPT / "source/ibverbs-2026.10.22/tests"
# Stands for torch, which infinistore's benchmark uses only for buffers.
STANDIN = str(HERE / "standin")
NEEDS = [Tool(str(PYTHON), "setup/strangers")]
# InfiniStore's server writes 16 GiB in advance by default.
POOL = ["--prealloc-size", 1, "--minimal-allocate-size", 16]


def exchange(name: str, *words: object):
    """Both roles of a script, which prints `ROLE is done` when it has checked every byte."""
    script = HERE / f"{name}_exchange.py"
    return pair(lambda at: [PYTHON, script, "target", at.address, at.port, *words],
                lambda at: [PYTHON, script, "initiator", at.address, at.port, *words],
                announces("target is ready"), ("^target is done$", "^initiator is done$"),
                # UCX wires rc_verbs up by messages of another transport.
                UCX_TLS="rc_verbs,ud_verbs:aux")


def linked(at) -> str:
    """InfiniStore's word for the link."""
    return "IB" if at.link == INFINIBAND else "Ethernet"


PROGRAMS = [
    Program("nixl: write and read by UCX", "nixl-cu12 1.5.1", NEEDS, exchange("nixl")),
    Program("Mooncake: write and read", "mooncake-transfer-engine-non-cuda 0.3.13.post1", NEEDS, exchange("mooncake", DEVICE)),
    Program("InfiniStore: its benchmark", "infinistore 0.2.35", NEEDS,
            served(lambda at: [PYTHON, HERE / "infinistore_server.py", "--dev-name", DEVICE, "--link-type", linked(at),
                               "--service-port", at.port, "--manage-port", at.port + 1, *POOL],
                   lambda at: [PYTHON, HERE / "infinistore_benchmark.py", "--rdma", "--server", at.address,
                               "--service-port", at.port, "--dev-name", DEVICE, "--link-type", linked(at),
                               "--size", 64, "--block-size", 32, "--iteration", 3],
                   announces("server started"), r"^write cache: .*read cache: ", PYTHONPATH=STANDIN)),
    Program("ibverbs (rdma4py): its tests", "ibverbs 2026.10.22", [*NEEDS, Tool(str(RDMA4PY), "setup/strangers")],
            alone(lambda at: [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", RDMA4PY], r"^8\d passed, 3 skipped")),
]
