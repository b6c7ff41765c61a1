"""The files for other projects' CI and clusters: by the published schemas of their files, and step by step as a runner
does it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Callable

from harness.build_tree import ROOT
from harness.case import Case
from harness.outcome import Outcome, failed, passed, skipped
from harness.place import Place
from harness.requirement import COMPILER, VERBS_HEADERS, Tool
from wheel.installation import PYTHON, NotInstalled, installation, ours

TITLE = "the files for other projects' CI and clusters"
REQUIRES = [COMPILER, VERBS_HEADERS, Tool("ibv_devinfo", "ibverbs-utils"), Tool("strip", "binutils")]

SECONDS = 120
TOOLS = PYTHON.parent
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "packaging/gitlab-ci.yml"
WORKFLOWS = ROOT / ".github/workflows"
PODS = ROOT / "packaging/kubernetes/pair.yaml"


def by_schema(name: str) -> list[str]:
    """The schemas of SchemaStore, which check-jsonschema brings."""
    return [str(TOOLS / "check-jsonschema"), "--builtin-schema", f"vendor.{name}"]


def by_kubernetes() -> list[str]:
    """The API's own definitions, which kubernetes-validate brings."""
    return [str(TOOLS / "kubernetes-validate"), "--strict"]


# How each file is checked, and a change to it that the check must find.
FILES = {
    ACTION: (by_schema("github-actions"), ("using: composite", "using: composed")),
    GITLAB: (by_schema("gitlab-ci"), ("before_script:", "before:")),
    WORKFLOWS / "ci.yml": (by_schema("github-workflows"), ("runs-on:", "run-on:")),
    WORKFLOWS / "release.yml": (by_schema("github-workflows"), ("id-token: write", "id-token: maybe")),
    PODS: (by_kubernetes(), ("capabilities:", "capability:")),
}
# GitLab accepts anything for a job whose name begins with a dot; this job extends it.
EXTENDED = (".verbena:", "verbena:\n  script: make test")


def cases() -> list[Case]:
    """Each file by its schema, then the commands in it."""
    found = [Case(str(file.relative_to(ROOT)), "schema", partial(valid, file)) for file in FILES]
    return [*found,
            *(Case(str(file.relative_to(ROOT)), "its commands", partial(commands, file)) for file in FILES if file.parent == WORKFLOWS),
            Case("action.yml", "its steps", partial(with_wheel, action)),
            Case("packaging/gitlab-ci.yml", "its steps", partial(with_wheel, gitlab))]


def valid(file: Path, place: Place) -> Outcome:
    """The file is valid by its schema, and invalid with a planted mistake."""
    command, (good, bad) = FILES[file]
    if not Path(command[0]).exists():
        return skipped(f"{Path(command[0]).name} is not installed (setup/machine test)")
    text = file.read_text().replace(*EXTENDED)
    for name, words in (("as it is", text), ("broken", text.replace(good, bad, 1))):
        copy = place.directory / name / file.name
        copy.parent.mkdir()
        copy.write_text(words)
        ended = place.run("check", [*command, str(copy)], SECONDS)
        if ended.succeeded != (words == text):
            return failed(f"the file {name} is {'valid' if ended.succeeded else 'not valid'}", ended.evidence())
    return passed() if good in text else failed(f"it has no {good!r}")


def commands(file: Path, place: Place) -> Outcome:
    """The shell parses each command, each path of this tree exists, and `make` has each target."""
    if not (TOOLS / "check-jsonschema").exists():
        return skipped("no YAML parser is installed (setup/machine test)")
    scripts = [step["run"] for step in steps(file)]
    for script in scripts:
        ended = place.run("shell", ["bash", "-n", "-c", re.sub(r"\$\{\{.*?\}\}", "value", script)], SECONDS)
        if not ended.succeeded:
            return failed("a syntax error for the shell", ended.evidence())
        for name in re.findall(r"(?<![\w./-])((?:packaging|setup|tests|\.ci)/[\w/]+)", script):
            if not os.access(ROOT / name, os.X_OK):
                return failed(f"{name} is no program of this tree")
        for target in re.findall(r"\bmake ([a-z]+)", script):
            if not re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M):
                return failed(f"the Makefile has no target {target}")
    return passed(f"{len(scripts)} steps") if scripts else failed("it has no steps")


def with_wheel(case: Callable[[Path, Place], Outcome], place: Place) -> Outcome:
    """The case, with a wheel of this build."""
    if not ours():
        return skipped("the tested build is not this tree's")
    if not (TOOLS / "check-jsonschema").exists():
        return skipped("no YAML parser is installed (setup/machine test)")
    try:
        return case(installation().wheel, place)
    except NotInstalled as error:
        return failed("the wheel cannot be made", str(error))


def steps(file: Path) -> list[dict]:
    """Returns the steps that have a command."""
    reader = Path(__file__).resolve().parent / "steps.py"
    return json.loads(subprocess.run([PYTHON, reader, file], check=True, capture_output=True, text=True).stdout)


def action(wheel: Path, place: Place) -> Outcome:
    """The steps in a runner's directories; then a job's own step finds the program by its name, and its Python is its
    own."""
    files = {name: place.directory / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH")}
    for file in files.values():
        file.touch()
    temporary = place.directory / "temporary"
    temporary.mkdir()
    variables = {"RUNNER_TEMP": str(temporary), "GITHUB_ACTION_PATH": str(ROOT), **{name: str(file) for name, file in files.items()}}
    values = {"inputs.wheel": str(wheel)}
    for step in steps(ACTION):
        filled = {name: re.sub(r"\$\{\{ (\S+) \}\}", lambda match: values[match[1]], text) for name, text in step["env"].items()}
        # As GitHub runs `shell: bash`.
        ended = place.run("step", ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], SECONDS,
                          **variables, **filled)
        if not ended.succeeded:
            return failed(f"a step fails: {ended.describe()}", ended.evidence())
        if step["id"]:
            said = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
            values |= {f"steps.{step['id']}.outputs.{name}": value for name, value in said.items()}
    path = f"{files['GITHUB_PATH'].read_text().strip()}:{os.environ['PATH']}"
    ended = place.run("job", ["bash", "-ec", "verbena run -- ibv_devinfo && ! command -v python3 | grep temporary"], SECONDS, PATH=path)
    return passed() if ended.succeeded and "verbena0" in ended.output else failed("a job cannot use it", ended.evidence())


def gitlab(wheel: Path, place: Place) -> Outcome:
    """The included `before_script`, and then a job's script."""
    project = place.directory / "project"
    project.mkdir()
    shutil.copy(wheel, project)
    (step,) = steps(GITLAB)
    script = f"cd '{project}'\n{step['run']}\nverbena run -- ibv_devinfo\n"
    ended = place.run("job", ["bash", "-eo", "pipefail", "-c", script], SECONDS, CI_PROJECT_DIR=str(project), **step["env"])
    return passed() if ended.succeeded and "verbena0" in ended.output else failed("a job cannot use it", ended.evidence())
