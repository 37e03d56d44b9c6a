"""Embed the passages of a document and store them, so that a broken-off run can go on where it stopped."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from haystack import Document, component
from haystack.components.embedders import OpenAITextEmbedder

from components.async_only import async_only
from components.document_access import all_of
from components.document_index import DocumentIndex, Filter
from components.embedding_call import embed, open_embedder
from components.for_each import for_each
from components.ingest_progress import IngestProgress
from components.sparse_encoder import encode_passage

_IDENTITY = ("tenant_id", "source")


@component
class PassageWriter:
    """
    Writes the passages of one document with dense and sparse vectors, replacing those of its older versions.

    A passage's id follows from tenant, source, content and position: writing twice is one effect, and what is stored
    already is not embedded again. The first passage is written last: where it is, the document is complete. Only then
    go the passages of older versions.

    ### Usage example

    ```python
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.utils import Secret

    from components.document_index import DocumentIndex
    from components.passage_writer import PassageWriter

    writer = PassageWriter(
        DocumentIndex("http://127.0.0.1:6333"),
        OpenAITextEmbedder(api_key=Secret.from_token("unused"), model="multilingual-e5-small", prefix="passage: "),
        concurrency=4,
    )
    assert writer.fingerprint == "multilingual-e5-small/384/passage: "
    ```
    """

    def __init__(
        self, document_index: DocumentIndex, embedder: OpenAITextEmbedder, *, batch_size: int = 32, concurrency: int = 4
    ) -> None:
        """
        Configure the writer; nothing is opened here.

        :param document_index: Where the passages go.
        :param embedder: Haystack embedder for an OpenAI endpoint, with the model's prefix for passages.
        :param batch_size: Passages in one embedding request, at least 1.
        :param concurrency: Embedding requests at a time, at least 1.
        :raises ValueError: If a number is out of range.
        """
        if batch_size < 1 or concurrency < 1:
            msg = f"need batch_size >= 1 and concurrency >= 1, got {batch_size=} and {concurrency=}"
            raise ValueError(msg)
        self.document_index = document_index
        self.embedder = embedder
        self.batch_size = batch_size
        self.concurrency = concurrency

    @property
    def fingerprint(self) -> str:
        """What, when it changes, makes stored vectors outdated."""
        return f"{self.embedder.model}/{self.document_index.dimension}/{self.embedder.prefix}"

    async def warm_up_async(self) -> None:
        """Open the embedder's client; the index opens with its first use."""
        await open_embedder(self.embedder)

    async def close_async(self) -> None:
        """Close the clients."""
        await self.embedder.close_async()
        await self.document_index.close()

    @component.output_types(stored=int)
    def run(self, documents: list[Document], progress: IngestProgress | None = None) -> dict[str, Any]:
        """
        Not available: see `run_async`.

        :raises NotImplementedError: Always.
        """
        raise async_only(self)

    @component.output_types(stored=int)
    async def run_async(self, documents: list[Document], progress: IngestProgress | None = None) -> dict[str, Any]:
        """
        Write the passages of one document.

        :param documents: All its passages; `meta` with `tenant_id`, `source`, `content_hash`, `position`, `access` and
            `locale`. None write nothing and delete nothing.
        :param progress: Is told after each batch.
        :returns: `stored`: how many passages the document has now.
        :raises EmbedderUnavailableError: If the embedder cannot be asked; what was written stays for the next run.
        :raises StoreUnavailableError: If Qdrant does not answer; likewise.
        :raises RejectedRequestError: If the embedder rejects a passage.
        """
        if not documents:
            return {"stored": 0}
        passages = [replace(document, id=_passage_id(document)) for document in documents]
        done = 0

        async def write(batch: Sequence[Document]) -> None:
            nonlocal done
            await self._write(batch)
            done += len(batch)
            if progress is not None:
                progress.tell(done, len(passages))

        first, rest = passages[:1], passages[1:]
        batches = (rest[start : start + self.batch_size] for start in range(0, len(rest), self.batch_size))
        await for_each(write, batches, at_a_time=self.concurrency)
        await write(first)
        await self.document_index.delete(_older_versions(first[0]))
        return {"stored": len(passages)}

    async def _write(self, batch: Sequence[Document]) -> None:
        known = await self.document_index.stored([passage.id for passage in batch])
        new = [passage for passage in batch if passage.id not in known]
        texts = [passage.content or "" for passage in new]
        vectors = await embed(self.embedder, texts, dimension=self.document_index.dimension)
        await self.document_index.write(
            [
                replace(passage, embedding=list(vector), sparse_embedding=encode_passage(text, passage.meta["locale"]))
                for passage, text, vector in zip(new, texts, vectors, strict=True)
            ]
        )


def _passage_id(passage: Document) -> str:
    parts = [str(passage.meta[name]) for name in ("tenant_id", "source", "content_hash", "position")]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _older_versions(passage: Document) -> Filter:
    same = [
        {"field": f"meta.{name}", "operator": "==", "value": passage.meta[name]} for name in ("tenant_id", "source")
    ]
    return all_of(*same, {"field": "meta.content_hash", "operator": "!=", "value": passage.meta["content_hash"]})
