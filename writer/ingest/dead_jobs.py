"""Keep what is known of a document that could not be ingested, and tell about it."""

from datetime import UTC, datetime

from haystack import logging

from components.body_store import BodyStore
from components.bucket import Bucket
from components.jetstream import JetStreamConnection
from contracts.ingest_queue import (
    INGEST_DEAD_STREAM,
    INGEST_FILES_BUCKET,
    INGEST_RESULTS_BUCKET,
    IngestResult,
    dead_job_subject,
)
from contracts.queue import (
    BODY_HEADER,
    DEAD_AT_HEADER,
    DEAD_ATTEMPTS_HEADER,
    DEAD_ERROR_HEADER,
    DEAD_REASON_HEADER,
)
from writer.alerts import Alerts
from writer.dead_letters import sentence_of
from writer.delivery import Reason
from writer.streams import Delivery

logger = logging.getLogger(__name__)


class DeadJobs:
    """
    Stores jobs that were given up, before their message is acknowledged; whoever waits, the log and a webhook hear it.

    The job is kept, its content is not: the file is where it was handed in from, and handing it in again tries again.
    """

    def __init__(self, connection: JetStreamConnection, alerts: Alerts) -> None:
        """
        Hold what it works with.

        :param connection: Creates streams and buckets when it connects.
        :param alerts: Told of each job that was given up.
        """
        self._connection = connection
        self._alerts = alerts
        self._results = Bucket(connection, INGEST_RESULTS_BUCKET)
        self._files = BodyStore(connection, INGEST_FILES_BUCKET)

    async def keep(self, delivery: Delivery, reason: Reason, error: Exception, attempts: int) -> None:
        """
        Store a job as given up; doing it again for the same job changes nothing.

        :param delivery: The job.
        :param reason: Why, in one word.
        :param error: What happened.
        :param attempts: How many attempts failed.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        sentence = sentence_of(error)
        headers = {
            DEAD_REASON_HEADER: reason,
            DEAD_ERROR_HEADER: sentence,
            DEAD_ATTEMPTS_HEADER: str(attempts),
            DEAD_AT_HEADER: datetime.now(UTC).isoformat(timespec="seconds"),
            "Nats-Msg-Id": f"dead.{delivery.sequence}",
            "Nats-Expected-Stream": INGEST_DEAD_STREAM,
        }
        answer = await self._connection.publish(dead_job_subject(delivery.owner), delivery.body, headers)
        result = IngestResult(sequence=delivery.sequence, status="dead", reason=f"{reason}: {sentence}")
        await self._results.put(delivery.owner, result.model_dump_json().encode())
        if name := delivery.headers.get(BODY_HEADER):
            await self._files.delete(name)
        if answer.get("duplicate"):
            return
        logger.error(
            "ingestion job {sequence} given up after {attempts} attempts, {reason}: {error}",
            sequence=delivery.sequence,
            attempts=attempts,
            reason=reason,
            error=sentence,
        )
        self._alerts.tell(
            {
                "event": "ingest_dead_letter",
                "id": answer["seq"],
                "reason": reason,
                "error": sentence,
                "attempts": attempts,
                "at": headers[DEAD_AT_HEADER],
            }
        )
