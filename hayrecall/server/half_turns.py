"""What was asked is kept also when the answer never arrived."""

import asyncio
from typing import Protocol

from haystack import logging

from components.fail_open import fail_open

logger = logging.getLogger(__name__)


class IntentQueue(Protocol):
    """What is needed of the turn queue."""

    async def promote_intent(self, run_id: str, answer: str | None) -> object:
        """Store the turn of a run that ended early, if it had come far enough to leave an intent."""
        ...


class HalfTurns:
    """Hands broken-off turns to the queue, in tasks that outlive their request and that shutdown waits for."""

    def __init__(self, queue: IntentQueue) -> None:
        """
        Wait for broken-off turns.

        :param queue: Where their intents are.
        """
        self._queue = queue
        self._tasks: set[asyncio.Task[object]] = set()

    def promote(self, run_id: str, answer: str | None) -> None:
        """
        Store the turn of a run that ended early; returns at once.

        :param run_id: The run.
        :param answer: The answer, if it was complete.
        """
        work = fail_open("promote_intent", self._queue.promote_intent(run_id, answer), None)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Wait until all of them are stored."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
