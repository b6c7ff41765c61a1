"""The file system of a guest whose kernel is Linux' own, with its Soft-RoCE: an archive that the kernel unpacks into
memory when it starts (Documentation/driver-api/early-userspace/buffer-format.rst), made of this machine's files.

The guest sets its interface and its RoCE device up, and then executes commands: each connection to its port 7000 brings
a command line, and takes away its output and its exit status.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from harness.build_tree import TARGET

PROGRAMS = ["/usr/bin/rdma", "/usr/bin/ibv_devinfo", "/usr/bin/timeout", "/usr/bin/env",
            *(f"/usr/bin/ibv_{kind}_pingpong" for kind in ("rc", "uc", "ud", "srq")),
            *(f"/usr/bin/ib_{what}" for what in (
                "send_lat", "send_bw", "write_lat", "write_bw", "read_lat", "read_bw", "atomic_lat", "atomic_bw")),
            "/usr/bin/rping", "/usr/bin/udaddy", "/usr/bin/ucmatose"]
BUSYBOX = "/bin/busybox"
PROVIDER = "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"
# Loaded by name, when a thread ends itself.
UNWINDER = "/lib/x86_64-linux-gnu/libgcc_s.so.1"
DRIVER = "/etc/libibverbs.d/rxe.driver"
# The checksum module that the driver requests by name.
MODULES = ["crc32_generic", "virtio_pci", "virtio_net", "rdma_rxe", "rdma_ucm"]
# A graphics device without hardware, whose buffers are dma-bufs; not every kernel has it.
OPTIONAL_MODULES = ["vgem"]
LIBRARY = re.compile(r"(/\S+) \(0x")

INIT = """\
#!/bin/sh
export PATH=/bin:/usr/bin
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
mkdir -p /dev/shm /tmp
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
for module in $(cat /modules/order); do insmod /modules/$module; done
mdev -s
ip link set lo up
ip link set eth0 up
ip addr add {address}/24 dev eth0
ulimit -l unlimited
rdma link add rxe0 type rxe netdev eth0
mdev -s
nc -ll -p 7000 -e /ask &
# 7000 in the kernel's own notation.
until grep -q :1B58 /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
ibv_devinfo -d rxe0 | grep -q PORT_ACTIVE && echo "the guest is there"
wait
"""
ASK = """\
#!/bin/sh
read -r line
sh -c "$line" 2>&1
echo "status $?"
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel of the distribution, below the directory into which its package was unpacked."""

    root: Path
    release: str

    @property
    def image(self) -> Path:
        """Returns the kernel image."""
        return self.root / "boot" / f"vmlinuz-{self.release}"

    def modules(self) -> list[Path]:
        """The modules with their dependencies, in the order in which they are loaded."""
        order: dict[Path, None] = {}
        for name in MODULES + OPTIONAL_MODULES:
            done = subprocess.run(["/usr/sbin/modprobe", "-d", str(self.root), "--show-depends", "-S", self.release, name],
                                  capture_output=True, text=True, check=name in MODULES)
            for line in done.stdout.splitlines():
                # modprobe reports a built-in module differently.
                if line.startswith("insmod "):
                    order.setdefault(Path(line.split()[1]))
        return list(order)


def kernel() -> Optional[Kernel]:
    """The one that `setup/guest` unpacked; none if it has not."""
    for image in sorted((TARGET / "guest" / "boot").glob("vmlinuz-*")):
        return Kernel(TARGET / "guest", image.name.removeprefix("vmlinuz-"))
    return None


def libraries(files: list[str]) -> set[str]:
    """All shared objects that these are linked with."""
    found = set()
    for file in files:
        done = subprocess.run(["ldd", file], capture_output=True, text=True, check=False)
        found.update(LIBRARY.findall(done.stdout))
    return found


class Archive:
    """The archive that the kernel unpacks: entries of the `newc` format, one after the other."""

    def __init__(self) -> None:
        self._entries = bytearray()
        self._directories: set[str] = set()
        self._number = 0

    def _add(self, name: str, mode: int, content: bytes = b"") -> None:
        self._number += 1
        name_bytes = name.encode() + b"\0"
        fields = [self._number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name_bytes), 0]
        header = b"070701" + b"".join(b"%08x" % field for field in fields)
        for part in (header + name_bytes, content):
            self._entries += part + bytes(-len(part) % 4)

    def directory(self, name: str) -> None:
        """A directory, and those above it."""
        if name in self._directories or name in ("", "."):
            return
        self.directory(os.path.dirname(name))
        self._directories.add(name)
        self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name: str, content: bytes, mode: int = 0o755) -> None:
        """A file, with the directories above it."""
        name = name.lstrip("/")
        self.directory(os.path.dirname(name))
        self._add(name, stat.S_IFREG | mode, content)

    def link(self, name: str, target: str) -> None:
        """A symbolic link."""
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def write(self, file: Path) -> None:
        """Everything, to a file."""
        self._add("TRAILER!!!", 0)
        with gzip.open(file, "wb", compresslevel=1) as out:
            out.write(self._entries)


def make(file: Path, chosen: Kernel, address: str, more: Mapping[str, Path]) -> None:
    """Writes the archive for a guest with this kernel and this address, and with more files: their names there, and
    where they are here."""
    archive = Archive()
    # The directories where programs of the distribution search for themselves and for their libraries.
    archive.directory("usr/bin")
    archive.directory("usr/lib")
    archive.directory("usr/lib64")
    for name in ("bin", "sbin", "lib", "lib64"):
        archive.link(name, "usr/bin" if name.endswith("bin") else f"usr/{name}")
    for name in ("dev", "proc", "sys", "tmp"):
        archive.directory(name)
    plain = [*PROGRAMS, PROVIDER, UNWINDER]
    for path in [*plain, *sorted(libraries(plain)), DRIVER, BUSYBOX]:
        target = path if path.startswith(("/usr/", "/etc/")) else f"/usr{path}"
        archive.file(target, Path(path).read_bytes())
    for name, path in more.items():
        archive.file(name, path.read_bytes())
    for library in sorted(libraries([str(path) for path in more.values()]) - libraries(plain)):
        archive.file(library if library.startswith("/usr/") else f"/usr{library}", Path(library).read_bytes())
    listed = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    taken = {os.path.basename(program) for program in PROGRAMS} | {"busybox"}
    for applet in listed:
        if applet not in taken:
            archive.link(f"usr/bin/{applet}", "busybox")
    order = chosen.modules()
    for module in order:
        archive.file(f"modules/{module.name}", module.read_bytes(), 0o644)
    archive.file("modules/order", "\n".join(module.name for module in order).encode(), 0o644)
    archive.file("init", INIT.format(address=address).encode())
    archive.file("ask", ASK.encode())
    archive.write(file)
