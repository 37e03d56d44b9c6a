"""What the way in knows about a request, for code that hayhooks hands only headers and a body."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from starlette.datastructures import Headers

from hayrecall.server.api_keys import ApiKey


@dataclass
class RequestContext:
    """
    The key that a request showed, its headers (repeated ones too), and what has to be ended with it.

    `at_end` is called when the request is over, however it ended; each must be quick and safe to call twice.
    """

    key: ApiKey
    headers: Headers
    at_end: list[Callable[[], None]] = field(default_factory=list)


_CURRENT: ContextVar[RequestContext] = ContextVar("hayrecall_request")


def current_request() -> RequestContext:
    """
    Give the context of the request that this task handles.

    :raises LookupError: Outside of an authenticated request.
    """
    return _CURRENT.get()


def enter_request(context: RequestContext) -> None:
    """Make a context the current one of this task and of those that it starts."""
    _CURRENT.set(context)
