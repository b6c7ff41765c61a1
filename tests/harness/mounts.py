"""Mounts that no other mount namespace has a copy of."""

from __future__ import annotations

import ctypes
import os
import subprocess

CLONE_NEWNS = 0x0002_0000


class _Namespace:
    """Whether this process has left the mount namespace that it was started in."""

    entered = False


def unshare() -> None:
    """Makes the mounts of this process visible to its children alone (unshare(2), CLONE_NEWNS).

    Any process that makes a mount namespace, as `ip netns exec` does, copies all mounts there are, and a file system
    stays mounted until the last copy is unmounted: a disk whose power was cut would come back in the failed state.
    """
    if _Namespace.entered:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    _Namespace.entered = True
    # Later mounts of the parent namespace propagate to this one, and none of this one's to the parent.
    subprocess.run(["mount", "--make-rslave", "/"], check=True)
