"""Embed the condensed question, once for all searches."""

from typing import Any

from haystack import component
from haystack.components.embedders import OpenAITextEmbedder

from components.async_only import async_only
from components.embedding_call import embed, open_embedder
from components.fail_open import fail_open
from contracts.turn import Vector


@component
class QuestionEmbedder:
    """
    Embeds the condensed question for the searches in memories and documents.

    When the embedder cannot be asked, the vector is empty and counted as a stage that failed open: no memories are
    found then, and documents by their words only.

    ### Usage example

    ```python
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.utils import Secret

    from components.question_embedder import QuestionEmbedder

    embedder = OpenAITextEmbedder(api_key=Secret.from_token("unused"), model="multilingual-e5-small", prefix="query: ")
    question_embedder = QuestionEmbedder(embedder, dimension=384)

    assert question_embedder.embedder.prefix == "query: "
    ```
    """

    def __init__(
        self, embedder: OpenAITextEmbedder, *, dimension: int | None = None, timeout_seconds: float = 5.0
    ) -> None:
        """
        Configure the embedder; nothing is opened here.

        :param embedder: Haystack embedder for an OpenAI endpoint, with the model's prefix for questions.
        :param dimension: Length that vectors must have; None for any.
        :param timeout_seconds: Longest wait for the vector with all retries, above 0.
        :raises ValueError: If a number is out of range.
        """
        if timeout_seconds <= 0 or (dimension is not None and dimension < 1):
            msg = f"need timeout_seconds > 0 and dimension >= 1, got {timeout_seconds=} and {dimension=}"
            raise ValueError(msg)
        self.embedder = embedder
        self.dimension = dimension
        self.timeout_seconds = timeout_seconds

    async def warm_up_async(self) -> None:
        """Open the embedder's client."""
        await open_embedder(self.embedder)

    async def close_async(self) -> None:
        """Close the embedder's client."""
        await self.embedder.close_async()

    @component.output_types(vector=Vector)
    def run(self, question: str) -> dict[str, Any]:
        """
        Not available: see `run_async`.

        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(vector=Vector)
    async def run_async(self, question: str) -> dict[str, Any]:
        """
        Embed the question.

        :param question: The condensed question.
        :returns: `vector`: the embedding; empty if the embedder could not be asked in time.
        """
        return {
            "vector": await fail_open("embed", self._embed(question), Vector(), timeout_seconds=self.timeout_seconds)
        }

    async def _embed(self, question: str) -> Vector:
        (values,) = await embed(self.embedder, [question], dimension=self.dimension)
        return Vector(values)
