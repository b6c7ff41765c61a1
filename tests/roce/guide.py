"""The guide's commands of two machines, as two readers would run them: `a$` before a command is the first one's, `b$`
the other's; and its job of two hosts on one machine."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from typing import Callable

from harness.build_tree import ROOT, VERBENA
from harness.case import Case
from harness.outcome import Outcome, failed, passed
from harness.pair import finish
from harness.place import Place
from harness.process import Process, wait_for_any

from .hosts import Host, Hosts
from .ports import TwoCables

CHAPTER = ROOT / "docs" / "hosts.md"
SECONDS = 60
COMMAND = re.compile(r"^([ab])\$ (.*?)(?: {2,}#.*)?$", re.M)
# The least number of commands of each section; fewer mean that the test no longer reads it right.
LEAST = {"Two machines in five minutes": 5, "Several networks": 3}


def cases(on_hosts: Callable[..., Callable]) -> list[Case]:
    """A section each, and the job."""
    one, two = LEAST
    return [Case(f"docs/hosts.md: {one}", "", on_hosts(partial(followed, one))),
            Case(f"docs/hosts.md: {two}", "", on_hosts(partial(followed, two), kind=TwoCables)),
            Case("docs/hosts.md: two-hosts.sh", "", job)]


def section(heading: str) -> str:
    """The text from a heading to the next."""
    _, found, rest = CHAPTER.read_text().partition(f"\n## {heading}\n")
    assert found, f"docs/hosts.md has no section {heading}"
    return rest.partition("\n## ")[0]


def blocks(text: str) -> str:
    """Returns the content of its blocks of commands."""
    return "\n".join(re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S))


def followed(heading: str, hosts: Hosts) -> Outcome:
    """Each command of a section ends well: one of the second host that follows one of the first is its client."""
    commands = COMMAND.findall(blocks(section(heading)))
    if len(commands) < LEAST[heading]:
        return failed(f"only {len(commands)} commands were found in the section")
    serving = None
    for (reader, command), (follower, _) in zip(commands, [*commands[1:], ("", "")]):
        host = hosts.members["ab".index(reader)]
        line = shell(hosts, host, command)
        if reader == "a" and follower == "b" and command.startswith("verbena run"):
            serving = listening(hosts, line)
            continue
        running = hosts.start(host, "command", line)
        if serving:
            exchange = finish(serving, running, time.monotonic() + SECONDS)
            serving = None
            if not (exchange.server.succeeded and exchange.client and exchange.client.succeeded):
                return exchange.outcome()
            continue
        ended = running.finish(time.monotonic() + SECONDS)
        if not ended.succeeded:
            return failed(f"`{command}`: {ended.describe()}", ended.evidence())
    return passed(f"{len(commands)} commands")


def shell(hosts: Hosts, host: Host, command: str) -> list[str]:
    """A command as a shell there has it, with this network's names for the guide's."""
    first, second = hosts.members
    names = {"10.0.0.1": first.address, "10.0.0.2": second.address, "eth0": host.interface}
    if isinstance(hosts, TwoCables):
        names |= {"10.1.0.1": hosts.second_address(), "eth1": host.others[0]}
    command = re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], command)
    return host.inside(["env", f"PATH={VERBENA.parent}:{os.environ['PATH']}", "bash", "-eo", "pipefail", "-c", command])


def listening(hosts: Hosts, line: list[str]) -> Process:
    """A server of the first host, when it listens, or has ended."""
    first = hosts.members[0]
    serving = hosts.start(first, "server", line)
    deadline = time.monotonic() + SECONDS
    while serving.running and not first.listens() and time.monotonic() < deadline:
        wait_for_any([serving], time.monotonic() + 0.005)
    return serving


def job(place: Place) -> Outcome:
    """The script for CI, as it stands there."""
    script = re.search(r"^```sh\n(#!.*?)^```$", section("In a CI job"), re.M | re.S)
    assert script, "docs/hosts.md has no script"
    file = place.directory / "two-hosts.sh"
    file.write_text(script[1])
    file.chmod(0o755)
    ended = place.run("job", ["unshare", "-Urn", str(file)], SECONDS, PATH=f"{VERBENA.parent}:{os.environ['PATH']}",
                      TMPDIR=str(place.runtime))
    return passed() if ended.succeeded and "BW average" in ended.output else failed(ended.describe(), ended.evidence())
