"""The connection of a command to NATS."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from components.jetstream import JetStreamConnection
from contracts.errors import QueueUnavailableError
from contracts.settings import Settings

_PATIENCE_SECONDS = 5.0


@asynccontextmanager
async def queue_connection(
    settings: Settings, *, further_streams: Sequence[dict[str, Any]] = ()
) -> AsyncIterator[JetStreamConnection]:
    """
    Open a connection for the time of a command.

    :param settings: With the address of NATS.
    :param further_streams: Streams and buckets to create beside those of the turns.
    :raises QueueUnavailableError: If NATS does not answer.
    """
    connection = JetStreamConnection(
        str(settings.nats_url), replicas=settings.nats_replicas, further_streams=further_streams
    )
    try:
        if not await connection.open(patience_seconds=_PATIENCE_SECONDS):
            msg = "NATS does not answer; check HAYRECALL_NATS_URL"
            raise QueueUnavailableError(msg)
        yield connection
    finally:
        await connection.close()
