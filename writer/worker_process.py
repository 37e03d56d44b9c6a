"""A process that works off a queue: opens its parts, however late they come, consumes until told to stop, closes."""

import asyncio
import contextlib
import logging
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from components.jetstream import JetStreamConnection
from contracts.errors import ConfigurationError, TransientError
from contracts.settings import Settings
from writer.alerts import Alerts
from writer.consumer import Consumer
from writer.status_server import StatusServer, status_application
from writer.streams import Pulls

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 2.0
_RETRY_SECONDS = 1.0


class WorkerProcess(ABC):
    """
    What the writer and the ingestion worker have in common: one connection, pulls, a consumer, health and metrics.

    It waits for NATS and Qdrant as long as it takes, and prints `ready` once it consumes. At SIGTERM or SIGINT what is
    in progress is finished, and the rest goes to other processes.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        concurrency: int,
        port: int | None,
        ports_file: Path | None,
        streams: Sequence[dict[str, Any]] = (),
    ) -> None:
        """
        Prepare; nothing is opened here.

        :param settings: All settings; NATS must have an address.
        :param concurrency: Messages handled at a time.
        :param port: Port of health and metrics; 0 = any free one; None = none.
        :param ports_file: Where to write `{"url": …}` of health and metrics.
        :param streams: Streams and buckets to create beside those of the turns.
        :raises ConfigurationError: If NATS has no address.
        """
        if settings.nats_url is None:
            msg = "the writer and the ingestion worker need HAYRECALL_NATS_URL"
            raise ConfigurationError(msg)
        self._settings = settings
        self._concurrency = concurrency
        self._port = port
        self._ports_file = ports_file
        self._streams = streams
        self._stopping = asyncio.Event()
        self._ready = False

    @property
    def is_ready(self) -> bool:
        """Whether it has opened everything and takes work."""
        return self._ready and not self._stopping.is_set()

    def stop(self) -> None:
        """Begin to stop, as SIGTERM does."""
        self._stopping.set()

    async def run(self) -> None:
        """Open, consume, close."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(self._concurrency + 4))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._connection = JetStreamConnection(
            str(settings.nats_url), replicas=settings.nats_replicas, further_streams=self._streams
        )
        self._pulls = self._make_pulls()
        self._alerts = Alerts(settings.dead_letter_webhook)
        async with contextlib.AsyncExitStack() as opened:
            opened.push_async_callback(self._alerts.close)
            opened.push_async_callback(self._connection.close)
            opened.push_async_callback(self._close_pipelines)
            if self._port is not None:
                await opened.enter_async_context(self._status_server(self._port))
            if await self._open("NATS", self._open_nats) and await self._open("Qdrant", self._open_pipelines):
                await self._consume()

    @abstractmethod
    def _make_pulls(self) -> Pulls:
        """Describe what it pulls from."""

    @abstractmethod
    def _make_consumer(self) -> Consumer:
        """Wire the consumer, once everything is open."""

    @abstractmethod
    async def _open_pipelines(self) -> None:
        """Open what does the work; called again after an outage."""

    @abstractmethod
    async def _close_pipelines(self) -> None:
        """Close what does the work, opened or not."""

    @abstractmethod
    async def _qdrant_ready(self) -> bool:
        """Tell whether Qdrant answers."""

    @abstractmethod
    async def _read_queue_metrics(self) -> None:
        """Set the gauges that only NATS knows."""

    async def _consume(self) -> None:
        consumer = self._make_consumer()
        consuming = asyncio.create_task(consumer.run())
        self._ready = True
        print("ready", flush=True)  # noqa: T201 - the line that supervisors wait for
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([consuming, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        consumer.stop()
        await consuming

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
            "qdrant": await self._qdrant_ready(),
        }

    async def _refresh_metrics(self) -> None:
        with contextlib.suppress(TransientError):
            await self._read_queue_metrics()


def run_process(build: Callable[[], WorkerProcess]) -> int:
    """
    Run a process until SIGTERM or SIGINT, with its log on stderr.

    :param build: Makes the process.
    :returns: Exit code 0.
    :raises ConfigurationError: If settings or pipeline files are wrong.
    """
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for room in ("writer", "components"):
        logging.getLogger(room).setLevel(logging.INFO)
    asyncio.run(build().run())
    return 0
