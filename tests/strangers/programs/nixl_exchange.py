"""Two agents of NIXL: the initiator writes its buffer into the target's, and reads the target's answer.

nixl_exchange.py target|initiator ADDRESS PORT
"""

import sys
import time

import numpy
from nixl._api import nixl_agent, nixl_agent_config

SIZE = 1 << 20
PATTERN = numpy.arange(SIZE, dtype=numpy.uint8)
OTHER = numpy.full(SIZE, 7, dtype=numpy.uint8)


def until(holds):
    """Waits for a condition, which the case's deadline bounds, and returns it."""
    while not (value := holds()):
        time.sleep(0.001)
    return value


def target(agent, buffer, mine):
    """Sends its buffer's address, and checks the buffer on request."""
    print("target is ready", flush=True)
    until(lambda: agent.check_remote_metadata("initiator"))
    agent.send_notif("initiator", agent.get_serialized_descs(mine))
    until(lambda: agent.check_remote_xfer_done("initiator", b"written"))
    assert (buffer == PATTERN).all(), "other bytes than were written"
    buffer[:] = OTHER
    agent.send_notif("initiator", b"read it")
    until(lambda: agent.check_remote_xfer_done("initiator", b"read"))


def initiator(agent, buffer, mine, address, port):
    """Writes, waits until the target has checked, and reads."""
    buffer[:] = PATTERN
    agent.fetch_remote_metadata("target", address, port)
    agent.send_local_metadata(address, port)
    until(lambda: agent.check_remote_metadata("target"))
    described = until(agent.get_new_notifs)["target"][0]
    theirs = agent.deserialize_descs(described)

    def transfer(operation, note):
        handle = agent.initialize_xfer(operation, mine, theirs, "target", note)
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        assert state == "DONE", state
        agent.release_xfer_handle(handle)

    transfer("WRITE", b"written")
    until(lambda: agent.check_remote_xfer_done("target", b"read it"))
    transfer("READ", b"read")
    assert (buffer == OTHER).all(), "other bytes than the target has"
    # The note that ends the target is on its way.
    time.sleep(0.5)


def main():
    role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    agent = nixl_agent(role, nixl_agent_config(True, True, port if role == "target" else 0, backends=["UCX"]))
    buffer = numpy.zeros(SIZE, dtype=numpy.uint8)
    registered = agent.register_memory([(buffer.ctypes.data, SIZE, 0, "buffer")], "DRAM")
    mine = agent.get_xfer_descs([(buffer.ctypes.data, SIZE, 0)], "DRAM")
    if role == "target":
        target(agent, buffer, mine)
    else:
        initiator(agent, buffer, mine, address, port)
    agent.deregister_memory(registered)
    print(f"{role} is done", flush=True)


main()
