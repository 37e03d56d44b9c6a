"""Qdrant's filters in Edge's terms; a condition that Edge would get wrong is refused."""

from collections.abc import Callable
from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine import point_ids
from hayrecall.local.engine.refusals import only, refuse

_MATCHES: dict[type, tuple[str, Callable[[Any], Any]]] = {
    models.MatchValue: ("value", edge.MatchValue),
    models.MatchAny: ("any", edge.MatchAny),
    models.MatchExcept: ("except_", edge.MatchExcept),
    models.MatchText: ("text", edge.MatchText),
    models.MatchTextAny: ("text_any", edge.MatchTextAny),
    models.MatchPhrase: ("phrase", edge.MatchPhrase),
}


def optional(filter_: models.Filter | None) -> edge.Filter | None:
    """
    Convert a filter that may be missing.

    :param filter_: As the client sent it; nothing for all points.
    :returns: Edge's filter, nothing for nothing.
    :raises EngineError: If a condition is not supported; the message names it.
    """
    return None if filter_ is None else to_edge(filter_)


def to_edge(filter_: models.Filter) -> edge.Filter:
    """
    Convert a filter.

    :param filter_: As the client sent it.
    :returns: Edge's filter.
    :raises EngineError: If a condition is not supported; the message names it.
    """
    at_least = None
    if filter_.min_should is not None:
        conditions = [_condition(condition) for condition in filter_.min_should.conditions]
        at_least = edge.MinShould(conditions, filter_.min_should.min_count)
    return edge.Filter(
        must=_clause(filter_.must),
        should=_clause(filter_.should),
        must_not=_clause(filter_.must_not),
        min_should=at_least,
    )


def _clause(clause: Any) -> list[Any] | None:
    if clause is None:
        return None
    return [_condition(condition) for condition in (clause if isinstance(clause, list) else [clause])]


def _condition(condition: models.Condition) -> Any:
    convert = _CONDITIONS.get(type(condition))
    if convert is None:
        refuse(f"filter condition {type(condition).__name__} is not supported by the embedded engine")
    return convert(condition)


def _field(condition: models.FieldCondition) -> edge.FieldCondition:
    parts = {name: value for name, value in condition if value is not None and name != "key"}
    if len(parts) != 1:
        refuse(f"the filter condition on `{condition.key}` must have exactly one of match, range and the like")
    ((name, value),) = parts.items()
    convert = _FIELD_CONDITIONS.get(name)
    if convert is None:
        refuse(f"`{name}` in the filter condition on `{condition.key}` is not supported by the embedded engine")
    return edge.FieldCondition(condition.key, **{name: convert(value)})


def _match(match: models.Match) -> Any:
    name, convert = _MATCHES.get(type(match), ("", None))
    if convert is None:
        refuse(f"{type(match).__name__} is not supported by the embedded engine")
    only(match, name)
    value = getattr(match, name)
    if isinstance(value, bool):
        # Edge 0.9 takes True for 1: it matches nothing, and everything in `must_not`.
        refuse("`match` on a boolean is not supported by the embedded engine; store flags as keywords")
    return convert(value)


def _range(range_: models.RangeInterface) -> edge.RangeFloat | edge.RangeDateTime:
    bounds = {name: value for name, value in range_ if value is not None}
    if isinstance(range_, models.Range):
        return edge.RangeFloat(**bounds)
    return edge.RangeDateTime(**{name: value.isoformat() for name, value in bounds.items()})


def _geo_point(point: models.GeoPoint) -> edge.GeoPoint:
    return edge.GeoPoint(point.lon, point.lat)


def _geo_box(box: models.GeoBoundingBox) -> edge.GeoBoundingBox:
    return edge.GeoBoundingBox(_geo_point(box.top_left), _geo_point(box.bottom_right))


_FIELD_CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "match": _match,
    "range": _range,
    "values_count": lambda count: edge.ValuesCount(**count.model_dump(exclude_none=True)),
    "is_empty": bool,
    "is_null": bool,
    "geo_bounding_box": _geo_box,
    "geo_radius": lambda circle: edge.GeoRadius(_geo_point(circle.center), circle.radius),
}
_CONDITIONS: dict[type, Callable[[Any], Any]] = {
    models.Filter: to_edge,
    models.FieldCondition: _field,
    models.IsEmptyCondition: lambda condition: edge.IsEmptyCondition(condition.is_empty.key),
    models.IsNullCondition: lambda condition: edge.IsNullCondition(condition.is_null.key),
    models.HasIdCondition: lambda condition: edge.HasIdCondition({point_ids.to_edge(one) for one in condition.has_id}),
    models.HasVectorCondition: lambda condition: edge.HasVectorCondition(condition.has_vector),
    models.NestedCondition: lambda condition: edge.NestedCondition(
        condition.nested.key, to_edge(condition.nested.filter)
    ),
}
