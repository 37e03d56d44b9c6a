"""`hayrecall serve` as a process: it says when it is ready, finishes what is running, and ends with the right code."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx
import pytest

from hayrecall.server.api_keys import add_key
from tests.conftest import wait_until
from tests.scripted_model_server import Stream

pytestmark = pytest.mark.acceptance
ASK = {"model": "rag", "messages": [{"role": "user", "content": "When does the canteen open?"}]}


class Process:
    """A server process and what it says."""

    def __init__(self, folder, **variables):
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hayrecall", "serve"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {f"HAYRECALL_{name.upper()}": str(value) for name, value in variables.items()},
            )

    def ready(self):
        assert self.process.stdout
        line = self.process.stdout.readline().split()
        assert line[:1] == ["ready"], self.log.read_text()[-3000:]
        return line[1]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture
def start(tmp_path, model_server, nats_url, qdrant_url) -> Iterator:
    with contextlib.ExitStack() as started:

        def begin(**variables):
            settings = {
                "llm_base_url": model_server.url,
                "embedding_base_url": model_server.url,
                "nats_url": nats_url,
                "qdrant_url": qdrant_url,
                "data_dir": tmp_path,
                "port": 0,
                "default_locale": "en",
            }
            process = Process(tmp_path, **{**settings, **variables})
            started.callback(process.process.wait)
            started.callback(process.process.kill)
            assert process.process.stdout
            started.callback(process.process.stdout.close)
            return process

        yield begin


def test_a_server_lets_a_running_answer_finish_and_ends_with_0(start, tmp_path, model_server):
    key = add_key(tmp_path / "api_keys.json", trusted=True)
    model_server.default("answer", Stream(tuple(f"word{n} " for n in range(20)), gap_seconds=0.1))
    process = start()
    url = process.ready()
    received: list[str] = []

    def read():
        asked = {"json": {**ASK, "stream": True}, "headers": {"Authorization": f"Bearer {key}"}}
        with httpx.stream("POST", f"{url}/v1/chat/completions", **asked) as answer:
            received.extend(line for line in answer.iter_lines() if line)

    reading = threading.Thread(target=read)
    reading.start()
    wait_until(lambda: model_server.calls("answer"))
    code = process.end()
    reading.join(10)

    assert code == 0
    assert received[-1] == "data: [DONE]"
    assert "word19" in "".join(received)
    log = process.log.read_text()
    assert '"outcome": "answered"' in log
    assert "canteen" not in log
    assert key not in log


def test_a_port_in_use_is_a_sentence_and_exit_code_2(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(port=port)
        assert process.process.wait(60) == 2

    assert f"cannot listen on 127.0.0.1:{port}" in process.log.read_text()
    assert "Traceback" not in process.log.read_text()
