"""Keep what cannot be handled until an operator decides, and tell about it."""

from collections.abc import Mapping
from datetime import UTC, datetime

from haystack import logging

from components.jetstream import JetStreamConnection
from contracts.errors import HayrecallError
from contracts.queue import (
    BODY_DIGEST_HEADER,
    BODY_HEADER,
    BODY_SIZE_HEADER,
    DEAD_AT_HEADER,
    DEAD_ATTEMPTS_HEADER,
    DEAD_ERROR_HEADER,
    DEAD_REASON_HEADER,
    DEAD_RUN_HEADER,
    DEAD_STREAM,
    DEAD_SUBJECT_HEADER,
    KIND_HEADER,
    VERSION_HEADER,
    dead_subject,
)
from writer.alerts import Alerts
from writer.delivery import Reason
from writer.streams import Delivery

logger = logging.getLogger(__name__)

_ERROR_CHARACTERS = 300
_KEPT_HEADERS = (VERSION_HEADER, KIND_HEADER, BODY_HEADER, BODY_SIZE_HEADER, BODY_DIGEST_HEADER, "traceparent")


class DeadLetters:
    """Stores dead letters durably, before their message is acknowledged; the log and a webhook hear of each."""

    def __init__(self, connection: JetStreamConnection, alerts: Alerts) -> None:
        """
        Hold what it works with.

        :param connection: Creates the stream when it connects.
        :param alerts: Told of each dead letter.
        """
        self._connection = connection
        self._alerts = alerts

    async def keep(self, delivery: Delivery, reason: Reason, error: Exception, attempts: int) -> None:
        """
        Store a message as a dead letter; doing it again for the same message changes nothing.

        :param delivery: The message.
        :param reason: Why, in one word.
        :param error: What happened.
        :param attempts: How many attempts failed.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        run_id = origin_run(delivery.headers)
        told = {
            DEAD_REASON_HEADER: reason,
            DEAD_ERROR_HEADER: sentence_of(error),
            DEAD_ATTEMPTS_HEADER: str(attempts),
            DEAD_AT_HEADER: datetime.now(UTC).isoformat(timespec="seconds"),
            DEAD_RUN_HEADER: run_id,
            DEAD_SUBJECT_HEADER: f"turns.{delivery.owner}",
        }
        names = {"Nats-Msg-Id": f"{run_id}~d{delivery.sequence}", "Nats-Expected-Stream": DEAD_STREAM}
        kept = {name: delivery.headers[name] for name in _KEPT_HEADERS if name in delivery.headers}
        answer = await self._connection.publish(f"dead.{delivery.owner}", delivery.body, kept | told | names)
        if answer.get("duplicate"):
            return
        logger.error(
            "dead letter: run {run} after {attempts} attempts, {reason}: {error}",
            run=run_id,
            attempts=attempts,
            reason=reason,
            error=told[DEAD_ERROR_HEADER],
        )
        self._alerts.tell(
            {
                "event": "dead_letter",
                "id": answer["seq"],
                "run_id": run_id,
                "reason": reason,
                "error": told[DEAD_ERROR_HEADER],
                "attempts": attempts,
                "at": told[DEAD_AT_HEADER],
            }
        )

    async def drop(self, tenant_id: str, user_id: str) -> None:
        """
        Drop every dead letter of a user.

        :raises QueueUnavailableError: If NATS did not confirm.
        """
        await self._connection.purge(DEAD_STREAM, dead_subject(tenant_id, user_id))


def origin_run(headers: Mapping[str, str]) -> str:
    """Give the run that a message came from: its message id, without what a replay put behind it."""
    return headers.get("Nats-Msg-Id", "unknown").partition("~")[0]


def sentence_of(error: Exception) -> str:
    """Say what happened without user text: ours hold none, of others only the kind is safe to tell."""
    text = str(error) if isinstance(error, HayrecallError) else f"unexpected {type(error).__name__}"
    return " ".join(text.split())[:_ERROR_CHARACTERS]
