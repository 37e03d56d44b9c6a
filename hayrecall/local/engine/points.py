"""Points on their way out, and what of them a client wants to see."""

from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine import point_ids, vectors


def payload_selector(wanted: models.WithPayloadInterface | None, *, otherwise: bool) -> Any:
    """
    Convert `with_payload`.

    :param wanted: As the client sent it.
    :param otherwise: What nothing means: no payload in queries, all of it elsewhere.
    :returns: What Edge takes.
    """
    match wanted:
        case None:
            return otherwise
        case models.PayloadSelectorInclude():
            return edge.PayloadSelector.Include(wanted.include)
        case models.PayloadSelectorExclude():
            return edge.PayloadSelector.Exclude(wanted.exclude)
    return wanted


def record(point: edge.Record | edge.ScoredPoint) -> dict[str, Any]:
    """
    Say a stored point in JSON's types.

    :param point: As Edge returns it.
    :returns: Qdrant's `Record`.
    """
    result = {
        "id": point_ids.to_json(point.id),
        "payload": point.payload,
        "vector": vectors.to_json(point.vector),
    }
    if point.order_value is not None:
        result["order_value"] = point.order_value
    return result


def scored(point: edge.ScoredPoint) -> dict[str, Any]:
    """
    Say a found point in JSON's types.

    :param point: As Edge returns it.
    :returns: Qdrant's `ScoredPoint`.
    """
    return {**record(point), "version": point.version, "score": point.score}
