"""
Vectors on their way in, checked here because Edge writes its log before it looks at them.

A refused write that is in the log comes back with the next start, and a sparse vector whose indices and values differ
in number makes the collection unloadable for good. So nothing reaches Edge that it could refuse.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine.refusals import refuse
from hayrecall.local.engine.schema import Schema

_LARGEST_INDEX = 2**32 - 1
_UNNAMED = ""


def to_edge(vectors: Any, schema: Schema) -> dict[str, Any]:
    """
    Check and convert the vectors of a point.

    :param vectors: One vector for the unnamed one, or vectors by name.
    :param schema: What the collection stores.
    :returns: Vectors by name.
    :raises EngineError: If a name, a type, a dimension or a number does not fit.
    """
    named = vectors if isinstance(vectors, Mapping) else {_UNNAMED: vectors}
    return {name: one_to_edge(vector, name, schema) for name, vector in named.items()}


def one_to_edge(vector: Any, name: str, schema: Schema) -> Any:
    """
    Check and convert one vector, to store or to search with.

    :param vector: Numbers, rows of numbers or a sparse vector.
    :param name: Name of the vector in the collection, empty for the unnamed one.
    :param schema: What the collection stores.
    :returns: What Edge takes.
    :raises EngineError: If it does not fit.
    """
    if isinstance(vector, models.SparseVector):
        if name not in schema.sparse:
            refuse(f"Not existing vector name error: {name} (no sparse vector of that name)")
        return _sparse(vector)
    if not isinstance(vector, list):
        refuse(f"vector of type {type(vector).__name__} is not supported by the embedded engine")
    params = schema.dense.get(name)
    if params is None:
        refuse(f"Not existing vector name error: {name}")
    if not vector:
        refuse(f"Vector dimension error: expected dim: {params.size}, got 0")
    rows = vector if isinstance(vector[0], list) else [vector]
    if len(rows) > 1 and params.multivector_config is None:
        refuse(f"`{name}` takes one vector, not {len(rows)}")
    for row in rows:
        if len(row) != params.size:
            refuse(f"Vector dimension error: expected dim: {params.size}, got {len(row)}")
        _require_finite(row)
    return rows if params.multivector_config is not None else rows[0]


def to_json(vector: Any) -> Any:
    """
    Say vectors of Edge in JSON's types.

    :param vector: One vector, vectors by name, or nothing.
    :returns: The unnamed vector bare when it is the only one, as Qdrant does.
    """
    if isinstance(vector, dict):
        named = {name: to_json(one) for name, one in vector.items()}
        return named[_UNNAMED] if list(named) == [_UNNAMED] else named
    if isinstance(vector, edge.SparseVector):
        return {"indices": vector.indices, "values": vector.values}
    return vector


def _sparse(vector: models.SparseVector) -> edge.SparseVector:
    if len(vector.indices) != len(vector.values):
        refuse(f"sparse vector with {len(vector.indices)} indices and {len(vector.values)} values")
    if len(set(vector.indices)) != len(vector.indices):
        refuse("sparse vector: indices must be unique")
    if any(not 0 <= index <= _LARGEST_INDEX for index in vector.indices):
        refuse(f"sparse vector: indices must be in 0..{_LARGEST_INDEX}")
    _require_finite(vector.values)
    return edge.SparseVector(vector.indices, vector.values)


def _require_finite(numbers: list[float]) -> None:
    with np.errstate(over="ignore"):
        stored = np.asarray(numbers, dtype=np.float32)
    if not np.isfinite(stored).all():
        refuse("a number of the vector is not finite, or too large for 32 bits")
