"""Find what is remembered about the asking person and in the organization."""

from collections.abc import Sequence
from typing import Any

from haystack import Document, component, logging

from components.async_only import async_only
from components.fail_open import fail_open
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from contracts.turn import TurnContext, Vector

logger = logging.getLogger(__name__)

_Memories = tuple[list[Document], list[Document]]


@component
class MemoryRetriever:
    """
    Searches the memories of the user and of the organization, in one request, with the condensed question.

    Memories are help, never a condition: without an identity, with learning switched off, without an embedding, or when
    the store is down or slow, there are none, and the turn goes on.

    ### Usage example

    ```python
    from components.memory_retriever import MemoryRetriever
    from components.memory_store import MemoryStore

    retriever = MemoryRetriever(MemoryStore("http://127.0.0.1:6333"), top_k=10, namespaces=["", "support"])
    assert retriever.min_score == 0.5
    ```
    """

    def __init__(
        self,
        memory_store: MemoryStore,
        *,
        top_k: int = 10,
        min_score: float = 0.5,
        timeout_seconds: float = 3.0,
        namespaces: Sequence[str] = ("",),
    ) -> None:
        """
        Configure the retriever; nothing is opened here.

        :param memory_store: Where the memories are.
        :param top_k: Most memories of each scope, at least 1.
        :param min_score: Cosine in [0, 1] below which a memory is left out; belongs to the embedder.
        :param timeout_seconds: Longest wait for the store, above 0.
        :param namespaces: Parts of the organization's memory that this assistant reads; "" is the part for all.
        :raises ValueError: If a number is out of range.
        """
        if top_k < 1 or not 0 <= min_score <= 1 or timeout_seconds <= 0:
            msg = (
                "need top_k >= 1, 0 <= min_score <= 1 and timeout_seconds > 0, "
                f"got {top_k=}, {min_score=} and {timeout_seconds=}"
            )
            raise ValueError(msg)
        self.memory_store = memory_store
        self.top_k = top_k
        self.min_score = min_score
        self.timeout_seconds = timeout_seconds
        self.namespaces = list(namespaces)

    async def close_async(self) -> None:
        """Close the store's connection."""
        await self.memory_store.close()

    @component.output_types(user_memories=list[Document], organization_memories=list[Document])
    def run(self, question: str, vector: Vector, turn: TurnContext) -> dict[str, Any]:
        """
        Not available: see `run_async`.

        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(user_memories=list[Document], organization_memories=list[Document])
    async def run_async(self, question: str, vector: Vector, turn: TurnContext) -> dict[str, Any]:
        """
        Search both scopes.

        :param question: The condensed question.
        :param vector: Its embedding; empty if the embedder could not be asked.
        :param turn: Who asks.
        :returns: `user_memories` and `organization_memories`: at most `top_k` each, best first, `score` is the cosine.
        """
        user, organization = await self._memories(vector, turn)
        return {"user_memories": user, "organization_memories": organization}

    async def _memories(self, vector: Vector, turn: TurnContext) -> _Memories:
        if reason := self._reason_for_none(vector, turn):
            logger.warning("no memories for this turn: {reason}", reason=reason)
            return [], []
        search = self._search(vector, turn)
        return await fail_open("memory", search, ([], []), timeout_seconds=self.timeout_seconds)

    def _reason_for_none(self, vector: Vector, turn: TurnContext) -> str | None:
        if not turn.user_id:
            return "the request has no identity"
        if not turn.learning:
            return "the user switched learning off"
        return None if vector else "the question has no embedding"

    async def _search(self, vector: Vector, turn: TurnContext) -> _Memories:
        scopes = [
            Scope(turn.tenant_id, user_id=turn.user_id),
            *(Scope(turn.tenant_id, organization_namespace=namespace) for namespace in self.namespaces),
        ]
        user, *organization = await self.memory_store.search(vector, scopes, top_k=self.top_k)
        return self._best(user), self._best([memory for part in organization for memory in part])

    def _best(self, found: list[Document]) -> list[Document]:
        relevant = [memory for memory in found if (memory.score or 0.0) >= self.min_score]
        return sorted(relevant, key=lambda memory: -(memory.score or 0.0))[: self.top_k]
