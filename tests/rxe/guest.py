"""A virtual machine with Linux' own Soft-RoCE as the peer at a host's cable, emulated, for an ordinary user has no
other way to have one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Mapping, Optional

from harness.place import Place
from harness.process import Ended, Process
from roce.hosts import Host, Hosts, SetupFailed

from . import initramfs

BOOT_SECONDS = 180
QEMU = "qemu-system-x86_64"
# Its timers are late on a busy machine; it must boot all the same.
BOOT_OPTIONS = "console=ttyS0 panic=-1 quiet no_timer_check"
COUNTERS = "cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *; dmesg | grep -i -c icrc"


class Guest:
    """A host in a network namespace, and the guest that its cable leads to, for the time of a `with`."""

    def __init__(self, place: Place, more: Optional[Mapping[str, Path]] = None):
        self.place = place
        self._more = more or {}
        self.hosts = _Alone(place)
        self._machine: Optional[Process] = None

    def __enter__(self) -> "Guest":
        self.hosts.__enter__()
        try:
            self._boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._machine:
            self._machine.finish(time.monotonic())
        self.hosts.__exit__()

    @property
    def host(self) -> Host:
        """Our side."""
        return self.hosts.members[0]

    @property
    def address(self) -> str:
        """The guest's."""
        return "10.9.0.2"

    def _boot(self) -> None:
        kernel = initramfs.kernel()
        archive = self.place.directory / "initramfs"
        initramfs.make(archive, kernel, self.address, self._more)
        host = self.host
        self._machine = self.place.start("guest", host.inside(
            [QEMU, "-accel", "tcg", "-m", "512", "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
             "-kernel", str(kernel.image), "-initrd", str(archive), "-append", BOOT_OPTIONS,
             "-netdev", f"tap,id=cable,ifname={host.interface},script=no,downscript=no",
             "-device", "virtio-net-pci,netdev=cable,mac=52:54:00:09:00:02"]))
        deadline = time.monotonic() + BOOT_SECONDS
        while "the guest is there" not in self._machine.output():
            if not self._machine.running or time.monotonic() > deadline:
                raise SetupFailed(self._machine.output()[-4000:])
            time.sleep(0.1)

    def start(self, name: str, command: str) -> Process:
        """Starts a command there."""
        return self.hosts.start(self.host, name, self.host.inside(
            ["sh", "-c", f'{{ echo "$1"; cat; }} < /dev/null | {initramfs.BUSYBOX} nc {self.address} 7000', "sh",
             command]))

    def run(self, name: str, command: str, seconds: float) -> Ended:
        """Runs a command there to its end."""
        return self.start(name, command).finish(time.monotonic() + seconds)


class _Alone(Hosts):
    """One host with a TAP for a cable."""

    def _make(self) -> None:
        host = self._keep("a", ["unshare", "-Urn", "sleep", "infinity"])
        host.setup("ip", "tuntap", "add", "dev", host.interface, "mode", "tap")
        self._configure(host)
