"""Nothing is read or written before the gate has cleared a turn, and a gate that fails holds nobody up."""

import sqlite3
import uuid

import pytest

from components.jetstream import JetStreamConnection
from contracts.queue import TURNS_STREAM
from tests.conftest import wait_until
from tests.integration.assistants.conftest import counted
from tests.integration.assistants.talking import ask
from tests.scripted_model_server import Failure

pytestmark = pytest.mark.integration

QUESTION = "When does the canteen open?"


@pytest.fixture
async def left_behind(assistants, qdrant, nats_url):
    """Tell what runs left: searches and writes in Qdrant, turns in NATS, intents in the outbox."""
    (file,) = assistants.settings.data_dir.rglob("outbox.sqlite3")
    outbox = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    connection = JetStreamConnection(nats_url)
    assert await connection.open(patience_seconds=10)

    def intents() -> int:
        return outbox.execute("SELECT count(*) FROM intents").fetchone()[0]

    async def left() -> tuple[int, int, int]:
        turns = (await connection.stream_info(TURNS_STREAM))["state"]["last_seq"]
        return len(qdrant.requests), turns, intents()

    wait_until(lambda: not intents())  # of the test before

    yield left
    outbox.close()
    await connection.close()


@pytest.mark.parametrize("assistant", ["rag", "expert-rag", "few-shot"])
async def test_a_meta_verdict_after_a_second_leaves_nothing_behind(
    assistants, model_server, user, left_behind, assistant
):
    client = assistants.client(user, **{"X-OpenWebUI-Chat-Id": str(uuid.uuid4())})
    model_server.default("gate", {"label": "meta"})
    model_server.latency |= {"gate": 1, "condenser": 20}
    before = await left_behind()

    assert ask(client, assistant, "Who are you?")[1]["outcome"] == "meta"

    assert await left_behind() == before
    assert sorted(call.stage for call in model_server.log) == ["answer", "condenser", "gate"]
    (condensing,) = model_server.calls("condenser")
    assert wait_until(lambda: condensing.cancelled)

    model_server.reset()
    assert ask(client, assistant, QUESTION)[1]["outcome"] == "answered"
    searches, turns, _ = await left_behind()
    assert searches > before[0], "the test shows nothing: an ordinary turn reads nothing either"
    assert turns == before[1] + 1


@pytest.mark.parametrize(
    ("reply", "unreadable"), [(Failure(500), 0), ("Probably.", 1), ({"label": "Meta!"}, 1), ("", 1)]
)
def test_a_gate_that_fails_or_cannot_be_read_lets_the_turn_pass_and_is_counted(
    assistants, model_server, user, reply, unreadable
):
    def counts():
        names = ("hayrecall_fail_open_total", "hayrecall_unreadable_verdicts_total")
        return [counted(assistants, name, stage="gate") for name in names]

    failed, unread = counts()
    model_server.default("gate", reply)

    assert ask(assistants.client(user), "rag", QUESTION)[1]["outcome"] == "answered"

    assert counts() == [failed + 1, unread + unreadable]
