"""Two transfer engines of Mooncake: the initiator writes a buffer to the target's and reads it back.

mooncake_exchange.py target|initiator ADDRESS PORT DEVICE

They connect by a socket on the address and port, by which the target names its segment and the initiator announces the
end.
"""

import socket
import sys

import numpy
from mooncake.engine import TransferEngine

SIZE = 1 << 20
PATTERN = numpy.arange(SIZE, dtype=numpy.uint8)


def engine(address, device):
    """An engine on the device, by a handshake between peers."""
    made = TransferEngine()
    code = made.initialize(address, "P2PHANDSHAKE", "rdma", device)
    assert code == 0, f"initialize: {code}"
    return made


def registered(made):
    """A buffer registered with the engine."""
    buffer = numpy.zeros(SIZE, dtype=numpy.uint8)
    assert made.register_memory(buffer.ctypes.data, SIZE) == 0
    return buffer


def target(address, port, device):
    """Serves, and checks its buffer in the end."""
    made = engine(address, device)
    buffer = registered(made)
    with socket.create_server((address, port)) as meeting:
        print("target is ready", flush=True)
        peer, _ = meeting.accept()
        with peer:
            peer.sendall(f"{address}:{made.get_rpc_port()} {buffer.ctypes.data}\n".encode())
            assert peer.recv(4) == b"done"
    assert (buffer == PATTERN).all(), "other bytes than were written"
    made.unregister_memory(buffer.ctypes.data)


def initiator(address, port, device):
    """Writes and reads."""
    with socket.create_connection((address, port)) as meeting:
        name, remote = meeting.makefile().readline().split()
        made = engine(meeting.getsockname()[0], device)
        buffer = registered(made)
        buffer[:] = PATTERN
        assert made.transfer_sync_write(name, buffer.ctypes.data, int(remote), SIZE) == 0
        buffer[:] = 0
        assert made.transfer_sync_read(name, buffer.ctypes.data, int(remote), SIZE) == 0
        assert (buffer == PATTERN).all(), "other bytes than were written"
        made.unregister_memory(buffer.ctypes.data)
        meeting.sendall(b"done")


role, at = sys.argv[1], (sys.argv[2], int(sys.argv[3]), sys.argv[4])
{"target": target, "initiator": initiator}[role](*at)
print(f"{role} is done", flush=True)
