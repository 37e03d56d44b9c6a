"""Take documents into the index: the one way in, for the command and the endpoint."""

import hashlib
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Literal

import pypdf
from haystack.dataclasses import ByteStream
from pypdf.errors import PyPdfError

from components.document_access import access_tags, all_of, in_tenant, tenant_tag
from components.ingest_progress import IngestProgress
from components.passage_writer import PassageWriter
from components.pipeline_file import LoadedPipeline
from components.text_encoding import as_utf8
from contracts.errors import ConfigurationError, RejectedRequestError, StoreUnavailableError

MIME_TYPES = {
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".csv": "text/csv",
    ".json": "application/json",
}
_PLAIN = {MIME_TYPES[ending] for ending in (".txt", ".md", ".csv")}


@dataclass(frozen=True)
class IngestOutcome:
    """What became of a document; `reason` says why it was skipped."""

    source: str
    status: Literal["stored", "unchanged", "skipped"]
    passages: int = 0
    reason: str = ""


@dataclass(frozen=True)
class StoredDocument:
    """A document in the index; no `groups` means that everyone in the tenant may read it."""

    source: str
    title: str
    groups: tuple[str, ...]
    passages: int
    ingested_at: datetime


class DocumentIngestor:
    """
    Runs the ingest pipeline for one document after the other and tells what is stored.

    A document is known by its source, a name of the caller's choice within the tenant. The same content again changes
    nothing; other content, other groups or another embedding model replace it.

    ### Usage example

    ```python
    from components.document_ingestor import MIME_TYPES

    assert MIME_TYPES[".md"] == "text/markdown"
    ```
    """

    def __init__(self, loaded: LoadedPipeline) -> None:
        """
        Keep the pipeline; nothing is opened here.

        :param loaded: The ingest pipeline, with the input `sources` and a `PassageWriter`.
        :raises ConfigurationError: If it has no `PassageWriter`.
        """
        self._loaded = loaded
        components = [component for _, component in loaded.pipeline.walk()]
        writers = [component for component in components if isinstance(component, PassageWriter)]
        if len(writers) != 1:
            msg = f"the ingest pipeline needs exactly one PassageWriter, and has {len(writers)}"
            raise ConfigurationError(msg)
        self._index = writers[0].document_index
        self._shaped_by = [component.fingerprint for component in components if hasattr(component, "fingerprint")]

    async def open(self) -> None:
        """
        Connect.

        :raises StoreUnavailableError: If Qdrant does not answer.
        :raises ConfigurationError: If the collection does not fit the embedding model.
        """
        for name in ("haystack.components.converters", "pypdf"):
            # They quote the beginning of what they cannot read; the outcome says what is wrong without that.
            logging.getLogger(name).setLevel(logging.CRITICAL)
        await self._loaded.pipeline.warm_up_async()
        await self._index.open()

    async def close(self) -> None:
        """Release the connections."""
        await self._loaded.pipeline.close_async()

    async def ingest(
        self,
        data: bytes,
        source: str,
        *,
        tenant_id: str,
        groups: Sequence[str] = (),
        progress: IngestProgress | None = None,
    ) -> IngestOutcome:
        """
        Store a document; one that is stored already in this form is left as it is.

        :param data: Content of the file.
        :param source: Its name, such as a path; the ending tells the type.
        :param tenant_id: The tenant that it belongs to.
        :param groups: Groups that may read it; none for everyone in the tenant.
        :param progress: Is told how many of its passages are done.
        :returns: What became of it. What cannot be read is skipped, with the reason.
        :raises EmbedderUnavailableError: If the embedder cannot be asked; the next call goes on where this one stopped.
        :raises StoreUnavailableError: If Qdrant does not answer; likewise.
        """
        mime_type = MIME_TYPES.get(PurePath(source).suffix.lower())
        if mime_type is None:
            return IngestOutcome(source, "skipped", reason=f"its type is none of {', '.join(MIME_TYPES)}")
        access = access_tags(groups)
        version = self._version(data, access)
        if passages := await self._passages_of_complete(source, tenant_id, version):
            return IngestOutcome(source, "unchanged", passages)
        meta = {
            "source": source,
            "tenant_id": tenant_tag(tenant_id),
            "access": access,
            "groups": sorted(set(groups)),
            "content_hash": version,
            "mime_type": mime_type,
            "ingested_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        text = as_utf8(data) if mime_type in _PLAIN else data
        run = self._loaded.run_data(sources=[ByteStream(text, meta=meta, mime_type=mime_type)], progress=progress)
        try:
            result = await self._loaded.pipeline.run_async(run, include_outputs_from=self._loaded.reported)
        except RejectedRequestError as error:
            return IngestOutcome(source, "skipped", reason=str(error))
        stored = self._loaded.output(result, "stored") or 0
        if not stored:
            return IngestOutcome(source, "skipped", reason=_why_nothing(data, mime_type))
        return IngestOutcome(source, "stored", stored)

    async def ready(self) -> bool:
        """Tell whether the index answers."""
        try:
            await self._index.open()
            await self._index.count(in_tenant(""))
        except StoreUnavailableError:
            return False
        return True

    async def documents(self, tenant_id: str) -> list[StoredDocument]:
        """List the complete documents of a tenant by source."""
        first = {"field": "meta.position", "operator": "==", "value": 0}
        found = [document.meta for document in await self._index.find(all_of(in_tenant(tenant_id), first))]
        return sorted((_stored_document(meta) for meta in found), key=lambda document: document.source)

    async def delete(self, tenant_id: str, source: str) -> int:
        """
        Delete a document, whichever of its versions are stored.

        :returns: The number of passages that went; 0 if there is no such document.
        """
        return await self._index.delete(_from(source, tenant_id))

    async def _passages_of_complete(self, source: str, tenant_id: str, version: str) -> int:
        """Give the number of passages if this version is stored whole and alone, else 0."""
        same = {"field": "meta.content_hash", "operator": "==", "value": version}
        first = {"field": "meta.position", "operator": "==", "value": 0}
        found = await self._index.find(all_of(_from(source, tenant_id), same, first))
        if not found:
            return 0
        passages = int(found[0].meta["passages"])
        return passages if await self._index.count(_from(source, tenant_id)) == passages else 0

    def _version(self, data: bytes, access: Sequence[str]) -> str:
        """Hash all that shapes the stored passages."""
        digest = hashlib.sha256(data)
        digest.update("\n".join([*self._shaped_by, *access]).encode())
        return digest.hexdigest()


def _from(source: str, tenant_id: str) -> dict[str, Any]:
    return all_of(in_tenant(tenant_id), {"field": "meta.source", "operator": "==", "value": source})


def _stored_document(meta: dict[str, Any]) -> StoredDocument:
    return StoredDocument(
        source=meta["source"],
        title=meta["title"],
        groups=tuple(meta["groups"]),
        passages=meta["passages"],
        ingested_at=datetime.fromisoformat(meta["ingested_at"]),
    )


def _why_nothing(data: bytes, mime_type: str) -> str:
    """Tell why a document gave no passage; the converters only log it."""
    if not data.strip():
        return "it is empty"
    if mime_type != MIME_TYPES[".pdf"]:
        return f"no text can be read from it as {mime_type}"
    try:
        encrypted = pypdf.PdfReader(io.BytesIO(data)).is_encrypted
    except (PyPdfError, ValueError, OSError):
        return "it is no PDF, or damaged"
    return "it is encrypted" if encrypted else "it holds no text, only images or nothing at all"
