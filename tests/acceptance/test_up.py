"""`hayrecall up`: everything on this machine, as real processes, around a scripted model server."""

import os
import signal
import socket
import stat

import httpx
import pytest

from tests.acceptance.up_process import UpProcess, is_alive
from tests.conftest import wait_until

pytestmark = pytest.mark.acceptance


@pytest.fixture
def up(tmp_path, model_server):
    started = []

    def start(**settings):
        started.append(UpProcess(tmp_path / "data", model_server.url, **settings))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def test_up_serves_with_its_own_key_refuses_a_second_one_revives_parts_and_ends_with_0(up):
    running = up().wait_ready()

    assert stat.S_IMODE((running.folder / "api_key").stat().st_mode) == 0o600
    assert stat.S_IMODE((running.folder / "run.json").stat().st_mode) == 0o600
    assert f"API key: in {running.folder}/api_key" in running.said()
    models = httpx.get(f"{running.url}/v1/models", headers={"Authorization": f"Bearer {running.key}"})
    assert "rag" in [model["id"] for model in models.json()["data"]]

    second = up()
    assert second.wait() == 1
    assert f"is in use by process {running.process.pid} (Hayrecall answers at {running.url})" in second.said()

    first_nats = running.children()["nats-server"]
    os.kill(first_nats, signal.SIGKILL)
    wait_until(lambda: running.children().get("nats-server", first_nats) != first_nats)

    children = running.children()
    assert set(children) == {"nats-server", "hayrecall.local.engine", "serve", "writer"}
    assert running.stop() == 0
    assert not any(is_alive(pid) for pid in children.values())
    assert not (running.folder / "run.json").exists()


def test_after_kill_9_no_child_is_left_and_the_next_start_has_the_data_and_the_key(up):
    running = up().wait_ready()
    key, children = running.key, running.children()
    environment = running.run_file["environment"]
    points = f"{environment['HAYRECALL_QDRANT_URL']}/collections/kept"
    headers = {"api-key": environment["HAYRECALL_QDRANT_API_KEY"]}
    httpx.put(points, headers=headers, json={"vectors": {"size": 2, "distance": "Cosine"}}).raise_for_status()

    running.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in children.values()), seconds=45)

    again = up().wait_ready()
    assert again.key == key
    environment = again.run_file["environment"]
    headers = {"api-key": environment["HAYRECALL_QDRANT_API_KEY"]}
    assert httpx.get(f"{environment['HAYRECALL_QDRANT_URL']}/collections/kept", headers=headers).is_success


def test_a_port_in_use_and_an_open_host_are_refused_with_a_sentence_before_anything_starts(up):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = up(HAYRECALL_PORT=str(port))
        assert refused.wait() == 2
    assert refused.said() == f"hayrecall: port {port} of 127.0.0.1 is in use; set HAYRECALL_PORT to a free one\n"

    open_host = up(HAYRECALL_HOST="0.0.0.0")
    assert open_host.wait() == 2
    assert "HAYRECALL_HOST is 0.0.0.0, which others can reach: set HAYRECALL_API_KEYS_FILE" in open_host.said()
    assert not (open_host.folder / "nats").exists()
