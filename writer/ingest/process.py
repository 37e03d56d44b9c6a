"""The ingestion worker's process."""

from datetime import timedelta
from pathlib import Path

from components.bucket import Bucket
from components.ingest_jobs import IngestJobs
from contracts.errors import TransientError
from contracts.ingest_queue import INGEST_RESULTS_BUCKET, INGEST_STREAM, ingest_consumer, ingest_streams
from contracts.settings import Settings
from writer.attempts import AttemptLog
from writer.consumer import Consumer
from writer.delivery import RetryPolicy
from writer.ingest import metrics
from writer.ingest.dead_jobs import DeadJobs
from writer.ingest.ingestors import Ingestors
from writer.ingest.job_handler import JobHandler
from writer.streams import Pulls
from writer.worker_process import WorkerProcess, run_process


def run(settings: Settings, *, ports_file: Path | None = None) -> int:
    """
    Run an ingestion worker until SIGTERM or SIGINT; see `WorkerProcess`.

    :param settings: All settings; NATS and Qdrant must have addresses.
    :param ports_file: Where to write `{"url": …}` of the health endpoint, if `ingest_port` asks for one.
    :returns: Exit code 0.
    :raises ConfigurationError: If settings or pipeline files are wrong.
    """
    return run_process(lambda: IngestWorkerProcess(settings, ports_file))


class IngestWorkerProcess(WorkerProcess):
    """Wires the parts of an ingestion worker together."""

    def __init__(self, settings: Settings, ports_file: Path | None = None) -> None:
        """
        Load the pipeline; nothing is opened here.

        :param settings: All settings.
        :param ports_file: See `run`.
        :raises ConfigurationError: If settings or pipeline files are wrong.
        """
        super().__init__(
            settings,
            concurrency=settings.ingest_concurrency,
            port=settings.ingest_port,
            ports_file=ports_file,
            streams=ingest_streams(replicas=settings.nats_replicas),
        )
        self._ingestors = Ingestors(settings)

    def _make_pulls(self) -> Pulls:
        consumer = ingest_consumer(ack_wait=timedelta(seconds=self._settings.writer_ack_wait_seconds))
        # As many lanes as it does jobs at a time: it takes none that another worker could begin with.
        return Pulls(self._connection, INGEST_STREAM, [consumer] * self._settings.ingest_concurrency)

    def _make_consumer(self) -> Consumer:
        settings, connection = self._settings, self._connection
        return Consumer(
            pulls=self._pulls,
            handler=JobHandler(connection, self._ingestors),
            attempts=AttemptLog(Bucket(connection, INGEST_RESULTS_BUCKET)),
            dead_letters=DeadJobs(connection, self._alerts),
            policy=RetryPolicy(settings.writer_retry_seconds, max_attempts=settings.writer_max_attempts),
            metrics=metrics.WORK,
            concurrency=settings.ingest_concurrency,
            ack_wait_seconds=settings.writer_ack_wait_seconds,
            grace_seconds=settings.writer_grace_seconds,
        )

    async def _open_pipelines(self) -> None:
        await self._ingestors.into(None)

    async def _close_pipelines(self) -> None:
        await self._ingestors.close()

    async def _qdrant_ready(self) -> bool:
        try:
            return await (await self._ingestors.into(None)).ready()
        except TransientError:
            return False

    async def _read_queue_metrics(self) -> None:
        jobs = IngestJobs(self._connection)
        metrics.QUEUED.set(await jobs.depth())
        metrics.DEAD_LETTERS.set(await jobs.dead())
