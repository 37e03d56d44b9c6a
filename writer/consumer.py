"""Takes messages off the queue, a bounded number at a time, and brings each to one of its ends."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, cast

from haystack import logging

from contracts.errors import HayrecallError, QueueUnavailableError, WriterKilledError
from writer.attempts import AttemptLog, Attempts
from writer.delivery import DeadLetter, Drop, Fate, Reason, Retry, RetryPolicy, decide, is_outage
from writer.lease import Lease, LeaseLostError, held
from writer.slots import Slots
from writer.streams import Delivery, Pulls
from writer.work_metrics import WorkMetrics

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_SECONDS = 0.5
_GIVE_BACK_SECONDS = 2.0
_SUSPECT_KILLS = 2  # one kill is bad luck; from the second on, a turn is handled alone, so that no other is blamed


class Handler(Protocol):
    """Does what a delivery asks for."""

    async def handle(self, delivery: Delivery, lease: Lease) -> str | Retry:
        """Bring about the effect; the name of the end, or when to come back."""

    async def clean_up(self, delivery: Delivery) -> None:
        """Remove what belongs to a delivery that is dealt with, and not kept as a dead letter."""


class DeadLetterOffice(Protocol):
    """Keeps what cannot be handled."""

    async def keep(self, delivery: Delivery, reason: Reason, error: Exception, attempts: int) -> None:
        """Store it durably, and tell about it."""


class Consumer:
    """
    Pulls on all lanes; each delivery is held by heartbeats from its arrival to its acknowledgement.

    NATS gives one turn of a partition at a time, so one user's turns are handled in order, one after the other,
    whatever the number of writers. Ingestion jobs keep their order by themselves; see `writer.ingest.job_handler`.
    """

    def __init__(
        self,
        *,
        pulls: Pulls,
        handler: Handler,
        attempts: AttemptLog,
        dead_letters: DeadLetterOffice,
        policy: RetryPolicy,
        metrics: WorkMetrics,
        concurrency: int = 16,
        ack_wait_seconds: float = 30,
        grace_seconds: float = 20,
    ) -> None:
        """
        Hold what it works with.

        :param pulls: Opened pulls.
        :param handler: Called for each delivery.
        :param attempts: Where attempts are counted.
        :param dead_letters: Where hopeless turns go.
        :param policy: Delays and limit of attempts.
        :param metrics: Where it counts.
        :param concurrency: Messages handled at a time.
        :param ack_wait_seconds: As the pulls' consumers have it.
        :param grace_seconds: How long turns in progress may take to finish at a stop.
        """
        self._pulls = pulls
        self._handler = handler
        self._attempts = attempts
        self._dead_letters = dead_letters
        self._policy = policy
        self._metrics = metrics
        self._slots = Slots(concurrency)
        self._ack_wait_seconds = ack_wait_seconds
        self._grace_seconds = grace_seconds
        self._stopping = asyncio.Event()
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Consume until `stop`; then let turns in progress finish, and give back the rest."""
        async with asyncio.TaskGroup() as tasks:
            lanes = [tasks.create_task(self._consume(lane)) for lane in self._pulls.lanes]
            await self._stopping.wait()
            # First no open pull may be left: what is given back would come straight back, and be lost for ack_wait.
            for delivery in await self._pulls.close():
                await self._give_back(delivery, None)
            for task in self._waiting:
                task.cancel()
            _, late = await asyncio.wait(lanes, timeout=self._grace_seconds)
            for task in late:
                task.cancel()

    def stop(self) -> None:
        """Begin to stop."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether it takes no more turns."""
        return self._stopping.is_set()

    async def _consume(self, lane: int) -> None:
        while not self._stopping.is_set():
            try:
                delivery = await self._pulls.next(lane)
            except QueueUnavailableError as error:
                logger.debug("lane {lane}: {error}", lane=lane, error=str(error))
                await self._pause()
                continue
            if delivery is not None:
                await self._hold(delivery)

    async def _hold(self, delivery: Delivery) -> None:
        known: list[Attempts] = []
        try:
            async with held(delivery.heartbeat, self._ack_wait_seconds) as lease:
                attempts = await self._insist(lambda: self._attempts.recall(delivery))
                known.append(attempts)
                await self._deal_with(delivery, attempts, lease)
        except LeaseLostError as error:
            self._metrics.ends.labels("lost").inc()
            logger.warning("message {sequence}: {error}", sequence=delivery.sequence, error=str(error))
        except asyncio.CancelledError:
            await self._give_back(delivery, known[0] if known else None)
            raise

    async def _deal_with(self, delivery: Delivery, attempts: Attempts, lease: Lease) -> None:
        if attempts.kills and attempts.failures >= self._policy.max_attempts:
            msg = f"{attempts.kills} deliveries ended without a decision; handling it seems to end the writer"
            await self._fail(delivery, attempts, WriterKilledError(msg))
            return
        slot = self._slots.all() if attempts.kills >= _SUSPECT_KILLS else self._slots.one()
        async with contextlib.AsyncExitStack() as stack:
            await self._wait_for(stack.enter_async_context(slot))
            if delivery.deliveries > 1:
                # Counted before it runs: a process that it ends cannot count it afterwards.
                await self._insist(lambda: self._attempts.keep(delivery, attempts.started()))
            end = await self._handle(delivery, lease)
        if isinstance(end, Exception):
            await self._fail(delivery, attempts.failed(end), end)
        elif isinstance(end, Retry):
            await self._retry(delivery, attempts.ended(), end)
        else:
            await self._close(delivery, end)

    async def _handle(self, delivery: Delivery, lease: Lease) -> str | Retry | Exception:
        with self._metrics.in_progress.track_inprogress(), self._metrics.seconds.time():
            try:
                return await self._handler.handle(delivery, lease)
            except LeaseLostError:
                raise
            except Exception as error:
                if not isinstance(error, HayrecallError):
                    logger.exception("message {sequence}", sequence=delivery.sequence)
                return error

    async def _fail(self, delivery: Delivery, attempts: Attempts, error: Exception) -> None:
        attempt = attempts.outages if is_outage(error) else attempts.failures
        fate: Fate = decide(error, attempt, policy=self._policy, jitter=random.uniform(-1, 1))  # noqa: S311
        match fate:
            case Retry():
                logger.warning(
                    "message {sequence}, attempt {attempt}, again in {seconds} s: {error}",
                    sequence=delivery.sequence,
                    attempt=attempt,
                    seconds=round(fate.delay_seconds, 1),
                    error=str(error),
                )
                await self._retry(delivery, attempts, fate)
            case DeadLetter():
                await self._insist(lambda: self._dead_letters.keep(delivery, fate.reason, error, attempts.failures))
                await self._insist(delivery.acknowledge)
                await self._insist(lambda: self._attempts.forget(delivery))
                self._metrics.ends.labels("dead_lettered").inc()
            case Drop():
                await self._close(delivery, "erased")

    async def _retry(self, delivery: Delivery, attempts: Attempts, fate: Retry) -> None:
        await self._insist(lambda: self._attempts.keep(delivery, attempts))
        await self._insist(lambda: delivery.return_after(fate.delay_seconds))
        self._metrics.ends.labels("retried").inc()

    async def _close(self, delivery: Delivery, end: str) -> None:
        await self._insist(delivery.acknowledge)
        self._metrics.ends.labels(end).inc()
        logger.info("message {sequence}: {end}", sequence=delivery.sequence, end=end)
        await self._insist(lambda: self._handler.clean_up(delivery))
        await self._insist(lambda: self._attempts.forget(delivery))

    async def _give_back(self, delivery: Delivery, attempts: Attempts | None) -> None:
        """Return a turn at a stop, and see that this is not held against it."""
        with contextlib.suppress(QueueUnavailableError, TimeoutError):
            async with asyncio.timeout(_GIVE_BACK_SECONDS):
                if attempts is not None or delivery.deliveries == 1:
                    await self._attempts.keep(delivery, (attempts or Attempts()).ended())
                await delivery.return_after()
                self._metrics.ends.labels("returned").inc()

    async def _wait_for(self, slot: Awaitable[None]) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._waiting.add(task)
        try:
            with self._metrics.waiting.track_inprogress():
                await slot
        finally:
            self._waiting.discard(task)

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask NATS until it answers; the lease ends this when it takes too long."""
        while True:
            try:
                return await call()
            except QueueUnavailableError:
                await asyncio.sleep(_PAUSE_SECONDS * random.uniform(0.5, 1))  # noqa: S311

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), _PAUSE_SECONDS * random.uniform(1, 2))  # noqa: S311
