"""The writer process: opens its parts, however late they come, consumes until it is told to stop, closes them."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from components.body_store import BodyStore
from components.bucket import Bucket
from components.jetstream import JetStreamConnection
from components.pipeline_file import load_pipeline
from components.user_states import UserStates
from contracts.errors import ConfigurationError, TransientError
from contracts.manifest import Manifest
from contracts.queue import DEAD_STREAM, DONE_BUCKET, PLANS_BUCKET, TURNS_STREAM
from contracts.settings import Settings
from writer import metrics
from writer.alerts import Alerts
from writer.attempts import AttemptLog
from writer.consumer import Consumer
from writer.dead_letters import DeadLetters
from writer.delivery import RetryPolicy
from writer.memory_pipeline import MemoryPipeline
from writer.plans import RunLedger
from writer.status_server import StatusServer, status_application
from writer.streams import PartitionPulls
from writer.turn_applier import TurnApplier
from writer.turn_handler import TurnHandler

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 2.0
_RETRY_SECONDS = 1.0


def run(settings: Settings, *, ports_file: Path | None = None) -> int:
    """
    Run a writer until SIGTERM or SIGINT; turns in progress are finished, the rest goes to other writers.

    Prints `ready` once it consumes. It waits for NATS and Qdrant as long as it takes.

    :param settings: All settings; NATS and Qdrant must have addresses.
    :param ports_file: Where to write `{"url": …}` of the health endpoint, if `writer_port` asks for one.
    :returns: Exit code 0.
    :raises ConfigurationError: If settings or pipeline files are wrong.
    """
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for room in ("writer", "components"):
        logging.getLogger(room).setLevel(logging.INFO)
    asyncio.run(WriterProcess(settings, ports_file).run())
    return 0


class WriterProcess:
    """Wires the parts of a writer together."""

    def __init__(self, settings: Settings, ports_file: Path | None = None) -> None:
        """
        Load the pipeline; nothing is opened here.

        :param settings: All settings.
        :param ports_file: See `run`.
        :raises ConfigurationError: If settings or pipeline files are wrong.
        """
        if settings.nats_url is None:
            msg = "the writer needs HAYRECALL_NATS_URL"
            raise ConfigurationError(msg)
        self._settings = settings
        self._ports_file = ports_file
        self._pipeline = MemoryPipeline(load_pipeline(Manifest.load(settings).run_by("writer")))
        self._stopping = asyncio.Event()
        self._ready = False

    @property
    def is_ready(self) -> bool:
        """Whether it has opened everything and takes turns."""
        return self._ready and not self._stopping.is_set()

    def stop(self) -> None:
        """Begin to stop, as SIGTERM does."""
        self._stopping.set()

    async def run(self) -> None:
        """Open, consume, close."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(settings.writer_concurrency + 4))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._connection = JetStreamConnection(str(settings.nats_url), replicas=settings.nats_replicas)
        self._pulls = PartitionPulls(self._connection, ack_wait_seconds=settings.writer_ack_wait_seconds)
        self._alerts = Alerts(settings.dead_letter_webhook)
        async with contextlib.AsyncExitStack() as opened:
            opened.push_async_callback(self._alerts.close)
            opened.push_async_callback(self._connection.close)
            opened.push_async_callback(self._pipeline.close)
            if settings.writer_port is not None:
                await opened.enter_async_context(self._status_server(settings.writer_port))
            if await self._open("NATS", self._open_nats) and await self._open("Qdrant", self._pipeline.open):
                await self._consume()

    async def _consume(self) -> None:
        consumer = self._consumer()
        consuming = asyncio.create_task(consumer.run())
        self._ready = True
        print("ready", flush=True)  # noqa: T201 - the line that supervisors wait for
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([consuming, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        consumer.stop()
        await consuming

    def _consumer(self) -> Consumer:
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
            concurrency=settings.writer_concurrency,
            ack_wait_seconds=settings.writer_ack_wait_seconds,
            grace_seconds=settings.writer_grace_seconds,
        )

    async def _open_nats(self) -> None:
        await self._connection.open(patience_seconds=_PATIENCE_SECONDS)
        await self._pulls.open()

    async def _open(self, part: str, opening: Callable[[], Awaitable[None]]) -> bool:
        """Open a part, however long it takes; False if we are told to stop meanwhile."""
        said = ""
        while not self._stopping.is_set():
            attempt = asyncio.ensure_future(opening())
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait([attempt, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not attempt.done():
                attempt.cancel()
                break
            try:
                await attempt
            except TransientError as error:
                if said != (said := str(error)):
                    logger.warning("waiting for %s: %s", part, error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), _RETRY_SECONDS)
            else:
                return True
        return False

    @contextlib.asynccontextmanager
    async def _status_server(self, port: int) -> AsyncIterator[None]:
        application = status_application(self._readiness, self._refresh_metrics)
        server = StatusServer(application, host=self._settings.host, port=port, ports_file=self._ports_file)
        serving = asyncio.create_task(server.serve())
        try:
            yield
        finally:
            server.should_exit = True
            await serving

    async def _readiness(self) -> dict[str, bool]:
        return {
            "nats": self._connection.is_available,
            "pulls": self.is_ready and self._pulls.answered_within(),
            "qdrant": await self._pipeline.memory_store.ready(),
        }

    async def _refresh_metrics(self) -> None:
        with contextlib.suppress(TransientError):
            state = (await self._connection.stream_info(TURNS_STREAM))["state"]
            metrics.QUEUED.set(state["messages"])
            age = datetime.now(UTC) - datetime.fromisoformat(state["first_ts"]) if state["messages"] else None
            metrics.OLDEST_SECONDS.set(age.total_seconds() if age else 0)
            metrics.DEAD_LETTERS.set((await self._connection.stream_info(DEAD_STREAM))["state"]["messages"])
