"""What keeps a server from starting, and what does not."""

import asyncio

import pytest

from contracts.errors import ConfigurationError
from contracts.manifest import Manifest
from hayrecall.server.app import create
from tests.integration.server.conftest import ECHO, serving

pytestmark = pytest.mark.integration
NOBODY = "http://127.0.0.1:1"


def test_vectors_of_another_length_are_a_configuration_error(served):
    wrong = served.settings.model_copy(update={"embedding_dimension": 7})

    async def start():
        app = create(wrong, Manifest.load(wrong))
        async with app.router.lifespan_context(app):
            pytest.fail("it started")

    with pytest.raises(ConfigurationError, match="dimension"):
        asyncio.run(start())
    assert served.client("ann").get("/v1/memories").status_code == 200


def test_with_everything_down_a_server_starts_says_what_is_down_and_stops(tmp_path):
    """The parts come and go; the server waits for them, not they for it."""
    urls = {"llm_base_url": f"{NOBODY}/v1", "embedding_base_url": f"{NOBODY}/v1", "qdrant_url": NOBODY}
    with serving(tmp_path, ECHO, nats_url="nats://127.0.0.1:1", **urls) as lonely:
        client = lonely.client("ann")
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json() == {
            "status": "degraded",
            "parts": {"nats": "down", "outbox": "up", "qdrant": "down", "models": "down", "embedder": "down"},
        }
        assert client.get("/healthz").json() == {"status": "ok"}
        assert "hayrecall_dead_letters" in client.get("/metrics").text

        ask = {"model": "echo", "messages": [{"role": "user", "content": "Hello there"}]}
        answers = [
            client.post("/v1/chat/completions", json=ask),
            client.get("/v1/memories"),
            client.post("/v1/memories/search", json={"query": "x"}),
            client.put("/v1/memories/settings", json={"learning": False}),
            client.delete("/v1/memories"),
        ]
        assert [answer.status_code for answer in answers] == [503] * 5
        assert [answer.json()["error"]["code"] for answer in answers] == [
            "model_unavailable",
            "store_unavailable",
            "embedder_unavailable",
            "queue_unavailable",
            "queue_unavailable",
        ]
        assert "127.0.0.1" not in "".join(answer.text for answer in answers)


def test_a_ready_server_says_so(served):
    assert served.client().get("/readyz").json()["status"] == "ready"
    assert "hayrecall_runs_total" in served.client().get("/metrics").text
