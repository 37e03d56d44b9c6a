"""The writer process."""

from datetime import UTC, datetime
from pathlib import Path

from components.body_store import BodyStore
from components.bucket import Bucket
from components.pipeline_file import load_pipeline
from components.user_states import UserStates
from contracts.manifest import Manifest
from contracts.queue import DEAD_STREAM, DONE_BUCKET, PLANS_BUCKET, TURNS_STREAM
from contracts.settings import Settings
from writer import metrics
from writer.attempts import AttemptLog
from writer.consumer import Consumer
from writer.dead_letters import DeadLetters
from writer.delivery import RetryPolicy
from writer.memory_pipeline import MemoryPipeline
from writer.plans import RunLedger
from writer.streams import PartitionPulls, Pulls
from writer.turn_applier import TurnApplier
from writer.turn_handler import TurnHandler
from writer.worker_process import WorkerProcess, run_process


def run(settings: Settings, *, ports_file: Path | None = None) -> int:
    """
    Run a writer until SIGTERM or SIGINT; see `WorkerProcess`.

    :param settings: All settings; NATS and Qdrant must have addresses.
    :param ports_file: Where to write `{"url": …}` of the health endpoint, if `writer_port` asks for one.
    :returns: Exit code 0.
    :raises ConfigurationError: If settings or pipeline files are wrong.
    """
    return run_process(lambda: WriterProcess(settings, ports_file))


class WriterProcess(WorkerProcess):
    """Wires the parts of a writer together."""

    def __init__(self, settings: Settings, ports_file: Path | None = None) -> None:
        """
        Load the pipeline; nothing is opened here.

        :param settings: All settings.
        :param ports_file: See `run`.
        :raises ConfigurationError: If settings or pipeline files are wrong.
        """
        super().__init__(
            settings, concurrency=settings.writer_concurrency, port=settings.writer_port, ports_file=ports_file
        )
        self._pipeline = MemoryPipeline(load_pipeline(Manifest.load(settings).run_by("writer")))

    def _make_pulls(self) -> Pulls:
        return PartitionPulls(self._connection, ack_wait_seconds=self._settings.writer_ack_wait_seconds)

    def _make_consumer(self) -> Consumer:
        settings, connection = self._settings, self._connection
        plans = Bucket(connection, PLANS_BUCKET)
        dead_letters = DeadLetters(connection, self._alerts)
        applier = TurnApplier(
            ledger=RunLedger(plans=plans, done=Bucket(connection, DONE_BUCKET)),
            users=UserStates(connection),
            memorizer=self._pipeline,
            memories=self._pipeline.memory_store,
            dead_letters=dead_letters,
            erase_settles_seconds=settings.writer_ack_wait_seconds / 10,
        )
        return Consumer(
            pulls=self._pulls,
            handler=TurnHandler(bodies=BodyStore(connection), applier=applier),
            attempts=AttemptLog(plans),
            dead_letters=dead_letters,
            policy=RetryPolicy(settings.writer_retry_seconds, max_attempts=settings.writer_max_attempts),
            metrics=metrics.WORK,
            concurrency=settings.writer_concurrency,
            ack_wait_seconds=settings.writer_ack_wait_seconds,
            grace_seconds=settings.writer_grace_seconds,
        )

    async def _open_pipelines(self) -> None:
        await self._pipeline.open()

    async def _close_pipelines(self) -> None:
        await self._pipeline.close()

    async def _qdrant_ready(self) -> bool:
        return await self._pipeline.memory_store.ready()

    async def _read_queue_metrics(self) -> None:
        state = (await self._connection.stream_info(TURNS_STREAM))["state"]
        metrics.QUEUED.set(state["messages"])
        age = datetime.now(UTC) - datetime.fromisoformat(state["first_ts"]) if state["messages"] else None
        metrics.OLDEST_SECONDS.set(age.total_seconds() if age else 0)
        metrics.DEAD_LETTERS.set((await self._connection.stream_info(DEAD_STREAM))["state"]["messages"])
