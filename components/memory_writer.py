"""Carry out a plan: store new memories, mark those that no longer hold."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from haystack import component

from components.async_only import async_only
from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from components.redaction import redact
from contracts.turn import TurnContext


@component
class MemoryWriter:
    """
    Writes the memories of a plan in one request; writing the same plan again has no further effect.

    Ids follow from the run and the fact's place in the plan. What the store holds is only what the plan says: no model
    is asked here, so a plan that was kept before a crash can be carried out after it.

    ### Usage example

    ```python
    from components.memory_store import MemoryStore
    from components.memory_writer import MemoryWriter

    writer = MemoryWriter(MemoryStore("http://127.0.0.1:6333"))
    assert writer.memory_store.collection == "hayrecall_memories"
    ```
    """

    def __init__(self, memory_store: MemoryStore) -> None:
        """
        Configure the writer; nothing is opened here.

        :param memory_store: Store to write to.
        """
        self.memory_store = memory_store

    async def close_async(self) -> None:
        """Close the store, which opens itself when it is used."""
        await self.memory_store.close()

    @component.output_types(written=int)
    def run(self, question: str, turn: TurnContext, plan: dict[str, Any] | None = None) -> dict[str, Any]:
        """Refuse to run: the store is written asynchronously."""
        raise async_only(self)

    @component.output_types(written=int)
    async def run_async(self, question: str, turn: TurnContext, plan: dict[str, Any] | None = None) -> dict[str, Any]:
        """
        Write a plan.

        :param question: The condensed question, kept with each memory as the statement that it came from.
        :param turn: Owner and origin of the memories.
        :param plan: What `MemoryReconciler` gave, perhaps in an earlier process; None while it is still being made:
            then nothing is written.
        :returns: `written`: how many memories are there now because of this plan.
        :raises StoreUnavailableError: If the store cannot be asked now; then the plan can be written again.
        :raises ValueError: If the turn has no user, or is not the one that the plan belongs to.
        """
        if plan is None:
            return {"written": 0}
        if turn.user_id is None or str(plan["run_id"]) != turn.run_id:
            msg = "a plan is written for the user and the run that it was made for"
            raise ValueError(msg)
        scope, now = Scope(turn.tenant_id, user_id=turn.user_id), datetime.now(UTC)
        kept = [decision for decision in plan["decisions"] if decision["action"] != "drop"]
        places = sorted({decision["fact"] for decision in kept})
        # A microsecond apart, so that a listing by time gives the facts of a turn in their order.
        records = [
            self._record(plan["facts"][place], place, redact(question), turn, now + timedelta(microseconds=place))
            for place in places
        ]
        marks = [
            (decision["memory_id"], memory_id(turn.run_id, decision["fact"]), now)
            for decision in kept
            if decision["action"] == "supersede"
        ]
        await self.memory_store.apply(scope, records, marks)
        return {"written": len(records)}

    @staticmethod
    def _record(fact: dict[str, Any], place: int, statement: str, turn: TurnContext, now: datetime) -> MemoryRecord:
        return MemoryRecord(
            id=memory_id(turn.run_id, place),
            text=fact["text"],
            vector=tuple(fact["vector"]),
            created_at=now,
            stated_at=turn.said_at,
            locale=turn.locale,
            source="turn",
            statement=statement,
            agent_id=turn.agent.id,
            thread_id=turn.thread_id,
            message_id=turn.message_id,
            run_id=turn.run_id,
        )


def memory_id(run_id: str, place: int) -> str:
    """
    Give the id of a memory, the same in every attempt.

    :param run_id: The run that it came from, a UUID.
    :param place: Place of the fact in the plan, from 0.
    """
    return str(uuid5(UUID(run_id), str(place)))
