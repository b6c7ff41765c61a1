"""Crates of Cargo's registry: their own tests and examples, compiled as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Sequence

from harness.build_tree import DEVICE, TARGET
from harness.requirement import Tool

from .ground import INFINIBAND, ROCE, Ground
from .program import Program, alone, announces, listens, manages, near, pair, served, unfit

CARGO = Path(__file__).resolve().parent / "cargo"
KEPT = TARGET / "strangers"
VERSIONS = {"async-rdma": "0.5.0", "ibverbs": "0.9.2", "rdma-sys": "0.3.0", "sideway": "0.4.3"}
# The port that examples have for ever.
MANAGED_PORT = 7471
# Rust's test programs end with this.
GOOD = r"^test result: ok\. [1-9]\d* passed; 0 failed"
NEEDS_LIBCLANG = [Tool("/usr/include/rdma/rdma_cma.h", "librdmacm-dev"), Tool("cargo", "rustup")]


def example(crate: str, name: str) -> Path:
    """An example as cargo makes it."""
    profile = "release" if crate == "rdma-sys" else "debug"
    return KEPT / "build" / crate / profile / "examples" / name


def program(crate: str, what: str, run: Callable, links: Sequence[str] = (INFINIBAND, ROCE), *,
            moves: bool = True) -> Program:
    """A row for a crate that was compiled."""
    package = f"{crate} {VERSIONS[crate]}"
    built = Tool(str(KEPT / "build" / crate / "made"), "setup/strangers")
    return Program(f"{crate} (crate): {what}", package, [*NEEDS_LIBCLANG, built], run, links, moves)


def tests(crate: str, *options: object) -> Callable:
    """Its tests, by cargo."""
    return alone(lambda _at: [CARGO, crate, VERSIONS[crate], "test", *options], GOOD, seconds=300)


def of(crate: str, name: str, *options: object) -> Callable[[Ground], Sequence[object]]:
    """The command line of an example."""
    return lambda _at: [example(crate, name), *options]


def pingpong(name: str) -> Program:
    """Sideway's versions of ibv_rc_pingpong, which compare every byte."""
    def words(at: Ground, *more: object) -> list[object]:
        return [example("sideway", name), "-d", DEVICE, "-g", at.gid, "-p", at.port, *more]
    return program("sideway", name, pair(words, lambda at: words(at, at.address), listens, (r"iters in", r"iters in")))


PROGRAMS = [
    program("ibverbs", "its tests", tests("ibverbs", "--lib", "--tests"), moves=False),
    # It takes the GID of index 1, which InfiniBand's one GID is not.
    program("ibverbs", "loopback", alone(of("ibverbs", "loopback"), r"received"), [ROCE]),
    program("rdma-sys", "its tests", tests("rdma-sys", "--lib"), moves=False),
    program("rdma-sys", "server and client",
            pair(of("rdma-sys", "server"), lambda at: [example("rdma-sys", "client"), at.address, MANAGED_PORT], manages,
                 ("rdma_server: end", "rdma_client: end"))),
    program("sideway", "its tests",
            tests("sideway", "--lib", "--test", "test_cq", "--test", "test_mr_and_cq", "--test", "test_post_send", "--test", "test_qp")),
    # InfiniBand's GID is link-local, which this test passes over, and it has no network interface, which show_gids asks
    # for.
    program("sideway", "its test of atomics", tests("sideway", "--test", "test_atomic"), [ROCE]),
    program("sideway", "show_gids", alone(of("sideway", "show_gids"), f"{DEVICE}.*RoCEv2"), [ROCE], moves=False),
    program("sideway", "ibv_devinfo", alone(of("sideway", "ibv_devinfo"), r"Active \(4\)"), moves=False),
    pingpong("rc_pingpong"),
    pingpong("rc_pingpong_split"),
    program("sideway", "cmtime",
            served(lambda at: [example("sideway", "cmtime"), "-p", at.port, "-b", at.address],
                   lambda at: [example("sideway", "cmtime"), "-p", at.port, "-s", at.address], manages, "connect"), moves=False),
    # async-rdma takes the GID of index 1 by default, and its tests and examples set no other.
    program("async-rdma", "its tests",
            # One test runs `rdma link`, which asks the kernel for its devices; two want the flag of immediate data as
            # Soft-RoCE has it.
            tests("async-rdma", "--lib", "--tests", "--", "--test-threads=2", "--skip", "context::tests::test1",
                  "--skip", "with_imm"), [ROCE]),
    program("async-rdma", "rpc", alone(of("async-rdma", "rpc"), r"^response: "), [ROCE]),
    program("async-rdma", "server and client",
            near(unfit(pair(of("async-rdma", "server"), of("async-rdma", "client"), announces("server start"),
                            ("server done", "client done")), "examples/server.rs:32",
                       "takes immediate data only with IBV_WC_GRH, as Soft-RoCE has it")), [ROCE]),
    program("async-rdma", "cm_server and cm_client",
            pair(of("async-rdma", "cm_server"), lambda at: [example("async-rdma", "cm_client"), at.address, MANAGED_PORT], manages,
                 ("end", "cm_client: end")), [ROCE]),
]
