"""The main job on a whole instance: condensed, answered from a document, remembered once, whatever is killed."""

import json
import os
import signal
import subprocess
import sys
import time

import httpx
import pytest

from tests.acceptance.up_process import UpProcess, is_alive
from tests.conftest import wait_until
from tests.scripted_model_server import Stream

pytestmark = pytest.mark.acceptance

QUESTION = "How many days of holiday does an employee in Bern have?"
FACT = "The user does work in Bern"


@pytest.fixture
def start(tmp_path, model_server):
    """Starts `hayrecall up` on one folder, again and again."""
    started: list[UpProcess] = []

    def begin() -> UpProcess:
        own = {"HAYRECALL_DEFAULT_LOCALE": "en", "HAYRECALL_WRITER_ACK_WAIT_SECONDS": "5"}
        started.append(UpProcess(tmp_path / "data", model_server.url, **own))
        return started[-1].wait_ready()

    yield begin
    for up in started:
        up.kill()


def client(up: UpProcess) -> httpx.Client:
    headers = {"Authorization": f"Bearer {up.key}", "X-OpenWebUI-User-Id": "ann"}
    return httpx.Client(base_url=up.url, headers=headers, timeout=30)


def ask(http: httpx.Client, text: str) -> tuple[str, dict, float]:
    """Ask, streamed; give the text, the run's outcome, and the seconds from the last text to the end."""
    body = {"model": "rag", "stream": True, "messages": [{"role": "user", "content": text}]}
    said, told, last = "", {}, 0.0
    with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            for choice in event["choices"]:
                if piece := choice["delta"].get("content"):
                    said, last = said + piece, time.monotonic()
            told = event.get("hayrecall", told)
    return said, told, time.monotonic() - last


def memories(http: httpx.Client) -> list[str]:
    return [memory["text"] for memory in http.get("/v1/memories").json()["data"]]


def test_a_fact_is_remembered_once_although_everything_is_killed_before_it_is_written(start, model_server, tmp_path):
    handbook = tmp_path / "handbook.md"
    handbook.write_text("# Holidays\n\nAn employee in Bern has 27 days of holiday a year.\n")
    model_server.default("condenser", QUESTION)
    model_server.default("answer", Stream(("27 days", " [1].")))
    model_server.default("extract", {"facts": [{"text": FACT, "about": "user"}]})
    model_server.latency["extract"] = 3

    up = start()
    ingest = [sys.executable, "-m", "hayrecall", "ingest", str(handbook)]
    beside = os.environ | {"HAYRECALL_DATA_DIR": str(up.folder), "HAYRECALL_EMBEDDING_BASE_URL": model_server.url}
    done = subprocess.run(ingest, env=beside, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    with client(up) as http:
        said, told, tail = ask(http, "I work in Bern. How much holiday do I have?")
        assert (said, told["outcome"], told["question"]) == ("27 days [1].", "answered", QUESTION)
        assert told["sources"][0]["source"].endswith("handbook.md")
        assert tail < 0.5, "the chat waited for the writer"
        wait_until(lambda: model_server.calls("extract"), seconds=20)  # the writer is at it, and has stored nothing
        assert memories(http) == []

    children = [*up.children().values()]
    for process in [up.process.pid, *children]:
        os.kill(process, signal.SIGKILL)
    up.kill()
    wait_until(lambda: not any(is_alive(child) for child in children))
    model_server.latency["extract"] = 0

    with client(start()) as http:
        wait_until(lambda: memories(http) == [FACT], seconds=60)  # the killed writer's hold on the turn has to run out
        model_server.log.clear()
        model_server.default("condenser", "Does the user work in Bern?")
        ask(http, "What do you know about me?")
        assert FACT in model_server.calls("answer")[0].text
        wait_until(lambda: model_server.calls("extract"), seconds=20)
        assert memories(http) == [FACT]
