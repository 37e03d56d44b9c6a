"""What users decided about learning holds everywhere, also while NATS is away."""

import asyncio

import pytest

from components.user_states import UserStates
from contracts.payloads import UserState
from contracts.queue import USERS_BUCKET, user_key
from tests.integration.queue.conftest import eventually, questions, relayed, turn

pytestmark = pytest.mark.integration


async def test_a_user_never_met_is_learned_from(queue):
    assert await queue.user_state("acme", "ann") == UserState()


async def test_switching_learning_off_is_known_to_every_process_within_a_second_or_so(open_queue):
    here, there = await open_queue("host-1"), await open_queue("host-2")
    assert (await there.user_state("acme", "ann")).learning

    await here.set_learning("acme", "ann", False)

    assert not (await here.user_state("acme", "ann")).learning

    async def known() -> bool:
        """The other process knows."""
        return not (await there.user_state("acme", "ann")).learning

    await eventually(known, seconds=3)
    assert (await there.user_state("acme", "bob")).learning


async def test_while_the_server_is_away_the_last_known_state_counts(queue, nats):
    await queue.set_learning("acme", "ann", False)
    nats.kill()
    await asyncio.sleep(1.1)  # until what was read is no longer fresh

    assert not (await queue.user_state("acme", "ann")).learning
    assert (await queue.user_state("acme", "bob")).learning


async def test_changes_at_the_same_time_do_not_undo_each_other(open_queue, stream):
    queue = await open_queue()
    before = turn("?").said_at

    await asyncio.gather(
        queue.set_learning("acme", "ann", False),
        *(UserStates(stream).set_erased("acme", "ann", before) for _ in range(5)),
    )

    assert await UserStates(stream).read("acme", "ann") == UserState(erased_at=before, learning=False)


async def test_the_erase_epoch_never_goes_back(stream):
    states = UserStates(stream)
    earlier, later = turn("?").said_at, turn("?").said_at

    await states.set_erased("acme", "ann", later)

    assert (await states.set_erased("acme", "ann", earlier)).erased_at == later


async def test_a_turn_kept_while_nobody_could_ask_is_dropped_if_its_user_does_not_want_it(open_queue, nats):
    await (await open_queue("host-1")).set_learning("acme", "ann", False)
    nats.kill()
    queue = await open_queue("host-2")  # which has never heard of Ann
    assert (await queue.user_state("acme", "ann")).learning
    await queue.publish(turn("Nicht merken!"))
    await queue.publish(turn("Merken!", user_id="bob"))

    nats.restart()
    await relayed(queue)

    assert await questions(queue) == []
    assert await questions(queue, "bob") == ["Merken!"]


async def test_a_state_that_cannot_be_read_counts_as_learning_off(queue, stream):
    await stream.publish(f"$KV.{USERS_BUCKET}.{user_key('acme', 'ann')}", b'{"learning": "perhaps"}')

    assert not (await queue.user_state("acme", "ann")).learning
