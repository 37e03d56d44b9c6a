"""The calls that read: query, scroll, retrieve, count, facet."""

from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine import filters, point_ids, points
from hayrecall.local.engine.collection import Collection
from hayrecall.local.engine.grouping import Grouping
from hayrecall.local.engine.queries import SearchPlan, order_by, page_size
from hayrecall.local.engine.refusals import edge_call, only, refuse


def query(collection: Collection, request: models.QueryRequest) -> dict[str, Any]:
    """Search: the points that fit best."""
    plan = SearchPlan(request, collection.schema)
    return {"points": [points.scored(point) for point in _search(collection, plan)]}


def query_batch(collection: Collection, request: models.QueryRequestBatch) -> list[dict[str, Any]]:
    """Search several times at once."""
    plans = [SearchPlan(search, collection.schema) for search in request.searches]
    with edge_call():
        found = collection.shard.query_batch(edge.QueryBatchRequest([plan.edge_request for plan in plans]))
    pages = (plan.page(hits) for plan, hits in zip(plans, found, strict=True))
    return [{"points": [points.scored(point) for point in page]} for page in pages]


def query_groups(collection: Collection, request: models.QueryGroupsRequest) -> dict[str, Any]:
    """Search, with the hits gathered by a payload field."""
    if not isinstance(request.with_payload, bool | None):
        refuse("`with_payload` of a grouped query must be true or false in the embedded engine")
    groups = Grouping(request, collection.schema).run(lambda plan: _search(collection, plan))
    hidden = {} if request.with_payload else {"payload": None}
    return {
        "groups": [
            {"id": group["id"], "hits": [{**points.scored(hit), **hidden} for hit in group["hits"]]} for group in groups
        ]
    }


def scroll(collection: Collection, request: models.ScrollRequest) -> dict[str, Any]:
    """List points page by page."""
    only(request, "offset", "limit", "filter", "with_payload", "with_vector", "order_by")
    wanted = edge.ScrollRequest(
        offset=None if request.offset is None else point_ids.to_edge(request.offset),
        limit=page_size(request.limit),
        filter=filters.optional(request.filter),
        with_payload=points.payload_selector(request.with_payload, otherwise=True),
        with_vector=request.with_vector or False,
        order_by=order_by(request.order_by),
    )
    with edge_call():
        page, following = collection.shard.scroll(wanted)
    return {
        "points": [points.record(point) for point in page],
        "next_page_offset": None if following is None else point_ids.to_json(following),
    }


def retrieve(collection: Collection, request: models.PointRequest) -> list[dict[str, Any]]:
    """Give the points with these ids that exist."""
    only(request, "ids", "with_payload", "with_vector")
    ids = [point_ids.to_edge(point_id) for point_id in request.ids]
    payload = points.payload_selector(request.with_payload, otherwise=True)
    with edge_call():
        found = collection.shard.retrieve(ids, payload, request.with_vector or False)
    return [points.record(point) for point in found]


def count(collection: Collection, request: models.CountRequest) -> dict[str, Any]:
    """Count points."""
    only(request, "filter", "exact")
    wanted = edge.CountRequest(exact=request.exact is not False, filter=filters.optional(request.filter))
    with edge_call():
        return {"count": collection.shard.count(wanted)}


def facet(collection: Collection, request: models.FacetRequest) -> dict[str, Any]:
    """Count points by the values of a payload field."""
    only(request, "key", "limit", "filter", "exact")
    wanted = edge.FacetRequest(
        request.key, page_size(request.limit), bool(request.exact), filters.optional(request.filter)
    )
    with edge_call():
        hits = collection.shard.facet(wanted).hits
    return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits]}


def _search(collection: Collection, plan: SearchPlan) -> list[edge.ScoredPoint]:
    with edge_call():
        return plan.page(collection.shard.query(plan.edge_request))
