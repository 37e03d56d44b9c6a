"""What workers receive from a stream; the one file in this room that imports nats."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
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
    """One message in flight, and the answers that NATS takes for it."""

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
    def owner(self) -> str:
        """Tokens of tenant and user, or tenant and document, as they stand in subjects and keys."""
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


class Pulls:
    """
    Keeps at most one pull open for each lane of a worker; several lanes may pull from one consumer.

    The consumers are created where they are missing. After a reconnect every pull is made anew at once: the server may
    have forgotten it.
    """

    def __init__(self, connection: JetStreamConnection, stream: str, lanes: Sequence[dict[str, Any]]) -> None:
        """
        Prepare; nothing is asked yet.

        :param connection: An opened connection.
        :param stream: The stream.
        :param lanes: The configuration of the consumer that each lane pulls from.
        """
        self._connection = connection
        self._stream = stream
        self._lanes = list(lanes)
        self._inbox = ""
        self._subscriptions: list[Any] = []
        self._watch: asyncio.Task[None] | None = None
        self._arrived: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in lanes]
        self._pulls = [0] * len(self._lanes)
        self._last_answer = -float("inf")

    async def open(self) -> None:
        """
        Create the consumers and listen.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        missing = await self._missing_consumers()
        await asyncio.gather(*(self._create_consumer(config) for config in missing))
        client = self._connection.client
        self._inbox = client.new_inbox()
        try:
            for lane in range(len(self._lanes)):
                replies = f"{self._inbox}.{lane}.*"
                self._subscriptions.append(await client.subscribe(replies, cb=partial(self._receive, lane)))
        except (nats.errors.Error, OSError) as error:
            msg = f"NATS took no subscription: {error!r}"
            raise QueueUnavailableError(msg) from error
        self._last_answer = time.monotonic()
        self._watch = asyncio.create_task(self._wake_after_reconnects(), name="pulls-watch")

    @property
    def lanes(self) -> range:
        """The numbers of the lanes."""
        return range(len(self._lanes))

    async def next(self, lane: int) -> Delivery | None:
        """
        Wait for the next message of a lane.

        :returns: The message; None if there was none for a while, or the pull ended for another reason: ask again.
        :raises QueueUnavailableError: If NATS refused the pull; ask again after a pause.
        """
        await self._connection.wait_available()
        queue = self._arrived[lane]
        if queue.empty():
            await self._pull(lane)
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
        config = self._lanes[lane]
        await self._create_consumer(config)
        msg = f"NATS ended a pull from {config['name']}: {status} {message.headers.get('Description', '')}"
        raise QueueUnavailableError(msg)

    def answered_within(self, seconds: float = 2 * _PULL_SECONDS) -> bool:
        """Tell whether NATS answered any pull lately."""
        return time.monotonic() - self._last_answer < seconds

    async def close(self) -> list[Delivery]:
        """
        Withdraw every pull, so that what is given back goes to other writers; all who wait in `next` are woken.

        :returns: Messages that had arrived and that nobody took.
        """
        if self._watch is not None:
            self._watch.cancel()
        drained = await asyncio.gather(*(each.drain() for each in self._subscriptions), return_exceptions=True)
        for error in drained:
            if isinstance(error, nats.errors.Error | OSError):
                logger.debug("pulls were not withdrawn: {error}", error=repr(error))
            elif isinstance(error, BaseException):
                raise error
        left = []
        for queue in self._arrived:
            while not queue.empty():
                message = queue.get_nowait()
                if message is not None and "Status" not in (message.headers or {}):
                    left.append(Delivery(message))
            queue.put_nowait(None)
        return left

    async def _pull(self, lane: int) -> None:
        self._pulls[lane] += 1
        expires_seconds = _PULL_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 - spreads the answers
        name = self._lanes[lane]["name"]
        request = f'{{"batch": 1, "expires": {int(expires_seconds * 1e9)}}}'
        try:
            await self._connection.client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{name}",
                request.encode(),
                reply=f"{self._inbox}.{lane}.{self._pulls[lane]}",
            )
        except (nats.errors.Error, OSError) as error:
            msg = f"NATS took no pull: {error!r}"
            raise QueueUnavailableError(msg) from error

    async def _receive(self, lane: int, message: Any) -> None:
        self._last_answer = time.monotonic()
        status = (message.headers or {}).get("Status")
        # A status under another number ends a pull that we no longer wait for.
        if status is None or int(message.subject.rpartition(".")[2]) == self._pulls[lane]:
            self._arrived[lane].put_nowait(message)

    async def _missing_consumers(self) -> list[dict[str, Any]]:
        """Find the consumers that are not there as described; in a cluster, touching all takes seconds."""
        listed = await self._connection.call(f"CONSUMER.LIST.{self._stream}", {})
        there = {consumer["name"]: consumer["config"] for consumer in listed["consumers"]}
        wanted = {config["name"]: config for config in self._lanes}
        return [config for name, config in wanted.items() if not config.items() <= there.get(name, {}).items()]

    async def _create_consumer(self, config: dict[str, Any]) -> None:
        request = {"stream_name": self._stream, "config": config}
        await self._connection.call(f"CONSUMER.DURABLE.CREATE.{self._stream}.{config['name']}", request)

    async def _wake_after_reconnects(self) -> None:
        seen = self._connection.client.stats["reconnects"]
        while True:
            await asyncio.sleep(_RECONNECT_CHECK_SECONDS)
            reconnects = self._connection.client.stats["reconnects"]
            if reconnects != seen and self._connection.is_available:
                seen = reconnects
                for queue in self._arrived:
                    queue.put_nowait(None)


class PartitionPulls(Pulls):
    """The pulls of a writer: a lane for each of the 64 partition consumers of the turns."""

    def __init__(self, connection: JetStreamConnection, *, ack_wait_seconds: float = 30) -> None:
        """
        Prepare; nothing is asked yet.

        :param connection: An opened connection.
        :param ack_wait_seconds: How long NATS waits for a heartbeat before it gives a turn to somebody else.
        """
        ack_wait = timedelta(seconds=ack_wait_seconds)
        lanes = [consumer_config(number, ack_wait=ack_wait) for number in range(PARTITIONS)]
        super().__init__(connection, TURNS_STREAM, lanes)
