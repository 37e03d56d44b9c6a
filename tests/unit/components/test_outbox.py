"""The outbox keeps turns on the disk in their order, and nothing of what it dropped."""

import asyncio
import sqlite3
from uuid import uuid4

import pytest

from components.outbox import Outbox, OutboxRow
from contracts.errors import QueueUnavailableError


@pytest.fixture
async def outbox(tmp_path):
    outbox = Outbox(tmp_path / "outbox")
    yield outbox
    await outbox.close()


def row(text: str, subject: str = "turns.acme.ann", **changes) -> OutboxRow:
    return OutboxRow(str(uuid4()), subject, {"Nats-Msg-Id": "run"}, text.encode(), **changes)


async def test_turns_come_back_unchanged_and_in_their_order(outbox):
    rows = [row("erste"), row("zweite", unsure=True), row("dritte")]
    for each in rows:
        await outbox.add_turn(each)

    assert await outbox.turns_of("turns.acme.ann") == rows
    assert outbox.has_turns("turns.acme.ann")
    assert not outbox.has_turns("turns.acme.bob")


async def test_a_run_that_waits_already_is_not_added_again(outbox):
    first = row("mit Antwort")
    await outbox.add_turn(first)
    await outbox.add_turn(OutboxRow(first.run_id, first.subject, {}, b"ohne Antwort"))

    assert await outbox.turns_of(first.subject) == [first]


async def test_users_are_listed_the_longest_waiting_first(outbox):
    for subject in ("turns.acme.bob", "turns.acme.ann", "turns.acme.bob"):
        await outbox.add_turn(row("?", subject))

    assert await outbox.subjects() == ["turns.acme.bob", "turns.acme.ann"]
    assert (await outbox.depth())[0] == 3


async def test_turns_survive_the_process_and_are_seen_by_others_of_the_host(outbox, tmp_path):
    await outbox.add_turn(row("bleibt"))

    other = Outbox(tmp_path / "outbox")
    assert [each.body for each in await other.turns_of("turns.acme.ann")] == [b"bleibt"]
    await other.close()


async def test_only_one_process_of_a_host_relays_and_another_one_follows_it(outbox, tmp_path):
    first = Outbox(tmp_path / "outbox")
    assert first.lead()
    assert first.lead()
    assert not outbox.lead()

    await first.close()

    assert outbox.lead()


async def test_a_turn_takes_the_place_of_its_intent(outbox):
    asked = row("Frage")
    await outbox.add_intent(asked)
    assert await outbox.intent(asked.run_id) == asked

    await outbox.add_turn(asked)

    assert await outbox.intent(asked.run_id) is None
    assert await outbox.promote_orphans(own=True) == 0


async def test_intents_are_promoted_in_their_order_when_their_process_ends(outbox):
    asked = [row("eins"), row("zwei")]
    for each in asked:
        await outbox.add_intent(each)
    assert await outbox.promote_orphans() == 0

    assert await outbox.promote_orphans(own=True) == 2

    assert await outbox.turns_of("turns.acme.ann") == asked


async def test_an_erased_user_leaves_no_byte_in_the_file_and_others_stay(outbox, tmp_path):
    for number in range(50):
        await outbox.add_turn(row(f"Zebrafink {number}"))
        await outbox.add_turn(row(f"Amsel {number}", "turns.acme.bob"))
    await outbox.add_intent(row("Zebrafink?"))
    assert _bytes(tmp_path).count(b"Zebrafink") > 0

    assert await outbox.erase("turns.acme.ann") == 51

    assert _bytes(tmp_path).count(b"Zebrafink") == 0
    assert len(await outbox.turns_of("turns.acme.bob")) == 50


async def test_a_disk_that_fails_is_an_outage_with_a_sentence(outbox, tmp_path):
    await asyncio.to_thread(_break, tmp_path)

    with pytest.raises(QueueUnavailableError, match="check its folder and the free space"):
        await outbox.add_turn(row("?"))
    with pytest.raises(QueueUnavailableError):
        outbox.has_turns("turns.acme.ann")


def test_a_folder_that_cannot_be_made_is_an_outage(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(QueueUnavailableError, match="outbox"):
        Outbox(tmp_path / "file" / "outbox")


def _bytes(folder) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def _break(folder) -> None:
    database = sqlite3.connect(folder / "outbox" / "outbox.sqlite3")
    database.execute("DROP TABLE turns")
    database.close()
