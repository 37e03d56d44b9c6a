"""Order passages with a reranking model behind an HTTP endpoint."""

from typing import Any, Self

import httpx
from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from components.async_only import async_only
from components.tls import shared_tls_context
from contracts.errors import ModelUnavailableError, UnreadableModelOutputError

_OK = 200


@component
class RankEndpoint:
    """
    Ranks documents with a model that reads question and document together.

    For servers with the `/rerank` API that Cohere, Jina, vLLM, Infinity and llama.cpp share: it takes `query` and
    `documents` and answers `results` with `index` and `relevance_score`.

    ### Usage example

    ```python
    from components.rank_endpoint import RankEndpoint

    ranker = RankEndpoint("http://127.0.0.1:8080/v1/rerank", model="bge-reranker-v2-m3", top_k=5)
    assert RankEndpoint.from_dict(ranker.to_dict()).top_k == 5
    ```
    """

    def __init__(
        self, url: str, *, model: str, api_key: Secret | None = None, top_k: int = 8, timeout_seconds: float = 3.0
    ) -> None:
        """
        Configure the ranker; nothing is opened here.

        :param url: The whole address of the endpoint.
        :param model: Name of the model.
        :param api_key: Key for it, if it needs one.
        :param top_k: Most documents to return, at least 1.
        :param timeout_seconds: Longest wait for the answer, above 0.
        :raises ValueError: If a number is out of range.
        """
        if top_k < 1 or timeout_seconds <= 0:
            msg = f"need top_k >= 1 and timeout_seconds > 0, got {top_k=} and {timeout_seconds=}"
            raise ValueError(msg)
        self.url = url
        self.model = model
        self.api_key = api_key
        self.top_k = top_k
        self.timeout_seconds = timeout_seconds
        self._client: httpx.AsyncClient | None = None

    def to_dict(self) -> dict[str, Any]:
        """Serialize the settings."""
        return default_to_dict(
            self,
            url=self.url,
            model=self.model,
            api_key=self.api_key,
            top_k=self.top_k,
            timeout_seconds=self.timeout_seconds,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build from what `to_dict` gave."""
        return default_from_dict(cls, data)

    async def warm_up_async(self) -> None:
        """Open the client."""
        self._opened()

    async def close_async(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """
        Not available: see `run_async`.

        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """
        Rank documents.

        :param query: What they were found with.
        :param documents: Documents with text.
        :returns: `documents`: at most `top_k`, best first; `score` stays the one they were found with.
        :raises ModelUnavailableError: If the endpoint does not answer, or not with 200.
        :raises UnreadableModelOutputError: If the answer is no ranking.
        """
        if not documents:
            return {"documents": []}
        body = {"model": self.model, "query": query, "documents": [document.content or "" for document in documents]}
        try:
            response = await self._opened().post(self.url, json=body)
        except httpx.HTTPError as error:
            msg = f"the rank endpoint does not answer ({type(error).__name__}); check its address"
            raise ModelUnavailableError(msg) from error
        if response.status_code != _OK:
            msg = f"the rank endpoint answered {response.status_code}"
            raise ModelUnavailableError(msg)
        try:
            scores = {int(row["index"]): float(row["relevance_score"]) for row in response.json()["results"]}
            ranked = sorted(scores, key=lambda index: (-scores[index], index))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            msg = "the rank endpoint answered with something that is no ranking"
            raise UnreadableModelOutputError(msg) from error
        return {"documents": [documents[index] for index in ranked if 0 <= index < len(documents)][: self.top_k]}

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            key = self.api_key.resolve_value() if self.api_key else None
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            self._client = httpx.AsyncClient(headers=headers, verify=shared_tls_context(), timeout=self.timeout_seconds)
        return self._client
