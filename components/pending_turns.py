"""Turns of a user that no writer has applied yet."""

import asyncio
import time

from haystack import logging

from components.body_store import BodyStore
from components.jetstream import JetStreamConnection
from components.outbox import Outbox
from components.stored_message import StoredMessage
from components.user_states import UserStates
from contracts.errors import HayrecallError
from contracts.payloads import ConversationTurn, read_turn
from contracts.queue import TURNS_STREAM, stored_subject, turn_subject

logger = logging.getLogger(__name__)

_MOST_READ = 1000


class PendingTurns:
    """
    Reads a user's turns that are still on their way: in the stream, and in this host's outbox.

    It is a look at messages that consumers own, without being one: nothing is taken or delayed.
    """

    def __init__(self, connection: JetStreamConnection, outbox: Outbox, states: UserStates) -> None:
        """
        Remember the parts.

        :param connection: Where turns are queued.
        :param outbox: Where they wait for NATS.
        :param states: Tells what was erased.
        """
        self._connection = connection
        self._outbox = outbox
        self._states = states
        self._bodies = BodyStore(connection)

    async def of(self, tenant_id: str, user_id: str, *, limit: int, timeout_seconds: float) -> list[ConversationTurn]:
        """
        Read the newest ones.

        :param limit: Most turns to give.
        :param timeout_seconds: Longest wait for all of them.
        :returns: Turns in the order in which they were said; what could not be read in time is left out.
        """
        deadline = time.monotonic() + timeout_seconds
        state, queued, waiting = await asyncio.gather(
            self._states.get(tenant_id, user_id, timeout_seconds=timeout_seconds),
            self._queued(tenant_id, user_id, limit, deadline),
            self._waiting(tenant_id, user_id, limit),
        )
        turns = {turn.run_id: turn for turn in [*queued, *waiting] if not state.forgets(turn.said_at)}
        return list(turns.values())[-limit:]

    async def _queued(self, tenant_id: str, user_id: str, limit: int, deadline: float) -> list[ConversationTurn]:
        subject = stored_subject(tenant_id, user_id)
        try:
            messages = await self._connection.read_subject(
                TURNS_STREAM, subject, limit=_MOST_READ, timeout_seconds=deadline - time.monotonic()
            )
        except HayrecallError as error:
            logger.warning("recent turns are not read from the queue: {reason}", reason=str(error))
            return []
        read = await asyncio.gather(*(self._turn(message, deadline) for message in messages[-limit:]))
        return [turn for turn in read if turn is not None]

    async def _turn(self, message: StoredMessage, deadline: float) -> ConversationTurn | None:
        try:
            left_seconds = max(0.01, deadline - time.monotonic())
            body = await self._bodies.read(message.headers, message.body, timeout_seconds=left_seconds)
            turn = read_turn(body)
        except HayrecallError:  # the writer says what is wrong with it, in a dead letter
            return None
        return turn if isinstance(turn, ConversationTurn) else None

    async def _waiting(self, tenant_id: str, user_id: str, limit: int) -> list[ConversationTurn]:
        subject = turn_subject(tenant_id, user_id)
        try:
            if not self._outbox.has_turns(subject):
                return []
            rows = await self._outbox.turns_of(subject, limit=_MOST_READ)
            turns = [read_turn(row.body) for row in rows[-limit:]]
        except HayrecallError as error:
            logger.warning("recent turns are not read from the outbox: {reason}", reason=str(error))
            return []
        return [turn for turn in turns if isinstance(turn, ConversationTurn)]
