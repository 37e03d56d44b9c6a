"""An operator sees dead letters, and replays or discards them."""

from datetime import UTC, datetime, timedelta

import pytest

from components.body_store import BodyStore
from components.dead_letters import DeadLetterQueue
from components.user_states import UserStates
from contracts.errors import ErasedError, PayloadError
from contracts.payloads import ConversationTurn, read_turn
from contracts.queue import (
    BODIES_BUCKET,
    BODY_DIGEST_HEADER,
    BODY_HEADER,
    BODY_SIZE_HEADER,
    DEAD_AT_HEADER,
    DEAD_ATTEMPTS_HEADER,
    DEAD_ERROR_HEADER,
    DEAD_REASON_HEADER,
    DEAD_RUN_HEADER,
    DEAD_STREAM,
    DEAD_SUBJECT_HEADER,
    TURNS_STREAM,
    body_name,
    dead_subject,
    stored_subject,
    turn_subject,
    user_key,
)
from tests.integration.queue.conftest import turn

pytestmark = pytest.mark.integration


@pytest.fixture
def letters(stream) -> DeadLetterQueue:
    return DeadLetterQueue(stream)


async def bury(stream, said: ConversationTurn, *, large: bool = False) -> int:
    """Do as the writer does with a turn that it gives up."""
    headers, body = {}, said.model_dump_json().encode()
    if large:
        headers = await BodyStore(stream).put(body_name(said.tenant_id, said.user_id, said.run_id), body)
        body = b""
    headers |= {
        DEAD_REASON_HEADER: "unreadable",
        DEAD_ERROR_HEADER: "the model did not answer with facts",
        DEAD_ATTEMPTS_HEADER: "5",
        DEAD_RUN_HEADER: str(said.run_id),
        DEAD_SUBJECT_HEADER: turn_subject(said.tenant_id, said.user_id),
    }
    return (await stream.publish(dead_subject(said.tenant_id, said.user_id), body, headers))["seq"]


async def test_dead_letters_are_listed_page_by_page_without_what_was_said(letters, stream):
    said = [turn(f"Frage {number}?") for number in range(5)]
    ids = [await bury(stream, each) for each in said]

    first = await letters.list(limit=3)
    second = await letters.list(limit=3, after=first[-1].id)

    assert [letter.id for letter in first + second] == ids
    assert [letter.run_id for letter in first + second] == [str(each.run_id) for each in said]
    assert (first[0].reason, first[0].attempts) == ("unreadable", 5)
    assert first[0].owner == user_key("acme", "ann")
    assert "Frage" not in repr(first)
    assert await letters.count() == 5


async def test_an_admin_of_one_tenant_meets_no_dead_letter_of_another(letters, stream):
    ours, theirs = await bury(stream, turn("Unseres?")), await bury(stream, turn("Ihres?", tenant_id="other"))

    assert [letter.id for letter in await letters.list(tenant_id="acme")] == [ours]
    assert await letters.get(theirs, tenant_id="acme") is None
    assert await letters.content(theirs, tenant_id="acme") is None
    assert not await letters.replay(theirs, tenant_id="acme")
    assert not await letters.discard(theirs, tenant_id="acme")
    assert await letters.count() == 2


@pytest.mark.parametrize("large", [False, True])
async def test_showing_one_gives_its_text(letters, stream, large):
    said = turn("Frage?")
    letter_id = await bury(stream, said, large=large)

    assert read_turn(await letters.content(letter_id)) == said


async def test_a_replay_queues_the_same_run_again_under_a_new_message_id(letters, stream, queue):
    said = turn("Frage?")
    await queue.publish(said)
    (message,) = await stream.read_subject(TURNS_STREAM, stored_subject("acme", "ann"), limit=1)
    letter_id = await bury(stream, said)
    await stream.delete_message(TURNS_STREAM, message.sequence)

    assert await letters.replay(letter_id)

    (message,) = await stream.read_subject(TURNS_STREAM, stored_subject("acme", "ann"), limit=10)
    assert read_turn(message.body) == said
    assert message.headers["Nats-Msg-Id"] == f"{said.run_id}~r{letter_id}"
    assert await letters.list() == []
    assert not await letters.replay(letter_id)


async def test_a_replay_of_what_its_user_erased_is_refused(letters, stream):
    letter_id = await bury(stream, turn("Frage?"), large=True)
    await UserStates(stream).set_erased("acme", "ann", datetime.now(UTC))

    with pytest.raises(ErasedError, match="erased everything"):
        await letters.replay(letter_id)

    assert await letters.list() == []
    assert await stream.subjects(TURNS_STREAM, ">") == []
    assert await stream.subjects(f"OBJ_{BODIES_BUCKET}", ">") == []


async def test_discarding_one_leaves_nothing_of_it(letters, stream):
    letter_id = await bury(stream, turn("Frage?"), large=True)

    assert await letters.discard(letter_id)

    assert not await letters.discard(letter_id)
    assert await letters.list() == []
    assert await stream.subjects(f"OBJ_{BODIES_BUCKET}", ">") == []


async def test_one_whose_large_body_is_gone_says_so(letters, stream):
    said = turn("Frage?")
    letter_id = await bury(stream, said, large=True)
    await BodyStore(stream).delete(body_name("acme", "ann", said.run_id))

    with pytest.raises(PayloadError, match="missing or damaged body"):
        await letters.content(letter_id)


async def test_discarding_one_with_a_foreign_body_name_touches_no_body(letters, stream):
    large = await bury(stream, turn("Frage?"), large=True)
    for name in (">", "*.*.*", "a b", ""):
        answer = await stream.publish(dead_subject("acme", "ann"), b"", {BODY_HEADER: name})

        with pytest.raises(PayloadError):
            await letters.content(answer["seq"])
        assert await letters.discard(answer["seq"])

    assert "Frage?" in await letters.content(large)


async def test_discarding_one_that_names_another_users_body_leaves_that_body(letters, stream):
    theirs = turn("Ihres?", tenant_id="other")
    large = await bury(stream, theirs, large=True)
    kept = await stream.read_message(DEAD_STREAM, sequence=large)
    own = {name: kept.headers[name] for name in (BODY_HEADER, BODY_DIGEST_HEADER, BODY_SIZE_HEADER)}
    for run in ({}, {DEAD_RUN_HEADER: str(theirs.run_id)}):
        forged = (await stream.publish(dead_subject("acme", "ann"), b"", own | run))["seq"]

        with pytest.raises(PayloadError, match="not its own"):
            await letters.content(forged)
        assert await letters.discard(forged)

    assert "Ihres?" in await letters.content(large)


async def test_one_with_headers_that_make_no_sense_is_seen_and_discarded_like_any_other(letters, stream):
    odd = {
        DEAD_ATTEMPTS_HEADER: "many",
        DEAD_AT_HEADER: "yesterday",
        BODY_SIZE_HEADER: "٣" * 5000,
        DEAD_RUN_HEADER: "../..",
    }
    sensible = await bury(stream, turn("Frage?"))
    forged = (await stream.publish("dead.nobody.x", b"{}", odd))["seq"]

    listed = await letters.list()

    assert [letter.id for letter in listed] == [sensible, forged]
    assert (listed[1].attempts, listed[1].size_bytes) == (0, 2)
    assert datetime.now(UTC) - listed[1].died_at < timedelta(minutes=5)
    assert (await letters.get(forged)).owner == "nobody.x"
    assert await letters.discard(forged)


async def test_an_id_that_no_dead_letter_can_have_is_an_unknown_one(letters):
    assert await letters.get(0) is None
    assert not await letters.discard(-1)
