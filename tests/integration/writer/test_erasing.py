"""Erasing wins, wherever the words of a user are at that moment; so does switching learning off."""

from datetime import UTC, datetime

import pytest

from components.bucket import Bucket
from components.turn_queue import TurnQueue
from components.user_states import UserStates
from contracts.errors import ErasedError
from contracts.queue import DEAD_STREAM, DONE_BUCKET, dead_subject
from tests.writer_world import eventually, turn


@pytest.fixture
async def queue(world, tmp_path):
    queue = TurnQueue(world.nats_url, tmp_path)
    await queue.open()
    yield queue
    await queue.close()


async def test_what_is_queued_is_dropped_and_what_is_said_later_is_stored(world, queue):
    for number in range(3):
        await world.say("eraser", f"factQueued{number}")
    await queue.erase("default", "eraser", memories=world.memory_store)
    await world.say("eraser", "factAfter")
    async with world.writer():
        await world.wait_for_texts("eraser", ["factAfter"])
    assert len(world.model_server.calls("extract")) == 1


async def test_what_is_being_written_leaves_nothing(world, queue):
    world.model_server.latency["extract"] = 0.7
    async with world.writer():
        said = await world.say("caught", "factCaught")
        await eventually(lambda: _asked(world))
        await queue.erase("default", "caught", memories=world.memory_store)
        world.model_server.latency["extract"] = 0
        await world.say("caught", "factAfterwards")
        await world.wait_for_texts("caught", ["factAfterwards"])
    assert await Bucket(world.connection, DONE_BUCKET).get(str(said.run_id)) is None
    assert await world.connection.subjects("KV_hayrecall_plans", ">") == []


async def _asked(world):
    return world.model_server.calls("extract")


async def test_what_fails_while_it_is_erased_does_not_come_to_lie_among_the_dead_letters(world, queue):
    world.model_server.latency["extract"] = 0.7
    world.model_server.default("extract", "nothing that can be read")
    async with world.writer(writer_max_attempts=1):
        await world.say("failing", "factFailing")
        await eventually(lambda: _asked(world))
        await queue.erase("default", "failing", memories=world.memory_store)
        await world.drained()
        await eventually(lambda: _ended(world))
    assert await world.connection.read_subject(DEAD_STREAM, dead_subject("default", "failing"), limit=1) == []


async def _ended(world):
    return not world.model_server.open_calls()


async def test_a_dead_letter_is_gone_and_its_replay_is_refused(world, queue):
    world.model_server.default("extract", "nothing that can be read")
    async with world.writer(writer_max_attempts=1):
        said = await world.say("buried", "factBuried")
        letter = await world.wait_for_dead_letter(str(said.run_id))
        await UserStates(world.connection).set_erased("default", "buried", datetime.now(UTC))
        with pytest.raises(ErasedError):
            await world.dead_letters.replay(letter.id)
        assert await world.dead_letters.get(letter.id) is None


async def test_a_turn_said_before_an_erase_is_not_stored_however_late_it_arrives(world, queue):
    late = turn("late", "factLate")
    await queue.erase("default", "late", memories=world.memory_store)
    await world.publish("late", late.model_dump_json().encode(), run_id=str(late.run_id))
    await world.say("late", "factInTime")
    async with world.writer():
        await world.wait_for_texts("late", ["factInTime"])
    assert len(world.model_server.calls("extract")) == 1


async def test_nothing_is_stored_while_learning_is_off(world, queue):
    await queue.set_learning("default", "private", learning=False)
    async with world.writer():
        said = await world.say("private", "factPrivate")
        await world.drained()
        assert await Bucket(world.connection, DONE_BUCKET).get(str(said.run_id)) is not None
    assert world.model_server.calls("extract") == []
    assert await world.texts("private") == []
