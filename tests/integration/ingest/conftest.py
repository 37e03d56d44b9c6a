"""A world with a tenant of its own for the tests of the ingestion queue."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ingest_world import IngestWorld
from tests.scripted_model_server import ScriptedModelServer


@pytest.fixture
async def world(
    model_server: ScriptedModelServer,
    nats_url: str,
    qdrant_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[IngestWorld]:
    monkeypatch.setenv("HAYRECALL_EMBEDDING_API_KEY", "unused")
    world = IngestWorld(model_server, nats_url, qdrant_url, tmp_path)
    await world.open()
    yield world
    await world.close()
