"""Erasing a user wins over whatever of theirs is on its way, wherever it is."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from components.body_store import BodyStore
from components.bucket import Bucket
from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from contracts.errors import QueueUnavailableError
from contracts.payloads import EraseOrder, read_turn
from contracts.queue import (
    CLAIM_CHECK_BYTES,
    DEAD_STREAM,
    PLANS_BUCKET,
    QUESTIONS_BUCKET,
    TURNS_STREAM,
    body_name,
    dead_subject,
    plan_key,
    question_key,
    stored_subject,
)
from tests.integration.queue.conftest import context, questions, relayed, turn

pytestmark = pytest.mark.integration

CANARY = "Zebrafink"


@pytest.fixture
async def memories(qdrant_url):
    store = MemoryStore(qdrant_url, collection="test_erasure")
    await store.open()
    yield store
    await store.close()


async def test_nothing_of_an_erased_user_is_left_in_any_stream_bucket_table_or_file(
    queue, stream, memories, nats, tmp_path
):
    for word, user_id in ((CANARY, "ann"), ("Amsel", "bob")):
        await _say_everywhere(queue, stream, word, user_id)
        await memories.apply(Scope("acme", user_id=user_id), [_memory(f"Mag den {word}")])
    assert _files_with(CANARY, tmp_path)

    order = await queue.erase("acme", "ann", memories=memories)

    left = await _everything_stored(stream)
    assert not [message.subject for message in left if CANARY.encode() in message.body]
    assert await queue._parts.outbox.intent(_run_of_intent["ann"]) is None
    assert len([message for message in left if b"Amsel" in message.body]) == 6
    assert (await memories.list(Scope("acme", user_id="ann"), include_superseded=True))[0] == []
    assert len((await memories.list(Scope("acme", user_id="bob")))[0]) == 1
    (message,) = await stream.read_subject(TURNS_STREAM, stored_subject("acme", "ann"), limit=10)
    assert read_turn(message.body) == order
    assert isinstance(order, EraseOrder)
    assert (await queue.user_state("acme", "ann")).erased_at == order.erased_at
    await queue.close()
    nats.server.stop()
    assert _files_with(CANARY, tmp_path) == []
    assert _files_with("Amsel", tmp_path)


async def test_turns_that_another_host_still_holds_are_not_read_afterwards(open_queue, nats, memories):
    there = await open_queue("host-2")
    nats.kill()
    await there.publish(turn("Ich wohne in Basel."))
    nats.restart()
    here = await open_queue("host-1")
    await here.erase("acme", "ann", memories=memories)
    await relayed(there)

    assert await questions(here) == []


async def test_turns_in_the_own_outbox_are_dropped(queue, nats, memories):
    nats.kill()
    for number in range(3):
        await queue.publish(turn(f"Frage {number}?"))
    nats.restart()

    await queue._parts.connection.wait_available()
    await queue.erase("acme", "ann", memories=memories)
    await relayed(queue)

    assert await questions(queue) == []


async def test_what_is_said_after_an_erase_is_stored_behind_it(queue, stream, memories):
    await queue.publish(turn("Vorher?"))
    await queue.erase("acme", "ann", memories=memories)
    await queue.publish(turn("Nachher?"))

    assert await questions(queue) == ["Nachher?"]
    kinds = [
        message.headers["Hayrecall-Kind"]
        for message in await stream.read_subject(TURNS_STREAM, stored_subject("acme", "ann"), limit=10)
    ]
    assert kinds == ["erase", "turn"]


async def test_what_arrives_while_an_erase_runs_is_dropped_with_the_rest_or_stands_behind_it(queue, stream, memories):
    async def talk() -> None:
        for number in range(300):
            await queue.publish(turn(f"Frage {number}?"))

    talking = asyncio.create_task(talk())
    while len(await questions(queue)) < 20:
        await asyncio.sleep(0.01)
    await queue.erase("acme", "ann", memories=memories)
    await talking

    first, *others = await stream.read_subject(TURNS_STREAM, stored_subject("acme", "ann"), limit=1000)
    assert first.headers["Hayrecall-Kind"] == "erase"
    assert {message.headers["Hayrecall-Kind"] for message in others} <= {"turn"}


async def test_erasing_twice_is_one_effect(queue, stream, memories):
    await queue.publish(turn("Vorher?"))

    await queue.erase("acme", "ann", memories=memories)
    await queue.erase("acme", "ann", memories=memories)

    assert len(await stream.read_subject(TURNS_STREAM, stored_subject("acme", "ann"), limit=10)) == 1


async def test_with_a_full_stream_the_turns_go_all_the_same(open_queue, stream, memories):
    queue = await open_queue(turns_max_bytes=20_000)
    for number in range(9):
        await queue.publish(turn(f"Frage {number}?", answer="A" * 2000))
    await queue.publish(turn("Platzhalter?", answer="A" * 300, user_id="bob"))

    await queue.erase("acme", "ann", memories=memories)

    assert await questions(queue) == []


@pytest.mark.parametrize("outage", ["kill", "freeze"])
async def test_while_the_server_is_away_nothing_is_claimed_to_be_erased(queue, nats, memories, outage):
    await queue.publish(turn("Vorher?"))
    getattr(nats, outage)()
    assert await queue.publish(turn("Dazwischen?")) == "outbox"

    with pytest.raises(QueueUnavailableError):
        await queue.erase("acme", "ann", memories=memories)

    assert await questions(queue) == ["Dazwischen?"]


_run_of_intent: dict[str, str] = {}


async def _say_everywhere(queue, stream, word: str, user_id: str) -> None:
    """Leave a word in every place that can hold a user's text."""
    said = turn(f"Mag ich den {word}?", user_id=user_id)
    await queue.publish(said)
    await queue.publish(
        turn(f"Und was frisst der {word}?", answer=f"{word} " + "A" * CLAIM_CHECK_BYTES, user_id=user_id)
    )
    await relayed(queue)
    body = said.model_dump_json().encode()
    await BodyStore(stream).put(body_name("acme", user_id, said.run_id), body)
    await stream.publish(dead_subject("acme", user_id), body)
    await Bucket(stream, PLANS_BUCKET).create(plan_key("acme", user_id, said.run_id), body)
    await Bucket(stream, QUESTIONS_BUCKET).create(question_key("acme", user_id, "q-1"), body)
    asked = context(user_id)
    await queue.record_intent(asked, f"Wo lebt der {word}?")
    _run_of_intent[user_id] = asked.run_id


def _memory(text: str) -> MemoryRecord:
    now = datetime.now(UTC)
    vector = (1.0, *(0.0,) * 383)
    return MemoryRecord(id=str(uuid4()), text=text, created_at=now, stated_at=now, locale="de", vector=vector)


async def _everything_stored(stream) -> list:
    names = [
        TURNS_STREAM,
        DEAD_STREAM,
        *(f"KV_hayrecall_{bucket}" for bucket in ("plans", "done", "users", "questions")),
        "OBJ_hayrecall_bodies",
    ]
    return [message for name in names for message in await stream.read_subject(name, ">", limit=10_000)]


def _files_with(word: str, folder: Path) -> list[str]:
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and word.encode() in file.read_bytes()
    ]
