"""A suite's requirements, and the package that has each."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tool:
    """A program or a file, with the Debian package that brings it."""

    name: str
    package: str

    def present(self) -> bool:
        """Whether the machine has it."""
        if self.name.startswith("/"):
            return Path(self.name).exists()
        return shutil.which(self.name) is not None


COMPILER = Tool("cc", "gcc")
VERBS_HEADERS = Tool("/usr/include/infiniband/verbs.h", "libibverbs-dev")


def absent(tools: list[Tool]) -> list[Tool]:
    """Those of the tools that the machine lacks."""
    return [tool for tool in tools if not tool.present()]
