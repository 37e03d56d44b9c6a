"""A turn is stored, tried again or kept as a dead letter: nothing else, and never silently."""

import json
import logging
from uuid import uuid4

import pytest

from components.body_store import BodyStore
from contracts.queue import BODIES_BUCKET, CLAIM_CHECK_BYTES, body_name
from tests.scripted_model_server import Failure
from tests.writer_world import eventually, turn

CANARY = "canary7391"


async def test_facts_of_a_turn_become_memories_of_its_user(world):
    async with world.writer():
        said = await world.say("ann", "factBasel, where can I park?")
        await world.wait_for_texts("ann", ["factBasel"])
    (memory,) = await world.memories("ann")
    assert memory.run_id == str(said.run_id)
    assert memory.statement == "factBasel, where can I park?"
    assert await world.queued("ann") == 0


def _poison():
    good = json.loads(turn("poisoner", f"{CANARY} is my name").model_dump_json())
    blank = good | {"messages": [{"role": "user", "content": " "}]}
    return {
        "no JSON": f"{{{CANARY}".encode(),
        "an unknown version": json.dumps(good | {"version": 99}).encode(),
        "a blank question": json.dumps(blank).encode(),
        "an unknown field": json.dumps(good | {"mood": CANARY}).encode(),
        "another user's turn": turn("somebody else", CANARY).model_dump_json().encode(),
    }


async def test_poison_is_kept_as_a_dead_letter_at_once_and_delays_nobody(world, caplog):
    poison = {str(uuid4()): body for body in _poison().values()}
    for run_id, body in poison.items():
        await world.publish("poisoner", body, run_id=run_id)
    await world.say("poisoner", "factAntidote")
    async with world.writer():
        await world.wait_for_texts("poisoner", ["factAntidote"])
    for run_id, body in poison.items():
        letter = await world.wait_for_dead_letter(run_id)
        assert (letter.reason, letter.attempts) == ("invalid", 1)
        assert CANARY not in letter.error
        assert [record.levelno for record in caplog.records if run_id in record.getMessage()] == [logging.ERROR]
        assert await world.dead_letters.content(letter.id) == body.decode()
    assert CANARY not in caplog.text


async def test_a_missing_large_body_is_a_dead_letter(world):
    said = turn("bodiless", "facts " * CLAIM_CHECK_BYTES)
    bodies = BodyStore(world.connection)
    headers = await bodies.put(body_name("default", "bodiless", said.run_id), said.model_dump_json().encode())
    await bodies.delete(body_name("default", "bodiless", said.run_id))
    await world.publish("bodiless", b"", run_id=str(said.run_id), **headers)
    async with world.writer():
        letter = await world.wait_for_dead_letter(str(said.run_id))
    assert letter.reason == "invalid"


async def test_a_large_body_is_fetched_and_gone_once_the_turn_is_stored(world):
    said = turn("bulky", "factLarge " + "x" * CLAIM_CHECK_BYTES)
    headers = await BodyStore(world.connection).put(
        body_name("default", "bulky", said.run_id), said.model_dump_json().encode()
    )
    await world.publish("bulky", b"", run_id=str(said.run_id), **headers)
    async with world.writer():
        await world.wait_for_texts("bulky", ["factLarge"])
        await eventually(lambda: _no_body(world))


async def _no_body(world):
    return not await world.connection.subjects(f"OBJ_{BODIES_BUCKET}", f"$O.{BODIES_BUCKET}.>")


async def test_an_outage_is_outlasted_however_often_it_fails(world):
    world.model_server.script("extract", *[Failure(503)] * 4, Failure(429), *[Failure(500)] * 3)
    async with world.writer():
        said = await world.say("patient", "factPatience")
        await world.wait_for_texts("patient", ["factPatience"])
    assert len(world.model_server.calls("extract")) == 9
    assert str(said.run_id) not in [letter.run_id for letter in await world.dead_letters.list()]


@pytest.mark.parametrize(
    ("reply", "reason"), [("I would rather not say.", "unreadable"), ("", "unreadable"), (Failure(422), "rejected")]
)
async def test_what_the_turn_itself_causes_ends_after_five_attempts_and_can_be_replayed(world, reply, reason):
    user = f"user-{uuid4()}"
    world.model_server.default("extract", reply)
    said = await world.say(user, "factReplayed")
    async with world.writer():
        letter = await world.wait_for_dead_letter(str(said.run_id))
        assert (letter.reason, letter.attempts) == (reason, 5)
        assert len(world.model_server.calls("extract")) == 5
        assert await world.texts(user) == []

        world.model_server.default("extract", {"facts": [{"text": "factReplayed", "about": "user"}]})
        assert await world.dead_letters.replay(letter.id)
        await world.wait_for_texts(user, ["factReplayed"])
    assert await world.dead_letters.get(letter.id) is None


async def test_no_facts_are_an_end_as_well_and_leave_no_plan(world):
    async with world.writer():
        await world.say("taciturn", "What is the time?")
        await eventually(lambda: _queue_empty(world, "taciturn"))
    assert len(world.model_server.calls("extract")) == 1
    assert await world.connection.subjects("KV_hayrecall_plans", ">") == []


async def _queue_empty(world, user_id):
    return await world.queued(user_id) == 0
