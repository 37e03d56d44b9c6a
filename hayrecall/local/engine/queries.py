"""Search requests in Edge's terms."""

from datetime import date
from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine import filters, points, vectors
from hayrecall.local.engine.refusals import only, refuse
from hayrecall.local.engine.schema import Schema

DEFAULT_LIMIT = 10
_RRF_K = 2


class SearchPlan:
    """
    A search in Edge's terms, with the order that Edge leaves to chance made definite.

    Edge returns points of equal fused score in random order. So a fusion is asked for all its candidates, and the
    page is cut here, from a list sorted by score and id.
    """

    def __init__(self, request: models.QueryRequest, schema: Schema) -> None:
        """
        Check and convert.

        :param request: As the client sent it.
        :param schema: What the collection stores.
        :raises EngineError: If a field is wrong or not supported; the message names it.
        """
        only(
            request,
            *("prefetch", "query", "using", "filter", "params", "score_threshold"),
            *("limit", "offset", "with_vector", "with_payload"),
        )
        self._limit = page_size(request.limit)
        self._offset = request.offset or 0
        prefetches = _prefetches(request.prefetch, schema)
        self._is_fusion = isinstance(request.query, models.FusionQuery | models.RrfQuery)
        if self._is_fusion and not prefetches:
            refuse("a fusion query needs `prefetch`")
        candidates = sum(prefetch.limit for prefetch in prefetches or [])
        self.edge_request = edge.QueryRequest(
            prefetches=prefetches,
            query=_query(request.query, request.using, schema),
            filter=filters.optional(request.filter),
            score_threshold=request.score_threshold,
            limit=candidates if self._is_fusion else self._limit,
            offset=0 if self._is_fusion else self._offset,
            params=_params(request.params),
            with_vector=request.with_vector or False,
            with_payload=points.payload_selector(request.with_payload, otherwise=False),
        )

    def page(self, found: list[edge.ScoredPoint]) -> list[edge.ScoredPoint]:
        """
        Cut what the client asked for from what Edge found.

        :param found: Edge's answer to `edge_request`.
        :returns: The page, best first.
        """
        if not self._is_fusion:
            return found
        ordered = sorted(found, key=lambda point: (-point.score, str(point.id)))
        return ordered[self._offset : self._offset + self._limit]


def page_size(limit: int | None, otherwise: int = DEFAULT_LIMIT) -> int:
    """
    Check a limit.

    :param limit: As the client sent it.
    :param otherwise: What nothing means.
    :returns: The limit, at least 1.
    :raises EngineError: If it is below 1.
    """
    if limit is None:
        return otherwise
    if limit < 1:
        refuse(f"`limit` must be 1 or larger, got {limit}")
    return limit


def order_by(order: models.OrderByInterface | None) -> edge.OrderBy | None:
    """
    Convert an order by payload field.

    :param order: Name of the field, or with direction and start.
    :returns: Edge's order, nothing for nothing.
    """
    if order is None or isinstance(order, str):
        return edge.OrderBy(order) if order else None
    start = order.start_from.isoformat() if isinstance(order.start_from, date) else order.start_from
    direction = getattr(edge.Direction, order.direction.value.capitalize()) if order.direction else None
    return edge.OrderBy(order.key, direction, start)


def _prefetches(wanted: Any, schema: Schema) -> list[edge.Prefetch] | None:
    if wanted is None:
        return None
    return [_prefetch(one, schema) for one in (wanted if isinstance(wanted, list) else [wanted])]


def _prefetch(wanted: models.Prefetch, schema: Schema) -> edge.Prefetch:
    only(wanted, "prefetch", "query", "using", "filter", "params", "score_threshold", "limit")
    return edge.Prefetch(
        page_size(wanted.limit),
        query=_query(wanted.query, wanted.using, schema),
        prefetches=_prefetches(wanted.prefetch, schema),
        params=_params(wanted.params),
        filter=filters.optional(wanted.filter),
        score_threshold=wanted.score_threshold,
    )


def _query(query: Any, using: str | None, schema: Schema) -> Any:
    match query:
        case None:
            converted = None
        case models.NearestQuery():
            only(query, "nearest")
            converted = _query(query.nearest, using, schema)
        case list() | models.SparseVector():
            converted = edge.Query.Nearest(vectors.one_to_edge(query, using or "", schema), using=using)
        case models.FusionQuery():
            converted = edge.Fusion.Rrf(_RRF_K) if query.fusion == models.Fusion.RRF else edge.Fusion.Dbsf()
        case models.RrfQuery():
            only(query.rrf, "k", "weights")
            converted = edge.Fusion.Rrf(query.rrf.k or _RRF_K, query.rrf.weights)
        case models.OrderByQuery():
            converted = order_by(query.order_by)
        case _:
            refuse(f"`query` of type {type(query).__name__} is not supported by the embedded engine")
    return converted


def _params(params: models.SearchParams | None) -> edge.SearchParams | None:
    if params is None:
        return None
    only(params, "hnsw_ef", "exact", "indexed_only")
    return edge.SearchParams(hnsw_ef=params.hnsw_ef, exact=bool(params.exact), indexed_only=bool(params.indexed_only))
