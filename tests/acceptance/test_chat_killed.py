"""The chat killed with SIGKILL while people talk: nothing that they saw is lost, and nothing stored twice."""

import asyncio
import random
from pathlib import Path

import pytest
import yaml

from components.jetstream import JetStreamConnection
from hayrecall.local.nats_server import NatsServer
from tests.chat_process import ChatProcess
from tests.chatters import Chatters, script

pytestmark = pytest.mark.acceptance


async def test_a_chat_killed_at_any_point_loses_and_doubles_no_turn_also_while_nats_is_away(
    model_server, qdrant_url, tmp_path
):
    chance = random.Random(3)
    script(model_server, gap_seconds=0.03)
    models = {"llm_base_url": model_server.url, "embedding_base_url": model_server.url}
    with NatsServer(tmp_path / "nats") as nats:
        addresses = {"nats_url": nats.url, "qdrant_url": qdrant_url, "manifest": _rag_alone(tmp_path)}
        async with ChatProcess(tmp_path, **models, **addresses) as chat:
            await chat.start()
            people = Chatters(chat.url, chat.key, 6)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(people.chat())
                await people.more(chance.randint(6, 20))
                await chat.kill()
                await chat.start()
                await people.more(chance.randint(6, 20))
                nats.kill()
                await people.more(chance.randint(6, 20))
                await chat.kill()
                await chat.start()
                nats.start()
                people.stop()
            connection = JetStreamConnection(nats.url)
            await connection.open()
            waited = await people.verdict(connection, seconds=20)
            assert await chat.stop() == 0
            verdict = await people.verdict(connection, seconds=0)
            await connection.close()
    assert waited.lost_answers == waited.lost_questions == 0
    assert verdict.faults == 0, verdict
    assert verdict.answered
    assert verdict.broken_off


def _rag_alone(folder):
    """Serve one pipeline only: it starts several times."""
    manifest = yaml.safe_load(Path("pipelines.yaml").read_text())
    manifest["pipelines"] = {"rag": manifest["pipelines"]["rag"]}
    (folder / "pipelines.yaml").write_text(yaml.safe_dump(manifest))
    (folder / "pipelines").symlink_to(Path("pipelines").absolute())
    return folder / "pipelines.yaml"
