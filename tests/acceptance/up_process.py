"""`hayrecall up` as a process of a test."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import wait_until

START_SECONDS = 90


class UpProcess:
    """A running `hayrecall up` on a data folder, with model and embedder elsewhere."""

    def __init__(self, folder: Path, models_url: str, **settings: str) -> None:
        self.folder = folder
        self.errors = folder.with_name(f"{folder.name}.err")
        addresses = {"HAYRECALL_LLM_BASE_URL": models_url, "HAYRECALL_EMBEDDING_BASE_URL": models_url}
        environment = os.environ | addresses | {"HAYRECALL_DATA_DIR": str(folder), "HAYRECALL_PORT": "0"} | settings
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hayrecall", "up"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = ""

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)

    def wait_ready(self) -> "UpProcess":
        """Wait for the line that scripts wait for."""
        wait_until(lambda: not self._lines.empty() or self.process.poll() is not None, seconds=START_SECONDS)
        if self._lines.empty():
            pytest.fail(f"`hayrecall up` ended: {self.said()}")
        word, self.url = self._lines.get().decode().split()
        assert word == "ready"
        return self

    def said(self) -> str:
        """Give what it wrote for people."""
        return self.errors.read_text()

    @property
    def key(self) -> str:
        """The key of the first start."""
        return (self.folder / "api_key").read_text()

    @property
    def run_file(self) -> dict:
        """What it tells the commands beside it."""
        return json.loads((self.folder / "run.json").read_text())

    def children(self) -> dict[str, int]:
        """Give the process id of each child by the last word of its module or program."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
                program, *words = (process / "cmdline").read_text().split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if (
                parent == self.process.pid and words
            ):  # an ended one has none. Else: python -m hayrecall COMMAND, python -m MODULE, or a program
                name = {"hayrecall": words[2]}.get(words[1], words[1]) if words[0] == "-m" else Path(program).name
                found[name] = int(process.name)
        return found

    def stop(self) -> int:
        """End it as a service manager does, and give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it as a crash does."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait for its end."""
        code = self.process.wait(START_SECONDS)
        self._reader.join()
        return code


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
