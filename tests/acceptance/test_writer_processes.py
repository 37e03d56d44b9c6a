"""Writers as processes, killed and frozen at any point: nothing is lost, doubled or out of order."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict

import pytest

from hayrecall.local.nats_server import NatsServer
from tests.writer_world import WriterWorld, eventually, repeat_facts

pytestmark = pytest.mark.acceptance

USERS, TURNS = 10, 5


@pytest.fixture
async def world(model_server, nats_url, qdrant_url, tmp_path):
    world = WriterWorld(model_server, nats_url, qdrant_url, tmp_path)
    await world.open()
    yield world
    await world.close()


async def test_three_writers_keep_each_users_order_while_they_are_killed_and_frozen(world):
    chance = random.Random(7)
    world.model_server.latency["extract"] = 0.1
    children = [world.spawn(f"writer-{number}", writer_ack_wait_seconds=2) for number in range(3)]
    await asyncio.gather(*(child.ready() for child in children))
    for number in range(TURNS):
        for user in range(USERS):
            await world.say(f"chaos-{user}", f"factUser{user}Turn{number}")
        if number in (1, 3):
            victim = chance.randrange(2)
            children[victim].kill()
            children[victim] = world.spawn(f"writer-{victim}", writer_ack_wait_seconds=2)
        if number == 2:
            children[2].signal(signal.SIGSTOP)
    await world.drained(seconds=60)  # others take over what the frozen one holds
    children[2].signal(signal.SIGCONT)
    assert children[2].stop() == 0
    for user in range(USERS):
        assert await world.texts(f"chaos-{user}") == [f"factUser{user}Turn{number}" for number in range(TURNS)]
    assert _overtaken(world.model_server.calls("extract")) == []
    assert await world.dead_letters.list() == []


def _overtaken(calls):
    """Find extractions that began while an earlier turn of the user was not yet extracted for the first time."""
    begun = defaultdict(list)
    for call in sorted(calls, key=lambda call: call.started_at):
        (fact,) = (fact["text"] for fact in repeat_facts(call.body)["facts"])
        user, _, number = fact.rpartition("Turn")
        begun[user].append(int(number))
    return [user for user, numbers in begun.items() if numbers != sorted(numbers)]


async def test_a_turn_that_kills_its_writer_ends_as_a_dead_letter_and_takes_nobody_along(world):
    running = []

    def kill_or_answer(body):
        if "factDeadly" in str(body["messages"][-1]["content"]):
            os.kill(running[-1].pid, signal.SIGKILL)
        return repeat_facts(body)

    world.model_server.default("extract", kill_or_answer)
    world.model_server.latency["extract"] = 0.3
    deadly = await world.say("assassin", "factDeadly")
    await world.say("bystander", "factInnocent")

    async def dead() -> bool:
        if not running or not running[-1].is_alive:
            running.append(world.spawn(writer_max_attempts=3, writer_ack_wait_seconds=3))
        return str(deadly.run_id) in [letter.run_id for letter in await world.dead_letters.list()]

    await eventually(dead, seconds=60)
    await world.wait_for_texts("bystander", ["factInnocent"])
    (letter,) = await world.dead_letters.list()
    assert (letter.reason, letter.attempts) == ("killed", 3)
    assert len(running) == 4

    world.model_server.default("extract", repeat_facts)
    await world.dead_letters.replay(letter.id)
    await world.wait_for_texts("assassin", ["factDeadly"])


async def test_the_command_waits_for_queue_and_store_and_stops_cleanly_meanwhile(model_server, qdrant_url, tmp_path):
    nats = NatsServer(tmp_path / "nats")
    nats.start()
    nats.stop()  # its port is known now, and nobody listens
    world = WriterWorld(model_server, nats.url, qdrant_url, tmp_path)
    addresses = {
        "HAYRECALL_NATS_URL": nats.url,
        "HAYRECALL_QDRANT_URL": qdrant_url,
        "HAYRECALL_LLM_BASE_URL": model_server.url,
        "HAYRECALL_EMBEDDING_BASE_URL": model_server.url,
        "HAYRECALL_DATA_DIR": str(tmp_path),
    }
    log = tmp_path / "command.log"
    with log.open("wb") as output:
        command = subprocess.Popen(
            [sys.executable, "-m", "hayrecall", "writer"], env=os.environ | addresses, stdout=output, stderr=output
        )
    try:
        early = world.spawn()
        await eventually(lambda: _says(early.log, "waiting for NATS"), seconds=40)
        assert early.stop() == 0
        await eventually(lambda: _says(log, "waiting for NATS"), seconds=40)
        nats.start()
        await eventually(lambda: _says(log, "ready\n"), seconds=40)
        await world.open()
        await world.say("early", "factEarly")
        await world.wait_for_texts("early", ["factEarly"])
        nats.kill()
        nats.start()
        await world.say("early", "factSecond")
        await world.wait_for_texts("early", ["factEarly", "factSecond"], seconds=10)
        command.send_signal(signal.SIGTERM)
        assert command.wait(20) == 0
        assert "Traceback" not in log.read_text()
    finally:
        command.kill()
        await world.close()
        nats.stop()


async def _says(log, words):
    return words in log.read_text()
