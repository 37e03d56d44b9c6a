"""Find what is remembered about the asking person and in the organization."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from haystack import Document, component, logging

from components.async_only import async_only
from components.fail_open import fail_open
from components.memory_ranking import MemoryRanking
from components.memory_relevance import Background
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from contracts.turn import TurnContext, Vector

logger = logging.getLogger(__name__)

_Memories = tuple[list[Document], list[Document]]


@component
class MemoryRetriever:
    """
    Searches the memories of the user and of the organization, in one request, with the condensed question.

    Meaning finds them, meaning and words order them, and what has nothing to do with the question goes.

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
        min_relevance: float = -2.5,
        background_cosine: float = Background.cosine,
        background_spread: float = Background.spread,
        candidates: int = 100,
        words_weight: float = 0.08,
        timeout_seconds: float = 3.0,
        namespaces: Sequence[str] = ("",),
    ) -> None:
        """
        Configure the retriever; nothing is opened here.

        :param memory_store: Where the memories are.
        :param top_k: Most memories of each scope, at least 1.
        :param min_score: Cosine in [0, 1] below which a memory is left out; belongs to the embedder.
        :param min_relevance: Log-odds below which a memory is left out, where there are enough to compare; 0 keeps what
            is more likely than not to belong to the question, and loses one relevant memory in five.
        :param background_cosine: Mean cosine of the embedder for unrelated texts; see `hayrecall calibrate`.
        :param background_spread: Their standard deviation, above 0.
        :param candidates: Memories of each scope that are found by meaning, before words count too; at least `top_k`.
        :param words_weight: What one point of BM25 counts against the whole spread of the cosines, at least 0.
        :param timeout_seconds: Longest wait for the store, above 0.
        :param namespaces: Parts of the organization's memory that this assistant reads; "" is the part for all.
        :raises ValueError: If a number is out of range.
        """
        if not 1 <= top_k <= candidates or not 0 <= min_score <= 1 or words_weight < 0:
            msg = (
                "need 1 <= top_k <= candidates, 0 <= min_score <= 1 and words_weight >= 0, "
                f"got {top_k=}, {candidates=}, {min_score=} and {words_weight=}"
            )
            raise ValueError(msg)
        if timeout_seconds <= 0 or background_spread <= 0:
            msg = f"need timeout_seconds > 0 and background_spread > 0, got {timeout_seconds=} and {background_spread=}"
            raise ValueError(msg)
        self.memory_store = memory_store
        self.top_k = top_k
        self.min_score = min_score
        self.min_relevance = min_relevance
        self.background_cosine = background_cosine
        self.background_spread = background_spread
        self.candidates = candidates
        self.words_weight = words_weight
        self.timeout_seconds = timeout_seconds
        self.namespaces = list(namespaces)
        self.ranking = MemoryRanking(
            words_weight=words_weight,
            min_score=min_score,
            min_relevance=min_relevance,
            background=Background(background_cosine, background_spread),
        )

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
        :returns: `user_memories` and `organization_memories`: at most `top_k` each, best first, `score` is the cosine;
            `content` is the fact and the statement that it came from.
        """
        user, organization = await self._memories(question, vector, turn)
        return {"user_memories": user, "organization_memories": organization}

    async def _memories(self, question: str, vector: Vector, turn: TurnContext) -> _Memories:
        if reason := self._reason_for_none(vector, turn):
            logger.warning("no memories for this turn: {reason}", reason=reason)
            return [], []
        search = self._search(question, vector, turn)
        return await fail_open("memory", search, ([], []), timeout_seconds=self.timeout_seconds)

    def _reason_for_none(self, vector: Vector, turn: TurnContext) -> str | None:
        if not turn.user_id:
            return "the request has no identity"
        if not turn.learning:
            return "the user switched learning off"
        return None if vector else "the question has no embedding"

    async def _search(self, question: str, vector: Vector, turn: TurnContext) -> _Memories:
        scopes = [
            Scope(turn.tenant_id, user_id=turn.user_id),
            *(Scope(turn.tenant_id, organization_namespace=namespace) for namespace in self.namespaces),
        ]
        user, *organization = await self.memory_store.search(vector, scopes, top_k=self.candidates)
        return self._best(question, turn, user), self._best(question, turn, list(chain(*organization)))

    def _best(self, question: str, turn: TurnContext, found: list[Document]) -> list[Document]:
        return self.ranking.best(question, turn.locale, found, top_k=self.top_k)
