"""Names on the queue of documents that wait to be ingested, and what travels on it."""

import hashlib
import json
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from contracts.errors import PayloadError
from contracts.queue import ACK_WAIT, DEAD_LETTERS_LIVE, DUPLICATE_WINDOW, nanoseconds, object_store, token

INGEST_STREAM = "HAYRECALL_INGEST"
INGEST_DEAD_STREAM = "HAYRECALL_INGEST_DEAD"
INGEST_RESULTS_BUCKET = "hayrecall_ingest"
INGEST_FILES_BUCKET = "hayrecall_files"
INGEST_CONSUMER = "ingest-worker"

RESULTS_LIVE = timedelta(days=7)  # far longer than the duplicate window: see `message_id`
FILES_LIVE = timedelta(days=30)  # a backstop for files whose job was never published
JOBS_IN_FLIGHT = 256  # also those that wait for their next attempt; they must not hide all the others

JobStatus = Literal["stored", "unchanged", "skipped", "dead"]


class IngestJob(BaseModel):
    """One document to ingest; its content is beside the queue, where every worker can read it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    tenant_id: str
    source: str
    groups: tuple[str, ...] = ()
    collection: str | None = None
    content_sha256: str

    @property
    def work(self) -> str:
        """What is to be done, as a digest: equal for jobs that would leave the same behind."""
        parts = [self.tenant_id, self.source, self.content_sha256, self.collection, *sorted(set(self.groups))]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def message_id(self, *, last_result: int, last_queued: int) -> str:
        """
        Name the job so that handing it in twice makes one, and handing it in again later makes another.

        NATS drops a message whose id it knew within the last hour. The document may have changed and changed back, or
        have been removed since, so the id also tells what had happened to it when the job was handed in.

        :param last_result: Revision of the last result for the source; 0 if there is none.
        :param last_queued: Sequence of the last job for the source that is still queued; 0 if there is none.
        """
        return f"{self.work}.{last_result}.{last_queued}"


class IngestResult(BaseModel):
    """
    How a job ended; `reason` says why the document was not stored.

    The result of a later job for the same source also ends the earlier ones: the newest content is what counts.
    """

    model_config = ConfigDict(frozen=True)

    sequence: int
    status: JobStatus
    passages: int = 0
    reason: str = ""


def read_job(body: bytes) -> IngestJob:
    """
    Read a message of the stream.

    :raises PayloadError: If it is no job.
    """
    try:
        return IngestJob.model_validate_json(body)
    except ValidationError as error:
        msg = f"the message is no ingestion job of a known version ({error.error_count()} errors)"
        raise PayloadError(msg) from None


def source_key(tenant_id: str, source: str) -> str:
    """Give the tokens that stand for a document, in subjects and as the key of its results."""
    return f"{token(tenant_id)}.{token(source)}"


def job_subject(tenant_id: str, source: str) -> str:
    """Give the subject of the jobs for one document."""
    return f"ingest.job.{source_key(tenant_id, source)}"


def dead_job_subject(key: str) -> str:
    """
    Give the subject of a document's last job that was given up.

    :param key: From `source_key`.
    """
    return f"ingest.dead.{key}"


def ingest_streams(*, replicas: int = 1) -> list[dict[str, Any]]:
    """
    Describe the streams and buckets of the ingestion, as `stream_configs` of contracts/queue.py does.

    :param replicas: Copies of each; 1 or, in a cluster, 3.
    """
    common = {"storage": "file", "num_replicas": replicas, "allow_direct": True, "discard": "new"}
    jobs = {
        "name": INGEST_STREAM,
        "subjects": ["ingest.job.*.*"],
        "retention": "workqueue",
        "duplicate_window": nanoseconds(DUPLICATE_WINDOW),
    }
    dead = {
        "name": INGEST_DEAD_STREAM,
        "subjects": ["ingest.dead.*.*"],
        "max_msgs_per_subject": 1,
        "max_age": nanoseconds(DEAD_LETTERS_LIVE),
        "duplicate_window": nanoseconds(DUPLICATE_WINDOW),
    }
    results = {
        "name": f"KV_{INGEST_RESULTS_BUCKET}",
        "subjects": [f"$KV.{INGEST_RESULTS_BUCKET}.>"],
        "max_msgs_per_subject": 1,
        "max_age": nanoseconds(RESULTS_LIVE),
        "allow_rollup_hdrs": True,
    }
    files = object_store(INGEST_FILES_BUCKET, FILES_LIVE)
    return [config | common for config in (jobs, dead, results, files)]


def ingest_consumer(*, ack_wait: timedelta = ACK_WAIT) -> dict[str, Any]:
    """
    Describe the durable pull consumer that all workers share: whoever is free gets the next job.

    :param ack_wait: How long a worker may be silent about a job before another one gets it.
    """
    return {
        "name": INGEST_CONSUMER,
        "durable_name": INGEST_CONSUMER,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": nanoseconds(ack_wait),
        "max_ack_pending": JOBS_IN_FLIGHT,
        "max_deliver": -1,  # anything else drops a job silently
        "max_waiting": 4096,
    }
