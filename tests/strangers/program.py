"""A third-party program: its requirements, its command, and the expected words of its own result."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Callable, Mapping, Sequence

from harness import counters
from harness.outcome import Outcome, failed, passed, refused, skipped
from harness.pair import Exchange, finish
from harness.place import Place
from harness.process import Ended, Process, wait_for_any
from harness.requirement import Tool
from roce.hosts import NoNamespaces, SetupFailed

from .ground import INFINIBAND, ROCE, Ground, made

SECONDS = 120
Words = Callable[[Ground], Sequence[object]]
Ready = Callable[[Ground, Process], bool]


@dataclass(frozen=True)
class Program:
    """A row of the table."""

    name: str
    # Name and version of its package in its registry.
    package: str
    needs: Sequence[Tool]
    run: Callable[[Ground], Outcome]
    links: Sequence[str] = (INFINIBAND, ROCE)
    # Whether it moves data, which the adapter must have counted then.
    moves: bool = True

    def on(self, link: str, place: Place) -> Outcome:
        """Runs it over a link; it must have used the adapter."""
        if lacking := [tool for tool in self.needs if not tool.present()]:
            return skipped(f"{self.package}: no {lacking[0].name} ({lacking[0].package})")
        try:
            with made(place, link) as ground:
                outcome = self.run(ground)
                used = counters.total(place)
        except NoNamespaces as words:
            return skipped(str(words))
        except SetupFailed as words:
            return failed("no hosts", str(words))
        if self.moves and outcome == passed() and not any(value for name, value in used.items() if name.endswith("_operations")):
            return failed("passes without an operation of the adapter's")
        return outcome


def judged(ended: Ended, says: str) -> str:
    """Returns how a program ended wrongly: "" if it returned 0 and its output has the words."""
    if not ended.succeeded:
        return ended.describe()
    return "" if re.search(says, ended.output, re.MULTILINE) else f"does not say {says!r}"


def alone(words: Words, says: str, seconds: float = SECONDS, **environment: str) -> Callable[[Ground], Outcome]:
    """One process, or several of one command line, on one host."""
    def run(ground: Ground) -> Outcome:
        ended = ground.server.run("program", seconds, *words(ground), **environment)
        wrong = judged(ended, says)
        return failed(wrong, ended.evidence()) if wrong else passed()
    return run


def listens(ground: Ground, _process: Process) -> bool:
    """The server has the TCP port of the case."""
    return ground.server.listens(ground.port)


def manages(ground: Ground, _process: Process) -> bool:
    """The server listens by the connection manager."""
    return ground.server.manages()


def announces(text: str) -> Ready:
    """The server has said this."""
    return lambda _ground, process: text in process.output()


def started(ground: Ground, name: str, words: Sequence[object], ready: Ready, seconds: float,
            environment: Mapping[str, str] = {}) -> tuple[Process, bool]:
    """Starts a server and waits until it is ready."""
    deadline = time.monotonic() + seconds
    serving = ground.server.start(name, *words, **environment)
    while serving.running and not ready(ground, serving) and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.01)
    return serving, serving.running and ready(ground, serving)


def pair(server: Words, client: Words, ready: Ready, says: tuple[str, str] = ("", ""), seconds: float = SECONDS,
         **environment: str) -> Callable[[Ground], Outcome]:
    """A server and a client that both end, return 0 and print these words."""
    def run(ground: Ground) -> Outcome:
        deadline = time.monotonic() + seconds
        serving, is_ready = started(ground, "server", server(ground), ready, seconds, environment)
        if not is_ready:
            return Exchange(serving.finish(time.monotonic()), None).outcome()
        done = finish(serving, ground.client.start("client", *client(ground), **environment), deadline)
        wrong = [f"{name}: {words}" for name, ended, text in (("server", done.server, says[0]), ("client", done.client, says[1]))
                 if (words := judged(ended, text))]
        return failed("; ".join(wrong), done.evidence()) if wrong else passed()
    return run


def served(server: Words, client: Words, ready: Ready, says: str, seconds: float = SECONDS,
           **environment: str) -> Callable[[Ground], Outcome]:
    """A client of a server that runs until it is ended."""
    def run(ground: Ground) -> Outcome:
        serving, is_ready = started(ground, "server", server(ground), ready, seconds, environment)
        if not is_ready:
            return failed("the server is not ready", serving.finish(time.monotonic()).evidence())
        asked = ground.client.run("client", seconds, *client(ground), **environment)
        ended = serving.finish(time.monotonic())
        ground.sweep()
        wrong = judged(asked, says)
        return failed(wrong, "\n".join([asked.evidence(), ended.evidence()])) if wrong else passed()
    return run


def unfit(run: Callable[[Ground], Outcome], where: str, why: str) -> Callable[[Ground], Outcome]:
    """A program that ends at a known place of its source, for a reason that is no fault of the adapter's."""
    def judge(ground: Ground) -> Outcome:
        outcome = run(ground)
        return refused(why) if where in outcome.evidence else outcome
    return judge


def near(run: Callable[[Ground], Outcome]) -> Callable[[Ground], Outcome]:
    """The same with both ends on one host."""
    return lambda ground: run(ground.near())
