"""A writer's hold on a delivered turn: kept by heartbeats, given up when they cannot have arrived."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from contracts.errors import HayrecallError, QueueUnavailableError

_SAFETY = 0.9  # part of ack_wait after which we let go, so that we do so before NATS hands the turn to somebody else


class LeaseLostError(HayrecallError):
    """The writer was frozen or cut off for too long: NATS gives the turn to another one, and we touch nothing."""


class Lease:
    """Tells, at the moment before an effect, whether the turn is still ours."""

    def __init__(self, deadline: asyncio.Timeout) -> None:
        """
        Follow a deadline that heartbeats move on.

        :param deadline: Cancels the handling when it passes.
        """
        self._deadline = deadline

    def check(self) -> None:
        """
        Go on only if the turn is still ours.

        :raises LeaseLostError: If it is not; a frozen process learns it here first.
        """
        when = self._deadline.when()
        if when is not None and asyncio.get_running_loop().time() >= when:
            raise LeaseLostError(_LOST)


_LOST = "heartbeats did not reach NATS in time; another writer takes the turn over"


@asynccontextmanager
async def held(heartbeat: Callable[[], Awaitable[None]], ack_wait_seconds: float) -> AsyncIterator[Lease]:
    """
    Hold a turn for as long as the block runs, by a heartbeat every third of `ack_wait_seconds`.

    :param heartbeat: Tells NATS that we are at it.
    :param ack_wait_seconds: How long NATS waits for a heartbeat.
    :raises LeaseLostError: If they failed for so long that the turn is no longer ours; the block was cancelled.
    """
    lasts_seconds = ack_wait_seconds * _SAFETY
    deadline = asyncio.timeout(lasts_seconds)
    beating: asyncio.Task[None] | None = None
    try:
        async with deadline:
            beating = asyncio.create_task(_beat(heartbeat, deadline, ack_wait_seconds / 3, lasts_seconds))
            yield Lease(deadline)
    except TimeoutError:
        if deadline.expired():
            raise LeaseLostError(_LOST) from None
        raise
    finally:
        if beating is not None:
            beating.cancel()


async def _beat(
    heartbeat: Callable[[], Awaitable[None]], deadline: asyncio.Timeout, every_seconds: float, lasts_seconds: float
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(every_seconds)
        sent_at = loop.time()
        when = deadline.when()
        if deadline.expired() or when is None or sent_at >= when:
            return
        with suppress(QueueUnavailableError):  # tried again at the next beat; the deadline stays where it is
            await heartbeat()
            if not deadline.expired():
                deadline.reschedule(sent_at + lasts_seconds)
