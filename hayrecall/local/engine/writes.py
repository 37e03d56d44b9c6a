"""
The calls that write, converted and checked to the last before anything is applied.

Edge logs a write before it finds that a point does not exist, and changes the other points of it. So ids are looked
up first here, and a write that names an unknown one changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any
from uuid import UUID

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine import filters, point_ids, vectors
from hayrecall.local.engine.collection import Collection
from hayrecall.local.engine.refusals import EngineError, edge_call, only, refuse

_MODES = {
    models.UpdateMode.UPSERT: edge.UpdateMode.Upsert,
    models.UpdateMode.INSERT_ONLY: edge.UpdateMode.InsertOnly,
    models.UpdateMode.UPDATE_ONLY: edge.UpdateMode.UpdateOnly,
}


class Write:
    """A checked operation, and the ids that must exist when it is applied."""

    def __init__(self, operation: edge.UpdateOperation, *, existing: Sequence[int | str | UUID] = ()) -> None:
        """
        Hold both.

        :param operation: Operation in Edge's terms.
        :param existing: Ids of which each must exist.
        """
        self.operation = operation
        self.existing = existing

    def apply(self, collection: Collection) -> int:
        """
        Write all of it or nothing.

        :param collection: Collection to write to.
        :returns: Number of the operation.
        :raises EngineError: With 404 if a point does not exist.
        """
        with edge_call():
            found = collection.shard.retrieve(list(self.existing), False, False)
        known = {point_ids.to_json(point.id) for point in found}
        for point_id in self.existing:
            if point_id not in known:
                raise EngineError(HTTPStatus.NOT_FOUND, f"Not found: No point with id {point_id} found")
        return collection.apply(self.operation)


def upsert(collection: Collection, request: models.PointsBatch | models.PointsList) -> Write:
    """Insert points or replace them."""
    only(request, "points", "batch", "update_filter", "update_mode")
    rows = _columns(request.batch) if isinstance(request, models.PointsBatch) else _rows(request)
    with edge_call():
        points = [
            edge.Point(point_ids.to_edge(point_id), vectors.to_edge(vector, collection.schema), payload or {})
            for point_id, vector, payload in rows
        ]
    mode = _MODES[request.update_mode] if request.update_mode else None
    return Write(edge.UpdateOperation.upsert_points(points, filters.optional(request.update_filter), mode))


def delete(_: Collection, request: models.PointsSelector) -> Write:
    """Delete points; unknown ids are no error."""
    only(request, "points", "filter")
    if isinstance(request, models.PointIdsList):
        ids = [point_ids.to_edge(point_id) for point_id in request.points]
        return Write(edge.UpdateOperation.delete_points(ids))
    chosen = filters.to_edge(request.filter)
    return Write(edge.UpdateOperation.delete_points_by_filter(chosen))


def set_payload(_: Collection, request: models.SetPayload) -> Write:
    """Set fields of the payload, leaving the others."""
    only(request, "payload", "points", "filter", "key")
    operations = edge.UpdateOperation.set_payload, edge.UpdateOperation.set_payload_by_filter
    return _on_selected(request, *operations, request.payload, request.key)


def overwrite_payload(_: Collection, request: models.SetPayload) -> Write:
    """Replace the payload."""
    only(request, "payload", "points", "filter", "key")
    operations = edge.UpdateOperation.overwrite_payload, edge.UpdateOperation.overwrite_payload_by_filter
    return _on_selected(request, *operations, request.payload, request.key)


def delete_payload(_: Collection, request: models.DeletePayload) -> Write:
    """Delete fields of the payload."""
    only(request, "keys", "points", "filter")
    operations = edge.UpdateOperation.delete_payload, edge.UpdateOperation.delete_payload_by_filter
    return _on_selected(request, *operations, request.keys)


def clear_payload(_: Collection, request: models.PointsSelector) -> Write:
    """Delete the whole payload."""
    only(request, "points", "filter")
    return _on_selected(request, edge.UpdateOperation.clear_payload, edge.UpdateOperation.clear_payload_by_filter)


def update_vectors(collection: Collection, request: models.UpdateVectors) -> Write:
    """Replace vectors of points, leaving their payload and other vectors."""
    only(request, "points", "update_filter")
    changed = [
        edge.PointVectors(point_ids.to_edge(point.id), vectors.to_edge(point.vector, collection.schema))
        for point in request.points
    ]
    operation = edge.UpdateOperation.update_vectors(changed, filters.optional(request.update_filter))
    return Write(operation, existing=[point_ids.to_edge(point.id) for point in request.points])


def delete_vectors(collection: Collection, request: models.DeleteVectors) -> Write:
    """Delete vectors of points by name."""
    only(request, "points", "filter", "vector")
    for name in request.vector:
        if name not in collection.schema.dense and name not in collection.schema.sparse:
            refuse(f"Not existing vector name error: {name}")
    operations = edge.UpdateOperation.delete_vectors, edge.UpdateOperation.delete_vectors_by_filter
    return _on_selected(request, *operations, request.vector)


def batch(collection: Collection, request: models.UpdateOperations) -> list[Write]:
    """Convert several writes; none is applied before all are checked."""
    return [
        _BATCHED[name](collection, value)
        for operation in request.operations
        for name, value in operation
        if value is not None
    ]


_BATCHED: dict[str, Callable[[Collection, Any], Write]] = {
    "upsert": upsert,
    "delete": delete,
    "set_payload": set_payload,
    "overwrite_payload": overwrite_payload,
    "delete_payload": delete_payload,
    "clear_payload": clear_payload,
    "update_vectors": update_vectors,
    "delete_vectors": delete_vectors,
}


def _rows(request: models.PointsList) -> Iterator[tuple[Any, Any, Any]]:
    return ((point.id, point.vector, point.payload) for point in request.points)


def _columns(request: models.Batch) -> Iterator[tuple[Any, Any, Any]]:
    number = len(request.ids)
    payloads = request.payloads if request.payloads is not None else [None] * number
    columns = request.vectors.values() if isinstance(request.vectors, dict) else [request.vectors]
    if any(len(column) != number for column in (payloads, *columns)):
        refuse("`batch`: ids, vectors and payloads must be equal in number")
    for row, point_id in enumerate(request.ids):
        if isinstance(request.vectors, dict):
            yield point_id, {name: column[row] for name, column in request.vectors.items()}, payloads[row]
        else:
            yield point_id, request.vectors[row], payloads[row]


def _on_selected(request: Any, by_ids: Callable[..., Any], by_filter: Callable[..., Any], *what: Any) -> Write:
    ids: Sequence[Any] | None = getattr(request, "points", None)
    chosen: models.Filter | None = getattr(request, "filter", None)
    if (ids is None) == (chosen is None):
        refuse("exactly one of `points` and `filter` is required")
    with edge_call():
        if chosen is not None:
            return Write(by_filter(filters.to_edge(chosen), *what))
        wanted = [point_ids.to_edge(point_id) for point_id in ids or ()]
        return Write(by_ids(wanted, *what), existing=wanted)
