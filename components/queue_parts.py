"""What all turn queues of one process share: one connection, one outbox, one relay."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from haystack import logging

from components.jetstream import JetStreamConnection
from components.outbox import Outbox
from components.outbox_relay import OutboxRelay
from components.pending_turns import PendingTurns
from components.turn_delivery import TurnDelivery
from components.user_states import UserStates
from contracts.errors import QueueUnavailableError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LAST_RELAY_SECONDS = 2.0


class QueueSettings(NamedTuple):
    """What turn queues must have in common to share their parts; intents of one are settled by another."""

    url: str
    data_dir: str
    replicas: int
    turns_max_bytes: int | None


class QueueParts:
    """The opened parts behind every `TurnQueue` of the same settings in one event loop; the last one closes them."""

    def __init__(self, settings: QueueSettings) -> None:
        """
        Build the parts.

        :param settings: Of the turn queue.
        :raises QueueUnavailableError: If the outbox on disk cannot be used.
        """
        self.connection = JetStreamConnection(
            settings.url, replicas=settings.replicas, turns_max_bytes=settings.turns_max_bytes
        )
        self.outbox = Outbox(Path(settings.data_dir) / "outbox")
        self.states = UserStates(self.connection)
        self.relay = OutboxRelay(self.connection, self.outbox, self.states)
        self.delivery = TurnDelivery(self.connection, self.outbox, self.relay, self.states)
        self.pending = PendingTurns(self.connection, self.outbox, self.states)
        self._settings = settings
        self._users = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._relaying = asyncio.create_task(self.relay.run(), name="outbox-relay")
        self._opening = asyncio.create_task(self.connection.open())

    @classmethod
    def acquire(cls, settings: QueueSettings) -> "QueueParts":
        """
        Open the parts, or share the ones that are open already.

        :param settings: Of the turn queue.
        :raises QueueUnavailableError: If the outbox on disk cannot be used. That NATS is away is no error.
        """
        settings = settings._replace(data_dir=str(Path(settings.data_dir).absolute()))
        of_loop = _OPEN.setdefault(asyncio.get_running_loop(), {})
        parts = of_loop.get(settings)
        if parts is None:
            parts = of_loop[settings] = cls(settings)
        parts._users += 1
        return parts

    async def opened(self) -> None:
        """Wait until NATS is connected, or was not there within the patience of a start."""
        await asyncio.shield(self._opening)

    async def release(self) -> None:
        """Close the parts when nobody else uses them, after everything that is being published is durable."""
        self._users -= 1
        if self._users:
            return
        _OPEN[asyncio.get_running_loop()].pop(self._settings, None)
        await asyncio.gather(self._opening, return_exceptions=True)
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        self._relaying.cancel()
        await asyncio.gather(self._relaying, return_exceptions=True)
        try:
            await self.outbox.drop_settled()
            await self.outbox.promote_orphans(own=True)
            async with asyncio.timeout(_LAST_RELAY_SECONDS):
                await self.relay.send_all()
        except (QueueUnavailableError, TimeoutError) as error:
            logger.warning("turns stay in the outbox until the next start: {reason}", reason=repr(error))
        await self.connection.close()
        await self.outbox.close()

    @property
    def is_relaying(self) -> bool:
        """Whether the outbox is being emptied; a relay that ended is a fault of ours."""
        return not self._relaying.done()

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Do work that a cancelled caller no longer waits for, but `release` does.

        :param work: What to do.
        :returns: Its result.
        """
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)


_OPEN: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[QueueSettings, QueueParts]] = WeakKeyDictionary()
