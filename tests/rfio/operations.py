"""Operation at a site: logs that are rotated and disks that fill, accounting, metrics, dashboard, storage report."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Callable, Optional
from urllib.request import Request, urlopen

from harness.build_tree import ROOT
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place

from .elsewhere import HOST
from .python_package import PYTHON
from .service import SECONDS, SECRET, USER, Service, noise
from .wire import OPEN, Peer, text

SHIPPED = ROOT / "crates/rfio-tools/packaging"
CLOSE, WRITE = 11, 14
CARRIED = {"sent_tcp": "rfio_stream_sent_bytes_total", "sent_verbs": "rfio_fabric_sent_bytes_total",
           "received_tcp": "rfio_stream_received_bytes_total", "received_verbs": "rfio_fabric_received_bytes_total"}
# Control characters, ends of lines that only some readers know, text that runs backwards, JSON, and bytes that are not
# UTF-8.
HOSTILE = [b"a\nb\rc\x1b[2J", "\u0085\u2028\u2029\u202e\U0001f600".encode(), b'"},{"event":"forged', b"\xff\xfe\n not UTF-8", b"\\u0000"]


class Kept(Service):
    """A service with both logs."""

    def __init__(self, place: Place, fabric: str = "tcp", *options: str, accounting: Optional[Path] = None):
        self.accounting = accounting or place.directory / "accounting"
        super().__init__(place, fabric, "--accounting", str(self.accounting), *options)

    def reload(self) -> None:
        """Sends SIGHUP and waits until both logs are open again."""
        before = self.daemon.output().count("rfiod: reopened")
        os.kill(self.daemon.pid, signal.SIGHUP)
        wait_for(lambda: self.daemon.output().count("rfiod: reopened") >= before + 2)

    def page(self, accept: str = "") -> str:
        """The page of metrics."""
        request = Request(f"http://{HOST}:{self.metrics_port}/metrics", headers={"Accept": accept} if accept else {})
        with urlopen(request, timeout=SECONDS) as answer:
            return answer.read().decode()


class Long(Kept):
    """The same with logs that are long already: a limit on the size of files leaves space for all other output."""

    def start(self) -> None:
        for log in (self.audit, self.accounting):
            log.write_text('{"event": "before"}\n' * 10_000)
        super().start()


def wait_for(condition: Callable[[], object], seconds: float = 20) -> bool:
    """Waits; returns whether the condition became true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def records(log: Path) -> list[dict]:
    """The records of a log; every line must be one."""
    content = log.read_bytes() if log.exists() else b""
    if content and not content.endswith(b"\n"):
        raise ValueError(f"{log} ends in half a line: {content[-100:]!r}")
    return [json.loads(line) for line in content.decode().splitlines()]


def ends(log: Path) -> list[dict]:
    """The records of sessions that have ended."""
    return [record for record in records(log) if record["event"] == "session end"]


def rotation(place: Place) -> Outcome:
    """Renamed logs keep their records, and SIGHUP begins new ones, even if it cannot read other files; a removed
    directory is reported."""
    with Kept(place) as service:
        (service.export / "f").write_bytes(noise(100_000))
        logs = (service.audit, service.accounting)
        service.tool("rfcp", service.at("f"), service.here / "one")
        if not wait_for(lambda: len(ends(service.accounting)) == 1):
            return failed("a session has no record of its end")
        before = [records(log) for log in logs]
        for log in logs:
            log.rename(f"{log}.1")
        service.secrets.write_bytes(b"no secrets file\n")
        service.reload()
        if "reload failed" not in service.daemon.output():
            return failed("a bad file of secrets is not reported")
        ended = service.tool("rfcp", service.at("f"), service.here / "two", RFIO_SECRETS=secrets_of_old(place))
        if not ended.succeeded or not wait_for(lambda: len(ends(service.accounting)) == 1):
            return failed("the new logs get nothing", ended.evidence())
        for log, old in zip(logs, before):
            if records(Path(f"{log}.1")) != old:
                return failed(f"{log}.1 is written on")
            if log.stat().st_mode & 0o777 != 0o600:
                return failed(f"{log} is not private")
        if {record["session"] for record in records(service.audit)} & {record.get("session") for record in before[0]}:
            return failed("a session is in both logs")
        return passed()


def logrotate(place: Place) -> Outcome:
    """The shipped logrotate file, with this service's directory and process in place of the installed one's: both logs
    are rotated twice, and nothing is lost."""
    tool = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin")
    if tool is None:
        return skipped("needs logrotate (package logrotate)")
    if os.geteuid() != 0:
        return skipped("needs root: the file has its logs rotated by their user")
    logs = place.directory / "logs"
    logs.mkdir(0o750)
    with Kept(place, accounting=logs / "accounting.jsonl") as service:
        (service.export / "f").write_bytes(noise(1000))
        shipped = (SHIPPED / "rfiod.logrotate").read_text()
        replaced = {"/var/log/rfio/": f"{logs}/", "rfio rfio": "root root", "dateext": "dateext\n\tdateformat -%s",
                    "systemctl --quiet is-active rfiod.service": "true", "systemctl reload rfiod.service": f"kill -HUP {service.daemon.pid}"}
        for old, new in replaced.items():
            if old not in shipped:
                return failed(f"the shipped file does not say {old}")
            shipped = shipped.replace(old, new)
        configuration = place.directory / "logrotate.conf"
        configuration.write_text(shipped)
        configuration.chmod(0o644)
        for turn in (1, 2):
            service.tool("rfcat", service.at("f"))
            wait_for(lambda: len(ends(service.accounting)) == 1)
            before = service.daemon.output().count("rfiod: reopened")
            ended = place.run("logrotate", [tool, "--force", "--state", str(place.directory / "state"), str(configuration)], 60)
            if not ended.succeeded:
                return failed("logrotate refuses the file", ended.evidence())
            if not wait_for(lambda: service.daemon.output().count("rfiod: reopened") == before + 2):
                return failed("the daemon gets no signal", ended.evidence())
            time.sleep(1.1)
        service.tool("rfcat", service.at("f"))
        wait_for(lambda: len(ends(service.accounting)) == 1)
        names = sorted(path.name for path in logs.iterdir())
        found = [json.loads(line) for path in logs.iterdir() for line in opened(path).splitlines()]
        count = Counter(record["event"] for record in found)
        return passed() if len(names) == 3 and count["session end"] == 3 and count["file"] == 3 else failed(f"{names} have {count}")


def opened(path: Path) -> str:
    """Returns the content of a rotated log, compressed or not."""
    return gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text()


def secrets_of_old(place: Place) -> str:
    """A client's file of the secrets with which the daemon was started."""
    path = place.directory / "client-secrets"
    path.touch(0o600)
    path.write_bytes(USER + b":" + SECRET + b"\n")
    return str(path)


def full_disk(place: Place) -> Outcome:
    """Logs that may not grow, with space for a part of a line: no half line is left, lost records are counted in the
    log, in the metrics and on standard error, the service goes on, and so do the logs afterwards."""
    with Long(place) as service:
        (service.export / "f").write_bytes(noise(1000))
        soft, hard = resource.prlimit(service.daemon.pid, resource.RLIMIT_FSIZE)
        for number, room in enumerate((0, 1, 60, 130, 190, 300)):
            size = max(service.audit.stat().st_size, service.accounting.stat().st_size)
            resource.prlimit(service.daemon.pid, resource.RLIMIT_FSIZE, (size + room, hard))
            for _ in range(3):
                ended = service.tool("rfcat", service.at("f"))
                if not ended.succeeded:
                    return failed("the service does not go on", ended.evidence())
            resource.prlimit(service.daemon.pid, resource.RLIMIT_FSIZE, (soft, hard))
            if not service.tool("rfcat", service.at("f")).succeeded:
                return failed("the service does not go on afterwards")
            # The service records the end of a session after the client has ended.
            last = 4 * number + 3
            if not wait_for(lambda: any(end["session"] == last for end in ends(service.accounting))):
                return failed(f"the log is not written again: no end of session {last}")
        wait_for(lambda: sessions_in(service.accounting) == 24)
        for log, name in ((service.audit, "audit"), (service.accounting, "accounting")):
            lost = sum(record["records"] for record in records(log) if record["event"] == "lost")
            counted = service.metric(f"rfio_{name}_lost_records_total")
            if lost == 0 or lost != counted:
                return failed(f"the {name} log has {lost} lost records, the metrics of {counted}")
        if (total := sessions_in(service.accounting)) != 24:
            return failed(f"records and lost records make {total} of 24 sessions and files")
        said = service.daemon.output()
        if said.count("records are lost until") < 2 or said.count("writable again") < 2:
            return failed("it is not reported", said)
        return passed()


def sessions_in(log: Path) -> int:
    """Returns the number of sessions that a log records or has lost, where each has a record of its file and one of its
    end."""
    count = sum(record["records"] if record["event"] == "lost" else record["event"] in ("file", "session end") for record in records(log))
    return count // 2


def no_room_at_all(place: Place) -> Outcome:
    """A log on a device that is always full: served all the same, said once, counted."""
    with Kept(place, accounting=Path("/dev/full")) as service:
        (service.export / "f").write_bytes(noise(1000))
        for _ in range(3):
            if not (ended := service.tool("rfcat", service.at("f"))).succeeded:
                return failed("the service does not go on", ended.evidence())
        if not wait_for(lambda: service.metric("rfio_accounting_lost_records_total") >= 7):
            return failed("lost records are not counted")
        said = service.daemon.output()
        return passed() if said.count("records are lost until") == 1 else failed("it is not reported once", said)


def accounting(place: Place, fabric: str) -> Outcome:
    """Copies both ways, trees, hostile names, a killed client, a stopped service: each file and each session has a
    record, and their bytes are those of the metrics."""
    data = noise(3_000_001)
    with Kept(place, fabric) as service:
        (service.export / "f").write_bytes(data)
        (service.here / "tree").mkdir()
        for index in range(20):
            (service.here / f"tree/{index}").write_bytes(noise(1000 + index))
        for arguments in ((service.at("f"), service.here / "back"), (service.here / "back", service.at("new")),
                          ("-r", service.here / "tree", service.at("tree"))):
            if not (ended := service.tool("rfcp", *arguments)).succeeded:
                return failed("a copy failed", ended.evidence())
        killed = service.begin("rfcp", "--limit-rate", "100k", service.at("f"), service.here / "slow")
        if not wait_for(lambda: service.metric("rfio_open_files") == 1):
            return failed("a slow copy has no file open")
        killed.finish(time.monotonic())
        peer = Peer(service.port)
        if peer.log_in(USER, SECRET):
            return failed("a client is refused")
        for name in HOSTILE:
            status, body, _ = peer.ask(OPEN, text(b"/" + name) + struct.pack(">II", 6, 0o644))
            peer.ask(WRITE, body[:8] + struct.pack(">QI", 0, 5) + struct.pack(">I", 0) + b"\0", b"12345")
            if status or peer.ask(CLOSE, body[:8])[0]:
                return failed(f"{name!r} cannot be written")
        peer.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
        if not wait_for(lambda: service.metric("rfio_sessions") == 1):
            return failed("sessions do not end")
        counters = {key: service.metric(name) for key, name in CARRIED.items()}
        service.stop()
        found = records(service.accounting)
        if [found[0]["event"], found[-1]["event"]] != ["start", "stop"]:
            return failed("start and stop of the service are not recorded")
        if problem := judge(found, counters):
            return failed(problem)
        if missing := lacking([record for record in records(service.audit) if record["event"] == "Open"]):
            return failed(f"the audit log lacks {missing}")
        moved = "verbs" if fabric == "verbs" else "tcp"
        if counters[f"sent_{moved}"] < len(data) or counters[f"received_{moved}"] < len(data):
            return failed(f"the data did not travel by {moved}: {counters}")
    return passed()


def lacking(found: list[dict]) -> list[bytes]:
    """Returns the hostile names that no record has byte for byte."""
    names = [bytes.fromhex(record["path_hex"]) if "path_hex" in record else record["path"].encode() for record in found]
    return [name for name in HOSTILE if b"/" + name not in names]


def judge(found: list[dict], counters: dict[str, int]) -> Optional[str]:
    """Returns an error in the records of `accounting`, or None."""
    files = [record for record in found if record["event"] == "file"]
    sessions = {record["session"]: record for record in found if record["event"] == "session end"}
    if missing := lacking(files):
        return f"{missing} have no record, or another name"
    for key, counted in counters.items():
        if (said := sum(record[key] for record in sessions.values())) != counted:
            return f"{key}: the sessions' records say {said}, the metrics {counted}"
    for number, record in sessions.items():
        own = [file for file in files if file["session"] == number]
        if len(own) != record["files"] or any(sum(file[key] for file in own) != record[key] for key in CARRIED):
            return f"the files of session {number} differ from its record: {record}, {own}"
        if record["user"] != USER.decode() or not record["began_us"] <= record["time_us"]:
            return f"{record} is of another user or time"
    results = Counter(record["result"] for record in files)
    if results["cut"] != 2 or results["whole"] != 20:
        return f"files ended as {results}, of which two were cut and 20 moved whole"
    ends_of = Counter(record["result"] for record in sessions.values())
    return None if ends_of["stopped"] == 1 else f"sessions ended as {ends_of}, of which one was stopped"


PARSE = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as old
page, plain = json.load(sys.stdin)
families = list(text_string_to_metric_families(page))
assert {s.name for f in families for s in f.samples} == {s.name for f in old(plain) for s in f.samples}
print(json.dumps([[s.name, s.labels, s.value] for f in families for s in f.samples]))
"""


def parse(pages: list[str]) -> subprocess.CompletedProcess:
    """Parses a page with prometheus_client as OpenMetrics and as Prometheus' text: names, labels and values."""
    return subprocess.run([PYTHON, "-c", PARSE], input=json.dumps(pages), capture_output=True, text=True, check=False)


def openmetrics(place: Place) -> Outcome:
    """Third-party parsers accept both formats, users have their own counters up to a bound, and no name breaks a
    label."""
    users = [b'we"ird\\user', b"back\\", "\u202eann\u2028".encode(), b"one too many", b"other"]
    with Kept(place, "tcp", "--metrics-users", "3") as service:
        (service.export / "f").write_bytes(noise(1000))
        service.secrets.write_bytes(b"".join(user + b":" + SECRET + b"\n" for user in users))
        service.reload()
        for user in users:
            peer = Peer(service.port)
            if peer.log_in(user, SECRET):
                return failed(f"{user!r} is not let in")
            peer.ask(OPEN, text(b"/f") + struct.pack(">II", 1, 0))
            peer.close()
        pages = [service.page("application/openmetrics-text; version=1.0.0"), service.page()]
        if not pages[0].endswith("# EOF\n") or "# EOF" in pages[1]:
            return failed("the format is not the one that was asked for")
        parsed = parse(pages)
        if "No module named 'prometheus_client'" in parsed.stderr:
            return skipped("needs the Python package prometheus_client")
        if parsed.returncode:
            return failed("a page is not OpenMetrics", parsed.stderr)
        sessions = {labels["user"]: value for name, labels, value in json.loads(parsed.stdout) if name == "rfio_user_sessions_total"}
        expected = {**{user.decode(): 1 for user in users[:3]}, "other": 2}
        return passed() if sessions == expected else failed(f"sessions by user are {sessions}, not {expected}")


def exposed(service: Kept) -> set[str]:
    """Names of the metrics of a running service."""
    return set(re.findall(r"^(\w+)(?:\{| )", service.page(), re.M))


def expressions(dashboard: dict) -> list[str]:
    """Returns the expressions of a dashboard's panels, with Grafana's variables replaced."""
    replaced = {"$__rate_interval": "5m", "$__range": "1h", "$instance": ".*"}
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for variable, value in replaced.items():
        found = [expression.replace(variable, value) for expression in found]
    return found


def dashboard_and_rules(place: Place) -> Outcome:
    """The shipped dashboard and alert rules name only metrics that there are; promtool and what Grafana asks for."""
    with Kept(place) as service:
        problem = unshown(place, exposed(service))
    return failed(problem) if problem else passed("" if shutil.which("promtool") else "without promtool")


def unshown(place: Place, there: set[str]) -> Optional[str]:
    """Returns an error in the shipped dashboard and rules for a service with these metrics, or None."""
    dashboard = json.loads((SHIPPED / "rfiod-dashboard.json").read_text())
    rules = (SHIPPED / "rfiod-alerts.yml").read_text()
    if nothing := set(re.findall(r"\brfio_\w+", " ".join(expressions(dashboard)) + rules)) - there:
        return f"there are no metrics {sorted(nothing)}"
    if (problem := grafana(dashboard)) or (promtool := shutil.which("promtool")) is None:
        return problem
    own = place.directory / "panels.yml"
    own.write_text(json.dumps({"groups": [{"name": "panels", "rules": [
        {"record": f"panel:{index}", "expr": expression} for index, expression in enumerate(expressions(dashboard))]}]}))
    for file in (SHIPPED / "rfiod-alerts.yml", own):
        ended = place.run("promtool", [promtool, "check", "rules", str(file)], 60)
        if not ended.succeeded:
            return f"promtool refuses {file.name}:\n{ended.evidence()}"
    return None


def grafana(dashboard: dict) -> Optional[str]:
    """Returns an element that Grafana would miss in a dashboard, or None."""
    for key, kind in {"title": str, "uid": str, "schemaVersion": int, "panels": list, "templating": dict, "time": dict}.items():
        if not isinstance(dashboard.get(key), kind):
            return f"the dashboard has no {key}"
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    seen = set()
    for panel in dashboard["panels"]:
        if lacking := {"id", "type", "title", "gridPos", "targets", "datasource", "fieldConfig"} - set(panel):
            return f"panel {panel.get('title')} has no {lacking}"
        if panel["id"] in seen or not 0 <= panel["gridPos"]["x"] <= 24 - panel["gridPos"]["w"]:
            return f"panel {panel['title']} has another's id, or is beside the page"
        seen.add(panel["id"])
        references = [target["refId"] for target in panel["targets"]]
        if not references or len(set(references)) != len(references):
            return f"panel {panel['title']} has no targets, or one name for two"
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(panel)))
        if unknown := {name for name in used if not name.startswith("__")} - variables:
            return f"panel {panel['title']} uses the variables {unknown}, which there are not"
    return None


# Schema 4.2 of WLCG's Storage Resource Reporting: the fields that each object must have, and may have.
REPORT = ({"implementation": str, "implementationversion": str, "storageendpoints": list, "storageshares": list},
          {"name": str, "id": str, "servicetype": str, "capabilities": list, "qualitylevel": str, "message": str, "latestupdate": int,
           "lastupdated": int, "storagecapacity": dict, "datastores": list})
ENDPOINT = ({"name": str, "endpointurl": str, "interfacetype": str, "assignedshares": list},
            {"id": str, "interfaceversion": str, "capabilities": list, "qualitylevel": str, "message": str})
SHARE = ({"timestamp": int, "totalsize": int, "usedsize": int, "vos": list},
         {"name": str, "id": str, "policyrules": list, "accessmode": list, "accesslatency": str, "servingstate": str, "retentionpolicy": str,
          "lifetime": dict, "numberoffiles": int, "path": list, "assignedendpoints": list, "message": str})
SIZES = ({"totalsize": int, "usedsize": int}, {"reservedsize": int})


def against(schema: tuple[dict, dict], thing: dict, where: str) -> Optional[str]:
    """Returns an error in an object of the report, or None."""
    required, optional = schema
    if lacking := set(required) - set(thing):
        return f"{where} lacks {lacking}"
    for key, value in thing.items():
        kind = {**required, **optional}.get(key)
        if kind is None or not isinstance(value, kind) or isinstance(value, bool):
            return f"{where} has {key}: {value!r}"
    return None


def storage_report(place: Place) -> Outcome:
    """rfsrr writes a report that fits the schema: sizes of the file system, shares of one counted once, a file that is
    replaced as a whole."""
    with Kept(place) as service:
        (service.export / "cms").mkdir()
        out = place.directory / "srr.json"
        ended = service.tool("rfsrr", "--share", f"atlasdata:atlas={service.at('')}", "--share", f"cmsdata:cms,dteam={service.at('cms')}",
                             "--name", "TEST", "--id", "data.example.org", "--quality", "testing", "--out", out)
        if not ended.succeeded:
            return failed("rfsrr failed", ended.evidence())
        document = json.loads(out.read_text())
        system = os.statvfs(service.export)
        total = system.f_blocks * system.f_frsize
        report = document["storageservice"]
        capacity = report["storagecapacity"]["online"]
        problems = [against(REPORT, report, "the service"), against(SIZES, capacity, "the capacity"),
                    *(against(ENDPOINT, endpoint, "an endpoint") for endpoint in report["storageendpoints"]),
                    *(against(SHARE, share, "a share") for share in report["storageshares"])]
        if any(problems) or list(document) != ["storageservice"]:
            return failed("; ".join(filter(None, problems)))
        if capacity["totalsize"] != total or not 0 <= capacity["usedsize"] <= total:
            return failed(f"the capacity is {capacity}, the file system has {total}")
        shares = {share["name"]: (share["vos"], share["path"]) for share in report["storageshares"]}
        if shares != {"atlasdata": (["atlas"], ["/"]), "cmsdata": (["cms", "dteam"], ["/cms"])}:
            return failed(f"the shares are {shares}")
        before = out.read_text()
        ended = service.tool("rfsrr", "--share", f"x:atlas={service.at('nothing')}", "--out", out)
        if ended.status != 2 or "/nothing" not in ended.output or out.read_text() != before:
            return failed("a missing share", ended.evidence())
        if list(place.directory.glob("srr.json.*")):
            return failed("a temporary file is left")
        return passed()


CASES = {"logs are rotated": rotation, "the logrotate file": logrotate, "a full disk under the logs": full_disk, "no room for a log at all": no_room_at_all,
         "OpenMetrics by user": openmetrics, "dashboard and alert rules": dashboard_and_rules, "storage report": storage_report}
