"""Retries after a lost connection. Only requests that change nothing are retried."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from typing import Optional

#: An established connection was lost, or the server is shutting down.
_INTERRUPTED = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN, errno.EAGAIN})
#: The server is unreachable: it is restarting if it was reached before.
_UNREACHABLE = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH})
#: Seconds between the first attempts, and the maximum.
_FIRST, _LONGEST = 0.05, 2.0


class Attempts:
    """The attempts of one request: delays that double, until `seconds` after the first failure."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._end: Optional[float] = None
        self._next = _FIRST

    def pause_after(self, error: OSError, is_known: Callable[[], bool]) -> float:
        """Returns the seconds to wait before the next attempt. Raises the error if there is none: for another error, after the
        time limit, or for a server without an earlier connection."""
        now = time.monotonic()
        if error.errno not in _INTERRUPTED and not (error.errno in _UNREACHABLE and is_known()):
            raise error
        self._end = self._end or now + self._seconds
        if now >= self._end:
            raise error
        # Spreads the reconnections of the clients of a restarted server.
        pause = min(self._next * random.uniform(0.5, 1), self._end - now)
        self._next = min(2 * self._next, _LONGEST)
        return pause
