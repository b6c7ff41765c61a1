"""When to ask again after a connection was lost. Only requests that change nothing are asked again."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from typing import Optional

#: A connection that stood is gone, or the server is about to end.
_INTERRUPTED = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN, errno.EAGAIN})
#: A server that cannot be reached: one that is being restarted, if it was reached before.
_UNREACHABLE = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH})
#: Seconds between the first attempts, and at most.
_FIRST, _LONGEST = 0.05, 2.0


class Attempts:
    """The attempts at one request: pauses that double, until `seconds` after the first failure."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._end: Optional[float] = None
        self._next = _FIRST

    def pause_after(self, error: OSError, is_known: Callable[[], bool]) -> float:
        """Returns the seconds to wait before the next attempt. Raises the error if there is none: another error, no time
        left, or a server to which there was no connection before."""
        now = time.monotonic()
        if error.errno not in _INTERRUPTED and not (error.errno in _UNREACHABLE and is_known()):
            raise error
        self._end = self._end or now + self._seconds
        if now >= self._end:
            raise error
        # Not all clients of a restarted server come back at the same moment.
        pause = min(self._next * random.uniform(0.5, 1), self._end - now)
        self._next = min(2 * self._next, _LONGEST)
        return pause
