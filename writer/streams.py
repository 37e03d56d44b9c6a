"""What the writer receives from the turns stream; the one file in this room that imports nats."""

import asyncio
import random
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import nats.errors
from haystack import logging

from components.jetstream import JetStreamConnection
from contracts.errors import QueueUnavailableError
from contracts.queue import PARTITIONS, TURNS_STREAM, consumer_config

logger = logging.getLogger(__name__)

_PULL_SECONDS = 15.0
_MARGIN_SECONDS = 3.0
_RECONNECT_CHECK_SECONDS = 0.5
_CONFIRM_SECONDS = 5.0
_IDLE_STATUSES = ("404", "408")


class Delivery:
    """One turn in flight, and the answers that NATS takes for it."""

    def __init__(self, message: Any) -> None:
        """
        Wrap a message.

        :param message: nats-py's message with its JetStream reply subject.
        """
        self._message = message
        self.subject: str = message.subject
        self.body: bytes = message.data
        self.headers: Mapping[str, str] = message.headers or {}
        self.sequence: int = message.metadata.sequence.stream
        self.deliveries: int = message.metadata.num_delivered

    @property
    def partition(self) -> int:
        """The partition that it came from."""
        return int(self.subject.split(".")[1])

    @property
    def owner(self) -> str:
        """Tokens of tenant and user, as they stand in subjects and keys."""
        return ".".join(self.subject.split(".")[2:])

    async def acknowledge(self) -> None:
        """
        Tell that it is dealt with, and wait until NATS has noted it.

        :raises QueueUnavailableError: If NATS did not confirm; it will be delivered again.
        """
        await self._answer(self._message.ack_sync(timeout=_CONFIRM_SECONDS))

    async def return_after(self, delay_seconds: float = 0.0) -> None:
        """
        Give it back, to be delivered again after a delay.

        :raises QueueUnavailableError: If NATS is away.
        """
        await self._answer(self._message.nak(delay=delay_seconds or None))

    async def heartbeat(self) -> None:
        """
        Tell that it is being worked on.

        :raises QueueUnavailableError: If NATS is away.
        """
        await self._answer(self._message.in_progress())

    async def _answer(self, sent: Any) -> None:
        try:
            await sent
        except (nats.errors.Error, OSError) as error:
            msg = f"NATS did not take the answer for message {self.sequence}: {error!r}"
            raise QueueUnavailableError(msg) from error


class PartitionPulls:
    """
    Keeps one pull open on each of the 64 partition consumers, through a single subscription.

    The consumers are created where they are missing. After a reconnect every pull is made anew at once: the server may
    have forgotten it.
    """

    def __init__(self, connection: JetStreamConnection, *, ack_wait_seconds: float = 30) -> None:
        """
        Prepare; nothing is asked yet.

        :param connection: An opened connection.
        :param ack_wait_seconds: How long NATS waits for a heartbeat before it gives a turn to somebody else.
        """
        self._connection = connection
        self._ack_wait = timedelta(seconds=ack_wait_seconds)
        self._inbox = ""
        self._subscription: Any = None
        self._watch: asyncio.Task[None] | None = None
        self._arrived: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(PARTITIONS)]
        self._pulls = [0] * PARTITIONS
        self._last_answer = -float("inf")

    async def open(self) -> None:
        """
        Create the consumers and listen.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        missing = await self._missing_consumers()
        await asyncio.gather(*(self._create_consumer(number) for number in missing))
        client = self._connection.client
        self._inbox = client.new_inbox()
        try:
            self._subscription = await client.subscribe(f"{self._inbox}.*.*", cb=self._receive)
        except (nats.errors.Error, OSError) as error:
            msg = f"NATS took no subscription: {error!r}"
            raise QueueUnavailableError(msg) from error
        self._last_answer = time.monotonic()
        self._watch = asyncio.create_task(self._wake_after_reconnects(), name="pulls-watch")

    async def next(self, partition: int) -> Delivery | None:
        """
        Wait for the next turn of a partition.

        :returns: The turn; None if there was none for a while, or the pull ended for another reason: ask again.
        :raises QueueUnavailableError: If NATS refused the pull; ask again after a pause.
        """
        await self._connection.wait_available()
        queue = self._arrived[partition]
        if queue.empty():
            await self._pull(partition)
        try:
            async with asyncio.timeout(_PULL_SECONDS + _MARGIN_SECONDS):
                message = await queue.get()
        except TimeoutError:
            return None
        if message is None:
            return None
        status = (message.headers or {}).get("Status")
        if status is None:
            return Delivery(message)
        if status in _IDLE_STATUSES:
            return None
        if not self._connection.is_available:
            return None
        await self._create_consumer(partition)
        msg = f"NATS ended the pull of partition {partition}: {status} {message.headers.get('Description', '')}"
        raise QueueUnavailableError(msg)

    def answered_within(self, seconds: float = 2 * _PULL_SECONDS) -> bool:
        """Tell whether NATS answered any pull lately."""
        return time.monotonic() - self._last_answer < seconds

    async def close(self) -> list[Delivery]:
        """
        Withdraw every pull, so that what is given back goes to other writers; all who wait in `next` are woken.

        :returns: Turns that had arrived and that nobody took.
        """
        if self._watch is not None:
            self._watch.cancel()
        if self._subscription is not None:
            try:
                await self._subscription.drain()
            except (nats.errors.Error, OSError, TimeoutError) as error:
                logger.debug("pulls were not withdrawn: {error}", error=repr(error))
        left = []
        for queue in self._arrived:
            while not queue.empty():
                message = queue.get_nowait()
                if message is not None and "Status" not in (message.headers or {}):
                    left.append(Delivery(message))
            queue.put_nowait(None)
        return left

    async def _pull(self, partition: int) -> None:
        self._pulls[partition] += 1
        expires_seconds = _PULL_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 - spreads the answers
        name = consumer_config(partition)["name"]
        request = f'{{"batch": 1, "expires": {int(expires_seconds * 1e9)}}}'
        try:
            await self._connection.client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{TURNS_STREAM}.{name}",
                request.encode(),
                reply=f"{self._inbox}.{partition}.{self._pulls[partition]}",
            )
        except (nats.errors.Error, OSError) as error:
            msg = f"NATS took no pull: {error!r}"
            raise QueueUnavailableError(msg) from error

    async def _receive(self, message: Any) -> None:
        self._last_answer = time.monotonic()
        status = (message.headers or {}).get("Status")
        if status is None:
            self._arrived[int(message.subject.split(".")[1])].put_nowait(message)
            return
        partition, pull = (int(part) for part in message.subject.split(".")[-2:])
        if pull == self._pulls[partition]:  # else it ends a pull that we no longer wait for
            self._arrived[partition].put_nowait(message)

    async def _missing_consumers(self) -> list[int]:
        """Find the partitions whose consumer is not there as described; in a cluster, touching all takes seconds."""
        listed = await self._connection.call(f"CONSUMER.LIST.{TURNS_STREAM}", {})
        there = {consumer["name"]: consumer["config"] for consumer in listed["consumers"]}
        wanted = [consumer_config(number, ack_wait=self._ack_wait) for number in range(PARTITIONS)]
        return [
            number
            for number, config in enumerate(wanted)
            if not config.items() <= there.get(config["name"], {}).items()
        ]

    async def _create_consumer(self, partition: int) -> None:
        config = consumer_config(partition, ack_wait=self._ack_wait)
        request = {"stream_name": TURNS_STREAM, "config": config}
        await self._connection.call(f"CONSUMER.DURABLE.CREATE.{TURNS_STREAM}.{config['name']}", request)

    async def _wake_after_reconnects(self) -> None:
        seen = self._connection.client.stats["reconnects"]
        while True:
            await asyncio.sleep(_RECONNECT_CHECK_SECONDS)
            reconnects = self._connection.client.stats["reconnects"]
            if reconnects != seen and self._connection.is_available:
                seen = reconnects
                for queue in self._arrived:
                    queue.put_nowait(None)
