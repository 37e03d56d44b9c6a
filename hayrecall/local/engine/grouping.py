"""The best points of the best groups: a search whose hits are gathered by a payload field."""

from collections.abc import Callable, Iterator
from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine.queries import SearchPlan, page_size
from hayrecall.local.engine.refusals import only
from hayrecall.local.engine.schema import Schema

_GROUP_SIZE = 3

Search = Callable[[SearchPlan], list[edge.ScoredPoint]]


class Grouping:
    """
    Finds the best groups exactly, however many points the larger ones have.

    A group's rank is its best hit's. Each search leaves out the groups that are known, so each finds at least one
    more; one search a group then fills it. Candidates of a prefetch are few and are gathered as they are.
    """

    def __init__(self, request: models.QueryGroupsRequest, schema: Schema) -> None:
        """
        Check the request.

        :param request: As the client sent it.
        :param schema: What the collection stores.
        :raises EngineError: If a field is wrong or not supported.
        """
        only(
            request,
            *("prefetch", "query", "using", "filter", "params", "score_threshold"),
            *("with_vector", "with_payload", "group_by", "group_size", "limit"),
        )
        self._request = request
        self._schema = schema
        self._limit = page_size(request.limit)
        self._size = page_size(request.group_size, _GROUP_SIZE)

    def run(self, search: Search) -> list[dict[str, Any]]:
        """
        Search until the groups are found and full.

        :param search: Runs one search.
        :returns: Groups, best first, each with `id` and the points that are its `hits`.
        """
        if self._request.prefetch is not None:
            return self._gather(search)
        ranked = self._find(search)
        return [{"id": key, "hits": self._fill(key, search)} for key in ranked]

    def _gather(self, search: Search) -> list[dict[str, Any]]:
        prefetch = self._request.prefetch or []
        candidates = sum(page_size(one.limit) for one in (prefetch if isinstance(prefetch, list) else [prefetch]))
        groups: dict[Any, list[edge.ScoredPoint]] = {}
        for point in search(self._plan(candidates)):
            for key in _keys(point.payload, self._request.group_by):
                if key in groups or len(groups) < self._limit:
                    groups.setdefault(key, []).append(point)
        return [{"id": key, "hits": hits[: self._size]} for key, hits in groups.items()]

    def _find(self, search: Search) -> list[Any]:
        ranked: list[Any] = []
        while len(ranked) < self._limit:
            others = models.Filter(
                must=[self._request.filter] if self._request.filter else [],
                must_not=[_is_in(self._request.group_by, key) for key in ranked],
            )
            found = search(self._plan(self._limit * self._size, others))
            keys = [key for point in found for key in _keys(point.payload, self._request.group_by)]
            fresh = [key for key in dict.fromkeys(keys) if key not in ranked]
            if not fresh:
                break
            ranked += fresh
        return ranked[: self._limit]

    def _fill(self, key: Any, search: Search) -> list[edge.ScoredPoint]:
        must = [_is_in(self._request.group_by, key), *([self._request.filter] if self._request.filter else [])]
        return search(self._plan(self._size, models.Filter(must=must)))

    def _plan(self, limit: int, filter_: models.Filter | None = None) -> SearchPlan:
        asked = self._request
        return SearchPlan(
            models.QueryRequest(
                prefetch=asked.prefetch,
                query=asked.query,
                using=asked.using,
                filter=filter_ or asked.filter,
                params=asked.params,
                score_threshold=asked.score_threshold,
                with_vector=asked.with_vector,
                with_payload=True,
                limit=limit,
            ),
            self._schema,
        )


def _is_in(field: str, key: Any) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchValue(value=key))


def _keys(payload: dict[str, Any] | None, path: str) -> Iterator[str | int]:
    value: Any = payload
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    for key in value if isinstance(value, list) else [value]:
        if isinstance(key, str | int) and not isinstance(key, bool):
            yield key
