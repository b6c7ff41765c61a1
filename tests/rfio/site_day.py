"""A day of a site, by the real programs: users by certificate and by token, rights, limits, a ban, rotated logs, a
restart under a recursive copy, metrics, dashboard and alert rules."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Optional

from harness.outcome import Outcome, failed, passed
from harness.place import Place
from harness.process import Ended, Process

from . import operations, tokens
from .authority import Certificate
from .certificates import Asking, with_openssl
from .operations import ends, parse, records, unshown, wait_for
from .service import SECONDS, noise

DATA = noise(600_001)
RIGHTS = """\
ann      all        /home/ann
bob      all        /home/bob
*        read,list  /data
cy@wlcg  write      /data/in
@staff   members    ann,bob
@staff   read       /staff
@wlcg:/shift read   /shift
"""
#: Files of the tree that is being copied when the server is started anew.
FILES = 60


class Site(Asking):
    """A service with everything that a site configures, its users, and both logs."""

    def __init__(self, place: Place):
        self.tokens = place.directory / "tokens"
        self.tokens.mkdir()
        self.key = tokens.Key(self.tokens, "one", "ES256")
        files = {"issuers": f"wlcg {tokens.ISSUER} keys={self.key.public} audience={tokens.AUDIENCE}\n", "rights": RIGHTS,
                 "limits": "bob sessions=1\n", "banned": "# nobody\n"}
        for name, content in files.items():
            (self.tokens / name).write_text(content)
            (self.tokens / name).chmod(0o644)
        at = self.tokens
        self.accounting = at / "accounting"
        super().__init__(place, "", "--tls-only", "--tokens", at / "issuers", "--rights", at / "rights", "--user-limits", at / "limits",
                         "--banned", at / "banned", "--accounting", self.accounting, "--admin", at / "admin")
        for name in ("home/ann", "home/bob", "data/in", "staff", "shift"):
            (self.export / name).mkdir(parents=True)
            (self.export / name / "notes").write_text(name)
        (self.export / "data/f").write_bytes(DATA)
        (self.export / "data/long").write_bytes(noise(1 << 20) * 64)
        (self.export / "f").unlink()
        self.ann, self.bob = (self.authority.issue(f"/O=Example/CN={name}") for name in ("ann", "bob"))
        said = self.change(self.users, "".join(f"{name}:{certificate.subject()}\n" for name, certificate in
                                               (("ann", self.ann), ("bob", self.bob))))
        assert "rfiod: reloaded" in said, said

    def begun(self, certificate: Certificate, program: str, *arguments: object) -> Process:
        """A tool of a user with a certificate."""
        return self.begin(program, "--tls-ca", self.chain, *certificate.options(), *arguments, RFIO_SECRETS=str(self.directory / "none"))

    def by_token(self, program: str, *arguments: object, scope: str = "storage.read:/data storage.create:/data/in", **more: object) -> Ended:
        """Runs a tool with a token and no other credentials."""
        token = self.key.token(tokens.claims(scope, sub="cy", **more))
        return self.tool(program, "--tls-ca", self.chain, *arguments, RFIO_SECRETS=str(self.directory / "none"), BEARER_TOKEN=token.decode())

    def page(self, accept: str = "") -> str:
        """The page of metrics."""
        return operations.Kept.page(self, accept)

    def rotate(self) -> list[Path]:
        """Renames the logs as logrotate does; those of before."""
        before, old = self.daemon.output().count("rfiod: reopened"), []
        for log in (self.audit, self.accounting):
            old.append(log.rename(f"{log}.1"))
        os.kill(self.daemon.pid, signal.SIGHUP)
        wait_for(lambda: self.daemon.output().count("rfiod: reopened") == before + 2)
        return old


def finish(process: Process) -> Ended:
    """Its end."""
    return process.finish(time.monotonic() + SECONDS)


def users_and_rights(site: Site) -> Optional[str]:
    """Every user has exactly the rights of the file; returns the failure."""
    here, at = site.here, site.at
    (here / "f").write_bytes(DATA)
    steps = [
        (0, site.shown(site.ann, "rfcp", "-q", "--checksum", here / "f", at("home/ann/f"))),
        (0, site.shown(site.bob, "rfcp", "-q", at("data/f"), here / "bob")), (0, site.by_token("rfcp", "-q", at("data/f"), here / "cy")),
        (0, site.by_token("rfcp", "-q", here / "f", at("data/in/f"))),
        (2, site.shown(site.bob, "rfcp", "-q", at("home/ann/f"), here / "no")), (2, site.shown(site.bob, "rfrm", at("home/ann/f"))),
        (2, site.shown(site.ann, "rfcp", "-q", here / "f", at("data/no"))), (2, site.by_token("rfcp", "-q", at("home/ann/f"), here / "no")),
        (2, site.by_token("rfcp", "-q", here / "f", at("data/no"))), (2, site.by_token("rfrm", at("data/in/f"))),
        # The rights do not reach as far as this scope does.
        (2, site.by_token("rfcat", at("home/ann/f"), scope="storage.read:/home")),
        (0, site.shown(site.bob, "rfcat", at("staff/notes"))), (2, site.by_token("rfcat", at("staff/notes"), scope="storage.read:/")),
        (0, site.by_token("rfcat", at("shift/notes"), scope="storage.read:/", **{"wlcg.groups": ["/shift"]})),
        (2, site.by_token("rfcat", at("shift/notes"), scope="storage.read:/", **{"wlcg.groups": ["/other"]})),
        (2, site.by_token("rfcat", at("shift/notes"), **{"wlcg.groups": ["/shift"]})),
        (2, site.shown(site.ann, "rfcat", at("shift/notes"))), (2, site.shown(None, "rfcat", at("data/f"))), (2, site.shown(site.authority.issue("/O=Example/CN=eve"), "rfcat", at("data/f")))]
    for status, ended in steps:
        if ended.status != status or (status and not any(word in ended.output for word in ("ermission", "scope", "let in"))):
            return f"exit code {ended.status}, not {status}\n{ended.evidence()}"
    different = [name for name in ("bob", "cy") if (here / name).read_bytes() != DATA]
    if different or (site.export / "data/in/f").read_bytes() != DATA or (here / "no").exists():
        return f"the bytes of {different} differ, or something was made that may not be"
    return None


def limit_and_ban(site: Site) -> Optional[str]:
    """One session for bob, and then none; returns the failure."""
    slow = site.begun(site.bob, "rfcp", "-q", "--limit-rate", "8M", "--retry", "20", site.at("data/long"), site.here / "slow")
    if not wait_for(lambda: site.metric("rfio_open_files") == 1):
        return f"bob's copy does not begin\n{finish(slow).evidence()}"
    ended = site.shown(site.bob, "rfcat", site.at("data/f"))
    if ended.status != 16:
        return f"bob has a second session\n{ended.evidence()}"
    begun = time.monotonic()
    if "rfiod: reloaded" not in site.change(site.tokens / "banned", "bob\n"):
        return "the ban is not read"
    ended, took = finish(slow), time.monotonic() - begun
    # Data under way (16 MiB at most) are taken at the copy's rate before its end is seen.
    if ended.status != 2 or took > 15 or "banned" not in ended.output:
        return f"bob's copy ends after {took:.1f} s\n{ended.evidence()}"
    ended = site.shown(site.bob, "rfcat", site.at("data/f"))
    if ended.status != 2 or "banned" not in ended.output:
        return f"bob is let in\n{ended.evidence()}"
    if "rfiod: reloaded" not in site.change(site.tokens / "banned", "# nobody\n") or not site.shown(site.bob, "rfcat", site.at("data/f")).succeeded:
        return "bob is not let in again"
    return None


def restart_under_a_copy(site: Site) -> Optional[str]:
    """The service is stopped as a service manager does and started while ann copies a tree; the logs are rotated before
    that."""
    tree, there = site.here / "tree", site.export / "home/ann/tree"
    for number in range(FILES):
        (tree / f"d{number % 7}").mkdir(parents=True, exist_ok=True)
        (tree / f"d{number % 7}/f{number}").write_bytes(noise(20_000, number))
    copy = site.begun(site.ann, "rfcp", "-r", "--json", "--retry", "20", "--limit-rate", "1M", tree, site.at("home/ann/"))
    if not wait_for(lambda: len(list(there.glob("d*/f*"))) > FILES // 5):
        return f"the copy does not begin\n{finish(copy).evidence()}"
    counted = sum(site.metric(name) for name in operations.CARRIED.values())
    old = site.rotate()
    site.stop()
    site.start()
    ended = finish(copy)
    if not ended.succeeded or json.loads(ended.output.splitlines()[-1])["tried_again"] < 1:
        return f"the tree is not copied over a restart\n{ended.evidence()}"
    different = site.place.run("diff", ["diff", "-r", str(tree), str(there)], 30)
    if not different.succeeded:
        return different.evidence()
    before = records(old[1])
    if counted <= 0 or [record["event"] for record in before if record["event"] in ("start", "stop")] != ["start"]:
        return "the rotated log has the restart"
    return None


def after_the_day(site: Site) -> Optional[str]:
    """Checks the scrape, the dashboard, the rules and the logs."""
    pages = [site.page("application/openmetrics-text; version=1.0.0"), site.page()]
    parsed = parse(pages)
    if "No module named 'prometheus_client'" not in parsed.stderr:
        if parsed.returncode:
            return f"a page is not OpenMetrics: {parsed.stderr}"
        # The counters begin with the restart.
        users = {labels["user"] for name, labels, value in json.loads(parsed.stdout) if name == "rfio_user_sessions_total" and value > 0}
        if users != {"ann"}:
            return f"after the restart there were sessions of {users}"
    if problem := unshown(site.place, operations.exposed(site)):
        return problem
    if not wait_for(lambda: site.metric("rfio_sessions") == 0):
        return "sessions do not end"
    site.stop()
    told = [record for log in (f"{site.accounting}.1", site.accounting) for record in records(Path(log))]
    kinds = Counter(record["event"] for record in told)
    if (kinds["start"], kinds["stop"], kinds["lost"]) != (2, 2, 0):
        return f"the accounting has {kinds}"
    sessions = Counter((record["user"], record["result"]) for record in told if record["event"] == "session end")
    if {user for user, _ in sessions} != {"ann", "bob", "cy@wlcg"} or sessions["bob", "ended"] != 1 or sessions["ann", "stopped"] < 1:
        return f"sessions ended as {sessions}"
    seen = [record for log in (f"{site.audit}.1", site.audit) for record in records(Path(log))]
    audit = Counter(record["event"] for record in seen)
    # An anonymous client, eve, and bob under the ban; bob's second session is refused for another reason.
    if audit["authentication refused"] < 3 or audit["ended"] != 1 or not any("token" in record for record in seen):
        return f"the audit log has {audit}"
    if len(ends(site.accounting)) + len(ends(Path(f"{site.accounting}.1"))) != audit["session"]:
        return f"{audit['session']} sessions began, and {sum(sessions.values())} ended"
    return None


@with_openssl
def whole(place: Place) -> Outcome:
    """From the first session to the report of the day."""
    with Site(place) as site:
        for part in (users_and_rights, limit_and_ban, restart_under_a_copy, after_the_day):
            if problem := part(site):
                return failed(f"{part.__name__}: {problem}", site.daemon.output() if site.daemon else "")
        return passed()
