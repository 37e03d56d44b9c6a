"""Forget everything about a user, also what is still on its way."""

from datetime import UTC, datetime
from uuid import uuid4

from haystack import logging

from components.body_store import BodyStore
from components.jetstream_refusal import RefusedError
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from components.queue_parts import QueueParts
from contracts.payloads import EraseOrder
from contracts.queue import (
    DEAD_STREAM,
    KIND_HEADER,
    PLANS_BUCKET,
    QUESTIONS_BUCKET,
    TURNS_STREAM,
    VERSION_HEADER,
    dead_subject,
    stored_subject,
    turn_subject,
    user_key,
)

logger = logging.getLogger(__name__)


async def erase(parts: QueueParts, tenant_id: str, user_id: str, *, memories: MemoryStore) -> EraseOrder:
    """
    Erase a user; doing it twice, or again after a failure half-way, is one effect.

    The epoch comes first: from then on no turn said before it is ever stored, wherever it hides: in a writer's hands,
    in the outbox of another host, in a dead letter that somebody replays. Then everything that holds the user's words
    goes; a writer that was just storing a turn meets the epoch afterwards and takes its points back.

    :param parts: The opened queue.
    :param memories: Where the user's memories are.
    :returns: The order that took the place of what was queued.
    :raises QueueUnavailableError: If NATS is away; nothing is claimed to be erased.
    :raises StoreUnavailableError: If the memories could not be deleted; what is above them in the order is gone.
    """
    order = EraseOrder(run_id=uuid4(), tenant_id=tenant_id, user_id=user_id, erased_at=datetime.now(UTC))
    await parts.states.set_erased(tenant_id, user_id, order.erased_at)
    await _replace_queued(parts, order)
    await parts.connection.scrub(DEAD_STREAM, dead_subject(tenant_id, user_id))
    await BodyStore(parts.connection).delete_all(tenant_id, user_id)
    for bucket in (PLANS_BUCKET, QUESTIONS_BUCKET):
        await parts.connection.scrub(f"KV_{bucket}", f"$KV.{bucket}.{user_key(tenant_id, user_id)}.>")
    await parts.outbox.erase(turn_subject(tenant_id, user_id))
    await memories.delete_all(Scope(tenant_id, user_id=user_id))
    return order


async def _replace_queued(parts: QueueParts, order: EraseOrder) -> None:
    """Drop the user's queued turns; the order stands where they stood, for the writer to follow."""
    stored = stored_subject(order.tenant_id, order.user_id)
    await parts.connection.scrub(TURNS_STREAM, stored)  # a roll-up alone leaves the bytes in the files for a while
    headers = {
        "Nats-Msg-Id": str(order.run_id),
        "Nats-Expected-Stream": TURNS_STREAM,
        "Nats-Rollup": "sub",  # what arrived meanwhile goes in the same step
        VERSION_HEADER: str(order.version),
        KIND_HEADER: order.kind,
    }
    subject = turn_subject(order.tenant_id, order.user_id)
    try:
        await parts.connection.publish(subject, order.model_dump_json().encode(), headers)
    except RefusedError as refusal:
        # The stream is full. Dropping without an order will do: the epoch stops what is in a writer's hands.
        logger.warning("no erase order was queued: {reason}", reason=str(refusal))
        await parts.connection.purge(TURNS_STREAM, stored)
