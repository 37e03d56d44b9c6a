"""The passages of documents in Qdrant, searched by meaning and by words."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from haystack import Document, default_from_dict, default_to_dict
from haystack.dataclasses import SparseEmbedding
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import Secret
from haystack_integrations.components.retrievers.qdrant import QdrantEmbeddingRetriever, QdrantSparseEmbeddingRetriever
from haystack_integrations.document_stores.qdrant import QdrantDocumentStore
from haystack_integrations.document_stores.qdrant.converters import DENSE_VECTORS_NAME, SPARSE_VECTORS_NAME
from haystack_integrations.document_stores.qdrant.document_store import QdrantStoreError
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from components.document_access import ACCESS_FIELD, TENANT_FIELD
from components.qdrant_collection import CollectionName, client_settings
from contracts.errors import ConfigurationError, StoreUnavailableError
from contracts.turn import Vector

Filter = dict[str, Any]

_INDEXES = {
    **dict.fromkeys((TENANT_FIELD, ACCESS_FIELD, "meta.source", "meta.content_hash"), models.PayloadSchemaType.KEYWORD),
    "meta.position": models.PayloadSchemaType.INTEGER,
}
_EXISTS = (400, 409)  # what servers answer to the second of two processes that create the collection
# The client passes on what it trips over when whatever listens at the address is no Qdrant, or a broken proxy.
_OUTAGES = (ApiException, QdrantStoreError, TimeoutError, json.JSONDecodeError, UnicodeDecodeError, AssertionError)


class DocumentIndex:
    """
    Passages with a dense and a sparse vector in one collection.

    A store object: components hold it in YAML, the connection is opened by the first use and bound to the event loop of
    that use. Every search takes a filter; nothing here decides who may read what.

    ### Usage example

    ```python
    from components.document_index import DocumentIndex

    index = DocumentIndex("http://127.0.0.1:6333", dimension=384)
    assert DocumentIndex.from_dict(index.to_dict()).collection == "hayrecall_documents"
    ```
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: Secret | None = None,
        collection: CollectionName = "hayrecall_documents",
        dimension: int = 384,
        timeout_seconds: int = 5,
    ) -> None:
        """
        Keep the settings; nothing is opened here.

        :param url: Qdrant's REST address.
        :param api_key: Key for it, if it needs one.
        :param collection: Name of the collection, of letters, digits, `_`, `-` and `.`; made by the first use.
        :param dimension: Length of the dense vectors.
        :param timeout_seconds: Longest wait for one answer of Qdrant.
        """
        self.url = url
        self.api_key = api_key
        self.collection = collection
        self.dimension = dimension
        self.timeout_seconds = timeout_seconds
        self._opening = asyncio.Lock()
        self._store: QdrantDocumentStore | None = None

    def to_dict(self) -> dict[str, Any]:
        """Serialize the settings."""
        return default_to_dict(
            self,
            url=self.url,
            api_key=self.api_key,
            collection=self.collection,
            dimension=self.dimension,
            timeout_seconds=self.timeout_seconds,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build from what `to_dict` gave."""
        return default_from_dict(cls, data)

    async def open(self) -> None:
        """
        Connect, and make the collection where there is none.

        :raises StoreUnavailableError: If Qdrant does not answer.
        :raises ConfigurationError: If the collection holds vectors of another length; nothing is deleted.
        """
        await self._opened()

    async def close(self) -> None:
        """Close the connection; the next use opens it again."""
        store, self._store = self._store, None
        if store is not None:
            await store.close_async()

    async def search_by_meaning(self, vector: Vector, readable: Filter, *, top_k: int) -> list[Document]:
        """
        Find the passages whose dense vectors are nearest.

        :param vector: The question's embedding.
        :param readable: Filter applied inside the query.
        :param top_k: Most passages to return.
        :returns: Passages, best first, `score` is the cosine.
        :raises StoreUnavailableError: If Qdrant does not answer.
        """
        async with self._asked() as store:
            retriever = QdrantEmbeddingRetriever(store, filters=readable, top_k=top_k)
            found: list[Document] = (await retriever.run_async(query_embedding=list(vector.values)))["documents"]
        return found

    async def search_by_words(self, terms: SparseEmbedding, readable: Filter, *, top_k: int) -> list[Document]:
        """
        Find the passages that share the rarest words with a question.

        :param terms: The question's terms.
        :param readable: Filter applied inside the query.
        :param top_k: Most passages to return.
        :returns: Passages with a term in common, best first, `score` is that of BM25.
        :raises StoreUnavailableError: If Qdrant does not answer.
        """
        if not terms.indices:
            return []
        async with self._asked() as store:
            retriever = QdrantSparseEmbeddingRetriever(store, filters=readable, top_k=top_k)
            found: list[Document] = (await retriever.run_async(query_sparse_embedding=terms))["documents"]
        return found

    async def count(self, filters: Filter) -> int:
        """Count the passages that match a filter."""
        async with self._asked() as store:
            return await store.count_documents_by_filter_async(filters)

    async def find(self, filters: Filter) -> list[Document]:
        """Give all passages that match a filter, without an order."""
        async with self._asked() as store:
            return await store.filter_documents_async(filters)

    async def stored(self, ids: Sequence[str]) -> set[str]:
        """Tell which of these passages are stored."""
        async with self._asked() as store:
            return {document.id for document in await store.get_documents_by_id_async(list(ids))}

    async def write(self, passages: Sequence[Document]) -> None:
        """Store passages with their vectors; those with the same ids are replaced."""
        if passages:
            async with self._asked() as store:
                await store.write_documents_async(list(passages), policy=DuplicatePolicy.OVERWRITE)

    async def delete(self, filters: Filter) -> int:
        """Delete what matches a filter; gives the number of passages that went."""
        async with self._asked() as store:
            return await store.delete_by_filter_async(filters)

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[QdrantDocumentStore]:
        store = await self._opened()
        try:
            yield store
        except _OUTAGES as error:
            raise _outage(error) from error

    async def _opened(self) -> QdrantDocumentStore:
        try:
            async with asyncio.timeout(2 * self.timeout_seconds), self._opening:  # many may wait for the same one
                if self._store is None:
                    self._store = await self._connected()
                return self._store
        except _OUTAGES as error:
            raise _outage(error) from error

    async def _connected(self) -> QdrantDocumentStore:
        store = QdrantDocumentStore(
            url=self.url,
            api_key=self.api_key,
            index=self.collection,
            embedding_dim=self.dimension,
            use_sparse_embeddings=True,
            sparse_idf=True,
            return_embedding=False,
            timeout=self.timeout_seconds,
            progress_bar=False,
            client_kwargs=client_settings(),
        )
        try:
            await self._create_if_missing()
            await store.count_documents_async()  # the store connects, and checks what the collection is like
        except BaseException as error:
            await store.close_async()
            if not isinstance(error, ValueError) or isinstance(error, _OUTAGES):
                raise
            msg = (
                f"the collection {self.collection} does not fit vectors of {self.dimension} numbers ({error}); nothing "
                "was changed: set HAYRECALL_EMBEDDING_DIMENSION back, or ingest into a collection of another name"
            )
            raise ConfigurationError(msg) from error
        return store

    async def _create_if_missing(self) -> None:
        """
        Create the collection without ever replacing one.

        The Haystack store would do this by deleting first, which two processes that start together must not do to each
        other.
        """
        key = self.api_key.resolve_value() if self.api_key else None
        client = AsyncQdrantClient(url=self.url, api_key=key, timeout=self.timeout_seconds, **client_settings())
        try:
            if not await client.collection_exists(self.collection):
                await self._create(client)
            indexed = (await client.get_collection(self.collection)).payload_schema
            for field in _INDEXES.keys() - indexed.keys():
                await client.create_payload_index(self.collection, field, _INDEXES[field])
        finally:
            await client.close()

    async def _create(self, client: AsyncQdrantClient) -> None:
        dense = models.VectorParams(size=self.dimension, distance=models.Distance.COSINE)
        sparse = models.SparseVectorParams(modifier=models.Modifier.IDF)
        try:
            await client.create_collection(
                self.collection,
                vectors_config={DENSE_VECTORS_NAME: dense},
                sparse_vectors_config={SPARSE_VECTORS_NAME: sparse},
            )
        except UnexpectedResponse as error:
            if error.status_code not in _EXISTS:
                raise


def _outage(error: BaseException) -> StoreUnavailableError:
    """Say what failed; the Haystack store wraps some errors of Qdrant's client and passes on others."""
    cause = error.__cause__ if isinstance(error, QdrantStoreError) else error
    if isinstance(cause, UnexpectedResponse):
        return StoreUnavailableError(f"Qdrant answered {cause.status_code} for the documents")
    return StoreUnavailableError("Qdrant does not answer for the documents; check HAYRECALL_QDRANT_URL")
