"""A browser without a window and without a network, driven through its own protocol over two pipes
(`--remote-debugging-pipe`: JSON messages, each ended by a zero byte), so that nothing but the browser is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path

from .process import end_session

OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
           "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9"]
SECONDS = 60


class BrowserError(Exception):
    """A command to the browser failed."""


class Browser:
    """A browser with one page, as a context manager: the browser ends with the context."""

    def __init__(self, directory: Path):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place_pipes() -> None:
            # The protocol's descriptors are 3 and 4; ours may be these very numbers.
            wanted, answers = os.dup(to_read), os.dup(to_write)
            os.dup2(wanted, 3)
            os.dup2(answers, 4)

        with open(directory / "browser.log", "wb") as log:
            self._child = subprocess.Popen(
                ["chromium", *OPTIONS, "--remote-debugging-pipe",
                 f"--user-data-dir={directory / 'profile'}", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                close_fds=False, preexec_fn=place_pipes)
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._buffer = b""
        self._session: str | None = None
        self._events: list[dict] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        os.close(self._read)
        end_session(self._child.pid)
        self._child.wait()

    def call(self, method: str, **parameters: object) -> dict:
        """Asks for something and waits for the answer."""
        self._number += 1
        message: dict = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._next(deadline)
            if answer.get("id") != self._number:
                self._events.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error'].get('message')}")
            else:
                return answer["result"]

    def _next(self, deadline: float) -> dict:
        while b"\0" not in self._buffer:
            readable, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            got = os.read(self._read, 1 << 16) if readable else b""
            if not got:
                raise BrowserError("the browser ended" if readable else "the browser did not answer")
            self._buffer += got
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def show(self, page: Path, width: int, height: int, scheme: str = "light") -> None:
        """Opens a page in a window of a size, as a telephone would where it is narrow."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media="",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._events.clear()
        self.call("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + SECONDS
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next(deadline))

    def without_scripts(self) -> None:
        """Runs no script of the pages that are shown from now on."""
        self.call("Emulation.setScriptExecutionDisabled", value=True)

    def print_on_screen(self) -> None:
        """Lays the page out as on paper, until another is shown."""
        self.call("Emulation.setEmulatedMedia", media="print")

    def evaluate(self, expression: str) -> object:
        """The value of an expression of the page's own language."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """Writes the visible page as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def printed(self) -> bytes:
        """The page on paper, as PDF."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69,
                           preferCSSPageSize=True, printBackground=True)
        return base64.b64decode(answer["data"])
