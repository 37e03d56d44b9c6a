"""What a message of the turns stream asks for."""

from collections.abc import Iterator
from contextlib import contextmanager

from haystack.tracing.tracer import tracer
from opentelemetry import context, propagate

from components.body_store import BodyStore
from contracts.errors import PayloadError
from contracts.payloads import EraseOrder, read_turn
from contracts.queue import BODY_HEADER, user_key
from writer.delivery import Retry
from writer.lease import Lease
from writer.streams import Delivery
from writer.turn_applier import TurnApplier


class TurnHandler:
    """Reads a message, its large body included, and applies the turn or the erase order in it."""

    def __init__(self, *, bodies: BodyStore, applier: TurnApplier) -> None:
        """
        Hold what it works with.

        :param bodies: The claim check.
        :param applier: Applies turns and erase orders.
        """
        self._bodies = bodies
        self._applier = applier

    async def handle(self, delivery: Delivery, lease: Lease) -> str | Retry:
        """
        Bring about what a message asks for.

        :param delivery: The message.
        :param lease: Tells whether it is still ours.
        :returns: How it ended, or when to come back.
        :raises PayloadError: If it is no turn, or somebody else's than its subject says.
        :raises HayrecallError: As `TurnApplier` does.
        """
        with _continued_trace(delivery):
            return await self._handle(delivery, lease)

    async def _handle(self, delivery: Delivery, lease: Lease) -> str | Retry:
        payload = read_turn(await self._bodies.read(delivery.headers, delivery.body))
        if user_key(payload.tenant_id, payload.user_id) != delivery.owner:
            msg = "the subject and the body name different users"
            raise PayloadError(msg)
        if isinstance(payload, EraseOrder):
            return await self._applier.erase(payload)
        return await self._applier.apply(payload, lease)

    async def clean_up(self, delivery: Delivery) -> None:
        """
        Delete the large body of a message that is dealt with.

        :raises QueueUnavailableError: If NATS did not confirm.
        """
        if name := delivery.headers.get(BODY_HEADER):
            await self._bodies.delete(name)


@contextmanager
def _continued_trace(delivery: Delivery) -> Iterator[None]:
    """Make the write a part of the trace of the chat turn that it comes from."""
    token = context.attach(propagate.extract(delivery.headers))
    try:
        with tracer.trace("hayrecall.memory_write", tags={"hayrecall.sequence": delivery.sequence}):
            yield
    finally:
        context.detach(token)
