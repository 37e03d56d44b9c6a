"""Payload indexes in Edge's terms."""

from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models

from hayrecall.local.engine.refusals import edge_call, refuse

_PLAIN = {kind: getattr(edge.PayloadSchemaType, kind.value.capitalize()) for kind in models.PayloadSchemaType}


def create(request: models.CreateFieldIndex) -> edge.UpdateOperation:
    """
    Convert a request for a payload index.

    :param request: As the client sent it.
    :returns: Operation that creates the index.
    :raises EngineError: If the field or an option is not supported.
    """
    schema = request.field_schema
    if schema is None:
        refuse("`field_schema` is required by the embedded engine")
    with edge_call():
        return edge.UpdateOperation.create_field_index(
            request.field_name,
            _PLAIN[schema] if isinstance(schema, models.PayloadSchemaType) else _with_options(schema),
        )


def delete(field: str) -> edge.UpdateOperation:
    """
    Convert a request to delete a payload index.

    :param field: Indexed field.
    :returns: Operation that deletes the index.
    :raises EngineError: If the field is no path.
    """
    with edge_call():
        return edge.UpdateOperation.delete_field_index(field)


def describe(indexes: dict[str, "edge.PayloadIndexInfo"]) -> dict[str, Any]:
    """
    Tell a client which payload indexes there are.

    :param indexes: As Edge knows them.
    :returns: `payload_schema` of Qdrant's collection info.
    """
    names = {str(kind): name.value for name, kind in _PLAIN.items()}
    return {
        field: {"data_type": names[str(index.data_type)], "points": index.points} for field, index in indexes.items()
    }


def _with_options(schema: Any) -> Any:
    options = schema.model_dump(mode="json", exclude_none=True)
    kind = options.pop("type").capitalize()
    if "tokenizer" in options:
        options["tokenizer"] = getattr(edge.TokenizerType, options["tokenizer"].capitalize())
    for name, value in options.items():
        if isinstance(value, (dict, list)):
            refuse(f"`{name}` of a payload index is not supported by the embedded engine")
    try:
        return getattr(edge, f"{kind}IndexParams")(**options)
    except TypeError as failure:
        refuse(f"payload index of type {kind}: {failure}")
