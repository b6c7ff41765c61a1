"""In which order a session's requests are answered: version 2 in theirs, version 3 as they are done; and taking one
back."""

from __future__ import annotations

import struct

from harness.outcome import Outcome, failed, passed
from harness.place import Place

from .attacks import alive
from .service import SECRET, USER, Service
from .wire import CANCEL, CHECKSUM, OPEN, PING, Peer, text

ECANCELED = 125
READING = struct.pack(">II", 1, 0)
#: Blocks of the service.
BLOCK = 256 << 10
#: Requests that a session may have under way.
MOST = 64
#: This process may be kept from running between slow and quick requests: then the test is repeated.
TRIES = 20


def begun(service: Service, newest: int, count: int) -> tuple[Peer, list[int]]:
    """A session with so many requests under way, each of which takes time: checksums of an endless file."""
    with open(service.export / "large", "wb") as file:
        file.truncate(4 << 30)
    peer = Peer(service.port)
    assert peer.log_in(USER, SECRET, newest=newest) == 0
    status, body, _ = peer.ask(OPEN, text(b"/large") + READING)
    assert status == 0
    sums = body[:8] + struct.pack(">QII", 0, BLOCK, 1024)
    return peer, [peer.send(CHECKSUM, sums) for _ in range(count)]


def answers(peer: Peer, count: int) -> list[tuple[int, int]]:
    """Numbers and statuses of the replies that come."""
    return [peer.receive_numbered()[:2] for _ in range(count)]


def of_replies(place: Place) -> Outcome:
    """Quick requests overtake slow ones in version 3 and not in version 2; no session has more under way than it
    may."""
    with Service(place, "tcp") as service:
        old, numbers = begun(service, 2, 20)
        numbers.append(old.send(PING))
        came = answers(old, len(numbers))
        if came != [(number, 0) for number in numbers]:
            return failed(f"version 2 answers {came} to {numbers}")
        for _ in range(TRIES):
            new, numbers = begun(service, 3, MOST - 1)
            ping = new.send(PING)
            came = answers(new, MOST)
            if sorted(came) != [(number, 0) for number in [*numbers, ping]]:
                return failed(f"version 3 answers {came} to {numbers} and {ping}")
            place_of_ping = came.index((ping, 0))
            if place_of_ping < MOST - 1:
                break
        else:
            return failed("a ping waits for all earlier requests")
        # One request more than the limit is not read before one of the others has ended.
        full, numbers = begun(service, 3, MOST)
        late = full.send(PING)
        came = answers(full, MOST + 1)
        if sorted(came) != [(number, 0) for number in [*numbers, late]] or came[0][0] == late:
            return failed(f"with {MOST} under way, a further one is answered first: {came}")
        # A number that comes twice is answered twice.
        full.next -= 1
        again = full.send(PING)
        full.next -= 1
        full.send(PING)
        if answers(full, 2) != [(again, 0)] * 2:
            return failed("a number that came twice was not answered twice")
        return passed(f"the ping came {place_of_ping + 1}. of {MOST}") if alive(service) else failed("it is not there any more")


def of_cancels(place: Place) -> Outcome:
    """A cancelled request is refused or was done, once; a version without cancelling has none."""
    with Service(place, "tcp") as service:
        for _ in range(TRIES):
            peer, numbers = begun(service, 3, 60)
            cancels = [peer.send(CANCEL, struct.pack(">Q", number)) for number in (*numbers[-3:], 10**15)]
            came = answers(peer, len(numbers) + len(cancels))
            statuses = dict(came)
            if len(statuses) != len(came):
                return failed(f"something is answered twice: {came}")
            if any(statuses[number] for number in (*numbers[:-3], *cancels)):
                return failed(f"a request that was not cancelled is refused: {came}")
            refused = {statuses[number] for number in numbers[-3:]}
            if refused - {0, ECANCELED}:
                return failed(f"of the cancelled ones: {refused}")
            if ECANCELED in refused:
                break
        else:
            return failed("a cancelled request is carried out all the same")
        old, _ = begun(service, 2, 0)
        old.send(CANCEL, struct.pack(">Q", 1))
        if not old.closed():
            return failed("version 2 knows Cancel")
        # A client that leaves in the midst of it leaves nothing open.
        for _ in range(5):
            begun(service, 3, MOST)[0].close()
        return passed() if alive(service) else failed("it is not there any more")
