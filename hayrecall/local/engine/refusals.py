"""What the engine says instead of doing something else than what was asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import NoReturn

from pydantic import BaseModel

_OUR_FAULT = ("service", "i/o", "io error", "os error", "panic", "disk", "closed", "corrupt", "mmap")


class EngineError(Exception):
    """A request that cannot be answered: an HTTP status and a message in Qdrant's wording."""

    def __init__(self, status: int, message: str) -> None:
        """
        Keep both.

        :param status: HTTP status of the response.
        :param message: What went wrong, for `status.error`.
        """
        super().__init__(message)
        self.status = status
        self.message = message


def refuse(message: str) -> NoReturn:
    """
    Refuse a request that is wrong or asks for what the engine cannot do.

    :param message: What is wrong, naming the field.
    :raises EngineError: Always, with status 400.
    """
    raise EngineError(HTTPStatus.BAD_REQUEST, f"Wrong input: {message}")


def only(model: BaseModel, *known: str) -> None:
    """
    Refuse a request model that sets a field which the engine does not act on.

    :param model: Request model of qdrant-client.
    :param known: Names of the fields that are acted on.
    :raises EngineError: If another field has a value.
    """
    for name, value in model:
        if value is not None and name not in known:
            refuse(f"`{name}` is not supported by the embedded engine")


@contextmanager
def edge_call() -> Iterator[None]:
    """
    Turn a failure of Edge into an `EngineError`.

    Edge raises bare `Exception`, and its panics are `BaseException`; this is the one door through which it is called.

    :raises EngineError: For each failure of Edge.
    """
    try:
        yield
    except EngineError:
        raise
    except BaseException as failure:
        if not isinstance(failure, Exception) and type(failure).__name__ != "PanicException":
            raise
        raise EngineError(_status_of(failure), str(failure)) from failure


def _status_of(failure: BaseException) -> int:
    text = str(failure).lower()
    if "no point with id" in text:
        return HTTPStatus.NOT_FOUND
    if not isinstance(failure, Exception) or any(word in text for word in _OUR_FAULT):
        return HTTPStatus.INTERNAL_SERVER_ERROR
    return HTTPStatus.BAD_REQUEST
