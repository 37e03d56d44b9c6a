"""Talk to one Qdrant collection that mem0 can use as well; the one file that imports mem0 and qdrant_client."""

import asyncio
import contextlib
import json
import math
import os
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import httpx
from haystack.utils import Secret
from pydantic import Field
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from components.tls import shared_tls_context
from contracts.errors import ConfigurationError, RejectedRequestError, StoreUnavailableError

T = TypeVar("T")
CollectionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$")]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EXISTS = (400, 409)  # what servers answer to the second of two processes that create the collection
_REJECTED = (400, 409, 413, 422)
_NONSENSE = (json.JSONDecodeError, UnicodeDecodeError, AssertionError)  # what the client trips over if it is no Qdrant


@dataclass(frozen=True)
class Which:
    """
    Chooses points: each field equals its value, or one of its values; nothing is interpreted, also not `*`.

    `ids` keeps to these points, `not_ids` leaves these out.
    """

    equal: Mapping[str, str | Sequence[str]]
    ids: Sequence[str] | None = None
    not_ids: Sequence[str] = ()


@dataclass(frozen=True)
class Point:
    """One point: what is written, and what is found; `score` is the cosine of a search."""

    id: str
    payload: dict[str, Any]
    vector: tuple[float, ...] = field(default=(), repr=False)
    score: float | None = None


@dataclass(frozen=True)
class Insert:
    """Adds points; an id that is stored already is left as it is."""

    points: Sequence[Point]


@dataclass(frozen=True)
class Replace:
    """Replaces a stored point if it still is as described; adds nothing."""

    point: Point
    only_if: Which


@dataclass(frozen=True)
class Mark:
    """Sets payload fields of points, and leaves their other fields."""

    which: Which
    payload: dict[str, Any]


@dataclass(frozen=True)
class Delete:
    """Deletes points."""

    which: Which


Write = Insert | Replace | Mark | Delete


class QdrantCollection:
    """
    A collection of dense vectors that opens itself with the first call, and again after an outage.

    mem0 creates it: one unnamed dense vector with cosine distance and a sparse one for its keyword search.
    """

    def __init__(self, url: str, name: str, *, api_key: Secret | None, dimension: int, timeout_seconds: float) -> None:
        """
        Configure the collection; nothing is opened here.

        :param url: Qdrant's REST address.
        :param name: Name of the collection.
        :param api_key: Key, if the server needs one.
        :param dimension: Length of the vectors.
        :param timeout_seconds: Longest wait for an answer; the client takes whole seconds, so it is rounded up.
        """
        self.url = url
        self.name = name
        self.api_key = api_key
        self.dimension = dimension
        self.timeout_seconds = timeout_seconds
        self._client: AsyncQdrantClient | None = None
        self._opening = asyncio.Lock()

    async def open(self, *, keywords: Sequence[str], times: Sequence[str]) -> None:
        """
        Connect, and create the collection and the missing payload indexes; does nothing when it is open.

        :param keywords: Payload fields that are filtered by value.
        :param times: Payload fields that listings are ordered by.
        :raises StoreUnavailableError: If Qdrant does not answer.
        :raises ConfigurationError: If the collection holds other vectors; it is left as it is.
        """
        try:
            async with asyncio.timeout(2 * self.timeout_seconds), self._opening:  # many may wait for the same one
                if self._client is None:
                    self._client = await self._connected(keywords, times)
        except TimeoutError as error:
            msg = f"Qdrant at {self.url} does not answer in time"
            raise StoreUnavailableError(msg) from error

    async def close(self) -> None:
        """Release the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def exists(self) -> bool:
        """Ask whether the collection is there."""
        return await self._ask(lambda client: client.collection_exists(self.name))

    async def nearest(self, queries: Sequence[tuple[Sequence[float], Which]], limit: int) -> list[list[Point]]:
        """
        Answer several searches in one request.

        :param queries: Vector, and the points to search.
        :param limit: Most points for each.
        :returns: A list for each, best first.
        """
        requests = [
            models.QueryRequest(query=list(vector), filter=_filter(which), limit=limit, with_payload=True)
            for vector, which in queries
        ]
        answers = await self._ask(lambda client: client.query_batch_points(self.name, requests=requests))
        return [[_found(point) for point in answer.points] for answer in answers]

    async def find(
        self,
        which: Which,
        *,
        limit: int,
        newest_by: str | None = None,
        not_after: datetime | None = None,
        with_vector: bool = False,
    ) -> list[Point]:
        """
        Read points.

        :param limit: Most points to return.
        :param newest_by: Time field to order by, newest first; None gives them in the order of their ids.
        :param not_after: With `newest_by`: begin at this time.
        :param with_vector: Also return the vectors.
        """
        order = None
        if newest_by:
            order = models.OrderBy(key=newest_by, direction=models.Direction.DESC, start_from=not_after)
        points, _ = await self._ask(
            lambda client: client.scroll(
                self.name,
                scroll_filter=_filter(which),
                limit=limit,
                order_by=order,
                with_payload=True,
                with_vectors=with_vector,
            )
        )
        return [_found(point) for point in points]

    async def write(self, writes: Sequence[Write]) -> None:
        """
        Do several writes in one request, in their order, and wait until searches see them.

        :raises StoreUnavailableError: If Qdrant does not answer; some of the writes may have been done.
        """
        operations = [_operation(write) for write in writes]
        if operations:
            await self._ask(lambda client: client.batch_update_points(self.name, operations, wait=True))

    async def _ask(self, call: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        if self._client is None:
            msg = "the Qdrant collection was used before it was opened"
            raise RuntimeError(msg)
        return await self._translated(call(self._client))

    async def _translated(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except UnexpectedResponse as error:
            if error.status_code in _REJECTED:
                msg = f"Qdrant rejected a request ({error.status_code}): {error.content.decode(errors='replace')[:200]}"
                raise RejectedRequestError(msg) from error
            if error.status_code == 404:  # noqa: PLR2004 - the collection was dropped: the next call creates it
                await self.close()
            msg = f"Qdrant at {self.url} answered {error.status_code}"
            raise StoreUnavailableError(msg) from error
        except (ResponseHandlingException, ResourceExhaustedResponse) as error:
            msg = f"Qdrant at {self.url} does not answer: {error}"
            raise StoreUnavailableError(msg) from error
        except _NONSENSE as error:
            msg = f"what answers at {self.url} is no Qdrant; check HAYRECALL_QDRANT_URL"
            raise StoreUnavailableError(msg) from error

    async def _connected(self, keywords: Sequence[str], times: Sequence[str]) -> AsyncQdrantClient:
        with self._no_warning_on_loopback():
            client = AsyncQdrantClient(**self._connection())
        try:
            await self._translated(self._prepare(client, keywords, times))
        except BaseException:
            await client.close()
            raise
        return client

    async def _prepare(self, client: AsyncQdrantClient, keywords: Sequence[str], times: Sequence[str]) -> None:
        if not await client.collection_exists(self.name):
            await asyncio.to_thread(self._create)
        info = await client.get_collection(self.name)
        dense = info.config.params.vectors
        if not isinstance(dense, models.VectorParams) or dense.size != self.dimension:
            found = f"{dense.size} dimensions" if isinstance(dense, models.VectorParams) else "named vectors"
            msg = (
                f"the Qdrant collection {self.name} holds vectors of {found}, the embedding model gives "
                f"{self.dimension} dimensions: set HAYRECALL_EMBEDDING_DIMENSION and the model that filled the "
                "collection, or move the collection away; nothing was changed"
            )
            raise ConfigurationError(msg)
        schemas = dict.fromkeys(keywords, models.PayloadSchemaType.KEYWORD)
        schemas |= dict.fromkeys(times, models.PayloadSchemaType.DATETIME)
        for name in schemas.keys() - info.payload_schema.keys():
            await client.create_payload_index(self.name, name, schemas[name], wait=True)

    def _create(self) -> None:
        # mem0 reports home and writes a configuration file unless told before its import; needed once per collection.
        os.environ["MEM0_TELEMETRY"] = "False"
        with tempfile.TemporaryDirectory() as folder:
            os.environ.setdefault("MEM0_DIR", folder)
            from mem0.vector_stores.qdrant import Qdrant  # noqa: PLC0415

        with self._no_warning_on_loopback():
            client = QdrantClient(**self._connection())
        try:
            Qdrant(self.name, self.dimension, client=client)
        except UnexpectedResponse as error:
            if error.status_code not in _EXISTS:
                raise
        finally:
            client.close()

    @contextlib.contextmanager
    def _no_warning_on_loopback(self) -> Iterator[None]:
        with warnings.catch_warnings():
            if urlsplit(self.url).hostname in _LOOPBACK:  # a key needs no TLS where nobody listens in
                warnings.filterwarnings("ignore", "Api key is used with an insecure connection")
            yield

    def _connection(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "api_key": self.api_key.resolve_value() if self.api_key else None,
            "timeout": math.ceil(self.timeout_seconds),
            **client_settings(),
        }


def client_settings() -> dict[str, Any]:
    """Give what every client of Qdrant is told here, beside the address."""
    return {
        "check_compatibility": False,  # it asks synchronously, before a down server could be reported
        "verify": shared_tls_context(),
        # By itself the client connects anew for each request on loopback. 3 s: before servers hang up, often after 5 s.
        "limits": httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3),
    }


def _filter(which: Which) -> models.Filter:
    must: list[models.Condition] = [
        models.FieldCondition(
            key=key,
            match=models.MatchValue(value=value) if isinstance(value, str) else models.MatchAny(any=list(value)),
        )
        for key, value in which.equal.items()
    ]
    if which.ids is not None:
        must.append(models.HasIdCondition(has_id=list(which.ids)))
    must_not: list[models.Condition] = [models.HasIdCondition(has_id=list(which.not_ids))] if which.not_ids else []
    return models.Filter(must=must, must_not=must_not or None)


def _operation(write: Write) -> models.UpdateOperation:
    match write:
        case Insert(points):
            stored = [_struct(point) for point in points]
            added = models.PointsList(points=stored, update_mode=models.UpdateMode.INSERT_ONLY)
            return models.UpsertOperation(upsert=added)
        case Replace(point, only_if):
            changed = models.PointsList(
                points=[_struct(point)],
                update_mode=models.UpdateMode.UPDATE_ONLY,
                update_filter=_filter(only_if),
            )
            return models.UpsertOperation(upsert=changed)
        case Mark(which, payload):
            return models.SetPayloadOperation(set_payload=models.SetPayload(payload=payload, filter=_filter(which)))
        case Delete(which):
            return models.DeleteOperation(delete=models.FilterSelector(filter=_filter(which)))


def _struct(point: Point) -> models.PointStruct:
    return models.PointStruct(id=point.id, vector=list(point.vector), payload=point.payload)


def _found(point: models.Record | models.ScoredPoint) -> Point:
    dense = point.vector.get("", ()) if isinstance(point.vector, dict) else point.vector  # a dict beside mem0's bm25
    return Point(
        id=str(point.id),
        payload=point.payload or {},
        vector=tuple(dense or ()),  # type: ignore[arg-type]
        score=point.score if isinstance(point, models.ScoredPoint) else None,
    )
