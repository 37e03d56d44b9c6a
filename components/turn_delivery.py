"""Make a turn durable: in NATS if it answers within the budget, else on this host's disk."""

import asyncio
import weakref
from collections.abc import Mapping
from typing import Literal

from haystack import logging
from opentelemetry import propagate

from components.jetstream import JetStreamConnection
from components.outbox import Outbox, OutboxRow
from components.outbox_relay import OutboxRelay
from components.queue_metrics import PUBLISHED_TURNS
from components.user_states import UserStates
from contracts.errors import QueueUnavailableError
from contracts.payloads import ConversationTurn
from contracts.queue import (
    BODY_HEADER,
    CLAIM_CHECK_BYTES,
    KIND_HEADER,
    TURNS_STREAM,
    VERSION_HEADER,
    body_name,
    turn_subject,
)

logger = logging.getLogger(__name__)

Published = Literal["stored", "duplicate", "outbox"]


class TurnDelivery:
    """
    Publishes turns in the order of each user.

    A turn goes to the outbox when NATS is not available, does not confirm within the budget, or refuses (its stream is
    full); when earlier turns of the user wait there, which must not be overtaken; and when it is large, because storing
    a large body takes longer than an answer should wait for.
    """

    def __init__(
        self,
        connection: JetStreamConnection,
        outbox: Outbox,
        relay: OutboxRelay,
        states: UserStates,
    ) -> None:
        """
        Remember the parts.

        :param connection: Where turns go.
        :param outbox: Where they wait when NATS is away.
        :param relay: Woken when something was put into the outbox.
        :param states: Tells whether the user's learning switch is known.
        """
        self._connection = connection
        self._outbox = outbox
        self._relay = relay
        self._states = states
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def row(self, turn: ConversationTurn) -> OutboxRow:
        """Prepare a turn for its journey: subject, headers, body."""
        headers: dict[str, str] = {}
        propagate.inject(headers)  # traceparent of the turn's trace: the writer's run joins it
        headers |= {
            "Nats-Msg-Id": str(turn.run_id),
            "Nats-Expected-Stream": TURNS_STREAM,
            VERSION_HEADER: str(turn.version),
            KIND_HEADER: turn.kind,
        }
        body = turn.model_dump_json().encode()
        if len(body) > CLAIM_CHECK_BYTES:
            headers[BODY_HEADER] = body_name(turn.tenant_id, turn.user_id, turn.run_id)
        return OutboxRow(
            run_id=str(turn.run_id),
            subject=turn_subject(turn.tenant_id, turn.user_id),
            headers=headers,
            body=body,
            unsure=not self._states.is_known(turn.tenant_id, turn.user_id),
        )

    async def deliver(self, row: OutboxRow, *, budget_seconds: float) -> Published:
        """
        Return when the turn is durable in one of the two places.

        :param row: From `row`.
        :param budget_seconds: Longest wait for NATS.
        :returns: `stored`, `duplicate` (NATS knew the run) or `outbox`.
        :raises QueueUnavailableError: If neither place took it.
        """
        lock = self._locks.setdefault(row.subject, asyncio.Lock())
        async with lock:
            result = await self._send(row, budget_seconds)
            if result is None:
                await self._outbox.add_turn(row)
                self._relay.wake()
                result = "outbox"
        PUBLISHED_TURNS.labels(result=result).inc()
        return result

    async def _send(self, row: OutboxRow, budget_seconds: float) -> Published | None:
        if BODY_HEADER in row.headers or not self._connection.is_available or self._has_turns(row.subject):
            return None
        try:
            answer: Mapping[str, object] = await self._connection.publish(
                row.subject, row.body, row.headers, timeout_seconds=budget_seconds
            )
        except QueueUnavailableError as error:
            logger.warning("a turn goes to the outbox: {reason}", reason=str(error))
            return None
        return "duplicate" if answer.get("duplicate") else "stored"

    def _has_turns(self, subject: str) -> bool:
        try:
            return self._outbox.has_turns(subject)
        except QueueUnavailableError as error:  # a full or broken disk: NATS is then the only place left
            logger.warning("the order of a user's turns cannot be checked: {reason}", reason=str(error))
            return False
