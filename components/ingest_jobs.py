"""Documents that wait to be ingested: handing them in, and hearing how it ended."""

import asyncio
from uuid import uuid4

from components.body_store import BodyStore
from components.bucket import Bucket
from components.jetstream import JetStreamConnection
from components.stored_message import StoredMessage
from contracts.errors import PayloadError
from contracts.ingest_queue import (
    INGEST_DEAD_STREAM,
    INGEST_FILES_BUCKET,
    INGEST_RESULTS_BUCKET,
    INGEST_STREAM,
    IngestJob,
    IngestResult,
    job_subject,
    read_job,
    source_key,
)
from contracts.queue import token

LARGEST_FILE_BYTES = 512 * 1024 * 1024
_WAITING_BYTES = 512 * 1024 * 1024
_PAUSE_SECONDS = 0.5
_MOST_RESULTS = 1_000_000


class IngestJobs:
    """
    The queue of ingestion jobs, as those see it who hand them in.

    A job is a message; its content lies in an object store of NATS until the job has ended. The result of the last job
    for each document is kept for a week.

    ### Usage example

    ```python
    from components.ingest_jobs import IngestJobs
    from components.jetstream import JetStreamConnection

    jobs = IngestJobs(JetStreamConnection("nats://127.0.0.1:4222"))
    ```
    """

    def __init__(self, connection: JetStreamConnection, *, waiting_bytes: int = _WAITING_BYTES) -> None:
        """
        Remember the connection.

        :param connection: With `ingest_streams` of contracts/ingest_queue.py as further streams.
        :param waiting_bytes: Content that may wait before `submit` does: the disk of NATS is for the turns, too.
        """
        self._connection = connection
        self._waiting_bytes = waiting_bytes
        self._results = Bucket(connection, INGEST_RESULTS_BUCKET)
        self._files = BodyStore(connection, INGEST_FILES_BUCKET)

    async def submit(self, job: IngestJob, data: bytes) -> int:
        """
        Hand in a job; one that is queued already as the last one for its document is not queued again.

        Waits while too much content waits for workers.

        :param job: What to do.
        :param data: Content of the file.
        :returns: The job's place in the stream: results with this sequence, or a later one, end it.
        :raises QueueUnavailableError: If NATS did not confirm; handing in again makes one job.
        """
        last = await self._connection.read_message(INGEST_STREAM, last_of=job_subject(job.tenant_id, job.source))
        if last is not None and _work_of(last) == job.work:
            return last.sequence
        result = await self._results.get(source_key(job.tenant_id, job.source))
        message_id = job.message_id(
            last_result=result.sequence if result else 0, last_queued=last.sequence if last else 0
        )
        await self._room()
        # A name of its own: whoever hands in the same at the same moment must not write into the other's content.
        name = f"{source_key(job.tenant_id, job.source)}.{uuid4()}"
        headers = await self._files.put(name, data)
        headers |= {"Nats-Msg-Id": message_id, "Nats-Expected-Stream": INGEST_STREAM}
        subject = job_subject(job.tenant_id, job.source)
        answer = await self._connection.publish(subject, job.model_dump_json().encode(), headers)
        if answer.get("duplicate"):
            await self._files.delete(name)
        return int(answer["seq"])

    async def last_revision(self) -> int:
        """
        Give where results that come from now on begin.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        info = await self._connection.stream_info(f"KV_{INGEST_RESULTS_BUCKET}")
        return int(info["state"]["last_seq"])

    async def results(self, tenant_id: str, *, after: int) -> tuple[dict[str, IngestResult], int]:
        """
        Read how jobs of a tenant ended.

        :param after: Revision up to which results are known.
        :returns: The last result of each document by `source_key`, and the revision to ask from next time.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        pattern = f"$KV.{INGEST_RESULTS_BUCKET}.{token(tenant_id)}.*"
        found = await self._connection.read_subject(
            f"KV_{INGEST_RESULTS_BUCKET}", pattern, limit=_MOST_RESULTS, first_sequence=after + 1
        )
        results = {
            message.subject.removeprefix(f"$KV.{INGEST_RESULTS_BUCKET}."): IngestResult.model_validate_json(
                message.body
            )
            for message in found
        }
        return results, max([after, *(message.sequence for message in found)])

    async def depth(self) -> int:
        """
        Count the jobs that have not ended, those in progress included.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        return int((await self._connection.stream_info(INGEST_STREAM))["state"]["messages"])

    async def dead(self) -> int:
        """
        Count the documents whose last job was given up.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        return int((await self._connection.stream_info(INGEST_DEAD_STREAM))["state"]["messages"])

    async def has_workers(self) -> bool:
        """
        Tell whether anybody takes jobs, or has one.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        consumers = (await self._connection.call(f"CONSUMER.LIST.{INGEST_STREAM}", {}))["consumers"] or []
        return any(consumer["num_waiting"] or consumer["num_ack_pending"] for consumer in consumers)

    async def _room(self) -> None:
        while True:
            state = (await self._connection.stream_info(f"OBJ_{INGEST_FILES_BUCKET}"))["state"]
            if state["bytes"] < self._waiting_bytes:
                return
            await asyncio.sleep(_PAUSE_SECONDS)


def _work_of(message: StoredMessage) -> str | None:
    try:
        return read_job(message.body).work
    except PayloadError:
        return None
