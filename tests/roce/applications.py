"""Software on the verbs, between two hosts: UCX, and Open MPI and MPICH over it, started from one host on both."""

from __future__ import annotations

import re
from pathlib import Path

from harness import c_program
from harness.build_tree import VERBENA
from harness.outcome import Outcome, failed, passed

from .hosts import PORT, Hosts

SECONDS = 120
MPI_PROGRAMS = Path(__file__).resolve().parent.parent / "mpi"
# The last line of each program: the ranks, and how many bytes were right.
SAID = {"verified.c": re.compile(r"(\d+) ranks verified (\d+ bytes)"), "fetched.c": re.compile(r"(\d+) ranks took (\d+ tickets)")}
RESULT = re.compile(r"^Final: +\d+", re.MULTILINE)
# UCX wires rc_verbs up by messages over a transport without connections, so it needs one beside it.
TLS = {"rc_verbs": "rc_verbs,ud_verbs:aux", "ud_verbs": "ud_verbs"}
ENVIRONMENT = {
    "UCX_TLS": TLS["rc_verbs"],
    "UCX_WARN_UNUSED_ENV_VARS": "n",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "MPIR_CVAR_NOLOCAL": "1",
}
# libfabric's providers over the verbs, with the kind of endpoint.
FABRICS = (("verbs", "msg"), ("verbs", "dgram"), ("verbs;ofi_rxm", "rdm"), ("verbs;ofi_rxd", "rdm"))
COMPILERS = {"Open MPI": "mpicc.openmpi", "MPICH": "mpicc.mpich"}
# Stands for ssh: goes to the other namespace, under another name, for two nodes have two.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
export VERBENA_RUNTIME_DIR=%(runtime)s
exec nsenter -t %(pid)d -n -- unshare -u sh -c "hostname other; $*"
"""


def ucx(transport: str, test: str, size: int, hosts: Hosts) -> Outcome:
    """Both sides return 0, and the client prints a result."""
    def command(*more: object) -> list[object]:
        return ["env", f"UCX_TLS={TLS[transport]}", "UCX_WARN_UNUSED_ENV_VARS=n", "ucx_perftest", "-p", PORT, *more]

    client = command(hosts.members[0].address, "-t", test, "-s", size, "-n", 500, "-w", 50)
    done = hosts.exchange(command(), client, SECONDS)
    outcome = done.outcome()
    if outcome.evidence == "" and not RESULT.search(done.client.output):
        return failed("no result", done.evidence())
    return outcome


def libfabric(provider: str, kind: str, hosts: Hosts) -> Outcome:
    """Messages of all sizes in both directions, verified; both sides return 0."""
    # The address of IPv4: the link-local one is not yet used in the first second of a host, and a datagram is lost for
    # good.
    command = ["env", "FI_VERBS_GID_IDX=1", "fi_pingpong", "-p", provider, "-e", kind, "-c", "-I", 10]
    return hosts.exchange([*command, "-B", PORT], [*command, "-P", PORT, hosts.members[0].address], SECONDS).outcome()


def mpi(library: str, source: str, hosts: Hosts) -> Outcome:
    """A rank on each host; each verifies all data that it receives, or that each of its atomics took effect once."""
    first, second = hosts.members
    try:
        program = c_program.compile_program(MPI_PROGRAMS / source, libraries=(), compiler=COMPILERS[library])
    except c_program.DoesNotCompile as error:
        return failed("does not compile", str(error))
    agent = hosts.place.directory / "agent"
    agent.write_text(AGENT % {"runtime": second.runtime, "pid": second.keeper.pid})
    agent.chmod(0o755)
    nodes = {
        "Open MPI": ["mpirun.openmpi", "--mca", "plm_rsh_agent", agent, "--mca", "pml", "ucx",
                     "--mca", "opal_common_ucx_devices", "any", "--mca", "opal_common_ucx_tls", "any",
                     "--mca", "btl", "^openib,vader,tcp", "--mca", "osc", "ucx",
                     # The two hosts are one machine: each would bind its rank to the same processor, where they
                     # alternate.
                     "--bind-to", "none",
                     "--host", f"{first.address}:1,{second.address}:1"],
        "MPICH": ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", agent,
                  "-hosts", f"{first.address},{second.address}"],
    }[library]
    # Each host's own interface is found, for they have different names.
    command = [VERBENA, "run", "--link", "roce", "--", "env",
               *(f"{name}={value}" for name, value in ENVIRONMENT.items()), *nodes, "-n", 2, program]
    ended = hosts.run(first, "mpi", first.inside(list(map(str, command))), SECONDS)
    match = SAID[source].search(ended.output)
    if not ended.succeeded or match is None or int(match.group(1)) != 2:
        return failed(ended.describe(), ended.evidence())
    if min(host.datagrams() for host in hosts.members) == 0:
        return failed("nothing went over the cable", ended.evidence())
    return passed(match.group(2))
