"""The components around the queue store what is to be stored, nothing else, and never spoil an answer."""

import asyncio
import sqlite3

import pytest
from haystack import Pipeline
from haystack.dataclasses import ChatMessage

from components.queue_metrics import LOST_TURNS
from components.turn_intent_recorder import TurnIntentRecorder
from components.turn_publisher import TurnPublisher
from tests.integration.queue.conftest import context, questions

pytestmark = pytest.mark.integration

CONVERSATION = [ChatMessage.from_user("Wie lange?"), ChatMessage.from_assistant("Zwei Wochen.")]


async def test_a_turn_is_published_with_question_and_answer_and_all_that_the_writer_needs(queue):
    asked = context()

    assert await TurnPublisher(queue).run_async(CONVERSATION, asked, True) == {"published": "stored"}

    (turn,) = await queue.pending("acme", "ann")
    assert (turn.question, turn.answer) == ("Wie lange?", "Zwei Wochen.")
    assert (str(turn.run_id), turn.thread_id, turn.message_id) == (asked.run_id, "chat-1", "m-1")
    assert (turn.agent.id, turn.agent.name, turn.agent.description) == ("rag", "RAG", "Answers from documents")
    assert (turn.locale, turn.said_at, turn.time_zone) == ("de", asked.said_at, "Europe/Zurich")


async def test_a_turn_without_an_answer_is_published_with_the_question_alone(queue):
    await TurnPublisher(queue).run_async(CONVERSATION[:1], context(), True)

    assert (await queue.pending("acme", "ann"))[0].answer is None


@pytest.mark.parametrize("asked", [context(user_id=None), context(learning=False)], ids=["no user", "learning off"])
async def test_nothing_is_kept_without_a_user_or_with_learning_off(queue, stream, asked):
    recorded = await TurnIntentRecorder(queue).run_async("Wie lange?", [], True, asked)
    published = await TurnPublisher(queue).run_async(CONVERSATION, asked, False)

    assert (recorded, published) == ({"recorded": False}, {"published": "skipped"})
    assert (await queue.depth())["queued"] == 0
    assert await queue.promote_intent(asked.run_id, None) is None


async def test_an_intent_is_recorded_before_the_answer_is_written(queue):
    asked = context()

    assert await TurnIntentRecorder(queue).run_async("Wie lange?", [], True, asked) == {"recorded": True}

    await queue.promote_intent(asked.run_id, None)
    assert await questions(queue) == ["Wie lange?"]


async def test_a_question_that_the_guard_did_not_accept_leaves_no_intent(queue):
    asked = context()

    assert await TurnIntentRecorder(queue).run_async("Wie lange?", [], False, asked) == {"recorded": False}
    assert await queue.promote_intent(asked.run_id, None) is None


async def test_half_of_a_surrogate_pair_in_an_answer_or_a_thread_is_stored_as_a_replacement_character(queue):
    broken = [CONVERSATION[0], ChatMessage.from_assistant("Gut \ud83d")]

    assert await TurnPublisher(queue).run_async(broken, context(thread_id="\ud83d"), True) == {"published": "stored"}
    (turn,) = await queue.pending("acme", "ann")
    assert (turn.answer, turn.thread_id) == ("Gut \ufffd", "\ufffd")


async def test_when_server_and_disk_both_fail_the_answer_stands_and_the_loss_is_counted(queue, nats, tmp_path, caplog):
    await asyncio.to_thread(_break, tmp_path / "data" / "outbox" / "outbox.sqlite3")
    before = LOST_TURNS._value.get()
    nats.kill()

    assert await TurnIntentRecorder(queue).run_async("Wie lange?", [], True, context()) == {"recorded": False}
    assert await TurnPublisher(queue).run_async(CONVERSATION, context(), False) == {"published": "lost"}

    assert LOST_TURNS._value.get() == before + 1
    assert "a turn was lost" in caplog.text
    assert "Wie lange" not in caplog.text


async def test_when_only_the_disk_fails_turns_go_to_the_server(queue, tmp_path):
    await asyncio.to_thread(_break, tmp_path / "data" / "outbox" / "outbox.sqlite3")

    assert await TurnPublisher(queue).run_async(CONVERSATION, context(), False) == {"published": "stored"}


async def test_an_id_that_cannot_be_written_loses_the_turn_and_not_the_answer(queue, caplog):
    assert await TurnPublisher(queue).run_async(CONVERSATION, context("\ud83d"), True) == {"published": "lost"}
    assert "no valid payload: ['user_id']" in caplog.text


async def test_the_components_survive_a_yaml_round_trip(queue):
    pipeline = Pipeline()
    pipeline.add_component("publisher", TurnPublisher(queue))
    pipeline.add_component("recorder", TurnIntentRecorder(queue))

    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["components"])

    assert loaded.get_component("publisher").turn_queue.to_dict() == queue.to_dict()
    with pytest.raises(NotImplementedError, match="run_async"):
        loaded.get_component("publisher").run(CONVERSATION, context(), True)


def _break(file) -> None:
    database = sqlite3.connect(file)
    database.execute("DROP TABLE turns")
    database.execute("DROP TABLE intents")
    database.close()
