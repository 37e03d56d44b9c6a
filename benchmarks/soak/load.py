"""Turns of many users, published as the chat does: in each user's order, until NATS confirms."""

import asyncio
import time
from datetime import UTC, datetime
from uuid import uuid4

from components.jetstream import JetStreamConnection
from contracts.errors import QueueUnavailableError
from contracts.payloads import ConversationTurn
from contracts.queue import TURNS_STREAM, turn_subject
from contracts.turn import Agent, TurnContext

ANSWER = "The course begins in autumn and takes two weeks. " * 36  # 2 kB a turn


class Load:
    """Publishes; remembers when each run was published, and whose it was."""

    def __init__(self, connection: JetStreamConnection, users: int) -> None:
        self._connection = connection
        self._places = [0] * users
        self._at_a_time = asyncio.Semaphore(64)
        self.published: dict[str, str] = {}
        self.times: dict[str, float] = {}

    async def publish(self, turns: int, *, per_second: float | None = None) -> None:
        """
        Publish turns, round robin over the users.

        :param turns: How many, over all users.
        :param per_second: Pace; None = as fast as NATS takes them.
        """
        users = len(self._places)
        begun = time.monotonic()
        lanes = [asyncio.Lock() for _ in range(users)]
        async with asyncio.TaskGroup() as tasks:
            for number in range(turns):
                if per_second and (early := begun + number / per_second - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                await self._at_a_time.acquire()
                place, self._places[number % users] = self._places[number % users], self._places[number % users] + 1
                tasks.create_task(self._publish(number % users, place, lanes[number % users]))

    async def _publish(self, user: int, place: int, lane: asyncio.Lock) -> None:
        user_id = f"user-{user}"
        said = TurnContext(
            tenant_id="soak",
            user_id=user_id,
            run_id=str(uuid4()),
            agent=Agent("rag"),
            locale="en",
            said_at=datetime.now(UTC),
        )
        body = ConversationTurn.of(said, f"turn {place}", ANSWER).model_dump_json().encode()
        headers = {"Nats-Msg-Id": said.run_id, "Nats-Expected-Stream": TURNS_STREAM}
        try:
            async with lane:
                while True:
                    try:
                        await self._connection.publish(turn_subject("soak", user_id), body, headers, timeout_seconds=2)
                        break
                    except QueueUnavailableError:
                        await self._connection.wait_available()
                        await asyncio.sleep(0.05)
                self.published[said.run_id] = user_id
                self.times[said.run_id] = time.monotonic()
        finally:
            self._at_a_time.release()

    async def drained(self, *, seconds: float) -> None:
        """Wait until the queue is empty."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                left = (await self._connection.stream_info(TURNS_STREAM))["state"]["messages"]
            except QueueUnavailableError:
                left = None
            if left == 0:
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"{left} turns were still on the queue after {seconds:.0f} s")
            await asyncio.sleep(0.05)
