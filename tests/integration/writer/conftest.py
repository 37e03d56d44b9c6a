"""A world with queue and store of its own for the writer's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.scripted_model_server import ScriptedModelServer
from tests.writer_world import WriterWorld


@pytest.fixture
async def world(
    model_server: ScriptedModelServer,
    nats_url: str,
    qdrant_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[WriterWorld]:
    monkeypatch.setenv("HAYRECALL_EMBEDDING_API_KEY", "unused")
    world = WriterWorld(model_server, nats_url, qdrant_url, tmp_path)
    await world.open()
    yield world
    await world.close()
