"""What was just said is known at once, however slow the writer is (B9), and reading it never delays an answer."""

import time

import pytest

from components.pending_turns_retriever import PendingTurnsRetriever
from contracts.queue import CLAIM_CHECK_BYTES
from tests.integration.queue.conftest import context, questions, turn

pytestmark = pytest.mark.integration


async def test_a_fact_told_in_one_chat_is_offered_in_the_next_one_within_a_second(open_queue):
    said = turn("Ich wohne in Basel.")
    await (await open_queue("host-1")).publish(said)

    start = time.perf_counter()
    retriever = PendingTurnsRetriever(await open_queue("host-2"))
    (document,) = (await retriever.run_async("Wo wohne ich?", context(thread_id="chat-2")))["recent_memories"]

    assert time.perf_counter() - start < 1
    assert document.content == "Ich wohne in Basel."
    assert document.meta["stated_at"] == said.said_at.isoformat()


async def test_turns_in_the_outbox_are_offered_too(queue, nats):
    await queue.publish(turn("Ich wohne in Basel."))
    nats.kill()
    await queue.publish(turn("Ich arbeite in Zug."))

    assert await questions(queue) == ["Ich arbeite in Zug."]
    nats.restart()
    await queue._parts.connection.wait_available()
    assert await questions(queue) == ["Ich wohne in Basel.", "Ich arbeite in Zug."]


async def test_a_turn_with_a_large_answer_is_offered_too(queue):
    await queue.publish(turn("Ich wohne in Basel.", answer="A" * CLAIM_CHECK_BYTES))

    assert await questions(queue) == ["Ich wohne in Basel."]


async def test_only_the_newest_turns_are_offered_the_oldest_of_them_first(queue):
    for number in range(12):
        await queue.publish(turn(f"Frage {number}?"))

    found = (await PendingTurnsRetriever(queue, top_k=3).run_async("Was?", context()))["recent_memories"]

    assert [document.content for document in found] == ["Frage 9?", "Frage 10?", "Frage 11?"]


async def test_turns_of_others_are_never_offered(queue):
    await queue.publish(turn("Ich wohne in Basel.", user_id="*"))
    await queue.publish(turn("Ich wohne in Genf.", tenant_id="other"))

    assert (await PendingTurnsRetriever(queue).run_async("Wo?", context()))["recent_memories"] == []


async def test_without_an_identity_or_with_learning_off_nothing_is_offered(queue):
    await queue.publish(turn("Ich wohne in Basel."))
    retriever = PendingTurnsRetriever(queue)

    for asking in (context(user_id=None), context(learning=False)):
        assert (await retriever.run_async("Wo?", asking))["recent_memories"] == []


async def test_a_frozen_server_delays_one_reading_turn_by_a_quarter_of_a_second_at_most(queue, nats):
    await queue.publish(turn("Ich wohne in Basel."))
    retriever = PendingTurnsRetriever(queue)
    nats.freeze()

    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        assert (await retriever.run_async("Wo?", context()))["recent_memories"] == []
        seconds.append(time.perf_counter() - start)

    assert seconds[0] < 0.4
    assert max(seconds[1:]) < 0.1


async def test_a_message_that_is_no_turn_hides_no_turn(queue, stream):
    subject = queue._parts.delivery.row(turn("?")).subject
    await stream.publish(subject, b"not json")
    await queue.publish(turn("Ich wohne in Basel."))

    assert await questions(queue) == ["Ich wohne in Basel."]
