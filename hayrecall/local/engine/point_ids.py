"""Point ids: unsigned numbers or UUIDs, on their way in and out."""

from uuid import UUID

from qdrant_client.http import models

from hayrecall.local.engine.refusals import refuse

_LARGEST = 2**64 - 1


def to_edge(point_id: models.ExtendedPointId) -> int | str | UUID:
    """
    Check an id of a request.

    :param point_id: As the client sent it.
    :returns: The number, or the UUID in its usual form.
    :raises EngineError: If it is neither.
    """
    if isinstance(point_id, int) and 0 <= point_id <= _LARGEST:
        return point_id
    try:
        return str(UUID(str(point_id)))
    except ValueError:
        refuse(f"{point_id!r} is not a valid point ID, valid values are either an unsigned integer or a UUID")


def to_json(point_id: int | str | UUID) -> int | str:
    """
    Say an id of Edge in JSON's types.

    :param point_id: As Edge returns it.
    :returns: A number or a string.
    """
    return point_id if isinstance(point_id, int) else str(point_id)
