"""Show, export and erase a user's memories from the command line."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TextIO, TypeVar

from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from components.turn_queue import TurnQueue
from contracts.settings import Settings
from hayrecall.local.instance import connected

T = TypeVar("T")


def show(settings: Settings, scope: Scope, *, include_superseded: bool) -> list[MemoryRecord]:
    """
    Read a user's memories.

    :param settings: Settings as they were loaded.
    :param scope: Whose memories.
    :param include_superseded: Also what no longer holds.
    :returns: Newest first.
    :raises HayrecallError: If the store cannot be reached.
    """

    async def read(memories: MemoryStore) -> list[MemoryRecord]:
        return [record async for record in memories.every(scope, include_superseded=include_superseded)]

    with connected(settings, ["qdrant"]) as reached:
        return asyncio.run(_with_store(reached, read))


def export(settings: Settings, scope: Scope, sink: TextIO) -> None:
    """
    Write everything that is remembered as JSON, in the shape of `GET /v1/memories/export`.

    :param settings: Settings as they were loaded.
    :param scope: Whose memories.
    :param sink: Where to write.
    :raises HayrecallError: If the store cannot be reached.
    """
    records = show(settings, scope, include_superseded=True)
    data: list[dict[str, Any]] = [{**record.public(), "statement": record.statement} for record in records]
    json.dump({"object": "list", "data": data, "next_cursor": None}, sink, ensure_ascii=False, indent=2)
    sink.write("\n")


def erase(settings: Settings, tenant_id: str, user_id: str) -> None:
    """
    Erase a user: memories, queued turns, dead letters and whatever else holds their words.

    :param settings: Settings as they were loaded.
    :param tenant_id: The tenant.
    :param user_id: The user.
    :raises HayrecallError: If the queue or the store cannot be reached; then the command can be repeated.
    """

    async def forget(reached: Settings, memories: MemoryStore) -> None:
        queue = TurnQueue(reached.nats_url, data_dir=reached.data_dir, replicas=reached.nats_replicas)
        try:
            await queue.erase(tenant_id, user_id, memories=memories)
        finally:
            await queue.close()

    with connected(settings, ["nats", "qdrant"]) as reached:
        asyncio.run(_with_store(reached, lambda memories: forget(reached, memories)))


async def _with_store(settings: Settings, work: Callable[[MemoryStore], Awaitable[T]]) -> T:
    memories = MemoryStore.of(settings)
    try:
        return await work(memories)
    finally:
        await memories.close()
