"""In a cluster of three, turns survive the death of the node that leads their stream."""

import asyncio

import pytest

from components.turn_queue import TurnQueue
from contracts.queue import TURNS_STREAM
from hayrecall.local.nats_cluster import start_cluster
from tests.integration.queue.conftest import eventually, questions, relayed, turn

pytestmark = pytest.mark.integration

USERS = [f"user {number}" for number in range(4)]


async def test_killing_the_leading_node_under_load_loses_doubles_and_reorders_nothing(tmp_path):
    with start_cluster(3, tmp_path / "nats") as nodes:
        queue = TurnQueue(",".join(node.url for node in nodes), tmp_path / "data", replicas=3)
        await queue.open()

        async def connected() -> bool:
            """The three nodes have made the streams."""
            return (await queue.ready())["nats"]

        await eventually(connected, seconds=30)
        info = await queue._parts.connection.stream_info(TURNS_STREAM)
        assert info["config"]["num_replicas"] == 3
        leader = next(node for node in nodes if node.server_name == info["cluster"]["leader"])

        talks = asyncio.gather(*(_talk(queue, user_id) for user_id in USERS))
        await asyncio.sleep(0.1)
        leader.kill()
        await talks
        await relayed(queue)

        async def caught_up() -> bool:
            """Whichever of the two nodes answers has all of the last user's turns."""
            return len(await questions(queue, USERS[-1])) == 30

        await eventually(caught_up)
        for user_id in USERS:
            assert await questions(queue, user_id) == [f"Frage {number}?" for number in range(30)]
        await queue.close()


async def _talk(queue: TurnQueue, user_id: str) -> None:
    for number in range(30):
        await queue.publish(turn(f"Frage {number}?", user_id=user_id))
        await asyncio.sleep(0.01)
