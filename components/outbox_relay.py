"""Bring turns from this host's disk to NATS."""

import asyncio
import contextlib
from collections.abc import Iterable

from haystack import logging

from components.body_store import BodyStore
from components.jetstream import JetStreamConnection
from components.outbox import Outbox, OutboxRow
from components.queue_metrics import OUTBOX_AGE_SECONDS, OUTBOX_TURNS, SUPPRESSED_TURNS
from components.user_states import UserStates
from contracts.errors import HayrecallError, PayloadError
from contracts.payloads import read_turn
from contracts.queue import BODY_HEADER

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5  # rows of other processes of this host come without a call
_PAUSE_SECONDS = 0.3
_PARALLEL_USERS = 32


class OutboxRelay:
    """
    Sends waiting turns: one after the other for each user, many users beside each other, one relay per host.

    A turn leaves the disk only when NATS has confirmed it. What was sent without being confirmed is sent again under
    the same message id, and NATS keeps one.
    """

    def __init__(self, connection: JetStreamConnection, outbox: Outbox, states: UserStates) -> None:
        """
        Remember the parts.

        :param connection: Where turns go.
        :param outbox: Where they wait.
        :param states: Asked for turns that were kept while nobody knew whether their user wants to be learned from.
        """
        self._connection = connection
        self._outbox = outbox
        self._states = states
        self._bodies = BodyStore(connection)
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Tell that there is something to send."""
        self._wake.set()

    async def run(self) -> None:
        """Relay until cancelled."""
        complaint = ""
        while True:
            self._wake.clear()
            try:
                await self._outbox.drop_settled()
                await self._outbox.promote_orphans()
                self._report(*await self._outbox.depth())
                await self.send_all()
                complaint = ""
            except HayrecallError as error:
                if complaint != (complaint := str(error)):
                    logger.warning("turns stay in the outbox for now: {reason}", reason=complaint)
                await asyncio.sleep(_PAUSE_SECONDS)
            # Not wait_for: before Python 3.12 it swallows a cancellation that meets its result.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._wake.wait()

    async def send_all(self) -> None:
        """
        Send everything that waits, if NATS is there and no other process of this host does it.

        :raises QueueUnavailableError: If something had to stay.
        """
        while self._connection.is_available and self._outbox.lead() and (subjects := await self._outbox.subjects()):
            await self._send_users(subjects)
            self._report(*await self._outbox.depth())

    async def _send_users(self, subjects: Iterable[str]) -> None:
        places = asyncio.Semaphore(_PARALLEL_USERS)

        async def send(subject: str) -> None:
            async with places:
                await self._send_user(subject)

        # One user's failure stops that user only; the first one is raised when all others are through.
        results = await asyncio.gather(*(send(subject) for subject in subjects), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _send_user(self, subject: str) -> None:
        while rows := await self._outbox.turns_of(subject):
            for row in rows:
                if row.unsure and not await self._is_wanted(row):
                    SUPPRESSED_TURNS.inc()
                else:
                    await self._send(row)
                await self._outbox.remove_turn(row.run_id)

    async def _send(self, row: OutboxRow) -> None:
        headers, body = dict(row.headers), row.body
        if BODY_HEADER in headers:
            headers |= await self._bodies.put(headers[BODY_HEADER], body)
            body = b""
        await self._connection.publish(row.subject, body, headers)

    async def _is_wanted(self, row: OutboxRow) -> bool:
        try:
            turn = read_turn(row.body)
        except PayloadError:  # of an earlier version of ours: the writer decides, and says so in a dead letter
            return True
        return (await self._states.read(turn.tenant_id, turn.user_id)).learning

    @staticmethod
    def _report(count: int, oldest_seconds: float) -> None:
        OUTBOX_TURNS.set(count)
        OUTBOX_AGE_SECONDS.set(oldest_seconds)
