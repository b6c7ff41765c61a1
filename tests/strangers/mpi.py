"""MPI libraries of PyPI, each with UCX or libfabric of its own, under mpi4py. Shared memory between the ranks is off."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

from harness.build_tree import TARGET
from harness.requirement import Tool

from .ground import INFINIBAND
from .program import Program, alone

KEPT = TARGET / "strangers"
EXCHANGE = Path(__file__).resolve().parent / "programs/mpi_exchange.py"
VERSIONS = {"openmpi": "5.0.11", "mpich": "5.0.2", "impi-rt": "2021.18.1"}
OPENMPI = ["mpirun", "--oversubscribe", "--bind-to", "none"]
AS_ROOT = {f"{launcher}_ALLOW_RUN_AS_ROOT{suffix}": "1" for launcher in ("OMPI", "PRTE") for suffix in ("", "_CONFIRM")}
UCX = {"UCX_TLS": "rc_verbs,ud_verbs", "UCX_WARN_UNUSED_ENV_VARS": "n"}
OFI = "verbs;ofi_rxm"
INTEL = KEPT / "impi-rt"


def program(library: str, transport: str, launcher: list[str], **environment: str) -> Program:
    """A row: two ranks over one transport of a library."""
    folder = KEPT / library / "bin"
    needs = [Tool(str(folder / "python"), "setup/strangers")]
    run = alone(lambda _at: [folder / launcher[0], *launcher[1:], "-n", 2, folder / "python", EXCHANGE], "^2 ranks are done$", **environment)
    return Program(f"{library} (wheel): over {transport}", f"{library} {VERSIONS[library]}", needs, run, [INFINIBAND])


def of_mpich(netmod: str, **more: str) -> Mapping[str, str]:
    """MPICH's variables."""
    return {"MPIR_CVAR_CH4_NETMOD": netmod, "MPIR_CVAR_NOLOCAL": "1", **more}


PROGRAMS = [
    program("openmpi", "UCX", [*OPENMPI, "--mca", "pml", "ucx", "--mca", "osc", "ucx"], **AS_ROOT, **UCX),
    program("openmpi", "libfabric", [*OPENMPI, "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", OFI,
                                     "--mca", "opal_common_ofi_provider_include", OFI], **AS_ROOT),
    program("mpich", "UCX", ["mpiexec"], **of_mpich("ucx", **UCX)),
    program("mpich", "libfabric", ["mpiexec"], **of_mpich("ofi", FI_PROVIDER=OFI)),
    program("impi-rt", "libfabric", ["mpirun"], I_MPI_ROOT=str(INTEL), FI_PROVIDER_PATH=str(INTEL / "lib"),
            LD_LIBRARY_PATH=str(INTEL / "lib"), I_MPI_FABRICS="ofi", I_MPI_OFI_PROVIDER="verbs"),
]
