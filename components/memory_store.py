"""Keep the memories of users and organizations, each strictly apart, in a format that mem0 reads."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

from haystack import Document, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace

from components.memory_cursor import MemoryCursor
from components.memory_record import MemoryRecord
from components.memory_scope import Scope
from components.qdrant_collection import (
    CollectionName,
    Delete,
    Insert,
    Mark,
    Point,
    QdrantCollection,
    Replace,
    Which,
    Write,
)
from contracts.errors import ConfigurationError, StaleMemoryError, StoreUnavailableError
from contracts.settings import Settings
from contracts.turn import Vector

__all__ = ["MemoryRecord", "MemoryStore", "Scope"]

_KEYWORDS = ("tenant_id", "user_id", "organization_id", "agent_id", "run_id", "status", "superseded_by")
_TIMES = ("created_at",)
_CURRENT = {"status": "current"}
_PAGE = 1000  # memories


class MemoryStore:
    """
    Holds memories in one Qdrant collection that stock `mem0.Memory` can read as well.

    Every call names a `Scope` and sees nothing outside it. Writes are single batches; searches for several owners are
    one request. A store that could not reach Qdrant opens itself on a later call. Use one store per event loop.

    ### Usage example

    ```python
    from components.memory_store import MemoryStore

    store = MemoryStore("http://127.0.0.1:6333", dimension=384)  # nothing is opened yet
    assert MemoryStore.from_dict(store.to_dict()).collection == "hayrecall_memories"
    ```
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: Secret | None = None,
        collection: CollectionName = "hayrecall_memories",
        dimension: int = 384,
        timeout_seconds: float = 10,
    ) -> None:
        """
        Configure the store; nothing is opened here.

        :param url: Qdrant's REST address; a server needs version 1.17 or newer.
        :param api_key: Its key, if it needs one.
        :param collection: Name of the collection, of letters, digits, `_`, `-` and `.`.
        :param dimension: Length of the vectors.
        :param timeout_seconds: Longest wait for an answer; rounded up to whole seconds.
        """
        self.url = url
        self.api_key = api_key
        self.collection = collection
        self.dimension = dimension
        self.timeout_seconds = timeout_seconds
        self._points = QdrantCollection(
            url, collection, api_key=api_key, dimension=dimension, timeout_seconds=timeout_seconds
        )

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """
        Make the store that the settings describe; nothing is opened.

        :raises ConfigurationError: If there is no address.
        """
        if settings.qdrant_url is None:
            msg = "the memory store has no address: set HAYRECALL_QDRANT_URL"
            raise ConfigurationError(msg)
        api_key = Secret.from_token(settings.qdrant_api_key.get_secret_value()) if settings.qdrant_api_key else None
        return cls(settings.qdrant_url, api_key=api_key, dimension=settings.embedding_dimension)

    def to_dict(self) -> dict[str, Any]:
        """Serialize for a pipeline's YAML."""
        return default_to_dict(
            self,
            url=self.url,
            api_key=self.api_key.to_dict() if self.api_key else None,
            collection=self.collection,
            dimension=self.dimension,
            timeout_seconds=self.timeout_seconds,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Deserialize from a pipeline's YAML."""
        deserialize_secrets_inplace(data.get("init_parameters", {}), ["api_key"])
        return default_from_dict(cls, data)

    async def open(self) -> None:
        """
        Connect, and create the collection and its indexes where they are missing; does nothing when open.

        :raises StoreUnavailableError: If Qdrant does not answer.
        :raises ConfigurationError: If the collection holds vectors of another dimension; it is left as it is.
        """
        await self._points.open(keywords=_KEYWORDS, times=_TIMES)

    async def close(self) -> None:
        """Release the connections; a later call opens them again."""
        await self._points.close()

    async def ready(self) -> bool:
        """Tell whether Qdrant answers and the collection can be used."""
        try:
            return await (await self._opened()).exists()
        except (StoreUnavailableError, ConfigurationError):
            return False

    async def search(self, vector: Vector, scopes: Sequence[Scope], *, top_k: int) -> list[list[Document]]:
        """
        Find the memories of several owners that are most similar to a query, in one request.

        :param vector: Embedding of the query.
        :param scopes: The owners.
        :param top_k: Most memories for each, at least 1.
        :returns: A list for each scope, best first: `content` is the text, `score` the cosine, `meta` the record's
            other fields. Superseded memories are not found.
        """
        return await self._nearest([(vector.values, _which(scope, _CURRENT)) for scope in scopes], top_k)

    async def nearest(self, vectors: Sequence[Vector], scope: Scope, k: int) -> list[list[Document]]:
        """
        Find, for each of several vectors, the `k` most similar current memories of one owner, in one request.

        :returns: A list for each vector, as `search` gives them.
        """
        return await self._nearest([(vector.values, _which(scope, _CURRENT)) for vector in vectors], k)

    async def _nearest(self, queries: Sequence[tuple[Sequence[float], Which]], limit: int) -> list[list[Document]]:
        if not queries:
            return []
        found = await (await self._opened()).nearest(queries, limit)
        return [[_document(point) for point in points] for points in found]

    async def get(self, scope: Scope, memory_id: str) -> MemoryRecord | None:
        """Give one memory of the owner, current or superseded; None if it is unknown or another's."""
        return await self._get(scope, memory_id)

    async def history(self, scope: Scope, memory_id: str) -> Sequence[MemoryRecord]:
        """Give what a memory superseded, directly and through others, newest first; nothing for an unknown one."""
        points = await (await self._opened()).find(_which(scope, ids=_uuids([memory_id])), limit=1)
        older = [_record(point) for point in await self._older(scope, points)]
        return sorted(older, key=lambda record: record.superseded_at or record.created_at, reverse=True)

    async def every(self, scope: Scope, *, include_superseded: bool = True) -> AsyncIterator[MemoryRecord]:
        """Go through all memories of an owner, newest first."""
        cursor: str | None = None
        while True:
            page, cursor = await self.list(scope, limit=_PAGE, cursor=cursor, include_superseded=include_superseded)
            for record in page:
                yield record
            if cursor is None:
                return

    async def list(
        self, scope: Scope, *, limit: int = 50, cursor: str | None = None, include_superseded: bool = False
    ) -> tuple[list[MemoryRecord], str | None]:
        """
        List an owner's memories, newest first; writes between two pages neither repeat nor hide a memory.

        :param limit: Most memories to return, at least 1.
        :param cursor: What the page before returned.
        :param include_superseded: Also list what no longer holds.
        :returns: The page, and the cursor of the next one or None.
        :raises ValueError: If the cursor is none of ours.
        """
        place = MemoryCursor.load(cursor) if cursor else None
        found = await (await self._opened()).find(
            _which(scope, {} if include_superseded else _CURRENT, not_ids=place.shown if place else ()),
            limit=limit + 1,
            newest_by="created_at",
            not_after=place.created_at if place else None,
        )
        page = [_record(point) for point in found[:limit]]
        return page, MemoryCursor.after(page, place).dump() if len(found) > limit else None

    async def has_run(self, scope: Scope, run_id: str) -> bool:
        """Tell whether any memory of the owner came from this run."""
        return bool(await (await self._opened()).find(_which(scope, {"run_id": run_id}), limit=1))

    async def apply(
        self,
        scope: Scope,
        upserts: Sequence[MemoryRecord],
        superseded: Sequence[tuple[str, str, datetime]] = (),
    ) -> None:
        """
        Store new memories and mark those that they supersede, in one request; repeating it changes nothing more.

        A record whose id is stored already is left as it is, so that a late repetition undoes no edit. Marks on
        memories that are gone, superseded already or another's have no effect.

        :param upserts: New records with their vectors.
        :param superseded: Id of the memory that no longer holds, id of the one that replaces it, and since when.
        """
        writes: list[Write] = [Insert([_point(record, scope) for record in upserts])] if upserts else []
        for memory_id, by_id, at in superseded:
            mark = {"status": "superseded", "superseded_by": by_id, "superseded_at": at.isoformat()}
            writes.append(Mark(_which(scope, _CURRENT, ids=_uuids([memory_id])), mark))
        await (await self._opened()).write(writes)

    async def edit(
        self, scope: Scope, memory_id: str, text: str, vector: Vector, *, etag: str | None = None
    ) -> MemoryRecord | None:
        """
        Replace the text of a current memory; its id stays, and the version before is kept as superseded.

        :param text: The new text.
        :param vector: Its embedding.
        :param etag: The version that the caller read; None edits whichever is stored.
        :returns: The new version; None if the memory is unknown or another's.
        :raises StaleMemoryError: If it is another version, superseded, or changed by somebody else meanwhile.
        """
        old = await self._get(scope, memory_id, with_vector=True)
        if old is None:
            return None
        if old.superseded_by or etag not in (None, old.etag):
            msg = f"memory {old.id} is not the version that was read"
            raise StaleMemoryError(msg)
        now = datetime.now(UTC)
        new, history = old.edited(text, vector.values, now), old.kept_as_history(now)
        unchanged = _which(scope, {**_CURRENT, "updated_at": old.payload(scope)["updated_at"]})
        points = await self._opened()
        await points.write([Replace(_point(new, scope), unchanged), Insert([_point(history, scope)])])
        stored = await self._get(scope, memory_id)
        if stored is None:  # deleted meanwhile: the copy must not outlive it
            await points.write([Delete(_which(scope, ids=[history.id]))])
            return None
        if stored.etag != new.etag:
            msg = f"memory {old.id} was changed by somebody else meanwhile"
            raise StaleMemoryError(msg)
        return stored

    async def delete(self, scope: Scope, ids: Sequence[str]) -> int:
        """
        Delete memories together with all that they superseded: who deletes a memory expects its history gone.

        :returns: How many of `ids` there were; unknown ones and those of others are passed over.
        """
        named = await (await self._opened()).find(_which(scope, ids=_uuids(ids)), limit=max(len(ids), 1))
        going = {point.id for point in named} | {point.id for point in await self._older(scope, named)}
        if going:
            await self._points.write([Delete(_which(scope, ids=sorted(going)))])
        return len(named)

    async def delete_run(self, scope: Scope, run_id: str) -> None:
        """Delete every memory of the owner that came from this run."""
        await (await self._opened()).write([Delete(_which(scope, {"run_id": run_id}))])

    async def delete_all(self, scope: Scope) -> None:
        """Delete every memory of the owner, superseded ones included."""
        await (await self._opened()).write([Delete(_which(scope))])

    async def _opened(self) -> QdrantCollection:
        await self.open()
        return self._points

    async def _older(self, scope: Scope, points: Sequence[Point]) -> Sequence[Point]:
        """Find what these points superseded, and what that superseded before."""
        known, older = {point.id for point in points}, []
        while known:
            which = _which(scope, {"superseded_by": sorted(known)}, not_ids=sorted(known))
            found = await (await self._opened()).find(which, limit=_PAGE)
            if not found:
                break
            known |= {point.id for point in found}
            older += found
        return older

    async def _get(self, scope: Scope, memory_id: str, *, with_vector: bool = False) -> MemoryRecord | None:
        which = _which(scope, ids=_uuids([memory_id]))
        found = await (await self._opened()).find(which, limit=1, with_vector=with_vector)
        return _record(found[0]) if found else None


def _which(
    scope: Scope,
    equal: dict[str, Any] | None = None,
    *,
    ids: Sequence[str] | None = None,
    not_ids: Sequence[str] = (),
) -> Which:
    owner = {"tenant_id": scope.tenant_token, scope.owner_field: scope.owner_token}
    return Which({**(equal or {}), **owner}, ids, not_ids)


def _uuids(ids: Sequence[str]) -> list[str]:
    """Keep what can be an id at all: the others are as unknown as a wrong one."""
    known = []
    for memory_id in ids:
        try:
            known.append(str(UUID(memory_id)))
        except ValueError:
            continue
    return known


def _point(record: MemoryRecord, scope: Scope) -> Point:
    return Point(record.id, record.payload(scope), record.vector)


def _record(point: Point) -> MemoryRecord:
    return MemoryRecord.from_payload(point.id, point.payload, point.vector)


def _document(point: Point) -> Document:
    meta = {name: value for name, value in point.payload.items() if name != "data"}
    return Document(id=point.id, content=point.payload["data"], meta=meta, score=point.score)
