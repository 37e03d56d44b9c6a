"""Real parts for every test: a scripted model server, a nats-server, the Qdrant engine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hayrecall.local.nats_server import NatsServer
from tests.scripted_model_server import ScriptedModelServer


def wait_until(condition: Callable[[], Any], *, seconds: float = 10, every: float = 0.02) -> Any:
    """
    Wait for a condition.

    :param condition: Called until it gives something true.
    :param seconds: Deadline; the test fails after it.
    :returns: What the condition gave.
    """
    deadline = time.monotonic() + seconds
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {getattr(condition, '__doc__', None) or condition}")
        time.sleep(every)


class Child:
    """A process of ours, started with `python -m` and a ports file; stopped or killed by its own pid only."""

    def __init__(
        self, *arguments: str, ports_file: Path, env: dict[str, str] | None = None, seconds: float = 60
    ) -> None:
        self.log = ports_file.with_suffix(".log")
        ports_file.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments, "--ports-file", str(ports_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | (env or {}),
            )
        try:
            wait_until(lambda: ports_file.exists() or self.process.poll() is not None, seconds=seconds)
            if self.process.poll() is not None:
                pytest.fail(f"{arguments} ended: {self.log.read_text()[-2000:]}")
        except BaseException:
            self.kill()
            raise
        self.url: str = json.loads(ports_file.read_text())["url"]

    def stop(self) -> int:
        """End it with SIGTERM and give its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.wait(20)


@pytest.fixture(scope="session")
def _model_server() -> Iterator[ScriptedModelServer]:
    server = ScriptedModelServer().start()
    yield server
    server.stop()


@pytest.fixture
def model_server(_model_server: ScriptedModelServer) -> ScriptedModelServer:
    """A scripted model server without scripts, latencies and log."""
    _model_server.reset()
    return _model_server


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real nats-server with JetStream, shared by the session: use ids of your own."""
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def qdrant_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the embedded Qdrant engine, or of the server that HAYRECALL_QDRANT_URL names."""
    if url := os.environ.get("HAYRECALL_QDRANT_URL"):
        yield url
        return
    folder = tmp_path_factory.mktemp("engine")
    child = Child(
        "hayrecall.local.engine", "--dir", str(folder / "data"), "--port", "0", ports_file=folder / "engine.json"
    )
    yield child.url
    child.stop()
