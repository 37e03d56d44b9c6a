"""Do an ingestion job, in its turn."""

from components.body_store import BodyStore
from components.bucket import Bucket
from components.jetstream import JetStreamConnection
from contracts.errors import PayloadError
from contracts.ingest_queue import (
    INGEST_DEAD_STREAM,
    INGEST_FILES_BUCKET,
    INGEST_RESULTS_BUCKET,
    INGEST_STREAM,
    IngestResult,
    dead_job_subject,
    read_job,
    source_key,
)
from contracts.queue import BODY_HEADER
from writer.delivery import Retry
from writer.ingest import metrics
from writer.ingest.ingestors import Ingestors
from writer.lease import Lease
from writer.streams import Delivery

_AFTER_EARLIER_SECONDS = 1.0


class JobHandler:
    """
    Ingests one document at a time of each source, the newest content last.

    The stream keeps a job until it is acknowledged. So the first job that it keeps for a document is the one that may
    run: one behind it comes back later, wherever the first one is being done. And a first one that has others behind it
    has been replaced meanwhile, and ends at once.
    """

    def __init__(self, connection: JetStreamConnection, ingestors: Ingestors) -> None:
        """
        Hold what it works with.

        :param connection: Creates streams and buckets when it connects.
        :param ingestors: Do the work.
        """
        self._connection = connection
        self._ingestors = ingestors
        self._results = Bucket(connection, INGEST_RESULTS_BUCKET)
        self._files = BodyStore(connection, INGEST_FILES_BUCKET)

    async def handle(self, delivery: Delivery, lease: Lease) -> str | Retry:
        """
        Ingest the document of a job, or find that this is not, or no longer, to be done.

        :param delivery: The job.
        :param lease: Tells whether it is still ours.
        :returns: How it ended, or when to come back.
        :raises PayloadError: If it is no job, its content is missing, or this worker knows no such collection.
        :raises TransientError: If a part that is needed does not answer.
        """
        end = await self._end_of(delivery, lease)
        if isinstance(end, str) and (name := delivery.headers.get(BODY_HEADER)):
            # Before the acknowledgement: whoever is killed between the two is followed by one who knows the end.
            await self._files.delete(name)
        return end

    async def clean_up(self, delivery: Delivery) -> None:
        """Nothing is left: the content is deleted before the job is acknowledged."""

    async def _end_of(self, delivery: Delivery, lease: Lease) -> str | Retry:
        first = await self._connection.read_subject(INGEST_STREAM, delivery.subject, limit=1)
        if not first or first[0].sequence != delivery.sequence:
            return Retry(_AFTER_EARLIER_SECONDS)
        last = await self._connection.read_message(INGEST_STREAM, last_of=delivery.subject)
        if last is not None and last.sequence != delivery.sequence:
            return "superseded"
        known = await self._results.get(delivery.owner)
        if known is not None and (result := IngestResult.model_validate_json(known.body)).sequence == delivery.sequence:
            # It ended before; only its acknowledgement is missing.
            return "dead_lettered" if result.status == "dead" else result.status
        return await self._ingest(delivery, lease)

    async def _ingest(self, delivery: Delivery, lease: Lease) -> str:
        job = read_job(delivery.body)
        if source_key(job.tenant_id, job.source) != delivery.owner:
            msg = "the subject and the job name different documents"
            raise PayloadError(msg)
        if BODY_HEADER not in delivery.headers:
            msg = "the job has no content"
            raise PayloadError(msg)
        data = await self._files.read(delivery.headers, b"")
        ingestor = await self._ingestors.into(job.collection)
        lease.check()
        outcome = await ingestor.ingest(data, job.source, tenant_id=job.tenant_id, groups=job.groups)
        lease.check()
        result = IngestResult(
            sequence=delivery.sequence, status=outcome.status, passages=outcome.passages, reason=outcome.reason
        )
        # First, so that whoever hears of the result finds no dead letter of an earlier one.
        await self._connection.purge(INGEST_DEAD_STREAM, dead_job_subject(delivery.owner))
        await self._results.put(delivery.owner, result.model_dump_json().encode())
        if outcome.status == "stored":
            metrics.PASSAGES.inc(outcome.passages)
        return outcome.status
