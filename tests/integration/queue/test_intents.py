"""A question is stored also when its answer, or its process, does not live to see the end."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from contracts.payloads import ConversationTurn, read_turn
from contracts.queue import TURNS_STREAM, stored_subject
from tests.integration.queue.conftest import context, eventually, questions, relayed

pytestmark = pytest.mark.integration


async def test_the_questions_of_a_process_are_left_to_it_until_it_is_killed(open_queue, nats, tmp_path):
    with _chat(nats.url, tmp_path / "data") as chat:
        assert chat.stdout.readline() == "recorded\n"
        queue = await open_queue()
        assert await queue._parts.outbox.promote_orphans() == 0
        assert await questions(queue) == ["Frage 0?", "Frage 2?"]

        chat.kill()
        chat.wait(10)

    async def promoted() -> bool:
        """The two open questions have followed the two stored turns."""
        return len(await questions(queue)) == 4 and (await queue.depth())["outbox"] == 0

    await eventually(promoted)
    turns = await queue.pending("acme", "ann")
    assert [turn.question for turn in turns] == ["Frage 0?", "Frage 2?", "Frage 1?", "Frage 3?"]
    assert [turn.answer for turn in turns] == ["Gerne.", "Gerne.", None, None]
    assert len(list((tmp_path / "data" / "outbox").glob("*.alive"))) == 1  # this process's own


async def test_a_disconnect_stores_the_question_at_once_and_only_once(queue):
    asked = context()
    await queue.record_intent(asked, "Wie geht das?")

    assert await queue.promote_intent(asked.run_id, None) == "stored"
    await queue.close()
    assert await queue.promote_intent(asked.run_id, None) is None

    (turn,) = await queue.pending("acme", "ann")
    assert (turn.question, turn.answer) == ("Wie geht das?", None)
    assert str(turn.run_id) == asked.run_id
    assert turn.said_at == asked.said_at


async def test_a_disconnect_after_the_last_word_stores_the_answer_too(queue):
    asked = context()
    await queue.record_intent(asked, "Wie geht das?")

    await queue.promote_intent(asked.run_id, "So geht das.")

    (turn,) = await queue.pending("acme", "ann")
    assert turn.answer == "So geht das."


async def test_a_published_turn_leaves_no_intent(queue):
    asked = context()
    await queue.record_intent(asked, "Wie geht das?")
    await queue.publish(ConversationTurn.of(asked, "Wie geht das?", "So."))

    assert await queue.promote_intent(asked.run_id, None) is None  # at once, and when it is gone from the disk
    await queue.close()
    assert await queue.promote_intent(asked.run_id, None) is None


async def test_a_dropped_intent_stores_nothing(queue):
    asked = context()
    await queue.record_intent(asked, "Wie geht das?")

    await queue.drop_intent(asked.run_id)

    assert await queue.promote_intent(asked.run_id, None) is None


async def test_a_disconnect_while_the_server_is_away_goes_to_the_outbox(queue, nats):
    asked = context()
    nats.kill()
    await queue.record_intent(asked, "Wie geht das?")

    assert await queue.promote_intent(asked.run_id, None) == "outbox"

    nats.restart()
    await relayed(queue)
    assert await questions(queue) == ["Wie geht das?"]


async def test_an_orderly_end_stores_what_was_still_being_answered(open_queue, stream):
    queue = await open_queue()
    await queue.record_intent(context(), "Wie geht das?")

    await queue.close()

    (message,) = await stream.read_subject(TURNS_STREAM, stored_subject("acme", "ann"), limit=10)
    assert read_turn(message.body).question == "Wie geht das?"


@contextmanager
def _chat(url: str, data_dir) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "tests.integration.queue.dying_chat", url, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as chat:
        try:
            yield chat
        finally:
            chat.kill()


async def test_whoever_shows_an_answer_can_wait_for_its_intent(queue, tmp_path):
    asked = context()
    await queue.intent_written(asked.run_id)  # there is none: nothing to wait for
    with _locked_outbox(tmp_path / "data") as unlock:
        recording = asyncio.create_task(queue.record_intent(asked, "Wie geht das?"))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(queue.intent_written(asked.run_id))
        assert await asyncio.wait({waiting, recording}, timeout=0.2) == (set(), {waiting, recording})
        unlock()

    await waiting
    await recording
    assert await queue.promote_intent(asked.run_id, None) == "stored"


@contextmanager
def _locked_outbox(data_dir) -> Iterator[Callable[[], object]]:
    database = sqlite3.connect(data_dir / "outbox" / "outbox.sqlite3", isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    try:
        yield lambda: database.execute("ROLLBACK")
    finally:
        database.close()
