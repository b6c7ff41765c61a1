"""The adapter on 64-bit ARM, emulated by QEMU's user mode: its unit tests, Debian's ping-pongs and perftest.

The path to peers is the ring: QEMU's user mode supports neither userfaultfd(2), without which pages of a process with
several threads are not moved, nor process_vm_writev(2).
"""

from __future__ import annotations

from functools import partial

from harness import counters
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.pair import exchange, free_port
from harness.place import Place
from harness.process import run
from harness.requirement import Tool

from . import machine

TITLE = "64-bit ARM, emulated"
REQUIRES = [Tool("qemu-aarch64", "qemu-user"), Tool(machine.COMPILER, "gcc-aarch64-linux-gnu"), Tool("mmdebstrap", "mmdebstrap"),
            Tool("/usr/aarch64-linux-gnu/lib/crti.o", "libc6-dev-arm64-cross")]

SECONDS = 120
BUILDING_SECONDS = 900
PROGRAMS = [
    # Every byte is compared.
    (("-g", 0, "-n", 100, "-c"), ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong")),
    (("-n", 100), ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw", "ib_write_lat")),
]
# Tests of what QEMU's user mode does not pass on to the kernel: sharing a port by a filter, packets in trains and their
# control messages, userfaultfd(2), process_vm_readv(2) of oneself, madvise(2)'s populating, multicast, later mappings in an
# open /proc/self/maps (a snapshot there).
BEYOND_QEMU = {
    "verbena-hca-net": ["roce::port_probe::tests::open_port_answers",
                        "roce::port_probe::tests::answer_with_other_random_bytes", "roce::shared_port::tests::slots_are_not_created",
                        "roce::steering::tests::packet_reaches"],
    "verbena-hca-memory": ["unregistered_equivalence_tests"],
    "verbena-hca-os": ["multicast::", "populate::", "process_vm::", "shared_mapping_is_found_by_name", "udp::"],
}


def cases() -> list[Case]:
    """All."""
    return [
        *(Case("unit tests", crate, partial(unit_tests, crate))
          for crate in ("verbena-abi", "verbena-wire", "verbena-transport", "verbena-hca-os", "verbena-hca-shm",
                        "verbena-hca-memory", "verbena-hca-net", "verbena-hca")),
        *(Case(program, "", partial(pair, program, words)) for words, programs in PROGRAMS for program in programs),
    ]


def prepared(case):
    """A case that needs the machine."""
    def guarded(*arguments) -> Outcome:
        try:
            machine.prepare()
        except machine.Absent as absent:
            return skipped(str(absent))
        return case(*arguments)
    return guarded


@prepared
def unit_tests(crate: str, place: Place) -> Outcome:
    """A crate's."""
    without = [word for name in BEYOND_QEMU.get(crate, []) for word in ("--skip", name)]
    command = [*machine.CARGO, "test", "--release", "--target", machine.TRIPLE, "-p", crate, "--lib", "--", *without]
    ended = run(["prlimit", f"--as={machine.ADDRESS_SPACE}", *command], machine.environment(), place.log("tests"),
                BUILDING_SECONDS, machine.ROOT)
    lines = [line for line in ended.output.splitlines() if line.startswith("test result:")]
    if not ended.succeeded or not lines:
        return failed(ended.describe(), ended.evidence())
    return passed(lines[-1].removeprefix("test result: ok. "))


@prepared
def pair(program: str, words: tuple, place: Place) -> Outcome:
    """Both ends of a program."""
    port = free_port()
    here = machine.emulated(machine.DEBIAN / "usr/bin" / program, *words, "-p", port)
    both = exchange(place, here, [*here, "localhost"], port, SECONDS)
    return both.outcome(detail="by " + ", ".join(sorted(counters.paths_used(place))))
