"""Programs whose verbs calls and requests fail by rules (`verbena run --fault`), and the record of the failures."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Mapping, Optional, Type

from .launch import RECORD, environment


class NeverFired(AssertionError):
    """Rules that were about no call or request: the test tested nothing."""


class Faults:
    """Rules for programs that get the environment `env`, in a `with` statement.

        with Faults("qp1.write 3: remote-access") as faults:
            done = subprocess.run(["./client"], env=faults.env)
        assert done.returncode == 3 and faults.fired == 1

    The end of the statement raises NeverFired if a rule never fired, unless `allow_unfired` is true. `seed` decides the chance in
    rules; `base` is the environment of the programs, by default that of this process. Wrong rules raise a ValueError with the
    program's message. Calls of this process itself do not fail.
    """

    def __init__(self, *rules: str, seed: int = 0, base: Optional[Mapping[str, str]] = None, allow_unfired: bool = False):
        if not rules:
            raise ValueError("no rule is given, such as 'ibv_reg_mr 2: ENOMEM'")
        self._rules, self._allow_unfired = rules, allow_unfired
        self.env = environment(base, faults=rules, seed=seed)
        descriptor, name = tempfile.mkstemp(prefix="verbena-faults-")
        os.close(descriptor)
        self._record, self._counts = Path(name), [0] * len(rules)
        self.env[RECORD] = name

    def _read(self) -> None:
        counts = [0] * len(self._rules)
        for line in self._record.read_text(errors="replace").splitlines():
            rule = line.split("\t", 1)[0]
            if rule.isdecimal() and int(rule) < len(counts):
                counts[int(rule)] += 1
        self._counts = counts

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule has fired so far, at most 1000 for each process."""
        if self._record.exists():
            self._read()
        return dict(zip(self._rules, self._counts))

    @property
    def fired(self) -> int:
        """How often the rules have fired so far, in sum."""
        return sum(self.counts.values())

    def close(self) -> None:
        """Removes the record; the counts remain."""
        if self._record.exists():
            self._read()
            self._record.unlink()

    def check(self) -> None:
        """Raises NeverFired if a rule has not fired."""
        if never := [rule for rule, count in self.counts.items() if count == 0]:
            raise NeverFired(f"never fired: {', '.join(never)}")

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()
        if kind is None and not self._allow_unfired:
            self.check()
