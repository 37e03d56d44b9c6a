"""Find what the user said so lately that it is not in memory yet."""

from typing import Any

from haystack import Document, component

from components.async_only import async_only
from components.fail_open import fail_open
from components.turn_queue import TurnQueue
from contracts.turn import TurnContext


@component
class PendingTurnsRetriever:
    """
    Offers the user's turns that are queued, but not yet written to memory, as recent statements.

    So a fact told in one chat is known in the next one a second later, however slow the memory writer is. The read is
    bounded; what cannot be read in time is left out.

    ### Usage example

    ```python
    from components.pending_turns_retriever import PendingTurnsRetriever
    from components.turn_queue import TurnQueue

    retriever = PendingTurnsRetriever(TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall"), top_k=10)
    assert retriever.timeout_seconds == 0.25
    ```
    """

    def __init__(self, turn_queue: TurnQueue, *, top_k: int = 10, timeout_seconds: float = 0.25) -> None:
        """
        Configure the retriever; nothing is opened here.

        :param turn_queue: Where turns are on their way.
        :param top_k: Most turns to offer, the newest; at least 1.
        :param timeout_seconds: Longest that the turn waits for them, above 0.
        :raises ValueError: If a number is out of range.
        """
        if top_k < 1 or timeout_seconds <= 0:
            msg = f"need top_k >= 1 and timeout_seconds > 0, got {top_k=} and {timeout_seconds=}"
            raise ValueError(msg)
        self.turn_queue = turn_queue
        self.top_k = top_k
        self.timeout_seconds = timeout_seconds

    async def warm_up_async(self) -> None:
        """Open the queue."""
        await self.turn_queue.open()

    async def close_async(self) -> None:
        """Close the queue."""
        await self.turn_queue.close()

    @component.output_types(recent_memories=list[Document])
    def run(self, question: str, turn: TurnContext) -> dict[str, Any]:
        """
        Refuse to block.

        :param question: Not looked at.
        :param turn: Not looked at.
        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(recent_memories=list[Document])
    async def run_async(self, question: str, turn: TurnContext) -> dict[str, Any]:
        """
        Read the turns.

        :param question: The condensed question; there is one only once the gate has cleared the turn.
        :param turn: Who asks.
        :returns: `recent_memories`: the questions of at most `top_k` turns, the oldest first; `stated_at` in `meta`.
        """
        if not turn.user_id or not turn.learning:
            return {"recent_memories": []}
        read = self._read(turn.tenant_id, turn.user_id)
        return {"recent_memories": await fail_open("pending_turns", read, [], timeout_seconds=self.timeout_seconds)}

    async def _read(self, tenant_id: str, user_id: str) -> list[Document]:
        return [
            Document(
                id=str(turn.run_id),
                content=turn.question,
                meta={"stated_at": turn.said_at.isoformat(), "agent_id": turn.agent.id, "thread_id": turn.thread_id},
            )
            for turn in await self.turn_queue.pending(tenant_id, user_id, self.top_k)
        ]
