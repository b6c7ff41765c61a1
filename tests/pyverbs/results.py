"""Reads the output of Python's unittest with -v."""

from __future__ import annotations

import re
from dataclasses import dataclass

# `test_name (tests.module.Class.test_name)`, then perhaps the first line of its description, then ` ... verdict`. The
# test's own output may stand in between.
HEADER = re.compile(r"^(test_\w+) \((?:tests\.)+(test_\w+)\.(\w+)(?:\.\w+)?\)", re.MULTILINE)
VERDICT = re.compile(r"\b(ok|FAIL|ERROR|expected failure|unexpected success)$|"
                     r"\bskipped (['\"])(.*)\2$", re.MULTILINE)
DETAILS = re.compile(r"^=+\n(?:ERROR|FAIL): ", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """How one test ended; `reason` is that of a skip."""

    verdict: str
    reason: str = ""


def parse(text: str) -> dict[str, Result]:
    """The results by `module.Class.test`."""
    body = text[:match.start()] if (match := DETAILS.search(text)) else text
    headers = list(HEADER.finditer(body))
    ends = [header.start() for header in headers[1:]] + [len(body)]
    results = {}
    for header, end in zip(headers, ends):
        test, module, owner = header.groups()
        verdict = None
        for verdict in VERDICT.finditer(body, header.end(), end):
            pass
        name = f"{module}.{owner}.{test}"
        if verdict is None:
            results[name] = Result("no verdict")
        elif verdict.group(1):
            results[name] = Result(verdict.group(1))
        else:
            results[name] = Result("skipped", verdict.group(3))
    return results


def details(text: str, name: str) -> str:
    """The traceback of a test that failed."""
    module, owner, test = name.split(".")
    for section in re.split(r"^=+\n", text, flags=re.MULTILINE):
        if re.match(rf"(ERROR|FAIL): {test} \(.*{module}\.{owner}", section):
            return "\n".join(f"    {line}" for line in section.strip().splitlines())
    return ""
