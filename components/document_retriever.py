"""Find the passages that a question is about, among those that the asking person may read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from haystack import Document, component
from haystack.components.embedders import OpenAITextEmbedder

from components.async_only import async_only
from components.document_access import in_tenant, readable_by
from components.document_index import DocumentIndex
from components.embedding_call import embed, open_embedder
from components.fail_open import fail_open
from components.fusion import fuse
from components.language import detect_locale
from components.sparse_encoder import encode_question
from contracts.errors import EmbedderUnavailableError, NoAccessibleKnowledgeError, StoreUnavailableError
from contracts.turn import TurnContext, Vector


class Ranker(Protocol):
    """What we need of a ranker: our `RankEndpoint`, or Haystack's `LLMRanker` with a task model."""

    async def run_async(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """Give the documents under `documents`, best first."""
        ...


@component
class DocumentRetriever:
    """
    Searches the documents by meaning and by words, within tenant and groups, and joins both orders.

    The condensed question is what is searched with, never a client's message. Without an embedding the words alone
    decide; the weight of the words and the number of candidates are settings.

    ### Usage example

    ```python
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.utils import Secret

    from components.document_index import DocumentIndex
    from components.document_retriever import DocumentRetriever

    retriever = DocumentRetriever(
        DocumentIndex("http://127.0.0.1:6333"),
        embedder=OpenAITextEmbedder(api_key=Secret.from_token("unused"), prefix="query: "),
        top_k=5,
    )
    assert retriever.candidates >= retriever.top_k
    ```
    """

    def __init__(
        self,
        document_index: DocumentIndex,
        *,
        embedder: OpenAITextEmbedder | None = None,
        ranker: Ranker | None = None,
        top_k: int = 8,
        candidates: int = 50,
        words_weight: float = 0.03,
        words_half_at: float = 10.0,
        hybrid: bool = True,
        timeout_seconds: float = 5.0,
    ) -> None:
        """
        Configure the retriever; nothing is opened here.

        :param document_index: Where the passages are.
        :param embedder: Embeds queries that come without a vector; None if there are none.
        :param ranker: Orders the candidates anew; when it fails, their order stays. None for no ranker.
        :param top_k: Most passages to return, at least 1.
        :param candidates: Passages that each search finds before they are joined, at least `top_k`.
        :param words_weight: What one point of BM25 counts against the whole spread of the cosines, at least 0.
        :param words_half_at: BM25 score that counts half, smaller ones less and larger ones nearly in full, at least 0.
        :param hybrid: Search by words too; off, a question without embedding finds nothing.
        :param timeout_seconds: Longest wait for Qdrant, and for the embedding of such a query, above 0.
        :raises ValueError: If a number is out of range.
        """
        if not 1 <= top_k <= candidates or words_weight < 0 or words_half_at < 0 or timeout_seconds <= 0:
            msg = (
                "need 1 <= top_k <= candidates, words_weight >= 0, words_half_at >= 0 and timeout_seconds > 0, "
                f"got {top_k=}, {candidates=}, {words_weight=}, {words_half_at=} and {timeout_seconds=}"
            )
            raise ValueError(msg)
        self.document_index = document_index
        self.embedder = embedder
        self.ranker = ranker
        self.top_k = top_k
        self.candidates = candidates
        self.words_weight = words_weight
        self.words_half_at = words_half_at
        self.hybrid = hybrid
        self.timeout_seconds = timeout_seconds
        self._warm = False

    async def warm_up_async(self) -> None:
        """
        Open the embedder's client and load what tells languages apart.

        The index opens with the first search, so that a server starts without Qdrant.
        """
        if self.embedder is not None:
            await open_embedder(self.embedder)
        if self.hybrid and not self._warm:
            self._warm = True
            await asyncio.to_thread(detect_locale, "Which language is this?", "en")

    async def close_async(self) -> None:
        """Close the clients."""
        await self.document_index.close()
        for part in (self.embedder, self.ranker):
            if part is not None and hasattr(part, "close_async"):
                await part.close_async()

    @component.output_types(documents=list[Document])
    def run(self, question: str, vector: Vector, turn: TurnContext) -> dict[str, Any]:
        """
        Not available: see `run_async`.

        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(documents=list[Document])
    async def run_async(self, question: str, vector: Vector, turn: TurnContext) -> dict[str, Any]:
        """
        Search with the condensed question.

        :param question: The condensed question.
        :param vector: Its embedding; empty if the embedder could not be asked.
        :param turn: Who asks.
        :returns: `documents`: at most `top_k` passages, best first, `meta` with source, title, page and position. Empty
            for a tenant without documents.
        :raises NoAccessibleKnowledgeError: If there are documents, and none that this person may read.
        :raises EmbedderUnavailableError: If there is no embedding, and no search by words either.
        :raises StoreUnavailableError: If Qdrant does not answer.
        """
        async with self._in_time():
            found = await self._candidates(question, vector, turn)
            if not found:
                await self._refuse_if_locked_out(question, turn)
        return {"documents": await self._ranked(question, found)}

    async def search(self, query: str, vector: Vector | None, turn: TurnContext) -> list[Document]:
        """
        Search with another query in the same turn.

        :param query: A query of the model's own.
        :param vector: Its embedding; None to have it embedded here.
        :param turn: Who asks.
        :returns: As `run_async`.
        :raises EmbedderUnavailableError: As `run_async`.
        :raises StoreUnavailableError: As `run_async`.
        """
        if vector is None:
            vector = await fail_open("embed", self._embed(query), Vector(), timeout_seconds=self.timeout_seconds)
        async with self._in_time():
            found = await self._candidates(query, vector, turn)
        return await self._ranked(query, found)

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.timeout_seconds):
                yield
        except TimeoutError as error:
            msg = f"Qdrant did not answer for the documents within {self.timeout_seconds:g} s"
            raise StoreUnavailableError(msg) from error

    async def _embed(self, query: str) -> Vector:
        if self.embedder is None:
            return Vector()
        (values,) = await embed(self.embedder, [query], dimension=self.document_index.dimension)
        return Vector(values)

    async def _candidates(self, question: str, vector: Vector, turn: TurnContext) -> list[Document]:
        if not vector and not self.hybrid:
            msg = "there is no embedding of the question, and this pipeline does not search by words"
            raise EmbedderUnavailableError(msg)
        readable = readable_by(turn.tenant_id, turn.groups)
        by_meaning, by_words = await asyncio.gather(
            self._by_meaning(vector, readable), self._by_words(question, turn, readable)
        )
        kept = self.top_k if self.ranker is None else self.candidates
        return fuse(
            by_meaning,
            by_words,
            top_k=kept,
            words_weight=self.words_weight,
            words_half_at=self.words_half_at,
        )

    async def _ranked(self, question: str, found: list[Document]) -> list[Document]:
        if self.ranker is None:
            return found
        ranked = self.ranker.run_async(query=question, documents=found)
        documents: list[Document] = (await fail_open("ranker", ranked, {"documents": found}))["documents"]
        return documents[: self.top_k]

    async def _by_meaning(self, vector: Vector, readable: dict[str, Any]) -> list[Document]:
        if not vector:
            return []
        return await self.document_index.search_by_meaning(vector, readable, top_k=self.candidates)

    async def _by_words(self, question: str, turn: TurnContext, readable: dict[str, Any]) -> list[Document]:
        if not self.hybrid:
            return []
        terms = encode_question(question, detect_locale(question, turn.locale))
        return await self.document_index.search_by_words(terms, readable, top_k=self.candidates)

    async def _refuse_if_locked_out(self, question: str, turn: TurnContext) -> None:
        """Tell "nothing here is meant for you" from "nothing matches" and "there is nothing"."""
        held, readable = await asyncio.gather(
            self.document_index.count(in_tenant(turn.tenant_id)),
            self.document_index.count(readable_by(turn.tenant_id, turn.groups)),
        )
        if held and not readable:
            msg = "the collection holds documents, and the groups of this user may read none of them"
            raise NoAccessibleKnowledgeError(msg, question=question)
